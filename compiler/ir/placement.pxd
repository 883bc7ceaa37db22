cimport cython

from lumijit.compiler.ir.nodes cimport Node, begin_walk


cpdef object owner(Node node)

cpdef object _below(Node node)

@cython.locals(
    known=dict, found=dict, stack=list, node=Node, other=Node, root=Node,
    depth=Py_ssize_t, of_host=list, group=list,
)
cpdef tuple divided(object nodes)

@cython.locals(node=Node, walk=Py_ssize_t, deps=tuple)
cpdef object likely(list nodes)
