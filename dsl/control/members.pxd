from lumijit.control.locations cimport Items


cdef class Members(Items):
    pass
