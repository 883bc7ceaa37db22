cimport cython


cdef class Owners:
    cdef readonly list arrays
    cdef readonly set changed
    cdef readonly list home
    cdef readonly dict moved
    cdef readonly list own
    cdef public list pattern
    cdef public bint has_moved

    @cython.locals(places=list, arrays=list, k=Py_ssize_t, j=Py_ssize_t)
    cpdef list note(self, list given, set changed)

    cpdef list moved_from(self, object array)

    @cython.locals(k=Py_ssize_t)
    cpdef bint are_leaving(self, list given, list after) except -1

    @cython.locals(
        places=dict, made=dict, arrays=list, home=list, kept=list, ids=set, own=set, is_plain=bint,
        found=Owners, k=Py_ssize_t,
    )
    cpdef Owners after(self, list given, list after)
