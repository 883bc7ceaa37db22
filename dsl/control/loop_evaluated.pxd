cimport cython

from lumijit.compiler.derive.isolation cimport select_tracked
from lumijit.compiler.ir.nodes cimport Node
from lumijit.compiler.ir.trace cimport current_mask, emit2
from lumijit.compiler.launch.evaluate cimport evaluate
from lumijit.compiler.record.reductions cimport is_any_set
from lumijit.control.held_arrays cimport Held
from lumijit.control.owners cimport Owners
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
from lumijit.control.twins cimport common_twins
from lumijit.pytree cimport Parts, copied
from lumijit.runtime.contexts cimport apart, on_error
from lumijit.standing cimport like


cdef class EvaluatedLoop:
    cdef public object cond
    cdef public object body
    cdef public object labels
    cdef public object name
    cdef public object strict
    cdef public Py_ssize_t size
    cdef public bint has_single
    cdef public object mask_type
    cdef public dict sources
    cdef public dict returned
    cdef public object repeated
    cdef public Py_ssize_t iteration
    cdef public set changed
    cdef public Owners flat
    cdef public Owners nested
    cdef public object rest

    @cython.locals(node=Node)
    cpdef Node _condition(self, object state)

    cpdef object _check_progress(self, Node condition)

    @cython.locals(outer=Node, following=Node)
    cpdef tuple _turn(self, object state, Node active)

    @cython.locals(following=Node)
    cpdef Node _next_active(self, object state, Node active)

    @cython.locals(parts=Parts)
    cpdef object _evaluate(self, object state, Node active)

    @cython.locals(
        old=Parts, copies=Parts, new=Parts, held=Held, nodes=list, merged=list,
        results=list, known=dict, twins=dict, k=Py_ssize_t, node=Node,
    )
    cpdef object _step(self, object state, Node active)

    @cython.locals(blended=Node, old=Node, new=Node)
    cpdef object _merge(
        self, Node active, object name, object before, object value, Node node
    )
