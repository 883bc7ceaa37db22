cdef class State:
    cdef readonly object holder
    cdef readonly object initial
    cdef readonly object argument
    cdef readonly object output
