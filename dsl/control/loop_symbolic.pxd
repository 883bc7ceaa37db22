cimport cython

from lumijit.compiler.ir.effects cimport Holder
from lumijit.compiler.ir.nodes cimport Node, Scope
from lumijit.control.aliases cimport Carried, Turn, besides, is_same
from lumijit.control.foresight cimport Knowledge
from lumijit.control.progress cimport check_progress
from lumijit.control.state cimport (
    call,
    check_contents,
    check_sizes,
    common_type,
    condition_node,
    contents,
    is_array,
    is_late,
    loose,
    node_in,
    node_of,
    of_entries,
    same_object,
)
from lumijit.pytree cimport Parts
from lumijit.runtime.contexts cimport apart, on_error
from lumijit.standing cimport like


cdef class SymbolicLoop(Knowledge):
    cdef public object body
    cdef public object bound
    cdef public object cond
    cdef public object contents
    cdef public object is_joining
    cdef public object joined
    cdef public object labels
    cdef public dict leaders
    cdef public object loose
    cdef public object mask_type
    cdef public object name
    cdef public object pointers
    cdef public dict replaced
    cdef public object stand_ins
    cdef public object strict

    @cython.locals(
        values=list, args=dict, known=dict, k=Py_ssize_t, first=Py_ssize_t, node=Node,
        size=Py_ssize_t,
    )
    cpdef tuple _arguments(self, Scope inner)

    @cython.locals(outputs=dict, news=list, k=Py_ssize_t, node=Node)
    cpdef dict _outputs(self, list given, Parts after, dict args, Scope inner)

    @cython.locals(node=Node)
    cpdef Node _array_leaf(self, Py_ssize_t k, Holder before, object value, Node arg)

    @cython.locals(finals=list, k=Py_ssize_t, first=Py_ssize_t)
    cpdef list _finals(self, list given, list after, dict results)

    @cython.locals(
        inner=Scope, before=dict, values=list, args=dict, given=Parts, after=Parts,
        state=tuple, cond_node=Node, leaves=list, outputs=dict, arg=Node, holds=Node,
        k=Py_ssize_t, nodes=dict, others=list, found=dict, finals=list, results=list,
        position=Py_ssize_t, turn=Turn,
    )
    cpdef tuple _attempt(self)
