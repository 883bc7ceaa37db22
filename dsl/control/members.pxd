from lumijit.control.locations cimport Items


cdef class Members(Items):
    pass


cdef class Position(Members):
    cpdef bint is_same(self) except -1
