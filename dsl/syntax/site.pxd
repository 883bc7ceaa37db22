from lumijit.syntax.object_state cimport ObjectState


cdef class Plan:
    cdef readonly list goals
    cdef readonly tuple labels
    cdef readonly list outs


cdef class SiteState(ObjectState):
    cdef public tuple attribute_labels
    cdef public tuple entries
    cdef public tuple functions
    cdef public bint is_still
    cdef public bint is_test_still
    cdef public tuple kept
    cdef public Plan plan
    cdef public tuple labels
    cdef public object site
    cdef public tuple values

    cpdef list enter(self, object entries)

    cpdef test(self, object function, object entries)

    cpdef call(self, object function, object entries, object part)

    cpdef tuple final(self, object outs, object results)

    cpdef results(self)
