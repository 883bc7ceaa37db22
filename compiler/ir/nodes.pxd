cimport cython

from lumijit.compiler.ir.ops.record cimport Op
from lumijit.runtime.dtypes cimport DType


@cython.freelist(1024)
cdef class Node:
    cdef object __weakref__
    cdef public Op op
    cdef public DType type
    cdef public Py_ssize_t size
    cdef public tuple deps
    cdef public object attr
    cdef public object buffer
    cdef public Scope scope
    cdef public object uses
    cdef public object vertex
    cdef public tuple range
    cdef public Py_ssize_t walk
    cdef public Py_ssize_t number


cdef class Scope:
    cdef public Scope parent
    cdef public object label
    cdef public object width
    cdef public Py_ssize_t elements
    cdef public Py_ssize_t depth
    cdef public list effects
    cdef public dict writes
    cdef public dict locals
    cdef public dict widths
    cdef public bint is_loop
    cdef public object bound
    cdef public object part
    cdef public dict reads
    cdef public dict tables
    cdef public set indexed
    cdef public dict claimed
    cdef public tuple arguments


cdef class _Interruptions:
    cdef public Py_ssize_t count
    cdef public Py_ssize_t depth
    cdef public Py_ssize_t most


cdef object _walks

cpdef Py_ssize_t begin_walk() except -1

@cython.locals(walk=Py_ssize_t, node=Node)
cpdef Py_ssize_t begin_walk_after(object done) except -1
