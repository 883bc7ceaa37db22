# Names what of `bytecode` it calls in C.
from lumijit.control.bytecode cimport Inert
