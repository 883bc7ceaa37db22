cimport cython

from lumijit.compiler.ir cimport trace, vertices
from lumijit.compiler.ir.effects cimport wrap
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.vertices cimport Vertex
from lumijit.pytree cimport Parts
from lumijit.runtime cimport buffers, workers
from lumijit.runtime.buffers cimport Buffer
from lumijit.runtime.replay cimport Replay


cdef class Recording:
    cdef public Replay replay
    cdef public list slots
    cdef public object arithmetic
    cdef public list nodes
    cdef public Parts parts
    cdef public list leaves
    cdef public list puts
    cdef public list changed
    cdef public list gradients
    cdef public list reports
    cdef public object _compute
    cdef public list _nodes
    cdef public list _leaves

    @cython.locals(nodes=list)
    cpdef tuple played(self, list arrays, list inputs, object numbers_now, object place)

    cpdef list stored(self, list numbers)

    @cython.locals(node=Node, buffer=Buffer, found=list)
    cpdef tuple addresses(self, list inputs, list stored)

    @cython.locals(node=Node, same=Node)
    cpdef list _made(self, list inputs, list outputs, list stored)

    @cython.locals(before=list, grads=list, vertex=Vertex)
    cpdef _leave(self, object place, list inputs, list arrays, list nodes, list values)


cdef list _leaves_of(
    list rows, list nodes, list arrays, list numbers, object place
)
