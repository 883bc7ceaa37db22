from lumijit.pytree cimport Parts


cdef class Knowledge:
    cdef public object _first
    cdef public object _memory
    cdef public object _start
    cdef public set constant
    cdef public object foreseen
    cdef public object grown
    cdef public set indexed
    cdef public dict numbers
    cdef public Parts parts
    cdef public dict separate
    cdef public dict sizes
    cdef public dict twins
    cdef public set variable
    cdef public object width
    cdef public set written
