from lumijit.compiler.ir cimport trace
from lumijit.compiler.record cimport memory
