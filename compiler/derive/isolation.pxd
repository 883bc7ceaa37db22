from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.trace cimport select
from lumijit.compiler.ir.vertices cimport Vertex


cdef dict variables

cpdef bint is_argument(Vertex vertex) except -1

cpdef Vertex outermost(Vertex vertex)

cpdef bint is_outside(Vertex vertex) except -1

cpdef Node select_tracked(Node active, Node value, Node before)
