cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op


@cython.locals(op=Op, dep=Node)
cpdef tuple limits(Node node, Py_ssize_t depth=*)
