cimport cython

from lumijit.control.locations cimport Location
from lumijit.control.reachability cimport Reach


cdef class Surroundings:
    cdef object __weakref__
    cdef public tuple _roots
    cdef public dict _own
    cdef public bint is_stale
    cdef public Reach reach
    cdef public list arrays
    cdef public list places
    cdef public list numbers
    cdef public list where
    cdef public list host
    cdef public bint has_local_memory
    cdef public bint has_generators
    cdef public dict _order
    cdef public set _is_repeated
    cdef public object key
    cdef public list _host_tokens
    cdef public dict _at

    cpdef note(self, Location place, object key)

    cpdef object aliases(self, list containers)

    @cython.locals(place=Location)
    cpdef bint is_current(self) except -1
