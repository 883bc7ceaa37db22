cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.control.held_arrays cimport Held
from lumijit.control.state cimport (
    check_contents,
    check_labels,
    common_type,
    contents,
    is_array,
    loose,
    node_in,
    node_of,
    same_object,
)
from lumijit.control.twins cimport common_twins
from lumijit.control.write_rules cimport versions_in
from lumijit.pytree cimport Parts, copied
from lumijit.standing cimport like


cdef class Kept:
    cdef readonly object value
    cdef readonly object original
    cdef readonly object source


cdef class Side:
    cdef readonly object value
    cdef readonly Parts parts
    cdef readonly Held held
    cdef readonly dict versions
    cdef readonly dict nodes
    cdef readonly dict items
    cdef public list kept

    @cython.locals(
        kept=list, nodes=dict, before=dict, versions=dict, node=Node, key=object,
        found=Node,
    )
    cpdef list keep(self, Parts parts)

    cpdef apart(self, object take)


cdef class Sides:
    cdef public tuple args
    cdef public list contents
    cdef public Held held
    cdef public dict loose
    cdef public object mask_type
    cdef public object name
    cdef public object running
    cdef public object rv_labels
    cdef public object strict

    @cython.locals(held=Held, given=Parts, parts=Parts, side=Side, versions=dict)
    cpdef Side run(self, object function, object where)

    @cython.locals(found=list)
    cpdef list changed(self, Side yes, Side no)


cdef class Joined:
    cdef readonly object holder
    cdef readonly Parts parts
    cdef readonly list kept


cdef class Merge:
    cdef public dict computed
    cdef public list finals
    cdef public dict holders
    cdef public object is_tuple
    cdef public list joined
    cdef public dict late
    cdef public list no
    cdef public dict pairs
    cdef public dict repeated
    cdef public Sides sides
    cdef public list traced
    cdef public dict types
    cdef public list yes

    @cython.locals(
        one=Parts, other=Parts, first=Parts, second=Parts, known=dict, twins=dict,
        yes_leaf=Kept, no_leaf=Kept,
    )
    cpdef _join(self, Side yes, Side no)

    cpdef _enter(self, object holder, Parts yes, Parts no, list mine, list other)

    @cython.locals(
        first=Node, second=Node, one=Py_ssize_t, other=Py_ssize_t
    )
    cpdef _agreed(self, object k, object a, object b)

    @cython.locals(pairs=dict, zero=Node, yes=Node, no=Node)
    cpdef tuple wanted(self)

    @cython.locals(yes=Node, no=Node, computed=Node, one=Kept, other=Kept)
    cpdef tuple current(self, object k)

    @cython.locals(one=Kept, other=Kept, a=Node, b=Node)
    cpdef enter(self, object k, Node node)

    @cython.locals(entry=Joined)
    cpdef result(self)


@cython.locals(leaf=Kept)
cdef bint _is_any_undefined(list kept) except -1
