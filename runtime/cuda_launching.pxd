cdef extern from *:
    """
    typedef uint64_t (*lumijit_launcher)(void*, uint64_t, void*, void*);

    /* `_called`, without ctypes; others run meanwhile, as the driver may wait. */
    static PyObject* lumijit_called(
        PyObject* function, PyObject* entry, PyObject* jobs, uint64_t count,
        PyObject* data, PyObject* place
    ) {
        lumijit_launcher start = (lumijit_launcher)PyLong_AsVoidPtr(entry);
        void *fixed = PyLong_AsVoidPtr(place);
        void *words = PyBytes_AS_STRING(jobs), *slots = PyBytes_AS_STRING(data);
        uint64_t done;
        if (PyErr_Occurred()) return NULL;
        Py_BEGIN_ALLOW_THREADS
        done = start(words, count, slots, fixed);
        Py_END_ALLOW_THREADS
        return PyLong_FromUnsignedLongLong(done);
    }
    """
    cpdef object called "lumijit_called" (
        object function, object entry, bytes jobs, unsigned long long count,
        bytes data, object place
    )
