cimport cython

from lumijit.compiler.ir.captures cimport Captures, in_order
from lumijit.compiler.ir.nodes cimport Node, Scope, begin_walk, begin_walk_after
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.region_types cimport Block, make_region
from lumijit.compiler.ir.roles cimport is_effect
from lumijit.compiler.ir.trace cimport current_scope, make
from lumijit.runtime.dtypes cimport DType


cdef class scope:
    cdef public Scope _inner


cdef class reopened:
    cdef public Scope _inner
    cdef public Scope _outer


cdef dict variables

cdef object _enter(Scope inner)

cpdef restore_writes(Scope inner)

cpdef Node argument(DType dtype, Py_ssize_t size, object position, Node initial=*)

cdef object _note_targets(Scope inner, Captures captures)

@cython.locals(
    known=set, values=list, sources=list, targets=list, deps=tuple, node=Node, n=Node,
    inner=Scope,
)
cdef Node _finish(
    Op op, tuple args, object blocks, tuple heads, Captures captures, object scopes,
    object label,
)

@cython.locals(size=Py_ssize_t, is_mixed=bint, n=Node, block=Block, found=list)
cdef Py_ssize_t _width(
    Op op, object blocks, list values, Py_ssize_t least
) except -1

@cython.locals(current=Scope, inner=Scope, holders=dict, positions=dict, written=Node)
cdef object _publish(Node node, object scopes, list targets)

cpdef forget(Scope inner)

@cython.locals(
    captures=Captures, header=Block, body=Block, nodes=tuple, found=tuple, used=set,
    node=Node, dep=Node, arg=Node, changed=list, kept=list, results=list, k=Py_ssize_t,
    count=Py_ssize_t,
)
cpdef tuple close_loop(
    Scope inner, tuple inits, tuple args, Node cond, tuple outputs,
    dict stand_ins=*,
)

@cython.locals(
    first=Scope, second=Scope, inner=Scope, captures=Captures, nodes=tuple,
    blocks=list, results=list, node=Node, a=Node, b=Node,
    k=Py_ssize_t, count=Py_ssize_t,
)
cpdef tuple close_branch(Node cond, tuple scopes, tuple outputs)

@cython.locals(made=Node, value=Node)
cpdef Node project(Node region, DType dtype, object position, tuple values)
