from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node


cdef class Adjoint:
    cdef public object like
    cdef public Node value
    cdef public Node mask
    cdef public object size
    cdef public bint is_partial


cdef class Places:
    cdef public dict _known
    cdef public list _waiting
