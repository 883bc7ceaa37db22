cimport cython

from lumijit.compiler.derive cimport rules
from lumijit.compiler.derive.adjoints cimport Places
from lumijit.compiler.derive.border cimport Border
from lumijit.compiler.derive.isolation cimport is_argument
from lumijit.compiler.derive.steps cimport Step
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.vertices cimport Vertex


@cython.locals(found=dict, stack=list, vertex=Vertex, deps=tuple, dep=Node)
cpdef dict _collect(object seeds, bint is_forward, object start)

@cython.locals(
    vertex=Vertex, parent=Vertex, into=dict, interior=set, k=Py_ssize_t, deps=tuple,
    places=Places, border=Border, is_outside=bint, is_variable=bint, dep=Node,
    variables=dict,
)
cpdef _backward(dict found, object clearing, object left)
