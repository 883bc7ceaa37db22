from lumijit.compiler.ir cimport ranges, trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.runtime.dtypes cimport DType


cpdef Node quotient(Node a, Node b)

cpdef Node remainder(Node a, Node b)

cdef Node _divide_by_multiplying(Node n, object divisor)

cdef bint _is_power(DType t, object divisor)

cdef Node _shift_right(Node node, object amount)

cdef Node _int(DType t, object value)
