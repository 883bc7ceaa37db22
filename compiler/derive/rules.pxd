from lumijit.compiler.derive cimport elementwise
from lumijit.compiler.derive.steps cimport Step
from lumijit.compiler.ir.ops.record cimport Op


cpdef pull(Step step, dict into, object by)
