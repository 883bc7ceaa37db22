cdef class Kind:
    cdef readonly object name
    cdef readonly object pattern
    cdef readonly tuple types
    cdef readonly bint is_special
    cdef readonly bint is_number
    cdef readonly bint is_dominant
    cdef readonly object holds
    cdef readonly object instead


cdef class ArraySpec:
    cdef readonly object backend
    cdef readonly bint is_diff
    cdef readonly object dtype
    cdef readonly tuple outer
    cdef readonly object kind
    cdef readonly bint is_jit
    cdef readonly bint is_instance
    cdef readonly tuple shape
    cdef public dict _copies

    cpdef ArraySpec plain(self)

    cpdef ArraySpec flat(self, object dtype)


cpdef object find(ArraySpec spec)
