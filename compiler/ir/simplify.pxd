cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op


cpdef Node unary(Op op, Node a)

@cython.locals(found=Node, known=Node, size=Py_ssize_t)
cpdef Node binary(Op op, Node a, Node b)

cdef Node _widen(Node node, Py_ssize_t size)

@cython.locals(found=Node, known=Node)
cpdef Node ternary(Op op, Node a, Node b, Node c, Py_ssize_t size)

cdef Node _select(Node mask, Node a, Node b)

cdef Node _fma(Node a, Node b, Node c)

cdef Node _fma_by(Node factor, Node x, Node c)
