cimport cython

from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.compiler.ir.ops.record cimport Op
from lumijit.compiler.ir.region_types cimport Block, Region


cdef class _Copier:
    cdef public object singled
    cdef public dict copies
    cdef public dict origins
    cdef public dict scopes
    cdef public dict shared
    cdef public list used

    @cython.locals(node=Node)
    cpdef object program(self, object original)

    @cython.locals(found=Scope)
    cpdef Scope _scope(self, Scope original)

    @cython.locals(made=Node)
    cpdef Node _make(self, Node node, tuple deps, object attr)

    cpdef bint _is_split(self, Node node) except -1

    @cython.locals(fresh=Node, used=dict)
    cpdef Node operand(self, Node node, object use=*)

    @cython.locals(found=Node, made=Node, op=Op, deps=list, k=Py_ssize_t, dep=Node)
    cpdef Node copy(self, Node node)

    @cython.locals(old=Region, d=Node, a=Node)
    cpdef Node _region(self, Node node)

    @cython.locals(n=Node)
    cpdef object _block(self, object block)


cdef class _Match:
    cdef public dict images
    cdef public list stack

    cpdef bint pairs(self, object ours, object theirs) except -1

    @cython.locals(ours=Node, theirs=Node)
    cpdef bint run(self) except -1

    @cython.locals(op=Op)
    cpdef bint _fits(self, Node ours, Node theirs) except -1


cdef class Selection:
    cdef readonly object count
    cdef readonly tuple picks
    cdef readonly tuple numbers
