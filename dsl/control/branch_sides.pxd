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
    cdef public object computed
    cdef public object finals
    cdef public object holders
    cdef public object is_tuple
    cdef public object joined
    cdef public object late
    cdef public object no
    cdef public object pairs
    cdef public object repeated
    cdef public object sides
    cdef public object traced
    cdef public object types
    cdef public object yes
