from lumijit.replay.playback cimport Recording


cdef class Entry:
    cdef public Recording recording
    cdef public object problem
    cdef public object reason
    cdef public list names
    cdef public object differentiated
    cdef public Py_ssize_t call_count


cpdef tuple context()
