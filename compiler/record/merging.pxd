cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope, begin_walk
from lumijit.compiler.ir.region_types cimport attr_key
from lumijit.compiler.ir.roles cimport operands
from lumijit.compiler.record.bodies cimport Body


cdef class _Use:
    cdef readonly Node user
    cdef readonly Py_ssize_t operand
    cdef readonly Node node
    cdef readonly bint is_address


@cython.locals(
    user=Node, dep=Node, deps=tuple, rows=list, uses=list, walk=Py_ssize_t,
    number=Py_ssize_t, k=Py_ssize_t, is_address=bint,
)
cdef tuple _describe(Body body)

cdef object _open_kind(Node node, bint is_address)

@cython.locals(columns=dict, first=_Use, use=_Use, nodes=list, k=Py_ssize_t)
cdef object _find_columns(object found)
