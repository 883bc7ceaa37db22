cimport cython

from lumijit.compiler.ir.vertices cimport Vertex


@cython.locals(vertex=Vertex, parent=Vertex, into=dict, interior=set, k=Py_ssize_t)
cpdef _backward(dict found, object clearing)
