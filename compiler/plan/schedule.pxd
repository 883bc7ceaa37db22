cimport cython

from lumijit.compiler.ir.nodes cimport Node, begin_walk
from lumijit.compiler.ir.roles cimport (
    is_effect,
    is_returning,
    operands,
    source_deps,
    value_deps,
    written_deps,
)


cdef class Group:
    cdef public list effects
    cdef public list outputs
    cdef public object phase
    cdef public object size


cdef class Plan:
    cdef public list groups
    cdef public set shared_targets
    cdef public object weight
    cdef public list written


cdef class _Planner:
    cdef public Plan plan
    cdef public Py_ssize_t walk
    cdef public list phases
    cdef public dict stored
    cdef public list effects
    cdef public list carriers
    cdef public dict claims
    cdef public list placed

    cpdef _store(self, Node node, phase)

    cpdef _enter(self, Node node, Py_ssize_t phase)

    @cython.locals(node=Node, stack=list, walk=Py_ssize_t)
    cpdef _visit(self, Node root)

    @cython.locals(dep=Node, walk=Py_ssize_t)
    cpdef _push_operands(self, list stack, Node node)

    @cython.locals(level=Py_ssize_t, before=Py_ssize_t, dep=Node, writer=Node)
    cpdef _place(self, Node node)

    cpdef Py_ssize_t _place_access(self, Node node, Py_ssize_t level) except -2

    @cython.locals(level=Py_ssize_t)
    cpdef Py_ssize_t _address(self, Node node) except -2

    @cython.locals(level=Py_ssize_t, previous=Node)
    cpdef Py_ssize_t _target(self, Node effect, Node target) except -2

    @cython.locals(targets=tuple, target=Node)
    cpdef Py_ssize_t _claim(self, Node effect, Py_ssize_t level) except -2

    @cython.locals(
        node=Node, dep=Node, phases=list, costs=list, runs=set,
        cost=Py_ssize_t, level=Py_ssize_t, needed=Py_ssize_t, before=Py_ssize_t,
        is_long=bint,
    )
    cpdef list _keep_waiting(self)

    @cython.locals(
        node=Node, dep=Node, effect=Node, costs=list, stored=dict, needs=list,
        projects=dict, results=list, need=tuple, first=Py_ssize_t, last=Py_ssize_t,
        size=Py_ssize_t,
    )
    cpdef _keep_costly(self)

    cpdef bint _keep(self, Node node, Py_ssize_t phase, Py_ssize_t size) except -1


cdef Group _group(dict groups, object level, object size)

cdef tuple _joined(tuple need, tuple other)
