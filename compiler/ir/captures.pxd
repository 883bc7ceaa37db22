cimport cython

from lumijit.compiler.ir.local_types cimport accesses, in_use
from lumijit.compiler.ir.nodes cimport Node, Scope, begin_walk, begin_walk_after


cdef class Captures:
    cdef public dict pointers
    cdef public dict targets
    cdef public dict values


cdef class Code:
    cdef public Captures captures
    cdef public object nodes


@cython.locals(
    order=list, stack=list, values=dict, root=Node, node=Node, dep=Node, deps=tuple,
    count=Py_ssize_t,
)
cdef tuple _linearize(
    object roots, Scope inner, Py_ssize_t walk, Captures captures
)

@cython.locals(reached=Captures, found=tuple, node=Node)
cpdef tuple in_order(
    object roots, Scope inner, Py_ssize_t walk, Captures captures
)
