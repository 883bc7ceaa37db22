cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.transform.substitution cimport at_positions


cdef class View:
    cdef public object shape
    cdef public object start
    cdef public tuple runs
    cdef public object size
    cdef public bint is_known
    cdef public list _joined

    cpdef bint is_all_of(self, object size) except -1

    cpdef View forwards(self)


@cython.locals(result=Node, rest=Node, coordinate=Node, offset=Node)
cdef Node _positions(Node number, object start, list runs)

cdef Node _sum(Node total, Node part, Op op=*)

cdef Node _by(Op op, Node node, object number)
