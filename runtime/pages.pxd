cdef class Block:
    cdef public object address
    cdef public Py_ssize_t capacity
    cdef public object claim
    cdef public object memory
    cdef public object size_class
    cdef public long long ticket
