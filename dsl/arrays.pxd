from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.effects cimport held, wrap
