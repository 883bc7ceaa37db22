# Names what of `inert` it calls in C.
from lumijit.control.inert cimport Inert
