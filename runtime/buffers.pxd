cimport cython

from lumijit.runtime cimport memmove
from lumijit.runtime.pages cimport Block
from lumijit.runtime.workers cimport _Tickets


cdef extern from "Python.h":
    ctypedef class weakref.ReferenceType [object PyWeakReference]:
        pass


cdef class _Statistics:
    cdef public Py_ssize_t taken_bytes
    cdef public Py_ssize_t live_bytes
    cdef public Py_ssize_t peak_bytes
    cdef public Py_ssize_t foreign_bytes
    cdef public Py_ssize_t allocation_count


cdef class _Written:
    cdef public Py_ssize_t size_bytes
    cdef public object ticket


@cython.freelist(256)
cdef class Buffer:
    cdef object __weakref__
    cdef public object address
    cdef public object size_bytes
    cdef public object ticket
    cdef public Block _block
    cdef public object _hook
    cdef public object _owner


cdef class _Claim(ReferenceType):
    cdef public Block block
    cdef public object key
    cdef public object owner
    cdef public object size_bytes


cdef _Tickets tickets

@cython.locals(block=Block, claim=_Claim, statistics=_Statistics)
cpdef _collect(object _buffer=*)

@cython.locals(
    buffer=Buffer, block=Block, claim=_Claim, free=list, fitting=dict,
    statistics=_Statistics, live=Py_ssize_t,
)
cpdef Buffer allocate(object size_bytes, bint is_for_host=*)

@cython.locals(free=list, completed=Py_ssize_t, k=Py_ssize_t, block=Block)
cpdef bint _prefer_idle(object free) except -1

@cython.locals(buffer=Buffer, size_bytes=Py_ssize_t)
cpdef Buffer filled(object data)
