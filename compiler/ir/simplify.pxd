cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.runtime.dtypes cimport DType


cdef set unusual
cdef dict RULES
cdef dict OF_EQUALS

@cython.locals(a=Node, number=object)
cpdef Node fold(Op op, DType result, tuple args)

cpdef Node unary(Op op, Node a)

@cython.locals(found=Node, size=Py_ssize_t, is_scaled=bint)
cpdef Node binary(Op op, Node a, Node b)

cdef Node _widen(Node node, Py_ssize_t size)

@cython.locals(found=Node, known=Node)
cpdef Node ternary(Op op, Node a, Node b, Node c, Py_ssize_t size)

cdef Node _select(Node mask, Node a, Node b)

cdef Node _fma(Node a, Node b, Node c)

cdef Node _fma_by(Node factor, Node x, Node c)

cdef bint _is_negative_zero(Node node)

cdef bint _may_drop(Node node)

cpdef Node _add(Node a, Node b)

cpdef Node _sub(Node a, Node b)

cpdef Node _mul(Node a, Node b)

cpdef Node _div(Node a, Node b)

cpdef Node _power(Node a, Node b)

cpdef Node _and(Node a, Node b)

cpdef Node _or(Node a, Node b)

cpdef Node _xor(Node a, Node b)

cdef Node _shifted(Op by, Node a, Node b)

cpdef Node _shift_left(Node a, Node b)

cpdef Node _shift_right(Node a, Node b)

cpdef Node _extreme(Node a, Node b)

cpdef Node _equal(Node a, Node b)

cpdef Node _not_equal(Node a, Node b)
