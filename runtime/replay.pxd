cimport cython

from lumijit.runtime cimport buffers, workers
from lumijit.runtime.buffers cimport Buffer


cdef extern from *:
    """
    /* `_added`, for arrays of 8-byte words and of indices (`intp`). */
    static PyObject* lumijit_added(
        PyObject* words, PyObject* positions, PyObject* sources, PyObject* known
    ) {
        Py_buffer views[3];
        PyObject *arrays[3] = {words, positions, sources}, *made = NULL;
        Py_ssize_t k, count = 0;
        uint64_t* found;
        for (; count < 3; count++)
            if (PyObject_GetBuffer(arrays[count], &views[count], PyBUF_SIMPLE))
                goto done;
        made = PyBytes_FromStringAndSize((char*)views[0].buf, views[0].len);
        if (!made) goto done;
        found = (uint64_t*)PyBytes_AS_STRING(made);
        for (k = 0; k < views[1].len / (Py_ssize_t)sizeof(Py_ssize_t); k++) {
            Py_ssize_t at = ((Py_ssize_t*)views[1].buf)[k];
            Py_ssize_t source = ((Py_ssize_t*)views[2].buf)[k];
            uint64_t value = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(known, source));
            if (value == (uint64_t)-1 && PyErr_Occurred()) {
                Py_CLEAR(made);
                break;
            }
            found[at] += value;
        }
    done:
        while (count) PyBuffer_Release(&views[--count]);
        return made;
    }
    """
    cpdef bytes added "lumijit_added" (
        object words, object positions, object sources, list known
    )


cdef class Replay:
    cdef public list sizes
    cdef public list memory
    cdef public list contents
    cdef public list tables
    cdef public list stops
    cdef public list steps
    cdef public object template
    cdef public object device
    cdef public list batches
    cdef public dict planned

    cpdef list run(self, list inputs)


cdef class Run:
    cdef public Replay _replay
    cdef public list outputs
    cdef public list _known
    cdef public list _tables
    cdef public bytes _data
    cdef public bint _is_told
    cdef public Py_ssize_t _next

    @cython.locals(first=Py_ssize_t, stop=Py_ssize_t, at=Py_ssize_t)
    cpdef go(self, Py_ssize_t end)


cdef class AwayRun:
    cdef public Replay _replay
    cdef public object _device
    cdef public list outputs
    cdef public list _known
    cdef public list _tables
    cdef public bytes _data
    cdef public Py_ssize_t _next

    cpdef go(self, Py_ssize_t end)
