cimport cython

from lumijit.compiler.ir.nodes cimport Node, _Interruptions, begin_walk
from lumijit.compiler.launch.launching cimport run
from lumijit.compiler.plan cimport partition
from lumijit.compiler.launch.delivery cimport Waiting
from lumijit.runtime cimport waiting
from lumijit.compiler.plan.describe cimport Launch, describe
from lumijit.runtime.workers cimport holding


cdef _Interruptions interruptions


@cython.locals(
    node=Node, found=Node, wanted=list, scheduled=dict, reports=list, state=Waiting
)
cpdef bint evaluate(object nodes) except -1

@cython.locals(node=Node, wanted=list)
cpdef bint evaluate_all(object nodes) except -1

cpdef object _run(list wanted)

cpdef object _run_alone(list wanted)

cpdef object _run_counted(list wanted)

@cython.locals(
    launch=Launch, versions=dict, launches=list, most=Py_ssize_t, before=Py_ssize_t,
    sole=Node
)
cpdef bint _run_once(list wanted, bint is_sure=*) except -1

@cython.locals(
    walk=Py_ssize_t, size=Py_ssize_t, node=Node, found=list, is_plain=bint
)
cdef tuple _each_once(list wanted)

@cython.locals(node=Node)
cdef object _grouped(list wanted, dict versions)
