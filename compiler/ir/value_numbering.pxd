cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.runtime.dtypes cimport DType


cdef extern from *:
    """
    static CYTHON_INLINE PyObject* lumijit_ref(PyObject* node) {
        PyObject* made = PyWeakref_NewRef(node, NULL);
        /* Without a callback it refers to nothing: the collector needn't look at it. */
        if (made && PyObject_GC_IsTracked(made)) PyObject_GC_UnTrack(made);
        return made;
    }
    static CYTHON_INLINE PyObject* lumijit_referent(PyObject* reference) {
    #if PY_VERSION_HEX >= 0x030D0000
        PyObject* found;
        int state = PyWeakref_GetRef(reference, &found);
        if (state < 0) return NULL;
        if (state == 0) Py_RETURN_NONE;
    #else
        PyObject* found = PyWeakref_GetObject(reference);
        Py_XINCREF(found);
    #endif
        return found;
    }
    static CYTHON_INLINE Py_ssize_t lumijit_address(PyObject* node) {
        return (Py_ssize_t)node;
    }
    """
    cpdef object ref "lumijit_ref" (object node)
    cpdef object referent "lumijit_referent" (object reference)
    cpdef Py_ssize_t address "lumijit_address" (Node node)


cdef set unusual


cdef class Table:
    cdef public dict entries
    cdef public object limit

    cpdef Node find(self, object key)

    cpdef remember(self, object key, Node node)


@cython.locals(table=Table, node=Node)
cpdef Node find_root(object key, Op op)

@cython.locals(table=Table)
cpdef note_root(object key, Node node)

cpdef bint is_wanted() except -1

@cython.locals(node=Node)
cdef bint _is_alive(object entry)

cdef Py_ssize_t _LIST_LENGTH
cdef Py_ssize_t _INDEX_BITS
cdef size_t _FACTOR
cdef size_t _MOST

@cython.locals(a=Node, b=Node, dep=Node, index=Py_ssize_t, mixed=size_t)
cdef object _key(Node host, Op op, DType dtype, tuple deps, object attr)

@cython.locals(home=Scope, inner=Scope)
cpdef bint is_visible(Node node, Scope scope)

@cython.locals(node=Node, table=Table)
cpdef Node find(Node host, Op op, DType dtype, tuple deps, object attr, Scope scope)

@cython.locals(node=Node, deps=tuple, table=Table, index=Py_ssize_t, key=Py_ssize_t)
cpdef Node find_binary(Node host, Op op, Node a, Node b, Scope scope)

cdef bint _is_equal(
    Node node, Op op, DType dtype, tuple deps, object attr, Scope scope
)

@cython.locals(table=Table, entries=list, node=Node)
cpdef note(Node host, Node made)
