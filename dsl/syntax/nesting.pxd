cpdef Py_ssize_t depth_of(object site, object running) except -1
