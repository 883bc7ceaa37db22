cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.runtime.contexts cimport on_error, settle


cdef class Writes:
    cdef readonly object holder
    cdef readonly Node first
    cdef public Node last
    cdef public bint is_mixed


cdef class watched:
    cdef public dict entries
    cdef public bint has_single
    cdef public watched outer

    @cython.locals(writes=Writes)
    cpdef undo(self)


@cython.locals(entry=Writes)
cpdef dict last_versions(watched found)
