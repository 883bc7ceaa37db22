"""Cuts long blocks of code into shorter ones: LLVM's time grows faster than a block.

Its schedulers look for instructions that may depend on each other among all of a block:
3,000 sums and products take four times as long in one as in blocks of 400. What leads
from one to the next is a branch that leads elsewhere in a case that never comes: LLVM
would join them otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# About so many lines are in a part of a block; blocks of twice as many are cut.
LENGTH = 400
_NAME = re.compile(r"%[\w.]+")
_MASK = re.compile(r"\s+(%[\w.]+) = (?:[if]cmp \w+ <|\w+ <\d+ x i1>|.* to <\d+ x i1>$)")
_FROM = re.compile(r", %([\w.]+) \]")
#: The weights of the branches, which metadata number 2 has to be.
WEIGHTS = '!2 = !{!"branch_weights", i32 1, i32 1048576}'


def cut(lines: list[str], impossible: str, out: str, keeps_masks: bool) -> list[str]:
    """Cut the blocks of a function, of which each begins with its label.

    Args:
        lines: the function's code.
        impossible: a comparison that is never true, wherever it stands.
        out: the label of a block in which nothing begins.
        keeps_masks: whether masks have to be used in the blocks where they are made.
    """
    starts = [k for k, line in enumerate(lines) if not line.startswith(" ")]
    made: list[str] = []
    # Who branches from a block does so from its last part.
    last: dict[str, str] = {}
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        parts = _parts(lines[start:end], keeps_masks)
        made += parts[0]
        for part in parts[1:]:
            name = f"cut{len(last)}.{len(made)}"
            made.append(f"  %{name} = icmp {impossible}")
            made.append(f"  br i1 %{name}, label %{out}, label %{name}.to, !prof !2")
            made.append(f"{name}.to:")
            made += part
            last[lines[start].rstrip(":")] = f"{name}.to"
    if not last:
        return lines
    return [
        _FROM.sub(lambda m: f", %{last.get(m[1], m[1])} ]", line)
        if " = phi " in line
        else line
        for line in made
    ]


def _parts(block: Sequence[str], keeps_masks: bool) -> list[list[str]]:
    """Return the parts of a block."""
    if len(block) < 2 * LENGTH:
        return [list(block)]
    needed: dict[str, int] = {}
    if keeps_masks:
        for k, line in enumerate(block):
            needed.update(dict.fromkeys(_NAME.findall(line), k))
    parts, first, masks = [], 0, 0
    for k, line in enumerate(block):
        is_long = k - first >= LENGTH and len(block) - k >= LENGTH // 2
        if is_long and masks < k and " = phi " not in line:
            parts.append(list(block[first:k]))
            first = k
        mask = _MASK.match(line) if keeps_masks else None
        if mask is not None:
            masks = max(masks, needed[mask[1]])
    return [*parts, list(block[first:])]
