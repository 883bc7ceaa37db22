cimport cython

from lumijit.compiler.ir.nodes cimport Scope
from lumijit.compiler.record.bodies cimport Body
from lumijit.control.invocation cimport Invocation
from lumijit.control.results cimport Results


cdef class _Tracer:
    cdef readonly Invocation call
    cdef readonly Scope inner
    cdef readonly list bodies
    cdef readonly list callees
    cdef readonly list late
    cdef dict _pure
    cdef object _versions
    cdef bint _is_merging

    @cython.locals(
        call=Invocation, inner=Scope, results=Results, is_pure=bint, is_alike=bint,
        known=Body, body=Body,
    )
    cpdef trace(self, object callee)
