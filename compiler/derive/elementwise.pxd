from lumijit.compiler.derive.adjoints cimport Adjoint
from lumijit.compiler.derive.steps cimport Step
from lumijit.compiler.derive.values cimport Value
from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node


cpdef pull(Step step, dict into, Adjoint by, tuple partials)

cdef list _known(Step step)

cdef Node _scaled(Node value, Value partial, Step step, bint is_guarded)
