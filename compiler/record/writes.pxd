from lumijit.compiler.ir.nodes cimport Node
from lumijit.runtime.contexts cimport on_error


cdef class Writes:
    cdef readonly object holder
    cdef readonly Node first
    cdef public Node last


cdef class watched:
    cdef object _found
