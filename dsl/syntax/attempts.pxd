cimport cython

from lumijit.runtime.contexts cimport Attempt, apart, running_attempt
from lumijit.syntax.nesting cimport depth_of
from lumijit.syntax.running cimport Running


cdef class Inputs:
    cdef readonly object site
    cdef readonly tuple values
    cdef readonly tuple labels
    cdef readonly object own_names
    cdef readonly object attributes
    cdef readonly object is_loop


cdef tuple _with_whole(tuple slots, Inputs inputs)

@cython.locals(outer=Running)
cpdef attempts(Inputs inputs, tuple functions, object run)
