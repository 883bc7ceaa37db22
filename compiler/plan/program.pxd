cimport cython

from lumijit.compiler.ir.nodes cimport Node, begin_walk
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.region_types cimport attr_key
from lumijit.compiler.ir.roles cimport (
    is_effect, read_deps, source_deps, value_deps, written_deps,
)


cdef class Destination:
    cdef public Node root
    cdef public bint is_dense
    cdef public bint is_shared
    cdef public object private_op


cdef class Program:
    cdef public list _all_nodes
    cdef public list arguments
    cdef public list effects
    cdef public object expand_limit
    cdef public bint has_loops
    cdef public bint is_streaming
    cdef public tuple key
    cdef public list nodes
    cdef public list outputs
    cdef public set pointers
    cdef public Py_ssize_t size
    cdef public dict targets
    cdef public set values

    @cython.locals(
        order=list, values=set, pointers=set, walk=Py_ssize_t, root=Node, stack=list,
        node=Node, dep=Node, is_ready=bint,
    )
    cpdef list _walk(self, object first)

    @cython.locals(reached=list, walk=Py_ssize_t, node=Node, op=Op, dep=Node, root=Node)
    cpdef bind(self)

    @cython.locals(
        rows=list, values=set, pointers=set, walk=Py_ssize_t, node=Node, op=Op, d=Node,
        target=Destination, k=Py_ssize_t, uses=dict, refs=list,
    )
    cpdef tuple _make_key(self)

    @cython.locals(found=dict, node=Node, dep=Node)
    cpdef dict _uses(self)


cpdef bint is_baked(Node node) except -1

cpdef Node target_root(Node node)
