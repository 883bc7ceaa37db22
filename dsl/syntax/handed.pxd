cdef class Handed:
    cdef public dict _changed
    cdef public dict _final
    cdef public object _is_loop
    cdef public object _lineage
    cdef public dict _met
    cdef public object _outside
    cdef public object _read
    cdef public dict _start
    cdef public dict originals
    cdef public dict still
    cdef public dict twins
