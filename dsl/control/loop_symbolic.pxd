from lumijit.control.foresight cimport Knowledge


cdef class SymbolicLoop(Knowledge):
    cdef public object body
    cdef public object bound
    cdef public object cond
    cdef public object contents
    cdef public object is_joining
    cdef public object joined
    cdef public object labels
    cdef public object leaders
    cdef public object loose
    cdef public object mask_type
    cdef public object name
    cdef public object pointers
    cdef public object replaced
    cdef public object stood_in
    cdef public object strict
