cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.roles cimport source_deps, value_deps


@cython.locals(order=list, inner=Node, made=dict)
cpdef Node at_positions(Node node, Node index)

@cython.locals(known=Node, dep=Node, is_simple=bint)
cdef bint _collect(Node node, Py_ssize_t size, list order) except -1

@cython.locals(deps=tuple, d=Node)
cdef Node _repeat(Node node, Node index, dict made)
