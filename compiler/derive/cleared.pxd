cimport cython

from lumijit.compiler.ir.vertices cimport Vertex


cdef class Memory:
    cdef public dict _found
    cdef public list _ends
    cdef public object _begin

    @cython.locals(vertex=Vertex)
    cpdef keep(self)


@cython.locals(vertex=Vertex, count=Py_ssize_t)
cpdef bint _has_cut(dict found) except -1
