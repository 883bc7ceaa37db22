from lumijit.control.branch_sides cimport Sides


cdef class _Branch(Sides):
    pass
