cimport cython

from lumijit.compiler.ir.nodes cimport Node, _Interruptions, begin_walk
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.plan.program cimport Destination
from lumijit.runtime cimport workers
from lumijit.runtime.buffers cimport Buffer


cdef dict away
cdef _Interruptions interruptions


@cython.freelist(16)
cdef class Launch:
    cdef public Py_ssize_t began
    cdef public list outputs
    cdef public Py_ssize_t size
    cdef public object key
    cdef public list values
    cdef public object program
    cdef public object slots
    cdef public object effects
    cdef public object targets
    cdef public object expand_limit
    cdef public dict written
    cdef public object versions
    cdef public object temporary
    cdef public object merges
    cdef public list merged
    cdef public object built
    cdef public bytes args
    cdef public bint is_inline
    cdef public list results
    cdef public list started

    cpdef bind_effects(self, object effects, object targets, object expand_limit)


@cython.locals(launch=Launch)
cdef Launch _begun(
    list outputs, Py_ssize_t size, object key, list values, object program,
    Py_ssize_t began
)

@cython.locals(
    launch=Launch, node=Node, dep=Node, op=Op, key=list, values=list, targets=list,
    written=dict, found=list, walk=Py_ssize_t, began=Py_ssize_t,
    reached=list, count=Py_ssize_t, inside=Py_ssize_t, size=Py_ssize_t, first=Node,
    buffer=Buffer, target=Destination, is_known=bint,
)
cpdef Launch describe(
    list outputs, object effects, object expand_limit, object shared=*,
    Py_ssize_t most=*
)

@cython.locals(node=Node)
cdef bint _are_computed(list nodes, Py_ssize_t size) except -1

cdef Py_ssize_t _number_in(Py_ssize_t walk, Node node) except -1

@cython.locals(
    op=Op, found=list, k=Py_ssize_t, other=Destination, target=Destination
)
cdef list _targets(Node effect, list targets, dict written, object shared)

@cython.locals(key=list, target=Destination)
cdef list _effect_key(Node effect, list found, list targets)

cdef bint _is_elsewhere(Node node, object place) except -1
