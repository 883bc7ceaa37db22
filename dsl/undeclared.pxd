cpdef dict slots_of(object cls)

cpdef dict undeclared(object value, object fields)

cpdef bring(object result, object like, object fields)
