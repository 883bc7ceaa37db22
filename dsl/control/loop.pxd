from lumijit.control.state cimport (
    by_lane,
    call,
    check_depth,
    check_labels,
    check_mode,
    is_array,
)
from lumijit.runtime.contexts cimport apart
