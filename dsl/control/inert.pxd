cimport cython

from lumijit.control.bare_classes cimport look_at_class, look_at_values
from lumijit.control.bytecode cimport (
    Facts,
    facts_of,
    has_attributes,
    has_defaults,
    holds_nothing,
)


cdef class Inert:
    cdef public dict codes
    cdef public Py_ssize_t count
    cdef public dict known
    cdef public list met

    @cython.locals(changes=int, known=int)
    cpdef bint are_all(self, object functions, object values) except -1

    @cython.locals(found=int, facts=Facts)
    cpdef int _look(self, object function) except -1

    @cython.locals(found=int)
    cpdef int _look_at_globals(self, object function, Facts facts) except -1

    @cython.locals(known=int)
    cpdef int _look_inside(self, object function) except -1

    cpdef int _look_at(self, object value, Facts facts) except -1

    @cython.locals(found=int, changes=int)
    cpdef bint are_still(self, object functions, object values) except -1


cpdef bint _is_inert(int found) except -1
