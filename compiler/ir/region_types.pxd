cimport cython

from lumijit.compiler.ir.nodes cimport Node


@cython.locals(
    known=dict, rows=list, arg=Node, node=Node, d=Node, deps=tuple, count=Py_ssize_t,
)
cdef object _structure(object op, tuple args, object blocks, tuple deps)

cpdef object attr_key(Node node)
