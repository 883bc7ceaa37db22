cdef extern from *:
    """
    typedef int (*lumijit_invoker)(void*);

    /* What the function of this name in `pool` does, without ctypes and `struct`. */
    static int lumijit_invoke(
        PyObject* pool, PyObject* fn, Py_ssize_t size, PyObject* args, PyObject* started
    ) {
        static PyObject *known;
        static lumijit_invoker entry;
        static void *base;
        void *call[3], **block = call, *on_stack[64];
        PyObject *one;
        Py_ssize_t length = PyBytes_GET_SIZE(args);
        int is_run;
        if (pool != known) {
            PyObject *code = PyObject_GetAttrString(pool, "invoke_address");
            PyObject *words = code ? PyObject_GetAttrString(pool, "base") : NULL;
            if (words) {
                entry = (lumijit_invoker)PyLong_AsVoidPtr(code);
                base = PyLong_AsVoidPtr(words);
            }
            Py_XDECREF(code);
            Py_XDECREF(words);
            if (PyErr_Occurred()) return -1;
            Py_XSETREF(known, Py_NewRef(pool));
        }
        call[0] = base;
        call[1] = PyLong_AsVoidPtr(fn);
        call[2] = (void*)size;
        if (PyErr_Occurred()) return -1;
        block = on_stack;
        if (length + sizeof(call) > sizeof(on_stack)) {
            block = (void**)PyMem_Malloc(length + sizeof(call));
            if (!block) { PyErr_NoMemory(); return -1; }
        }
        memcpy(block, call, sizeof(call));
        memcpy(block + 3, PyBytes_AS_STRING(args), length);
        is_run = entry(block) == 1;
        if (block != on_stack) PyMem_Free(block);
        if (is_run) {
            one = PyLong_FromLong(1);
            is_run = PyList_Append(started, one) ? -1 : 1;
            Py_DECREF(one);
        }
        return is_run;
    }

    /* The same of `holding`. No signal is handled between these calls. */
    static PyObject* lumijit_holding(
        PyObject* lock, PyObject* function, PyObject* argument
    ) {
        static PyObject *acquire, *release;
        PyObject *held, *result, *type, *value, *trace;
        if (!acquire) {
            acquire = PyUnicode_InternFromString("acquire");
            release = PyUnicode_InternFromString("release");
        }
        if (!(held = PyObject_CallMethodNoArgs(lock, acquire))) return NULL;
        Py_DECREF(held);
        result = PyObject_CallOneArg(function, argument);
        PyErr_Fetch(&type, &value, &trace);
        held = PyObject_CallMethodNoArgs(lock, release);
        if (!held) {
            Py_CLEAR(result);
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(trace);
            return NULL;
        }
        Py_DECREF(held);
        PyErr_Restore(type, value, trace);
        return result;
    }
    """
    cpdef object holding "lumijit_holding" (
        object lock, object function, object argument
    )
    cpdef bint invoke "lumijit_invoke" (
        object pool, object fn, Py_ssize_t size, bytes args, list started
    ) except -1


cdef class _Tickets:
    cdef public long long[::1] words


cdef _Tickets _tickets
cdef Py_ssize_t _COMPLETED

cpdef bint run_inline(
    object fn_address, bytes args, object size, list started=*
) except -1

cpdef object sync()

cpdef object last_ticket()

cpdef object completed_ticket()

cpdef bint is_idle() except -1

cpdef bint has_cancelled() except -1
