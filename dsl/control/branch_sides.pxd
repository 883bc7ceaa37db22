cdef class Sides:
    cdef public object args
    cdef public object contents
    cdef public object held
    cdef public object loose
    cdef public object mask_type
    cdef public object name
    cdef public object running
    cdef public object rv_labels
    cdef public object strict


cdef class Merge:
    cdef public dict computed
    cdef public list finals
    cdef public dict holders
    cdef public object is_tuple
    cdef public list joined
    cdef public dict late
    cdef public list no
    cdef public dict pairs
    cdef public dict repeated
    cdef public object sides
    cdef public list traced
    cdef public dict types
    cdef public list yes
