cimport cython

from lumijit.compiler.ir.nodes cimport Node


cpdef Py_ssize_t room(Py_ssize_t stores) except? -1

cdef bint _is_stored(Node node)

@cython.locals(stack=list, order=list, done=set, node=Node, dep=Node, count=Py_ssize_t)
cpdef list in_order(roots)

@cython.locals(change=list, node=Node, k=Py_ssize_t, end=Py_ssize_t)
cdef list _prices(list order, dict last_use)

@cython.locals(
    early=Py_ssize_t, late=Py_ssize_t, first=Py_ssize_t, end=Py_ssize_t, k=Py_ssize_t,
    best=Py_ssize_t
)
cdef Py_ssize_t _cheapest(list price, list reached, Py_ssize_t start)
