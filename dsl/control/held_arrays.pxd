cimport cython

from lumijit.compiler.ir.effects cimport Holder
from lumijit.pytree cimport Parts


cdef class Held:
    cdef readonly dict flat
    cdef readonly dict items
    cdef readonly dict nested
    cdef readonly dict nodes
    cdef readonly Parts parts

    cpdef remember(self)

    @cython.locals(other=Held)
    cpdef Held again(self)

    @cython.locals(array=Holder)
    cpdef dict current_nodes(self)

    cpdef dict current_items(self)

    cpdef set changed(self, dict nodes, dict items)

    cpdef put(self, dict items)

    cpdef follow(self, dict versions)

    @cython.locals(array=Holder)
    cpdef restore(self)
