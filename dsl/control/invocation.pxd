cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.control.results cimport Results
from lumijit.pytree cimport Parts


cdef class Invocation:
    cdef readonly Node active
    cdef readonly tuple arguments
    cdef readonly list callees
    cdef readonly Py_ssize_t count
    cdef readonly Node index
    cdef readonly bint is_flat
    cdef readonly Py_ssize_t lanes
    cdef readonly object loose
    cdef readonly object name
    cdef readonly object outside
    cdef readonly Parts parts
    cdef readonly Results results
    cdef readonly dict spans

    @cython.locals(
        arrays=list, before=list, versions=dict, kwargs=dict, copies=Parts, k=Py_ssize_t,
    )
    cpdef tuple _invoke(self, object callee, list values, object written)
