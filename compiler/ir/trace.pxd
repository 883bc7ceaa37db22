cimport cython

from lumijit.compiler.ir cimport simplify, value_numbering, vertices
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.value_numbering cimport find_root, note_root, ref
from lumijit.runtime cimport waiting
from lumijit.runtime.dtypes cimport DType


cdef extern from *:
    """
    /* The value of the variable behind `trace._scope`. */
    static PyObject* lumijit_current_scope(void) {
        static PyObject* variable;
        PyObject* found = NULL;
        if (!variable) {
            PyObject* scope = lumijit_attribute("lumijit.compiler.ir.trace", "_scope");
            PyObject* get = scope ? PyObject_GetAttrString(scope, "get") : NULL;
            variable = get ? PyObject_GetAttrString(get, "__self__") : NULL;
            Py_XDECREF(scope);
            Py_XDECREF(get);
            if (!variable) return NULL;
        }
        PyContextVar_Get(variable, NULL, &found);
        return found;
    }
    """
    cpdef Scope current_scope "lumijit_current_scope" ()


cdef bint are_unset
cdef dict _variables

@cython.locals(node=Node)
cpdef Node make(Op op, DType dtype, Py_ssize_t size, tuple deps, object attr)

cpdef Node under_mask(Node mask)

cpdef Node current_mask()

cpdef Node unchanged(Node node)

cpdef Node make_root(Op op, DType dtype, Py_ssize_t size, object attr=*)

@cython.locals(dep=Node, size=Py_ssize_t)
cpdef Py_ssize_t broadcast_size(Op op, tuple deps) except -1

@cython.locals(node=Node)
cpdef Node literal(DType dtype, object value, Py_ssize_t size=*)

@cython.locals(node=Node)
cpdef Node from_buffer(DType dtype, object buffer, Py_ssize_t size)

@cython.locals(host=Node, found=Node, node=Node, dep=Node, scope=Scope)
cpdef Node append(Op op, DType dtype, tuple deps, object attr=*, object size=*)

@cython.locals(host=Node, dep=Node)
cpdef Node hosting(tuple deps)

cpdef Node emit1(Op op, Node a)

@cython.locals(host=Node, made=Node, scope=Scope, size=Py_ssize_t)
cpdef Node emit2(Op op, Node a, Node b)

@cython.locals(host=Node, made=Node, scope=Scope, size=Py_ssize_t)
cpdef Node emit3(Op op, Node a, Node b, Node c)

cpdef Node under_mask(Node mask)

cpdef Node make_true(Py_ssize_t size)

cpdef Node cast_to(Node node, DType dtype)

cpdef Node select(Node mask, Node a, Node b)
