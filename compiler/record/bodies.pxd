from lumijit.compiler.ir.captures cimport Code
from lumijit.compiler.ir.nodes cimport Node, Scope


cdef class Body:
    cdef public Scope scope
    cdef public list effects
    cdef public dict writes
    cdef public tuple outputs
    cdef public list positions
    cdef public dict locals
    cdef Code _code
