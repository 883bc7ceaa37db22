cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.launch cimport evaluate


@cython.locals(nodes=list, node=Node)
cpdef list nodes_of(object args, object construct)
