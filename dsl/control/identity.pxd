cimport cython

from lumijit.control.state cimport is_array
from lumijit.pytree cimport Kind, Parts, container_kind


cpdef dict objects_in(object value)

cpdef _collect(object value, Kind kind, tuple path, dict found)

cpdef dict moment(object value)

cpdef list _nodes_in(object entry)

@cython.locals(kind=Kind, items=list, k=Py_ssize_t)
cpdef brought_back(object new, dict originals, tuple path=*)
