cimport cython

from lumijit.compiler.ir.effects cimport Holder, wrap
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.trace cimport emit1, emit2, emit3


@cython.locals(holder=Holder, node=Node, nodes=list, classes=dict, literals=dict)
cpdef object apply_flat(Op op, tuple operands)

@cython.locals(columns=list)
cdef object _apply_vectors(Op op, tuple operands)
