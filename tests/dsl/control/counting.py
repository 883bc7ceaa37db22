"""Variables of a module that others change."""

from __future__ import annotations

from typing import Any

count: Any = 0
flag: Any = 0
