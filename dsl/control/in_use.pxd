cimport cython

from lumijit.control.bytecode cimport Facts, facts_of


@cython.locals(facts=Facts, found=list, names=tuple, space=dict)
cpdef bint may_act(object function, object values) except -1

cpdef bint may_change_in_use(object values, object names=*) except -1


cpdef bint _acts(object cls, object names, set called) except -1
