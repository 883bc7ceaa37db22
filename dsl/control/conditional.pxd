from lumijit.control.branch_sides cimport Merge, Sides


cdef class _Branch(Sides):
    pass
