cimport cython

from lumijit.compiler.ir.effects cimport Holder
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.vertices cimport Vertex
from lumijit.compiler.launch cimport evaluate
from lumijit.pytree cimport Parts
from lumijit.replay.surroundings cimport Surroundings
from lumijit.replay.tokens cimport object_token, value_token


cdef class Arguments:
    cdef public Parts parts
    cdef public list arrays
    cdef public list numbers
    cdef public list objects
    cdef public list containers
    cdef public list is_static
    cdef public tuple key


cdef class Call:
    cdef public object name
    cdef public object _function
    cdef public tuple _keywords
    cdef public Arguments arguments
    cdef public Surroundings surroundings
    cdef public list arrays
    cdef public list numbers
    cdef public list inputs
    cdef public object device
    cdef public bint has_several_devices

    cpdef tuple key(self)


@cython.locals(node=Node, k=Py_ssize_t, memory=set, is_simple=bint, tokens=list)
cpdef tuple array_tokens(list arrays, list nodes)

@cython.locals(array=Holder, node=Node, vertex=Vertex)
cpdef list as_inputs(list arrays)
