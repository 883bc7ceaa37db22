from lumijit.control.sameness cimport are_same, have_same, same_items


cdef class Location:
    cdef public object before
    cdef public object label
    cdef public object owner
    cdef public object parent

    cpdef object held(self, object key)
    cpdef bint is_same(self) except -1


cdef class _Mapping(Location):
    cdef public object space


cdef class Attributes(_Mapping):
    cdef public object kind


cdef class Entries(_Mapping):
    pass


cdef class SlotLocations(Location):
    cdef public object names


cdef class ClassAttributes(Location):
    cdef public Py_ssize_t made


cdef class Items(Location):
    pass


cdef class Components(Items):
    pass


cdef class Variable(Location):
    pass


cdef class Globals(_Mapping):
    cdef public object names


cdef class ContextValue(Location):
    pass
