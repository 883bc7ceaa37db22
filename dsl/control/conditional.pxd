cimport cython

from lumijit.compiler.derive.isolation cimport select_tracked
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.control.branch_sides cimport Merge, Side, Sides
from lumijit.control.state cimport (
    by_lane,
    check_depth,
    check_labels,
    check_mode,
    condition_node,
    known_condition,
    of_entries,
)
from lumijit.runtime.contexts cimport apart


cdef class _Branch(Sides):
    cdef public Node condition
    cdef public tuple functions

    @cython.locals(
        cond=Node, first=Scope, second=Scope, yes=Side, no=Side, merge=Merge, node=Node
    )
    cpdef _symbolic(self)
