cdef class Waiting:
    cdef public dict scheduled
    cdef public list reports
    cdef public list collected
