# Names what it calls in C.
from lumijit.control.state cimport by_lane, is_array, known_condition, node_of
