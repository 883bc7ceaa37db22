cimport cython

from lumijit.compiler.ir.nodes cimport Node


cpdef bint in_use() except -1

cpdef Py_ssize_t access_of(Node node) except -1

@cython.locals(found=list, node=Node, serial=Py_ssize_t)
cpdef list accesses(object nodes)

cpdef bint is_local(Node node) except -1
