from lumijit.control.locations cimport Location, Members


cdef class Position(Members):
    cpdef bint is_same(self) except -1
