"""Searches in ordered data.

What selects or compares entry by entry is in `selection`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.base import ArrayBase
from lumijit.functions.elementwise import minimum
from lumijit.functions.selection import select
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.type_traits import int32_array_t


def binary_search(start: int, end: int, pred: Callable[..., Any]) -> Any:
    """Find the first index at which a predicate doesn't hold any more.

    Args:
        start: the first index of the range.
        end: the last index of the range, which is returned if the predicate holds
            everywhere before it.
        pred: function from an index (a number at first, then an array of Int32) to
            a mask. Over the range it changes at most once, from true to false. It
            is asked `floor(log2(end - start)) + 1` times, for indices below `end`.

    Returns:
        The index: an array of Int32 if the predicate returns an array, else an int.

    Raises:
        ArrayValueError: if the range ends before it starts.

    Method: bisection with a fixed number of steps, which is unrolled.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> data, wanted = Float(0, 1, 1, 4, 9), Float(1, 4, 5, 100)
    >>> dr.binary_search(0, 5, lambda i: dr.gather(Float, data, i) < wanted)
    [1, 3, 4, 5]
    """
    construct = "lumijit.binary_search"
    first = initialize.whole_number(construct, "'start'", start)
    last = initialize.whole_number(construct, "'end'", end)
    initialize.check_callable(construct, "'pred'", pred)
    if first > last:
        raise ArrayValueError(
            construct,
            f"the range goes from {first} to {last}",
            "pass start <= end.",
        )
    low: Any = first
    high: Any = last
    for _ in range((last - first).bit_length()):
        middle = minimum(low + ((high - low) >> 1), last - 1)
        holds = pred(middle)
        if not isinstance(holds, (bool, np.bool_, ArrayBase)):
            raise ArrayTypeError(
                construct,
                f"the predicate returns {holds!r} (expected a mask or a bool)",
                "return a comparison from it.",
            )
        if isinstance(holds, ArrayBase) and not isinstance(low, ArrayBase):
            index_type = int32_array_t(type(holds))
            low, high, middle = map(index_type, (low, high, middle))
        # Where low and high have met, nothing changes any more.
        above = select(holds & (low < high), middle + 1, low)
        high = select(holds | (low >= high), high, middle)
        low = above
    return low
