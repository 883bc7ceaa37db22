from lumijit.pytree cimport Parts


cpdef dict twins(Parts parts)

cpdef dict common_twins(Parts one, Parts other)
