cdef class Operands:
    cdef readonly slice values
    cdef readonly slice sources
    cdef readonly slice targets
    cdef readonly slice reads
    cdef readonly bint writes


cdef class NotDifferentiable:
    cdef readonly object why


cdef class Op:
    cdef readonly object name
    cdef readonly object arity
    cdef readonly object accepts
    cdef readonly object result
    cdef readonly object reference
    cdef readonly object lower
    cdef readonly bint commutative
    cdef readonly bint own_rounding
    cdef readonly object doc
    cdef readonly object cost
    cdef readonly object roles
    cdef readonly Operands operands
    cdef readonly object results
    cdef readonly bint is_ordered
    cdef public object derivative
    cdef readonly object index
