from lumijit.runtime.contexts cimport Attempt, on_error, running_attempt
from lumijit.syntax.handed cimport Handed
from lumijit.syntax.running cimport Running


cdef class ObjectState:
    cdef public Handed handed
    cdef public object _is_exchanged
    cdef public object _is_loop
    cdef public object _lineage
    cdef public object _where
    cdef public tuple before
    cdef public tuple slots
    cdef public object watch

    cpdef belong_to(self, object where, object is_loop)

    cpdef tuple values_apart(self)

    cpdef tuple still(self)

    cpdef list still_labels(self)

    cpdef tuple take_still(self, tuple values, Py_ssize_t count)

    cpdef bring_back(self, object name, object value)

    cpdef run(
        self, object function, object args, object part, object names, object left=*,
        bint is_still=*,
    )

    cpdef standing_in(self, object args)

    cpdef tuple read(self)

    cpdef write(self, object values)

    cpdef finish(self, object values)
