cdef class Parts:
    cdef public object values
    cdef public list leaves
    cdef public list nested
    cdef public list items
    cdef public object _labels
    cdef public list outline
    cdef public list containers

    cpdef _take(self, object values, Py_ssize_t depth)

    cpdef tuple together(self, object leaves, object kept=*)


cpdef list _together(
    Py_ssize_t count, object marks, object containers, object leaves, object kept,
    dict known,
)
