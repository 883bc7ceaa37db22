"""Replays: the jobs of a tape, submitted again with other inputs.

New memory is taken for what is kept. Temporary memory belongs to the replay and serves
each time that it runs: jobs run in the order of submission, so one run doesn't disturb
another.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from lumijit.runtime import buffers, history, log, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.config import flags, watching
from lumijit.runtime.tape import Held, Job, Read, Tape

# Python can't look at signals in between; a job takes at most some 20 µs.
_LONGEST_BATCH: Final = 256


class Template(NamedTuple):
    """Words, and which addresses are added to which of them.

    `sources` count addresses that are others in each run, `fixed` tells positions and
    numbers of memory that stays.
    """

    words: Any
    positions: Any
    sources: Any
    fixed: list[tuple[int, int]]

    def filled(self, known: list[int]) -> bytes:
        """Return the words, given the addresses that are known now."""
        return added(self.words, self.positions, self.sources, known)


def _added(words: Any, positions: Any, sources: Any, known: list[int]) -> bytes:
    """Return words, to some of which numbers are added: each at its own position."""
    words = words.copy()
    words[positions] += np.array(known, "<u8")[sources]
    data: bytes = words.tobytes()
    return data


# (In compiled modules, C.)
added = _added


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


class Step(NamedTuple):
    """A job of a replay: where its arguments lie, and what it writes that is kept.

    `batch` is the number of jobs, this one and those that follow, that can be run at
    once together; 0 for those that follow. A batch is preceded by what
    `workers.run_all_inline` needs. `is_grouped` tells that it needn't wait for those
    of its group, which `starts_group` begins.
    """

    kernel: Any
    size: int
    block_size: int
    is_inline: bool
    is_grouped: bool
    is_helpable: bool
    slots: int
    summary: history.Entry
    start: int
    stop: int
    starts_group: bool
    outputs: list[int]
    batch: int


@dataclass
class Replay:
    """The jobs of a tape, ready to be submitted with other inputs.

    One thread at a time may do so: temporary memory serves one run after the other.
    """

    # Of what each run makes anew.
    sizes: list[int]
    # What stays, and what of it matters: nothing, its bytes, or a table of addresses.
    memory: list[Buffer]
    contents: list[Template | bool]
    # What in each run contains other addresses.
    tables: list[Template]
    stops: list[Read]
    steps: list[Step]
    template: Template
    # Of steps: the first, the end, and for those that can be run at once, from which
    # byte of the arguments on.
    batches: list[tuple[int, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        """Find the batches: they begin anew where entries are read."""
        breaks = {0, *[read.done for read in self.stops]}
        was_inline = False
        starts = []
        for k, step in enumerate(self.steps):
            if step.batch or k in breaks or (was_inline and not step.is_inline):
                starts.append(k)
            was_inline = step.is_inline
        ends = [*starts, len(self.steps)][1:]
        self.batches = []
        for first, end in zip(starts, ends, strict=True):
            step = self.steps[first]
            # (What runs jobs at once needs five words before their arguments.)
            at = step.start - 40 if step.is_inline else -1
            self.batches.append((first, end, at))

    @property
    def temporary_bytes(self) -> int:
        """How much memory serves each run."""
        rows = zip(self.memory, self.contents, strict=True)
        return sum(b.capacity_bytes for b, contents in rows if contents is False)

    def run(self, inputs: list[int]) -> list[Buffer]:
        """Submit the jobs, given the inputs' addresses; return the outputs' memory."""
        run = Run(self, inputs)
        run.go(len(self.steps))
        return run.outputs


class Run:
    """One time that jobs of a replay are submitted, as far as it has gone."""

    def __init__(self, replay: Replay, inputs: list[int]) -> None:
        self._replay = replay
        self.outputs: list[Buffer] = []
        # All addresses that vary, and the tables that contain some.
        self._known = known = list(inputs)
        for size in replay.sizes:
            buffer = buffers.allocate(size)
            self.outputs.append(buffer)
            known.append(buffer.address)
        self._tables = []
        for table in replay.tables:
            data = np.frombuffer(table.filled(known), np.uint8)
            self._tables.append(buffers.filled(data))
            known.append(self._tables[-1].address)
        known.append(workers.pool_address())
        self._data = replay.template.filled(known)
        self._is_told = bool(watching) and (
            flags.kernel_history or log.level >= log.LogLevel.Info
        )
        self._next = 0

    def go(self, end: int) -> None:
        """Submit the jobs before a position, where a batch ends."""
        replay = self._replay
        batches = replay.batches
        while self._next < len(batches):
            first, stop, at = batches[self._next]
            if first >= end:
                break
            self._next += 1
            is_run = at >= 0 and not self._is_told
            if not (is_run and workers.run_all_inline(self._data[at:])):
                self._submit(replay.steps[first:stop])

    def entry(self, number: int) -> Any:
        """Submit the jobs before an entry is read, wait for them, and read it."""
        done, place, dtype, position = self._replay.stops[number]
        self.go(done)
        workers.sync()
        if place < 0:
            start = self._replay.memory[-1 - place].address
        else:
            start = self._known[place]
        return dtype.read(start + position * dtype.size_bytes)

    def _submit(self, steps: list[Step]) -> None:
        """Submit jobs one by one."""
        data, made, is_told = self._data, self.outputs, self._is_told
        barrier: int | None = None
        for step in steps:
            kernel = step.kernel
            args = data[step.start : step.stop]
            started = time.perf_counter() if is_told else 0.0
            ticket = 0
            is_run = step.is_inline and workers.run_inline(
                kernel.address, args, step.size
            )
            if not is_run:
                if step.starts_group:
                    barrier = workers.last_ticket() + 1
                ticket = workers.submit(
                    kernel.address,
                    args,
                    step.size,
                    step.block_size,
                    barrier if step.is_grouped else None,
                    kernel,
                    step.is_helpable,
                    step.slots,
                )
                for k in step.outputs:
                    made[k].ticket = ticket
            if is_told:
                _tell(step, ticket, 0.0 if ticket else time.perf_counter() - started)


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
    places = _Places(variable, [held for held in known if held not in variable])
    _add_temporaries(tape, places)
    for held in [t for t in tape.tables if t not in variable]:
        # (What was recorded may still use the one that there is.)
        table = places.template(*tape.tables[held])
        places.fixed[held] = places.add(buffers.filled(table.words), table)
    stops = [read._replace(place=places.number(read.place)) for read in tape.reads]
    pool = count + len(tables)
    breaks = {read.done for read in tape.reads}
    steps, template = _laid_out(tape.jobs, places, order, pool, breaks)
    return Replay(
        [b.size_bytes for b in outputs],
        places.memory,
        places.contents,
        [places.template(*tape.tables[t]) for t in tables],
        stops,
        steps,
        template,
    )


def _laid_out(
    jobs: list[Job],
    places: _Places,
    order: Mapping[Held, int],
    pool: int,
    stops: set[int],
) -> tuple[list[Step], Template]:
    """Lay out the arguments of all jobs one after the other.

    `pool` says which of the addresses is that of the pool, `stops` which jobs are
    submitted in batches of their own, apart from those before.
    """
    steps: list[Step] = []
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
                8 * len(words),
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
            memory = buffers.allocate(held.buffer.size_bytes)
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


def _tell(step: Step, ticket: int, seconds: float) -> None:
    """Record a replayed job in the history and the log, where these are wanted."""
    summary = step.summary
    if log.level >= log.LogLevel.Info:
        log.log(
            log.LogLevel.Info,
            "replaying %s (n=%d)",
            *(summary["hash"][:16], summary["size"]),
        )
    if flags.kernel_history:
        times = {"ticket": ticket, "execution_time": seconds * 1e6}
        history.record({**summary, **times, "cache_hit": True})
