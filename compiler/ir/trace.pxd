cimport cython
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.ir cimport value_numbering
from lumijit.compiler.ir.value_numbering cimport ref


@cython.locals(node=Node)
cpdef Node make(object op, object dtype, Py_ssize_t size, tuple deps, object attr)
@cython.locals(host=Node, made=Node, scope=Scope, size=Py_ssize_t, deps=tuple)
cpdef Node emit2(object op, Node a, Node b)
@cython.locals(host=Node, made=Node, scope=Scope, size=Py_ssize_t, deps=tuple)
cpdef Node emit3(object op, Node a, Node b, Node c)
cpdef Node emit1(object op, Node a)
