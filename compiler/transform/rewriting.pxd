cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.region_types cimport Block, Region, make_region
from lumijit.compiler.ir.roles cimport (
    is_effect, operands, read_deps, source_deps, value_deps, written_deps,
)


cdef class Rewriter:
    cdef readonly dict images
    cdef public bint has_lost
    cdef object _changes
    cdef bint _is_pure
    cdef bint _is_tracking
    cdef bint _is_repeating
    cdef dict _addresses

    cpdef list copy(self, object nodes, Scope scope)

    @cython.locals(made=list, images=dict, node=Node, dep=Node, copy=Node, deps=tuple)
    cdef list _copy_all(self, object nodes, Scope scope)

    @cython.locals(owner=Node, dep=Node, new=Node, k=Py_ssize_t)
    cdef object _track(self, Node node, Node copy, tuple operands=*)

    cpdef Node image(self, Node node)

    @cython.locals(deps=list, moved=dict, dep=Node, found=Node, copy=Node, k=Py_ssize_t)
    cdef Node _copy(self, Node node, Scope scope)

    @cython.locals(
        region=Region, scope=Scope, old=Node, new=Node, arg=Node, args=tuple,
        values=tuple, blocks=list, block=Block, entered=dict, wide=Py_ssize_t,
        k=Py_ssize_t,
    )
    cdef object _region(self, Node node, Node copy, dict addresses)


@cython.locals(copy=Node)
cdef Node _node(Node node, Scope scope, tuple deps, Op op=*)

@cython.locals(dep=Node)
cdef Py_ssize_t _lanes(object values) except -1

@cython.locals(
    inside=set, values=dict, sources=dict, block=Block, node=Node, dep=Node, read=list,
)
cdef tuple _captured(tuple args, list blocks, tuple heads)

@cython.locals(needed=set, kept=list, node=Node)
cpdef list pure_nodes(object nodes, object results)
