from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.trace cimport select
from lumijit.compiler.ir.vertices cimport Vertex


cdef class Rest:
    cdef public dict behind
    cdef public dict alone

    cpdef note(self, Vertex vertex, Rest ahead)

    cpdef update(self, Rest other)

    cpdef clear(self)


cdef class Isolation:
    cdef public object start
    cdef public object forward_start
    cdef public Rest postponed
    cdef public bint has_given
    cdef public dict arrived


cdef class isolated:
    cdef object _when
    cdef object _is_reached
    cdef object _setting
    cdef object _during
    cdef Isolation _isolation


cdef dict variables

cpdef bint is_argument(Vertex vertex) except -1

cpdef Vertex outermost(Vertex vertex)

cpdef bint is_outside(Vertex vertex) except -1

cpdef Node select_tracked(Node active, Node value, Node before)
