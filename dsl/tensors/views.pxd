cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op


@cython.locals(result=Node, rest=Node, coordinate=Node, offset=Node)
cdef Node _positions(Node number, object start, list runs)

cdef Node _sum(Node total, Node part, Op op=*)

cdef Node _by(Op op, Node node, object number)

cdef Node _inside(Node source, Node index)
