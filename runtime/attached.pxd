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
