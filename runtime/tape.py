"""Tapes: the jobs that a piece of a program submits, to be submitted again.

A `Tape` listens while its thread runs: it notes each job, and finds in its arguments
the addresses of the buffers that it knows. A `Replay` made of it submits the same jobs
with other inputs and with new memory for what is kept. Nothing here knows what the
jobs compute, nor what buffers mean to the program.

Temporary memory belongs to the replay and serves each time that it runs: jobs run in
the order of submission, so one run doesn't disturb another.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from lumijit.runtime import buffers, history, log, recorders, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.config import flags

# Smaller numbers are no addresses.
_LOWEST_ADDRESS: Final = 1 << 16
# Python can't look at signals in between; a job takes at most some 20 µs.
_LONGEST_BATCH: Final = 256


class Held:
    """A buffer that a tape knows: the one reference that it has to it."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer


@dataclass
class Job:
    """A job as it was submitted; `patches` are slots and the buffers lying there."""

    kernel: Any
    args: bytes
    size: int
    block_size: int
    is_inline: bool
    barrier: int | None
    is_helpable: bool
    slots: int
    patches: list[tuple[int, Held]]
    writes: list[Held]
    summary: history.Entry


class Tape(recorders.Recorder):
    """The jobs that a thread submits while the tape is in use, and their buffers.

    `refuse` is called when the program reads what lies in memory; it raises.
    """

    def __init__(
        self, inputs: Iterable[Buffer | None], refuse: Callable[[], None]
    ) -> None:
        self.jobs: list[Job] = []
        self.inputs: list[Held | None] = []
        # Memory taken while the tape was in use, what of it the host has filled, and
        # memory of other arrays; by the buffers' ids.
        self.taken: dict[int, Held] = {}
        self.filled: dict[int, Held] = {}
        self.foreign: dict[int, Held] = {}
        # What of it contains addresses: words, and in which of them which buffer, from
        # which of its bytes on.
        self.tables: dict[Held, tuple[Any, list[tuple[int, Held, int]]]] = {}
        self._held: dict[int, Held] = {}
        self._at: dict[int, Held] = {}
        self._refuse = refuse
        for buffer in inputs:
            self.add_input(buffer)

    def _hold(self, buffer: Buffer) -> Held:
        """Return what holds a buffer, as long as there is the tape."""
        held = self._held.get(id(buffer))
        if held is None:
            held = self._held[id(buffer)] = Held(buffer)
        self._at[buffer.address] = held
        return held

    def references(self, buffer: Buffer) -> int:
        """Return how many references to a buffer are the tape's."""
        return int(id(buffer) in self._held)

    def add_input(self, buffer: Buffer | None) -> None:
        """Make a buffer an input, which is another one in each run."""
        if buffer is None:
            self.inputs.append(None)
            return
        self.inputs.append(self._hold(buffer))
        self.taken.pop(id(buffer), None)
        self.filled.pop(id(buffer), None)

    def note_memory(self, buffer: Buffer) -> None:
        """Note memory that has been taken."""
        self.taken[id(buffer)] = self._hold(buffer)

    def note_filled(self, buffer: Buffer) -> None:
        """Note that the host has written to memory, or shares its own."""
        self.filled[id(buffer)] = self._hold(buffer)

    def note_addresses(self, buffer: Buffer) -> None:
        """Note that what the host has filled contains addresses."""
        data = ctypes.string_at(buffer.address, buffer.size_bytes // 8 * 8)
        words = np.frombuffer(data, "<u8")
        places = []
        for k, word in enumerate(words.tolist()):
            held = self._around(word)
            if held is not None:
                places.append((k, held, word - held.buffer.address))
        self.tables[self._hold(buffer)] = words, places

    def _around(self, address: int) -> Held | None:
        """Return the buffer in which an address lies."""
        if address < _LOWEST_ADDRESS:
            return None
        held = self._at.get(address) or self._foreign_at(address)
        if held is None:
            for held in self._held.values():
                if 0 <= address - held.buffer.address < held.buffer.size_bytes:
                    return held
            return None
        return held

    def note_read(self, buffer: Buffer) -> None:
        """Note that the host reads memory."""
        if id(buffer) not in self.filled:
            self._refuse()

    def note_job(
        self,
        kernel: Any,
        args: bytes,
        size: int,
        block_size: int,
        is_inline: bool,
        writes: Iterable[Buffer],
        barrier: int | None,
        is_helpable: bool,
        slots: int,
        summary: history.Entry,
    ) -> None:
        """Note a job."""
        words = np.frombuffer(args, "<u8", len(args) // 8).tolist()
        patches = []
        for slot, word in enumerate(words):
            held = self._at.get(word)
            if held is None and word >= _LOWEST_ADDRESS:
                held = self._foreign_at(word)
            if held is not None:
                patches.append((slot, held))
        self.jobs.append(
            Job(
                kernel,
                args,
                size,
                block_size,
                is_inline,
                barrier,
                is_helpable,
                slots,
                patches,
                [self._hold(buffer) for buffer in writes],
                summary,
            )
        )

    def used_by(self, job: Job) -> list[Held]:
        """List the buffers that a job uses, also through tables of addresses."""
        found = [held for _, held in job.patches]
        for held in found:
            if held in self.tables:
                found += [v for _, v, _ in self.tables[held][1] if v not in found]
        return found

    def _foreign_at(self, address: int) -> Held | None:
        """Return a buffer of which nothing was known until it is used."""
        buffer = buffers.at_address(address)
        if buffer is None:
            return None
        held = self.foreign[id(buffer)] = self._hold(buffer)
        return held


class _Table(NamedTuple):
    """A table of addresses: its words, and what is added to which of them."""

    words: Any
    positions: Any
    sources: Any

    def buffer(self, known: list[int]) -> Buffer:
        """Return a table of addresses that are known now."""
        words = self.words.copy()
        words[self.positions] += np.array(known, "<u8")[self.sources]
        return buffers.filled(words)


def _table(
    words: Any,
    places: list[tuple[int, Held, int]],
    variable: Mapping[Held, int],
    fixed: Mapping[Held, int],
) -> _Table:
    """Return a table in which the addresses that don't vary are set."""
    words = words.copy()
    positions, sources = [], []
    for k, held, offset in places:
        words[k] = fixed.get(held, 0) + offset
        if held in variable:
            positions.append(k)
            sources.append(variable[held])
    return _Table(words, np.array(positions, np.intp), np.array(sources, np.intp))


@dataclass
class Step:
    """A job of a replay: where its arguments lie, and what it writes that is kept.

    `batch` is the number of jobs, this one and those that follow, that can be run at
    once together; 0 for those that follow. A batch is preceded by what
    `workers.run_all_inline` needs.
    """

    job: Job
    start: int
    stop: int
    starts_group: bool
    outputs: list[int]
    batch: int


class Replay:
    """The jobs of a tape, ready to be submitted with other inputs.

    One thread at a time may do so: temporary memory serves one run after the other.
    `outputs` are the buffers whose contents are kept; each run makes new ones.
    """

    def __init__(self, tape: Tape, outputs: Sequence[Buffer]) -> None:
        self._sizes: Final = [b.size_bytes for b in outputs]
        self.temporary_bytes = 0
        count = len(tape.inputs)
        variable = {h: k for k, h in enumerate(tape.inputs) if h is not None}
        order = {tape.taken[id(b)]: k for k, b in enumerate(outputs)}
        variable |= {held: count + k for held, k in order.items()}
        # Tables of addresses follow, as these are others in each run.
        tables = self._in_need(tape, variable)
        count += len(outputs)
        variable |= {held: count + k for k, held in enumerate(tables)}
        # What stays: memory of other arrays, and what the host has filled.
        fixed = dict.fromkeys((*tape.foreign.values(), *tape.filled.values()), 0)
        fixed = {h: h.buffer.address for h in fixed if h not in variable}
        self._alive: Final[list[Buffer]] = [held.buffer for held in fixed]
        fixed |= self._temporaries(tape, variable.keys() | fixed.keys())
        self._tables: Final = [_table(*tape.tables[t], variable, fixed) for t in tables]
        for held in [t for t in tape.tables if t not in variable]:
            # (What was recorded may still use the one that there is.)
            made = _table(*tape.tables[held], variable, fixed).buffer([])
            self._alive.append(made)
            fixed[held] = made.address
        self.steps: Final[list[Step]] = []
        self._lay_out(tape.jobs, variable, fixed, order, count + len(tables))

    def _lay_out(
        self,
        jobs: list[Job],
        variable: Mapping[Held, int],
        fixed: Mapping[Held, int],
        order: Mapping[Held, int],
        pool: int,
    ) -> None:
        """Lay out the arguments of all jobs one after the other.

        `pool` says which of the addresses is that of the pool.
        """
        words: list[int] = []
        positions, sources = [], []
        group: int | None = None
        left = 0
        for number, job in enumerate(jobs):
            batch = 0
            if left:
                left -= 1
            elif job.is_inline:
                batch = _batch(jobs, number)
                left = batch - 1
                positions.append(len(words))
                sources.append(pool)
                words += (0, batch)
            own = np.frombuffer(job.args, "<u8", len(job.args) // 8).tolist()
            if job.is_inline:
                words += (8 * (3 + len(own)), job.kernel.address, job.size)
            start = len(words)
            for slot, held in job.patches:
                own[slot] = 0
                if held in variable:
                    positions.append(start + slot)
                    sources.append(variable[held])
                else:
                    own[slot] = fixed[held]
            words += own
            starts = job.barrier is not None and job.barrier != group
            group = job.barrier
            written = [order[held] for held in job.writes if held in order]
            stop = 8 * len(words)
            self.steps.append(Step(job, 8 * start, stop, starts, written, batch))
        self._words = np.array(words, "<u8")
        self._positions = np.array(positions, np.intp)
        self._sources = np.array(sources, np.intp)

    @staticmethod
    def _in_need(tape: Tape, variable: Mapping[Held, int]) -> list[Held]:
        """List the tables in which there are addresses that vary."""
        found: list[Held] = []
        for held, (_, places) in tape.tables.items():
            if any(other in variable or other in found for _, other, _ in places):
                found.append(held)
        return found

    def _temporaries(self, tape: Tape, others: set[Held]) -> dict[Held, int]:
        """Take memory for what only the jobs need; some serve one after the other."""
        first: dict[Held, int] = {}
        last: dict[Held, int] = {}
        moment, group = -1, None
        for job in tape.jobs:
            # Jobs that may overlap happen at one time.
            if job.barrier is None or job.barrier != group:
                moment += 1
            group = job.barrier
            for held in tape.used_by(job):
                if held not in others:
                    first.setdefault(held, moment)
                    last[held] = moment
        idle: dict[int, list[tuple[int, Buffer]]] = {}
        addresses = {}
        for held, start in first.items():
            capacity = held.buffer.capacity_bytes
            free = idle.setdefault(capacity, [])
            # The one that has been idle for longest.
            if free and free[0][0] < start:
                memory = free.pop(0)[1]
            else:
                memory = buffers.allocate(held.buffer.size_bytes)
                self._alive.append(memory)
                self.temporary_bytes += capacity
            addresses[held] = memory.address
            free.append((last[held], memory))
            free.sort(key=lambda entry: entry[0])
        return addresses

    def run(self, inputs: Sequence[int]) -> list[Buffer]:
        """Submit the jobs, given the inputs' addresses; return the outputs' memory."""
        is_told = flags.kernel_history or log.level >= log.LogLevel.Info
        made = [buffers.allocate(size) for size in self._sizes]
        known = [*inputs, *[buffer.address for buffer in made]]
        tables = []
        for table in self._tables:
            tables.append(table.buffer(known))
            known.append(tables[-1].address)
        known.append(workers.pool_address())
        words = self._words.copy()
        words[self._positions] = np.array(known, "<u8")[self._sources]
        data = words.tobytes()
        if is_told:
            self._submit(data, self.steps, made, is_told)
            return made
        steps = self.steps
        done = 0
        while done < len(steps):
            step = steps[done]
            batch = step.batch
            stop = done + (batch or 1)
            while not batch and stop < len(steps) and not steps[stop].batch:
                stop += 1
            # (A batch begins five words before its first arguments.)
            calls = data[step.start - 40 :] if batch else b""
            if not (batch and workers.run_all_inline(calls)):
                self._submit(data, steps[done:stop], made, is_told)
            done = stop
        return made

    def _submit(
        self, data: bytes, steps: list[Step], made: list[Buffer], is_told: bool
    ) -> None:
        """Submit jobs one by one."""
        barrier: int | None = None
        for step in steps:
            job = step.job
            kernel = job.kernel
            args = data[step.start : step.stop]
            started = time.perf_counter() if is_told else 0.0
            ticket = 0
            if not (
                job.is_inline and workers.run_inline(kernel.address, args, job.size)
            ):
                if step.starts_group:
                    barrier = workers.last_ticket() + 1
                ticket = workers.submit(
                    kernel.address,
                    args,
                    job.size,
                    job.block_size,
                    None if job.barrier is None else barrier,
                    kernel,
                    job.is_helpable,
                    job.slots,
                )
                for k in step.outputs:
                    made[k].ticket = ticket
            if is_told:
                _tell(job, ticket, 0.0 if ticket else time.perf_counter() - started)


def _batch(jobs: list[Job], first: int) -> int:
    """Return how many jobs from one on can be run at once."""
    last = first
    while last < len(jobs) and jobs[last].is_inline and last - first < _LONGEST_BATCH:
        last += 1
    return last - first


def _tell(job: Job, ticket: int, seconds: float) -> None:
    """Record a replayed job in the history and the log, where these are wanted."""
    summary = job.summary
    if log.level >= log.LogLevel.Info:
        log.log(
            log.LogLevel.Info,
            "replaying %s (n=%d)",
            *(summary["hash"][:16], summary["size"]),
        )
    if flags.kernel_history:
        times = {"ticket": ticket, "execution_time": seconds * 1e6}
        history.record({**summary, **times, "cache_hit": True})
