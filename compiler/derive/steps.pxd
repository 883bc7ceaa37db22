from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.vertices cimport Vertex
from lumijit.runtime.dtypes cimport DType


cdef class Step:
    cdef public Vertex vertex
    cdef public dict images
    cdef public dict targets
    cdef public object wanted
    cdef public object op
    cdef public object attr
    cdef public Py_ssize_t size
    cdef public DType type
    cdef public tuple deps
    cdef public Node _result
