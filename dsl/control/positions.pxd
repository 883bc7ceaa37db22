from lumijit.control.locations cimport Location
from lumijit.control.members cimport Members


cdef class Position(Members):
    cpdef bint is_same(self) except -1
