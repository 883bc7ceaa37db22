cimport cython

from lumijit.compiler.ir.nodes cimport _Interruptions


cdef class Built:
    cdef public object kernel
    cdef public object hash
    cdef public object pack
    cdef public object operation_count
    cdef public Py_ssize_t cost
    cdef public bint has_loops
    cdef public Py_ssize_t small_size
    cdef public bint is_hit
    cdef public bint is_disk_hit
    cdef public object codegen_us
    cdef public object backend_us
    cdef public object reason
    cdef public object ir
    cdef public object scratch_bytes
    cdef public Py_ssize_t last_used


cdef set unusual
cdef _Interruptions interruptions

@cython.locals(built=Built, known=dict)
cpdef Built find(object key)
