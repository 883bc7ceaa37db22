cdef class Held:
    cdef public object flat
    cdef public object items
    cdef public object nested
    cdef public object nodes
    cdef public object parts
