# What compiled modules do in C in place of Python's objects of the same names. A module
# that cimports one of these has imported it from where it is Python; `workers` and
# `trace` have more.
cdef extern from *:
    """
    /* An attribute of a module; it is looked up once for each C file and never freed. */
    static PyObject* lumijit_attribute(const char* module, const char* name) {
        PyObject* found = PyImport_ImportModule(module);
        PyObject* value = found ? PyObject_GetAttrString(found, name) : NULL;
        Py_XDECREF(found);
        return value;
    }

    /* `delivery.waiting`, which remembers the thread that asked last. */
    static PyObject* lumijit_waiting(void) {
        static PyObject *function, *state;
        static uint64_t thread;
        uint64_t now = PyThreadState_GetID(PyThreadState_Get());
        if (!state || now != thread) {
            PyObject* found;
            if (!function)
                function = lumijit_attribute(
                    "lumijit.compiler.launch.delivery", "waiting");
            found = function ? PyObject_CallNoArgs(function) : NULL;
            if (!found) return NULL;
            Py_XSETREF(state, found);
            thread = now;
        }
        return Py_NewRef(state);
    }

    /* `ctypes.string_at`. */
    static PyObject* lumijit_string_at(PyObject* address, Py_ssize_t size) {
        void* found = PyLong_AsVoidPtr(address);
        return PyErr_Occurred() ? NULL : PyBytes_FromStringAndSize(found, size);
    }

    /* `ctypes.memmove`, from an address or bytes. */
    static PyObject* lumijit_memmove(PyObject* to, PyObject* from, Py_ssize_t size) {
        void* target = PyLong_AsVoidPtr(to);
        void* source = PyBytes_Check(from) ? PyBytes_AS_STRING(from)
                                           : PyLong_AsVoidPtr(from);
        if (PyErr_Occurred()) return NULL;
        if (size < 4096) {
            memmove(target, source, size);
        } else {
            Py_BEGIN_ALLOW_THREADS
            memmove(target, source, size);
            Py_END_ALLOW_THREADS
        }
        return Py_NewRef(to);
    }
    """
    cpdef bytes string_at "lumijit_string_at" (object address, Py_ssize_t size)
    cpdef object memmove "lumijit_memmove" (object to, object source, Py_ssize_t size)
    cpdef object waiting "lumijit_waiting" ()
