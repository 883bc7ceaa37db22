cimport cython

from lumijit.control.bytecode cimport is_state
from lumijit.pytree cimport Kind


cpdef look_at(object cls)

cpdef int look_at_class(object cls) except -1

cpdef int look_at_values(object values) except -1

@cython.locals(found=int, known=Kind, value=object)
cdef int _look_through(list left) except -1

cpdef bint _is_unchanging(object cls) except -1
