cimport cython

from lumijit.compiler.ir.local_types cimport access_of
from lumijit.compiler.ir.nodes cimport Node, begin_walk
from lumijit.compiler.ir.ops.record cimport Op


cdef class Block:
    cdef readonly tuple nodes
    cdef readonly tuple outputs
    cdef Py_ssize_t _weight
    cdef Py_ssize_t _last_access


cdef class Region:
    cdef object __weakref__
    cdef readonly Op op
    cdef readonly tuple args
    cdef readonly tuple blocks
    cdef readonly object label
    cdef readonly object operands
    cdef readonly object key
    cdef readonly bint is_consumed
    cdef readonly object bound
    cdef object _is_returning


@cython.locals(
    known=dict, rows=list, arg=Node, node=Node, d=Node, block=Block, count=Py_ssize_t,
    walk=Py_ssize_t,
)
cdef object _structure(object op, tuple args, object blocks, tuple deps)

@cython.locals(made=Region)
cpdef tuple make_region(
    Op op, tuple args, object blocks, object label, tuple operands,
    bint is_consumed=*, object bound=*,
)

cpdef Py_ssize_t operations(Node node) except -1

cpdef object attr_key(Node node)

@cython.locals(
    count=Py_ssize_t, operand=Node, node=Node, inner=Node, block=Block, stack=list,
    seen=set,
)
cpdef Py_ssize_t references_inside(Node region, Py_ssize_t position) except -1
