cimport cython

from lumijit.compiler.ir.nodes cimport Node
from lumijit.control.state cimport node_of
from lumijit.control.twins cimport twins
from lumijit.pytree cimport Parts


cdef class Start:
    cdef readonly list kinds
    cdef readonly Py_ssize_t size
    cdef readonly dict twins


@cython.locals(kinds=list, size=Py_ssize_t, node=Node)
cpdef Start start_of(object leaves, Py_ssize_t width, dict twins)


cdef class Findings:
    cdef readonly Start start
    cdef readonly dict sizes
    cdef readonly set constant
    cdef readonly set variable
    cdef readonly set indexed
    cdef readonly dict numbers
    cdef readonly set written
    cdef readonly dict widths

    cpdef tuple sizes_for(self, Start start)


cdef class Knowledge:
    cdef public object _first
    cdef public object _memory
    cdef public Start _start
    cdef public set constant
    cdef public Findings foreseen
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
