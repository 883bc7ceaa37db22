# Numbers are Python's, as shifts by them and products of them must not overflow.
cdef class DType:
    cdef public object _c_type
    cdef readonly object bits
    cdef readonly object index
    cdef readonly bint is_bool
    cdef public bint is_differentiable
    cdef readonly bint is_float
    cdef readonly bint is_int
    cdef readonly bint is_signed
    cdef readonly object llvm
    cdef readonly object memory_llvm
    cdef readonly object name
    cdef readonly object numpy
    cdef readonly object packed
    cdef readonly object short
    cdef readonly object size_bytes
