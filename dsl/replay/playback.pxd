from lumijit.compiler.ir.effects cimport wrap
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir cimport trace, vertices


cdef object _leaf(object leaf, list nodes, list arrays, list numbers)
