"""Loops over numbers that are known when code is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lumijit.compiler.emit.builder import Builder


def repeat(b: Builder, count: int, code: Callable[[str], None]) -> None:
    """Write a loop: code for 0 … count - 1, an `i64`."""

    def turn(k: str, values: list[str]) -> list[str]:
        code(k)
        return values

    fold(b, count, 1, "", [], turn)


def fold(
    b: Builder,
    count: int,
    step: int,
    ty: str,
    first: Sequence[str],
    code: Callable[[str, list[str]], list[str]],
) -> list[str]:
    """Write a loop over 0, step, … below count, with values of a spelled type.

    `code` gets the number, an `i64`, and the values, and returns the next ones.
    """
    before, head, done = b.current, b.label("repeat"), b.label("repeated")
    b.branch(head)
    b.block(head)
    place = len(b.lines)
    k = f"%{b.label('k')}"
    values = [b.name() for _ in first]
    following = code(k, list(values))
    b.line(f"{k}.n = add i64 {k}, {step}")
    latch = b.current
    phis = [f"  {k} = phi i64 [ 0, %{before} ], [ {k}.n, %{latch} ]"]
    for value, start, after in zip(values, first, following, strict=True):
        sides = f"[ {start}, %{before} ], [ {after}, %{latch} ]"
        phis.append(f"  {value} = phi {ty} {sides}")
    b.lines[place:place] = phis
    b.branch_if(b.emit(f"icmp ult i64 {k}.n, {count}"), head, done)
    b.block(done)
    return following
