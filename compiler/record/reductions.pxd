cimport cython

from lumijit.compiler.ir cimport trace
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.trace cimport from_buffer, literal
from lumijit.runtime.buffers cimport Buffer
from lumijit.runtime.dtypes cimport DType


@cython.locals(t=DType)
cpdef Node reduce(object op, Node node)

@cython.locals(t=DType)
cpdef Node reduce_symbolically(
    object op, Node node, object block=*, object inner=*
)
