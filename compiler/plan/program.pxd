from lumijit.compiler.ir.nodes cimport Node


cdef class Destination:
    cdef public Node root
    cdef public bint is_dense
    cdef public bint is_shared
    cdef public object private_op


cpdef Node target_root(Node node)
