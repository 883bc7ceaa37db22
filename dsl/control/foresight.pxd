cdef class Knowledge:
    cdef public object _first
    cdef public object _memory
    cdef public object _start
    cdef public object constant
    cdef public object foreseen
    cdef public object grown
    cdef public object indexed
    cdef public object numbers
    cdef public object parts
    cdef public object separate
    cdef public object sizes
    cdef public object twins
    cdef public object variable
    cdef public object width
