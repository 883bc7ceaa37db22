cimport cython

from lumijit.replay cimport entries
from lumijit.replay.entries cimport Entry
from lumijit.replay.inputs cimport Arguments, Call
from lumijit.replay.playback cimport Recording
from lumijit.replay.surroundings cimport Surroundings


cdef class Recordings:
    cdef public object name
    cdef public object function
    cdef public object _reached_from
    cdef public object _static
    cdef public object _has_breaks
    cdef public tuple _limits
    cdef public object _signature
    cdef public dict _labels
    cdef public set _unnamed
    cdef public object _entries
    cdef public object _surroundings
    cdef public list _history
    cdef public tuple _latest_key
    cdef public list _latest
    cdef public object _passing
    cdef public object _passing_count

    @cython.locals(call=Call, key=tuple, entry=Entry, recording=Recording, found=list)
    cpdef object called(self, tuple args, dict kwargs)

    @cython.locals(recording=Recording)
    cpdef object _note_replay(self, Entry entry, Surroundings surroundings)

    cpdef Call inputs(self, tuple args, dict kwargs)

    cpdef tuple _names(self, Py_ssize_t count)

    @cython.locals(found=Surroundings)
    cpdef Surroundings _surroundings_of(self, list objects)

    cpdef tuple _key(self, Call call)


cpdef bint is_replayable() except -1
