cimport cython

from lumijit.compiler.ir.nodes cimport Node


@cython.locals(
    weights=dict, node=Node, dep=Node, d=Node, order=dict, stack=list, known=list,
    missing=list,
)
cpdef list arranged(object nodes, object roots)
