cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.control.aliases cimport arguments_in
from lumijit.control.state cimport node_in
from lumijit.pytree cimport Parts


@cython.locals(arg=Node, leaves=list, used=list, reached=set, deps=tuple)
cpdef check_progress(
    object construct, Parts parts, Node condition, dict args, dict outputs, Scope inner
)

@cython.locals(before=dict, same=list, output=Node, initial=Node)
cdef bint _changing(list used, dict args, dict outputs, list leaves) except -1

@cython.locals(old=Node, new=Node, pairs=list, seen=set)
cdef bint _is_again(Node initial, Node output, dict before) except -1
