cimport cython


cdef class Facts:
    cdef readonly object code
    cdef readonly tuple names
    cdef readonly bint rebinds
    cdef readonly bint stores_globals
    cdef readonly frozenset attributes
    cdef readonly bint changes
    cdef readonly bint computes_names
    cdef readonly bint imports
    cdef readonly bint is_internal


cdef class Inert:
    cdef public dict codes
    cdef public Py_ssize_t count
    cdef public dict known

    cpdef bint are_all(self, object functions) except -1

    @cython.locals(found=int, facts=Facts)
    cpdef int _look(self, object function) except -1

    @cython.locals(found=int)
    cpdef int _look_at_globals(self, object function, Facts facts) except -1

    @cython.locals(known=int)
    cpdef int _look_inside(self, object function) except -1

    cpdef int _look_at(self, object value, Facts facts) except -1


cpdef Facts facts_of(object code)

cpdef bint has_attributes(object function) except -1

cpdef bint holds_nothing(object cls) except -1

cpdef bint is_state(object value) except -1
