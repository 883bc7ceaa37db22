"""Laying out a replay: from a tape to jobs that can be submitted with other inputs.

Owns where buffers of a tape lie in a replay: memory that stays, temporary memory that
serves each run, and what each run tells. Running is up to `replay`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from lumijit.runtime import buffers, device
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.replay import Replay, Step, Template
from lumijit.runtime.tape import Held, Job, Tape

# Python can't look at signals in between; a job takes at most some 20 µs.
_LONGEST_BATCH: Final = 256


class _Places:
    """Where buffers of a tape lie: in memory that stays, or that each run tells."""

    def __init__(self, variable: dict[Held, int], fixed: list[Held]) -> None:
        self.variable = variable
        # Memory that lives as long as the replay, and whose contents matter.
        self.memory: list[Buffer] = [held.buffer for held in fixed]
        self.contents: list[Template | bool] = [True] * len(fixed)
        self.fixed = {held: k for k, held in enumerate(fixed)}

    def add(self, memory: Buffer, contents: Template | bool) -> int:
        """Keep memory; return its number."""
        self.memory.append(memory)
        self.contents.append(contents)
        return len(self.memory) - 1

    def number(self, held: Held) -> int:
        """Return the number of an address that varies; below 0: of what stays."""
        varying = self.variable.get(held)
        return -1 - self.fixed[held] if varying is None else varying

    def template(
        self, words: Any, places: list[tuple[int, Held, int]], others: Any = ()
    ) -> Template:
        """Return words in which buffers' addresses lie: where, whose, from which byte.

        `others` are positions and numbers of addresses that each run tells besides.
        """
        words = np.array(words, "<u8")
        found = list(others)
        fixed = []
        for position, held, offset in places:
            words[position] = offset
            if held in self.variable:
                found.append((position, self.variable[held]))
            else:
                number = self.fixed[held]
                words[position] += self.memory[number].address
                fixed.append((position, number))
        positions, sources = zip(*found, strict=True) if found else ((), ())
        arrays = np.array(positions, np.intp), np.array(sources, np.intp)
        return Template(words, *arrays, fixed)


def replay_of(tape: Tape, outputs: Sequence[Buffer]) -> Replay:
    """Return the jobs of a tape as a replay.

    Args:
        tape: what was recorded.
        outputs: the buffers whose contents are kept; each run makes new ones.
    """
    count = len(tape.inputs)
    variable = {h: k for k, h in enumerate(tape.inputs) if h is not None}
    order = {tape.taken[id(b)]: k for k, b in enumerate(outputs)}
    variable |= {held: count + k for held, k in order.items()}
    # Tables of addresses follow, as these are others in each run.
    tables = _in_need(tape, variable)
    count += len(outputs)
    variable |= {held: count + k for k, held in enumerate(tables)}
    # What stays: memory of other arrays, and what the host has filled.
    known = dict.fromkeys((*tape.foreign.values(), *tape.filled.values()))
    kept = [h for h in known if h not in variable and h.buffer.device is tape.device]
    places = _Places(variable, kept)
    _add_temporaries(tape, places)
    for held in [t for t in tape.tables if t not in variable]:
        # (What was recorded may still use the one that there is.)
        table = places.template(*tape.tables[held])
        places.fixed[held] = places.add(_filled(tape, table.words), table)
    stops = [read._replace(place=places.number(read.place)) for read in tape.reads]
    pool = count + len(tables)
    breaks = {read.done for read in tape.reads}
    steps, template = _laid_out(tape, places, order, pool, breaks)
    return Replay(
        [b.size_bytes for b in outputs],
        places.memory,
        places.contents,
        [places.template(*tape.tables[t]) for t in tables],
        stops,
        steps,
        template,
        tape.device,
    )


def _filled(tape: Tape, words: Any) -> Buffer:
    """Return memory with words where the jobs of a tape can read it."""
    if tape.device is None:
        return buffers.filled(words)
    return tape.device.filled(words.tobytes())


def _laid_out(
    tape: Tape,
    places: _Places,
    order: Mapping[Held, int],
    pool: int,
    stops: set[int],
) -> tuple[list[Step], Template]:
    """Lay out the arguments of all jobs one after the other.

    `pool` says which of the addresses is that of the pool, `stops` which jobs are
    submitted in batches of their own, apart from those before.
    """
    jobs, steps = tape.jobs, list[Step]()
    words: list[int] = []
    patches: list[tuple[int, Held, int]] = []
    pools = []
    group: int | None = None
    left = 0
    for number, job in enumerate(jobs):
        batch = 0
        if left:
            left -= 1
        elif job.is_inline:
            batch = _batch(jobs, number, stops)
            left = batch - 1
            pools.append((len(words), pool))
            words += (0, batch)
        own = np.frombuffer(job.args, "<u8", len(job.args) // 8).tolist()
        if job.is_inline:
            words += (8 * (3 + len(own)), job.kernel.address, job.size)
        start = len(words)
        patches += [(start + slot, held, 0) for slot, held in job.patches]
        words += own
        starts = job.barrier is not None and job.barrier != group
        group = job.barrier
        written = [order[held] for held in job.writes if held in order]
        stop = len(words)
        steps.append(
            Step(
                job.kernel,
                job.size,
                job.block_size,
                job.is_inline,
                group is not None,
                job.is_helpable,
                job.slots,
                job.summary,
                8 * start,
                8 * stop,
                starts,
                written,
                batch,
            )
        )
    return steps, places.template(words, patches, pools)


def _in_need(tape: Tape, variable: Mapping[Held, int]) -> list[Held]:
    """List the tables in which there are addresses that vary."""
    found: list[Held] = []
    for held, (_, places) in tape.tables.items():
        if any(other in variable or other in found for _, other, _ in places):
            found.append(held)
    return found


def _add_temporaries(tape: Tape, places: _Places) -> None:
    """Take memory for what only the jobs need; some serve one after the other."""
    others = places.variable.keys() | places.fixed.keys()
    first: dict[Held, int] = {}
    last: dict[Held, int] = {}
    moment, group = -1, None
    reads = iter((*tape.reads, None))
    read = next(reads)
    for number, job in enumerate(tape.jobs):
        while read is not None and read.done <= number:
            if read.place not in others:
                last[read.place] = moment
            read = next(reads)
        # Jobs that may overlap happen at one time.
        if job.barrier is None or job.barrier != group:
            moment += 1
        group = job.barrier
        for held in tape.used_by(job):
            if held not in others:
                first.setdefault(held, moment)
                last[held] = moment
    idle: dict[int, list[tuple[int, int]]] = {}
    for held, start in first.items():
        capacity = held.buffer.capacity_bytes
        free = idle.setdefault(capacity, [])
        # The one that has been idle for longest.
        if free and free[0][0] < start:
            number = free.pop(0)[1]
        else:
            size_bytes = held.buffer.size_bytes
            memory = (tape.device or device.HOST).allocate(size_bytes)
            number = places.add(memory, False)
        places.fixed[held] = number
        free.append((last[held], number))
        free.sort()


def _batch(jobs: list[Job], first: int, stops: set[int]) -> int:
    """Return how many jobs from one on can be run at once."""
    last = first + 1
    end = min(len(jobs), first + _LONGEST_BATCH)
    while last < end and jobs[last].is_inline and last not in stops:
        last += 1
    return last - first
