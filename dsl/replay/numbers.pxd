cimport cython


@cython.locals(values=list, index=Py_ssize_t)
cpdef object _computed(list steps, dict guards, list inputs, object entry=*)
