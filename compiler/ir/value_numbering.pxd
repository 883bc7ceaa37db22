cimport cython
from lumijit.compiler.ir.nodes cimport Node, Scope

cdef extern from *:
    """
    static CYTHON_INLINE PyObject* lumijit_ref(PyObject* node) {
        return PyWeakref_NewRef(node, NULL);
    }
    """
    cpdef object ref "lumijit_ref" (object node)

@cython.locals(node=Node)
cdef bint _is_alive(object entry)
@cython.locals(home=Scope, inner=Scope)
cdef bint is_visible(Node node, Scope scope)
@cython.locals(node=Node)
cpdef Node find(Node host, object op, object dtype, tuple deps, object attr, Scope scope)
@cython.locals(node=Node, deps=tuple)
cpdef Node find_binary(Node host, object op, Node a, Node b, Scope scope)
cpdef note(Node host, Node made)
