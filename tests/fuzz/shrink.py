"""Makes a failing program small: fewer statements, blocks unwrapped, fewer lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.writer import Program, Statement

Block = tuple[Statement, ...]


def smaller_blocks(block: Block) -> Iterator[Block]:
    """Return variants of a block, those that leave out most first."""
    for k, statement in enumerate(block):
        before, after = block[:k], block[k + 1 :]
        yield (*before, *after)
        for inner in (statement.body, statement.other):
            if inner:
                yield (*before, *inner, *after)
        for smaller in smaller_blocks(tuple(statement.body)):
            yield (*before, replace(statement, body=list(smaller)), *after)
        for smaller in smaller_blocks(tuple(statement.other)):
            yield (*before, replace(statement, other=list(smaller)), *after)
        if statement.after:
            yield (*before, replace(statement, after=""), *after)


def variants(program: Program) -> Iterator[Program]:
    """Return programs that are a little smaller."""
    for block in smaller_blocks(program.statements):
        yield replace(program, statements=block)
    lanes = program.lanes
    for keep in (range(lanes // 2), range(lanes // 2, lanes)):
        if 0 < len(keep) < lanes:
            yield program.without_lanes(keep)
    if 1 < lanes <= 8:
        for k in range(lanes):
            yield program.without_lanes([j for j in range(lanes) if j != k])
    for count in (3, 8, 70):
        if count < program.objects:
            yield replace(program, objects=count)


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return the smallest program found that still fails."""
    goes_on = True
    while goes_on:
        goes_on = False
        for smaller in variants(program):
            if fails(smaller):
                program, goes_on = smaller, True
                break
    return program
