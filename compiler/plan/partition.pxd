cimport cython

from lumijit.compiler.ir.nodes cimport Node, begin_walk


cpdef Py_ssize_t room(Py_ssize_t stores) except? -1

cdef bint _is_stored(Node node)

@cython.locals(
    walk=Py_ssize_t, stack=list, order=list, node=Node, dep=Node, count=Py_ssize_t,
    place=Py_ssize_t
)
cpdef list in_order(roots)

@cython.locals(found=list, node=Node, dep=Node, place=Py_ssize_t, own=object)
cdef list _last_uses(list order, list outputs)

@cython.locals(
    found=list, node=Node, k=Py_ssize_t, use=Py_ssize_t, whole=Py_ssize_t
)
cdef list _needed(list body, list last, Py_ssize_t start, Py_ssize_t end)

@cython.locals(
    end=Py_ssize_t, prices=list, reached=list, node=Node, place=Py_ssize_t,
    total=Py_ssize_t, price=Py_ssize_t, is_region=bint,
    is_entrywise=bint
)
cdef tuple _prices(list order, list last)

@cython.locals(
    early=Py_ssize_t, late=Py_ssize_t, first=Py_ssize_t, end=Py_ssize_t, k=Py_ssize_t,
    best=Py_ssize_t
)
cdef Py_ssize_t _cheapest(list price, list reached, Py_ssize_t start)
