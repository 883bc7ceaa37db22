cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op, Operands


cpdef Operands operands(Node node)

@cython.locals(found=Operands)
cpdef tuple value_deps(Node node)

@cython.locals(found=Operands)
cpdef tuple source_deps(Node node)

@cython.locals(found=Operands)
cpdef tuple written_deps(Node node)

@cython.locals(found=Operands)
cpdef tuple read_deps(Node node)

cpdef bint is_effect(Node node) except -1

cpdef bint is_returning(Node node) except -1
