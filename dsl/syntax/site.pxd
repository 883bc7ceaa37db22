from lumijit.syntax.object_state cimport ObjectState


cdef class SiteState(ObjectState):
    cdef public list _kept
    cdef public tuple attribute_labels
    cdef public tuple entries
    cdef public tuple labels
    cdef public dict original
    cdef public object site
    cdef public tuple values
