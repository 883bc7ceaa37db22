cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.roles cimport (
    is_effect,
    is_returning,
    operands,
    source_deps,
    value_deps,
    written_deps,
)


cdef class _Planner:
    cdef public object plan
    cdef public dict phase
    cdef public dict stored
    cdef public list effects
    cdef public list carriers
    cdef public dict claims

    cpdef _store(self, Node node, phase)

    @cython.locals(node=Node, dep=Node, stack=list, ready=bint)
    cpdef _visit(self, Node root)

    @cython.locals(level=Py_ssize_t, dep=Node)
    cpdef _place(self, Node node)

    cpdef Py_ssize_t _place_access(self, Node node, Py_ssize_t level) except -2

    cpdef Py_ssize_t _claim(self, Node effect, Py_ssize_t level) except -2
