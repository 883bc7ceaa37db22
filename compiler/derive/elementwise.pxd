from lumijit.compiler.derive.steps cimport Step
from lumijit.compiler.derive.values cimport Value
from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node


cpdef pull(Step step, dict into, object by, tuple partials)

cdef Node _scaled(Node value, Value partial, Step step, bint is_guarded)
