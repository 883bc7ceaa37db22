cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.launch.kernels cimport Built
from lumijit.compiler.launch.starting cimport start
from lumijit.compiler.plan.describe cimport Launch
from lumijit.runtime cimport buffers, workers
from lumijit.compiler.launch cimport kernels


@cython.locals(launch=Launch)
cpdef run(object launches, object versions=*)

@cython.locals(
    node=Node, values=list, results=list, built=Built, buffer=buffers.Buffer
)
cdef _prepare(Launch launch)

@cython.locals(built=Built)
cdef _queue(Launch launch, object barrier)

@cython.locals(launch=Launch, node=Node, k=Py_ssize_t)
cdef _settle(object launches)

cpdef settle(Node node, object buffer)

cpdef bint is_small(object size, Built built) except -1
