cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope, begin_walk
from lumijit.control.state cimport is_array, node_in
from lumijit.pytree cimport Parts


cdef class Carried:
    cdef readonly object holder
    cdef readonly Node initial
    cdef readonly Node argument
    cdef public Node output


cdef class Turn:
    cdef readonly Parts after
    cdef readonly dict args
    cdef readonly Node condition
    cdef readonly Parts given
    cdef readonly Scope inner
    cdef public dict outputs
    cdef readonly Parts own

    cpdef set read(self)

    cpdef tuple shape(self)


@cython.locals(given=Parts, args=dict, leaves=list, arg=Node, changed=list)
cpdef list besides(object loop, Turn turn)

@cython.locals(
    depth=Py_ssize_t, found=set, nodes=list, node=Node, dep=Node, walk=Py_ssize_t
)
cpdef set arguments_in(object roots, Scope inner)

cpdef bint is_same(Node a, Node b) except -1
