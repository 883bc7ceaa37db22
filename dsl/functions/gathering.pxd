cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.effects cimport Holder
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.record cimport memory


@cython.locals(holder=Holder, node=Node, place=Node, mask=Node, position=Node)
cdef object _gather_flat(
    object dtype, object source, object index, object active, object width,
    object outer=*,
)

cdef object _entries(
    object dtype, Node source, Node position, Node mask, object offset, bint diff
)

@cython.locals(holder=Holder, place=Node)
cpdef tuple access_nodes(
    object construct, object like, object index, object active, object size,
    object count=*,
)
