cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.launch cimport evaluate


@cython.locals(node=Node, nodes=list)
cdef list _nodes(object args, object construct)
