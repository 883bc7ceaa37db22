"""What has to happen before anything else of lumijit is imported."""

from __future__ import annotations

# (Chooses between compiled modules and their sources.)
from lumijit.runtime import compiled as compiled
from lumijit.runtime.collector import IMPORTED_OBJECTS, relax

relax(IMPORTED_OBJECTS)
