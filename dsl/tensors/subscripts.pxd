cimport cython

from lumijit.tensors.views cimport View


cpdef bint is_mask(object index, object depth=*) except -1

cpdef View select(object construct, object dtype, object sizes, object key)

cdef class _Selection:
    cdef public object construct
    cdef public object dtype
    cdef public object sizes
    cdef public object steps
    cdef public object start
    cdef public list runs
    cdef public list arrays
    cdef public list advanced
    cdef public object place

    @cython.locals(dots=list, k=Py_ssize_t, used=Py_ssize_t)
    cpdef list _expanded(self, tuple indices)

    cpdef View view(self, tuple indices)

    cpdef Py_ssize_t _count(self, object index) except -1

    cpdef object _take(self, object place, object index, object axis)
