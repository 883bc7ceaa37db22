cimport cython


cdef class Entry:
    cdef public object _ident
    cdef public object _outer
    cdef public dict _table
    cdef public object _value

    cpdef _put(self, object value)


cdef class _Construct:
    cdef public object attempt
    cdef public object began
    cdef public list undo
    cdef public dict before

    cpdef unwind(self)

    cpdef end(self, _Construct outer)


@cython.locals(known=_Construct)
cpdef bint is_new(object serial) except -1

@cython.locals(known=_Construct)
cpdef on_error(object undo)

@cython.locals(known=_Construct)
cpdef settle(object undo)

@cython.locals(outer=_Construct, construct=_Construct)
cpdef apart(
    object function, tuple args=*, object variable=*, object value=*,
    object attempt=*,
)


cdef class Attempt:
    cdef public Attempt _outer
    cdef public list _waiting

    cpdef carry_out(self)

    cpdef keep(self)


@cython.locals(known=_Construct)
cpdef Attempt running_attempt()
