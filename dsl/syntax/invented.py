"""Names that rewriting invents."""

from typing import Final

#: How all of them start.
PREFIX: Final = "_lj_"
#: The object that holds the runtime helpers.
RUNTIME: Final = PREFIX + "runtime"
#: Flag and value of an early return.
RETURNED: Final = PREFIX + "returned"
RESULT: Final = PREFIX + "result"
