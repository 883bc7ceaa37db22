"""The version of lumijit. (For that of its machine code see `environment`.)"""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
