cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.launch.launching cimport run
from lumijit.compiler.plan cimport partition
from lumijit.runtime cimport waiting
from lumijit.compiler.plan.describe cimport Launch, describe


@cython.locals(node=Node, found=Node, wanted=list, scheduled=dict)
cpdef bint evaluate(object nodes) except -1

@cython.locals(node=Node, wanted=list)
cpdef bint evaluate_all(object nodes) except -1

cpdef object _run(list wanted)

@cython.locals(running=list)
cpdef object _run_alone(list wanted)

@cython.locals(
    launch=Launch, versions=dict, launches=list, most=Py_ssize_t, before=Py_ssize_t,
    sole=Node
)
cpdef object _run_once(list wanted)

@cython.locals(node=Node)
cdef object _grouped(list wanted, dict versions)
