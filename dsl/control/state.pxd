cimport cython

from lumijit.compiler.ir.effects cimport Holder
from lumijit.compiler.ir.nodes cimport Node
from lumijit.pytree cimport Kind, Parts
from lumijit.undeclared cimport undeclared


cpdef check_mode(object mode, object construct)

cpdef bint is_array(object value) except -1

cpdef Node node_of(object value)

cpdef Node node_in(Holder array)

cpdef known_condition(Node node)

cpdef bint same_object(object a, object b) except -1

cpdef bint is_late(object old, object new) except -1

@cython.locals(old=Py_ssize_t, new=Py_ssize_t)
cpdef check_sizes(object construct, object name, Holder before, Holder after)

cpdef common_type(object a, object b, object mask_type)

cpdef list contents(Parts parts)

cpdef check_contents(object construct, Parts parts, list before)

@cython.locals(kind=Kind)
cdef dict _beside_fields(object value)

cpdef dict loose(Parts parts)

cpdef check_depth(object cond, object construct)

cpdef by_lane(object cond)

cpdef of_entries(object cond)

cpdef Node condition_node(object cond, object construct)

cpdef call(object function, object args, object what)

cpdef check_labels(object construct, object labels, object what, Py_ssize_t count)
