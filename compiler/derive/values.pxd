from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir cimport trace


cdef class Value:
    cdef public bint is_bounded
    cdef public Node node

    cpdef Node _wide(self, object other)
