from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
