cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op


cdef dict _BELOW
cdef dict _RULES

cpdef note(Node node, object lowest, object highest)

@cython.locals(op=Op, part=Node, counter=Node, end=Node)
cpdef note_condition(Node condition)

@cython.locals(op=Op, dep=Node)
cpdef tuple limits(Node node, Py_ssize_t depth=*)
