cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.effects cimport Holder
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.record cimport bounds
from lumijit.runtime.dtypes cimport DType


cpdef Node gather(Node source, Node index, Node mask)

cpdef tuple place(
    Node source, Node index, Node mask, object construct, object count=*, object size=*
)

cdef tuple _place(object construct, object size, Node index, Node mask, object count)

@cython.locals(outer=Node, width=Py_ssize_t)
cdef Node _masked(object construct, Node index, Node mask)

@cython.locals(scope=Scope, value=Node, size=Py_ssize_t)
cpdef Node entries(Node source, Node index, Node mask, object offset=*)

cpdef Node read_inside(Node source, Node index, object offset=*)

@cython.locals(size=Py_ssize_t)
cpdef Node read(Node source, Node index, Node mask, object offset=*)

cdef _check_target(Holder holder, object construct)

cpdef tuple aim(
    Holder holder, Node index, Node mask, object construct, object count=*,
    object is_inside=*,
)

cpdef update(
    Holder holder, Node value, Node index, Node mask, object op=*, object mode=*,
    object group=*,
)

cdef Node _zero(DType dtype)
