from lumijit.runtime cimport workers


cdef dict away
cdef dict listening
cdef set unusual

cpdef start(
    object kernel, object args, object size, object block_size, bint is_inline,
    object writes, object report, object summary, object subject, object started=*,
    object barrier=*, object is_helpable=*, object slots=*,
)
