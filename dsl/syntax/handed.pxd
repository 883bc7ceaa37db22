cdef class Handed:
    cdef public object _changed
    cdef public object _final
    cdef public object _is_loop
    cdef public object _lineage
    cdef public object _met
    cdef public object _outside
    cdef public object _read
    cdef public object _start
    cdef public object originals
    cdef public object still
    cdef public object twins
