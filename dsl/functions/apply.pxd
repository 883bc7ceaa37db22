from lumijit cimport direct
from lumijit.compiler.ir.effects cimport wrap
from lumijit.compiler.ir.trace cimport emit1


cdef dict STANDING
