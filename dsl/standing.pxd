from lumijit.compiler.ir.effects cimport Holder, wrap
from lumijit.compiler.ir.nodes cimport Node


cpdef bint stands(object value) except -1

cpdef like(object array, Node node)
