from lumijit.compiler.ir.vertices cimport Vertex


cpdef bint is_argument(Vertex vertex) except -1

cpdef Vertex outermost(Vertex vertex)

cpdef bint is_outside(Vertex vertex) except -1
