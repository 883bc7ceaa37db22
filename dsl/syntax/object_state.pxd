cdef class ObjectState:
    cdef public object _handed
    cdef public object _is_exchanged
    cdef public object _is_loop
    cdef public object _lineage
    cdef public object _where
    cdef public tuple before
    cdef public tuple slots
    cdef public object watch
