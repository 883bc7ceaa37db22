cimport cython

from lumijit.compiler.derive.isolation cimport select_tracked
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.ir.trace cimport current_mask, emit1, under_mask
from lumijit.compiler.launch.evaluate cimport evaluate
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

    @cython.locals(cond=Node, merge=Merge, first_side=Side, second_side=Side)
    cpdef _evaluated(self, Py_ssize_t size)

    @cython.locals(side=Side, outer=Node)
    cpdef tuple _run_masked(self, Node active, object function)
