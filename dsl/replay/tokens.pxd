cpdef object value_token(object value)

cpdef object object_token(object value)


cdef class Same:
    cdef readonly tuple member_of
    cdef readonly object value


cdef class Shape:
    cdef readonly tuple tokens
    cdef readonly Py_hash_t _hash
