cimport cython


cdef class Built:
    cdef public object kernel
    cdef public object hash
    cdef public object pack
    cdef public object operation_count
    cdef public object cost
    cdef public bint has_loops
    cdef public bint is_hit
    cdef public bint is_disk_hit
    cdef public object codegen_us
    cdef public object backend_us
    cdef public object reason
    cdef public object ir
    cdef public object scratch_bytes
    cdef public object last_used


cdef set unusual

@cython.locals(built=Built, known=dict)
cpdef Built find(object key)
