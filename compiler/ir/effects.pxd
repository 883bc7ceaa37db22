cimport cython

from lumijit.compiler.ir.nodes cimport Node


cdef extern from *:
    """
    static CYTHON_INLINE PyObject* lumijit_new_holder(PyObject* cls) {
        PyTypeObject* type = (PyTypeObject*)cls;
        PyObject* nothing = PyTuple_New(0);
        PyObject* made = nothing ? type->tp_new(type, nothing, NULL) : NULL;
        Py_XDECREF(nothing);
        return made;
    }
    """
    cpdef object new_holder "lumijit_new_holder" (object cls)


cdef class Holder:
    cdef public Node _node


cdef class Reduction:
    cdef readonly object op
    cdef readonly object mode
    cdef readonly object group
    cdef readonly object matrix


cpdef Node held(Holder holder)

cpdef object wrap(object cls, Node node)

@cython.locals(before=Node)
cpdef bint joins(Node node) except -1
