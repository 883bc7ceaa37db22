cimport cython


cdef class Facts:
    cdef readonly object code
    cdef readonly tuple names
    cdef readonly tuple globals
    cdef readonly bint rebinds
    cdef readonly bint stores_globals
    cdef readonly frozenset attributes
    cdef readonly bint changes
    cdef readonly bint stores
    cdef readonly bint computes_names
    cdef readonly bint imports
    cdef readonly bint is_internal


cpdef Facts facts_of(object code)

cpdef bint has_attributes(object function) except -1

cpdef bint has_defaults(object function) except -1

cpdef bint holds_nothing(object cls) except -1

cpdef bint is_state(object value) except -1
