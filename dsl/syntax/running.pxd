cdef class Running:
    cdef readonly object site
    cdef readonly Running around
    cdef readonly object watch
    cdef readonly object met
    cdef readonly tuple slots
