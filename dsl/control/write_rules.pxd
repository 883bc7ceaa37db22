cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope


@cython.locals(node=Node)
cpdef dict versions_in(object where, object construct, object arrays, object held)
