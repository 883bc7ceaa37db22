"""Which results of a recorded function can be differentiated, as was found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

from lumijit.compiler.derive.traversal import depended_on


class Tracked(NamedTuple):
    """Which leaves of a result can be differentiated.

    `sources` lists for each of those of which others of them it was computed.
    """

    is_result: Sequence[bool]
    sources: Sequence[Sequence[int]]


def tracked_results(
    leaves: Sequence[Any], is_tracked: Sequence[bool], start: int
) -> Tracked | None:
    """Describe leaves of which some are tracked, in a call that began with a number.

    None: they depend on variables of the call's own, which would get no gradients.
    """
    found = [leaf._node.vertex for leaf in compress(leaves, is_tracked)]
    behind = [depended_on([vertex]) for vertex in found]
    if not all(v.inputs for v in chain(*behind) if v.serial >= start):
        return None
    reached = [{v.serial for v in vertices} for vertices in behind]
    sources = [
        [k for k, v in enumerate(found) if v is not vertex and v.serial in others]
        for vertex, others in zip(found, reached, strict=True)
    ]
    return Tracked(is_tracked, sources)
