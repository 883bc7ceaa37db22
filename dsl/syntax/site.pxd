from lumijit.syntax.object_state cimport ObjectState


cdef class SiteState(ObjectState):
    cdef public object _kept
    cdef public object attribute_labels
    cdef public object entries
    cdef public object labels
    cdef public object original
    cdef public object site
    cdef public object values
