from lumijit.compiler.ir.effects cimport Holder, new_holder
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.trace cimport emit2


cdef dict STANDING
