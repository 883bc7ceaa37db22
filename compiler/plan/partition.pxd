cimport cython

from lumijit.compiler.ir.nodes cimport Node


cdef bint _is_stored(Node node)

@cython.locals(stack=list, order=list, done=set, node=Node, dep=Node, count=Py_ssize_t)
cpdef list in_order(roots)

@cython.locals(change=list, node=Node, k=Py_ssize_t, end=Py_ssize_t)
cdef list _prices(list order, dict last_use)
