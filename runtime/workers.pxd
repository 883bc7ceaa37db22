cdef extern from *:
    """
    typedef int (*lumijit_invoker)(void*);

    /* What the function of this name in `pool` does, without ctypes and `struct`. */
    static int lumijit_invoke(
        PyObject* pool, PyObject* fn, Py_ssize_t size, PyObject* args, PyObject* started
    ) {
        static PyObject *entry_name, *base_name;
        lumijit_invoker entry = NULL;
        void *call[3], **block = call, *on_stack[64];
        PyObject *value, *one;
        Py_ssize_t length = PyBytes_GET_SIZE(args);
        int is_run;
        if (!entry_name) {
            entry_name = PyUnicode_InternFromString("invoke_address");
            base_name = PyUnicode_InternFromString("base");
        }
        if (!(value = PyObject_GetAttr(pool, entry_name))) return -1;
        entry = (lumijit_invoker)PyLong_AsVoidPtr(value);
        Py_DECREF(value);
        if (!(value = PyObject_GetAttr(pool, base_name))) return -1;
        call[0] = PyLong_AsVoidPtr(value);
        Py_DECREF(value);
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
    """
    cpdef bint invoke "lumijit_invoke" (
        object pool, object fn, Py_ssize_t size, bytes args, list started
    ) except -1


cpdef bint run_inline(
    object fn_address, bytes args, object size, list started=*
) except -1

cpdef object last_ticket()

cpdef object completed_ticket()

cpdef bint is_idle() except -1

cpdef bint has_cancelled() except -1
