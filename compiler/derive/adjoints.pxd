cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.vertices cimport Vertex


cdef class Adjoint:
    cdef public object like
    cdef public Node value
    cdef public Node mask
    cdef public object size
    cdef public bint is_partial

    cpdef add(self, Node value, Node mask=*)

    cpdef complete(self)

    cpdef Node where(self)

    cdef Node _fitted(self, Node value, Node mask)


cdef class Places:
    cdef public dict _known
    cdef public list _waiting

    cpdef at(self, Vertex vertex)

    cpdef tuple pop(self)


cpdef Node under_both(Node first, Node second)

cpdef Node partly(Node mask)

cdef bint _are_opposite(Node first, Node second)

cdef Node _under(Node mask, Node value)

cpdef bint is_zero(Node value)
