cimport cython

from lumijit.compiler.ir.captures cimport Captures
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.region_types cimport Block
from lumijit.compiler.ir.trace cimport current_scope
from lumijit.runtime.dtypes cimport DType


cdef class scope:
    cdef public Scope _inner


cdef class reopened:
    cdef public Scope _inner
    cdef public Scope _outer


cdef object _enter(Scope inner)

@cython.locals(
    heads_ids=set, values=list, sources=list, targets=list, deps=tuple, node=Node,
    head=Node, n=Node,
)
cdef Node _finish(
    Op op, tuple args, object blocks, tuple heads, Captures captures, object scopes,
    object label,
)

@cython.locals(seen=set, n=Node, block=Block)
cdef object _region_size(Op op, object blocks, list values)

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

@cython.locals(made=Node, value=Node)
cpdef Node project(Node region, DType dtype, object position, tuple values)
