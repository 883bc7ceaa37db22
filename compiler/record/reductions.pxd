cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.trace cimport from_buffer, literal
from lumijit.runtime.buffers cimport Buffer
from lumijit.runtime cimport string_at
from lumijit.runtime.dtypes cimport DType
from lumijit.runtime.workers cimport sync


cdef dict away
cdef dict listening

cpdef Buffer evaluated(Node node)

cpdef bint is_any_set(Node mask) except -1

cdef object _seen(str op, Buffer mask, Py_ssize_t size)

@cython.locals(t=DType)
cpdef Node reduce(object op, Node node)

@cython.locals(t=DType)
cpdef Node reduce_symbolically(
    object op, Node node, object block=*, object inner=*
)
