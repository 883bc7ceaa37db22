cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.trace cimport from_buffer, literal
from lumijit.compiler.record cimport glances
from lumijit.runtime.buffers cimport Buffer
from lumijit.runtime.dtypes cimport DType
from lumijit.runtime.workers cimport sync


cdef dict away

cpdef Buffer evaluated(Node node)

cpdef bint is_any_set(Node mask) except -1

@cython.locals(t=DType)
cpdef Node reduce(object op, Node node)

@cython.locals(t=DType)
cpdef Node reduce_symbolically(
    object op, Node node, object block=*, object inner=*
)
