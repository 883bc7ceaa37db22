cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope


cdef class Captures:
    cdef public object pointers
    cdef public object targets
    cdef public object values


cdef class Code:
    cdef public Captures captures
    cdef public object nodes


@cython.locals(
    order=list, stack=list, values=dict, root=Node, node=Node, dep=Node, deps=tuple,
    count=Py_ssize_t,
)
cdef tuple _linearize(object roots, Scope inner, set done, object captures)

cpdef tuple in_order(object roots, Scope inner, set done, object captures)
