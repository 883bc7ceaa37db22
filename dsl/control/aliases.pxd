cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.pytree cimport Parts


cdef class Carried:
    cdef readonly object holder
    cdef readonly Node initial
    cdef readonly Node argument
    cdef readonly Node output


cdef bint _may_part(Parts own, Parts after, dict args) except -1

@cython.locals(
    depth=Py_ssize_t, found=set, seen=set, nodes=list, node=Node, dep=Node
)
cpdef set arguments_in(object roots, Scope inner)

cpdef bint is_same(Node a, Node b) except -1
