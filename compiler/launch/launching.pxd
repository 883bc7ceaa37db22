cimport cython

from lumijit.compiler.ir.nodes cimport Node, _Interruptions
from lumijit.compiler.launch.kernels cimport Built
from lumijit.compiler.launch.starting cimport start
from lumijit.compiler.plan.describe cimport Launch
from lumijit.compiler.plan.program cimport Destination
from lumijit.runtime cimport buffers, workers
from lumijit.compiler.launch cimport kernels


cdef dict away
cdef _Interruptions interruptions

@cython.locals(launch=Launch)
cpdef run(object launches, dict versions=*)

cdef _check(Launch launch)

@cython.locals(
    node=Node, values=list, results=list, built=Built, buffer=buffers.Buffer
)
cdef _prepare(Launch launch, object place)

@cython.locals(values=list, merges=list, target=Destination, buffer=buffers.Buffer)
cdef _prepare_writes(Launch launch, object place)

@cython.locals(root=Node, buffer=buffers.Buffer)
cdef buffers.Buffer _target_buffer(Destination target)

@cython.locals(built=Built)
cdef _queue(Launch launch, object barrier)

@cython.locals(launch=Launch, node=Node, k=Py_ssize_t)
cdef _settle(object launches)

@cython.locals(found=list, bound=list, node=Node, effect=Node)
cdef list _written_versions(Launch launch, dict versions)

@cython.locals(node=Node, effect=Node)
cdef _settle_effects(Launch launch)

cpdef settle(Node node, object buffer)
