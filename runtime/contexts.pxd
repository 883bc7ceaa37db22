cdef class _Construct:
    cdef public object began
    cdef public list undo
    cdef public dict before
