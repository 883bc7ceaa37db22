from lumijit.pytree cimport Parts


cdef class Results:
    cdef public object construct
    cdef public list entries
    cdef public object first
    cdef public bint has_containers
    cdef public object mask_type
    cdef public Parts parts

    cpdef bint is_like(self, object value) except -1

    cpdef enter_array(self, object value)
