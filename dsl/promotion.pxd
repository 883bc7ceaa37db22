cdef class _Common:
    cdef public object backend
    cdef public bint is_diff
    cdef public object dtype
    cdef public object weak
    cdef public tuple outer
    cdef public object special
