# Names the class whose methods functions call in C.
from lumijit.syntax.site cimport SiteState
