cimport cython

from lumijit.runtime.buffers cimport Buffer


cdef extern from "Python.h":
    ctypedef class weakref.ReferenceType [object PyWeakReference]:
        pass


cdef class DeviceBuffer(Buffer):
    cdef public object device


cdef class _Claim(ReferenceType):
    cdef public object address
    cdef public object owner
    cdef public object size_bytes


cdef class Rooms:
    cdef public dict claims
    cdef public object dead
    cdef public object mourn
    cdef public dict _free
    cdef public Py_ssize_t _free_bytes
    cdef public Py_ssize_t _most_bytes

    @cython.locals(kept=list)
    cpdef object taken(self, object size_bytes)

    @cython.locals(kept=list, total=Py_ssize_t)
    cpdef bint keep(self, object address, object size_bytes) except -1

    cpdef list emptied(self)

    @cython.locals(made=DeviceBuffer)
    cpdef DeviceBuffer buffer(self, object device, object address, object size_bytes)

    @cython.locals(claim=_Claim)
    cpdef DeviceBuffer claimed(self, DeviceBuffer buffer, object room)


cdef dict listening
