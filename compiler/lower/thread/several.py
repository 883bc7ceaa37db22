"""Several elements of a thread side by side, where memory decides what a kernel takes.

A GPU hides how long memory takes behind what other threads ask for, but a thread that
reads one number asks for too little: its multiprocessors hold so many threads and no
more. So threads of short, straight kernels read `_BYTES` at least. Measured on an H200
as part of a plain copy: copies with 4, 8 and 16 bytes a thread 64, 81 and 100 %; what
16 bytes are (a row, or entries that lie a block's threads apart) makes no difference.
"""

from __future__ import annotations

import re

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED
from lumijit.compiler.plan.program import Program

# What a thread is to read (or to write, if it reads nothing), how many elements may
# serve for it, and of how many lines of code: with more of them, these take longer than
# the memory does.
_BYTES, _MOST, _LINES = 32, 8, 60
_NAME = re.compile(r"%[\w.]+")
# The element number `{k}` of a thread; behind the end it computes its first one again.
_NEXT = """\
  %apart.{k} = mul i64 %wide, {k}
  %next.{k} = add i64 %index, %apart.{k}
  %is.there.{k} = icmp ult i64 %next.{k}, %size
  %index.{k} = select i1 %is.there.{k}, i64 %next.{k}, i64 %index"""


def worthwhile(program: Program, lines: list[str]) -> int:
    """Return how many elements a thread is to compute at once, given an element's code.

    They are one unless the code is straight and does nothing but write outputs.
    """
    is_straight = not any(s.endswith(":") or s.startswith("  br ") for s in lines)
    if not is_straight or len(lines) > _LINES or program.effects:
        return 1
    # (Reads at an index, which nobody's neighbours share, keep memory busy anyway.)
    if program.pointers:
        return 1
    read = sum(_size(n) for n in program.arguments if n.op is EVALUATED and n.size > 1)
    moved, count = read or sum(map(_size, program.outputs)), 1
    while moved and count < _MOST and count * moved < _BYTES:
        count *= 2
    return count


def _size(node: Node) -> int:
    return node.type.size_bytes


def side_by_side(lines: list[str], count: int) -> list[str]:
    """Return straight code for several elements, given that for one.

    Each line stands there once for each, so all are read before any is written.
    """
    own = {line.split()[0] for line in lines if line.lstrip().startswith("%")}
    own.add("%index")

    def of(k: int, line: str) -> str:
        if not k:
            return line
        return _NAME.sub(lambda m: f"{m[0]}.{k}" if m[0] in own else m[0], line)

    found = [_NEXT.format(k=k) for k in range(1, count)]
    return found + [of(k, line) for line in lines for k in range(count)]
