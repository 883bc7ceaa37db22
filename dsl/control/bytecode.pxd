cimport cython


cdef class Inert:
    cdef public dict codes
    cdef public Py_ssize_t count
    cdef public dict known

    cpdef bint are_all(self, object functions) except -1

    @cython.locals(found=int)
    cpdef int _look(self, object function) except -1

    @cython.locals(found=int)
    cpdef int _look_at_globals(self, object function, object facts) except -1

    @cython.locals(known=int)
    cpdef int _look_inside(self, object function) except -1

    cpdef int _look_at(self, object value, object facts) except -1


cpdef facts_of(object code)

cpdef bint has_attributes(object function) except -1

cpdef bint holds_nothing(object cls) except -1

cpdef bint is_state(object value) except -1

cpdef bint are_states(object values) except -1
