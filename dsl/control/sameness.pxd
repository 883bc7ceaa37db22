cimport cython

cpdef bint are_same(object now, object before) except -1

@cython.locals(is_same=bint)
cpdef bint have_same(dict now, dict before, Py_ssize_t others) except -1

@cython.locals(k=Py_ssize_t, is_same=bint)
cpdef bint same_items(object a, object b) except -1
