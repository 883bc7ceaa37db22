cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.pytree cimport Parts


cdef class Start:
    cdef readonly list kinds
    cdef readonly Py_ssize_t size


@cython.locals(kinds=list, size=Py_ssize_t, node=Node)
cpdef Start start_of(object leaves, Py_ssize_t width)


cdef class Knowledge:
    cdef public object _first
    cdef public object _memory
    cdef public Start _start
    cdef public set constant
    cdef public object foreseen
    cdef public dict found_widths
    cdef public object grown
    cdef public set indexed
    cdef public dict numbers
    cdef public Parts parts
    cdef public dict separate
    cdef public dict sizes
    cdef public dict twins
    cdef public set variable
    cdef public object width
    cdef public dict widths
    cdef public set written
