"""Replays: the jobs of a tape, submitted again with other inputs.

New memory is taken for what is kept. Temporary memory belongs to the replay and serves
each time that it runs: jobs run in the order of submission, so one run doesn't disturb
another.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from lumijit.runtime import buffers, history, log, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.config import flags
from lumijit.runtime.tape import Held, Job, Read, Tape

# Python can't look at signals in between; a job takes at most some 20 µs.
_LONGEST_BATCH: Final = 256


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
        self.sizes: Final = [b.size_bytes for b in outputs]
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
        self._variable: Final = variable
        self._fixed: Final = fixed
        self.has_reads: Final = bool(tape.reads)
        # Before which of them something is read.
        stops = {read.done for read in tape.reads}
        self._lay_out(tape.jobs, variable, fixed, order, count + len(tables), stops)

    def _lay_out(
        self,
        jobs: list[Job],
        variable: Mapping[Held, int],
        fixed: Mapping[Held, int],
        order: Mapping[Held, int],
        pool: int,
        stops: set[int],
    ) -> None:
        """Lay out the arguments of all jobs one after the other.

        `pool` says which of the addresses is that of the pool, `stops` which jobs are
        submitted in batches of their own, apart from those before.
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
                batch = _batch(jobs, number, stops)
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
        reads = iter((*tape.reads, None))
        read = next(reads)
        for number, job in enumerate(tape.jobs):
            while read is not None and read.done <= number:
                if read.held not in others:
                    last[read.held] = moment
                read = next(reads)
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
        run = Run(self, inputs)
        run.go(len(self.steps))
        return run.outputs

    def begin(self, inputs: Sequence[int]) -> Run:
        """Submit the jobs piece by piece, given the inputs' addresses."""
        return Run(self, inputs)

    def addresses(
        self, inputs: Sequence[int], made: Sequence[Buffer]
    ) -> tuple[list[int], list[Buffer]]:
        """Return all addresses that vary, and the tables that contain some."""
        known = [*inputs, *[buffer.address for buffer in made]]
        tables = []
        for table in self._tables:
            tables.append(table.buffer(known))
            known.append(tables[-1].address)
        known.append(workers.pool_address())
        return known, tables

    def arguments(self, known: list[int]) -> bytes:
        """Return the arguments of all jobs, given the addresses that vary."""
        words = self._words.copy()
        words[self._positions] = np.array(known, "<u8")[self._sources]
        data: bytes = words.tobytes()
        return data

    def address(self, held: Held, known: list[int]) -> int:
        """Return where a buffer that is read lies, given the addresses that vary."""
        index = self._variable.get(held)
        return self._fixed[held] if index is None else known[index]


class Run:
    """One time that jobs of a replay are submitted, as far as it has gone."""

    def __init__(self, replay: Replay, inputs: Sequence[int]) -> None:
        self._replay = replay
        self.outputs = [buffers.allocate(size) for size in replay.sizes]
        self._known, self._tables = replay.addresses(inputs, self.outputs)
        self._data = replay.arguments(self._known)
        self._is_told = flags.kernel_history or log.level >= log.LogLevel.Info
        self._done = 0

    def go(self, end: int) -> None:
        """Submit the jobs before a position, where a batch ends."""
        steps, data = self._replay.steps, self._data
        done = self._done
        self._done = end
        while done < end:
            step = steps[done]
            batch = step.batch
            stop = done + (batch or 1)
            while not batch and stop < end and not steps[stop].batch:
                stop += 1
            # (A batch begins five words before its first arguments.)
            calls = data[step.start - 40 :] if batch and not self._is_told else b""
            if not (calls and workers.run_all_inline(calls)):
                self._submit(steps[done:stop])
            done = stop

    def entry(self, read: Read) -> Any:
        """Wait for the jobs, and read an entry."""
        workers.sync()
        dtype = read.dtype
        start = self._replay.address(read.held, self._known)
        start += read.position * dtype.size_bytes
        data = ctypes.string_at(start, dtype.size_bytes)
        return np.frombuffer(data, dtype.numpy, 1)[0].item()

    def _submit(self, steps: list[Step]) -> None:
        """Submit jobs one by one."""
        data, made, is_told = self._data, self.outputs, self._is_told
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


def _batch(jobs: list[Job], first: int, stops: set[int]) -> int:
    """Return how many jobs from one on can be run at once."""
    last = first + 1
    end = min(len(jobs), first + _LONGEST_BATCH)
    while last < end and jobs[last].is_inline and last not in stops:
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
