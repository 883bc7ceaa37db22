cimport cython

from lumijit.compiler.ir cimport ranges, trace
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.runtime.dtypes cimport DType


@cython.locals(current=Scope)
cdef bint _is_open(Scope scope) except -1

@cython.locals(origin=Node, entries=Node, found=Node, scope=Scope)
cpdef Node table(Node node)

cdef Node _origin(Node node)

@cython.locals(origin=Node)
cpdef check_indexable(Node node, object construct)

@cython.locals(place=Node, inside=Node, position=Node)
cpdef tuple place(
    object construct, object size, Node index, Node mask, object count=*
)

@cython.locals(inner=Node, base=Node, step=Node)
cpdef tuple neighbour(Node index)

cdef bint _is_checked() except -1

cdef Node _wide(Node index)

@cython.locals(shifted=Node, is_negative=Node)
cdef tuple _from_the_end(Node index, object rows)

cdef Node _number(DType dtype, object value)
