cimport cython

from lumijit.compiler.ir.effects cimport Holder
from lumijit.control.locations cimport Location


cdef class Reach:
    cdef public list constants
    cdef public object own
    cdef public list places
    cdef public list arrays
    cdef public list nodes
    cdef public list holders
    cdef public list functions
    cdef public set seen
    cdef public set state
    cdef public set _arguments
    cdef public list met
    cdef public object is_shared
    cdef public object watches_contents
    cdef public object _known
    cdef public object modules
    cdef public set _namespaces
    cdef public set _mentioned
    cdef public object _may_mention_any
    cdef public dict _methods
    cdef public dict _looks
    cdef public Py_ssize_t _followed
    cdef public list _left_out
    cdef public dict _plain

    @cython.locals(place=Location)
    cpdef list changed(self, object span)

    cpdef _visit(self, object value, object parent, object label)
