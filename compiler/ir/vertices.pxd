cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.value_numbering cimport ref
from lumijit.runtime.buffers cimport ReferenceType
from lumijit.runtime.contexts cimport is_new
from lumijit.runtime.dtypes cimport DType


@cython.freelist(1024)
cdef class Vertex:
    cdef object __weakref__
    cdef public object op
    cdef public tuple deps
    cdef public tuple inputs
    cdef public object attr
    cdef public DType type
    cdef public Py_ssize_t size
    cdef public object serial
    cdef public object grad
    cdef public Scope scope
    cdef public object result
    cdef public list users
    cdef public object mode
    cdef public object where

    cpdef cut(self, bint is_sure)

    cpdef will_change(self)

    cpdef give(self, object gradient)


cdef class _VariableRef(ReferenceType):
    cdef public object serial


@cython.locals(variable=_VariableRef)
cpdef keep_gradient(Vertex vertex)

@cython.locals(
    made=Vertex, own=object, dep=Node, operand=Vertex, users=list, position=Py_ssize_t,
    count=Py_ssize_t,
)
cpdef Vertex new_vertex(Node node, object op, tuple deps, tuple inputs, object attr=*)

@cython.locals(vertex=Vertex, dep=Node, inputs=list)
cpdef Vertex track(Node node, object op, tuple deps, object attr=*)

cpdef bint is_tracked(Node node) except -1

@cython.locals(vertex=Vertex, inner=Py_ssize_t)
cpdef bint _are_outermost(dict found) except -1

@cython.locals(op=Op)
cpdef bint note(Node node) except -1
