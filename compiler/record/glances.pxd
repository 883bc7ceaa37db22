from lumijit.compiler.ir.nodes cimport Node
from lumijit.runtime cimport string_at
from lumijit.runtime.buffers cimport Buffer


cdef dict listening

cpdef bint can_look(Node node)

cpdef object combined(
    str op, Buffer mask, Py_ssize_t size, Py_ssize_t first=*, Py_ssize_t few=*
)

cpdef bytes combined_runs(str op, Buffer mask, Py_ssize_t run, Py_ssize_t runs)

cpdef list extremes(str op, Buffer mask, Py_ssize_t run, Py_ssize_t runs)

cdef Py_ssize_t _extreme(
    str op, Buffer mask, Py_ssize_t run, Py_ssize_t first, Py_ssize_t few
) except -2
