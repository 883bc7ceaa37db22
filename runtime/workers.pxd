cpdef bint run_inline(
    object fn_address, bytes args, object size, list started=*
) except -1

cpdef object last_ticket()

cpdef object completed_ticket()

cpdef bint has_cancelled() except -1
