cimport cython

from lumijit.compiler.ir.nodes cimport Node, begin_walk


cdef long long _FORBIDDEN

@cython.locals(most=Py_ssize_t, cost=Py_ssize_t)
cpdef Py_ssize_t room(Py_ssize_t stores) except? -1

cdef bint _is_stored(Node node)

@cython.locals(
    walk=Py_ssize_t, stack=list, order=list, node=Node, dep=Node, count=Py_ssize_t,
    place=Py_ssize_t
)
cpdef list in_order(roots)

cdef object _numbers(Py_ssize_t count)

@cython.locals(
    found="long long[::1]", node=Node, dep=Node, place=Py_ssize_t, count=Py_ssize_t
)
cdef object _last_uses(list order, list outputs)

@cython.locals(
    found=list, node=Node, k=Py_ssize_t, use=Py_ssize_t, whole=Py_ssize_t
)
cdef list _needed(list body, long long[::1] last, Py_ssize_t start, Py_ssize_t end)

cdef long long _price(Node node) except? -1

@cython.locals(
    end=Py_ssize_t, prices="long long[::1]", reached="long long[::1]",
    last="long long[::1]", node=Node, place=Py_ssize_t, total="long long",
    price="long long", cost="long long", use="long long"
)
cdef tuple _prices(list order, object uses)

@cython.locals(
    early="long long", late="long long", first=Py_ssize_t, end=Py_ssize_t, k=Py_ssize_t,
    best=Py_ssize_t
)
cdef Py_ssize_t _cheapest(
    long long[::1] price, long long[::1] reached, Py_ssize_t start
) except? -1
