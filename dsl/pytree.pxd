cimport cython

from lumijit.undeclared cimport bring


cdef class Kind:
    cdef readonly object cls
    cdef readonly bint is_array

    cpdef object keys(self, object value)

    cpdef object parts(self, object value, object keys)

    cpdef object build(self, object like, object keys, list items)

    cpdef str step(self, object key)


cdef class _Tuples(Kind):
    pass


cdef class _NamedTuples(Kind):
    pass


cdef class _Dicts(Kind):
    pass


cdef class _Structs(Kind):
    pass


cdef class _Dataclasses(_Structs):
    cdef tuple _names


cdef class _Tensors(_Structs):
    pass


cdef class _Nested(Kind):
    pass


@cython.locals(kind=Kind)
cpdef Kind container_kind(object value)

@cython.locals(kind=Kind)
cpdef copied(object value, dict known=*)


cdef class Parts:
    cdef public object values
    cdef public list leaves
    cdef public list nested
    cdef public list items
    cdef public object _labels
    cdef public list outline
    cdef public list containers

    @cython.locals(kind=Kind)
    cpdef _take(self, object values, Py_ssize_t depth)

    cpdef bint is_same(self, Parts other) except -1

    cpdef bint is_like(self, Parts other) except -1

    cpdef list same_nested(self, Parts other)

    cpdef tuple together(self, object leaves, object kept=*)


@cython.locals(kind=Kind)
cpdef list _together(
    Py_ssize_t count, object marks, object containers, object leaves, object kept,
    dict known,
)
