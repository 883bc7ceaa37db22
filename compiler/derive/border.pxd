from lumijit.compiler.derive.isolation cimport is_argument
from lumijit.compiler.ir.vertices cimport Vertex


cdef class Border:
    cdef public Py_ssize_t _depth
    cdef public dict _outer

    cpdef bint has(self, Vertex vertex) except -1
