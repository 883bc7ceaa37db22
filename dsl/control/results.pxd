cdef class Results:
    cdef public object construct
    cdef public object entries
    cdef public object first
    cdef public object has_containers
    cdef public object mask_type
    cdef public object parts
