"""Replays: the jobs of a tape, submitted again with other inputs.

New memory is taken for what is kept. Temporary memory belongs to the replay and serves
each time that it runs: jobs run in the order of submission, so one run doesn't disturb
another.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lumijit.runtime import buffers, history, log, workers
from lumijit.runtime.attached import Attached
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.device import Planned
from lumijit.runtime.tape import Read


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
    # Whose jobs these are, if not the host's.
    device: Any = None
    # Of steps: the first, the end, and for those that can be run at once, from which
    # byte of the arguments on.
    batches: list[tuple[int, int, int]] = field(init=False)
    # Of a device: what it launches from a step on, up to the end or the next stop.
    planned: dict[int, Any] = field(init=False)

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
        self.batches, self.planned = [], {}
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
        if self.device is not None:
            away = AwayRun(self, inputs)
            away.go(len(self.steps))
            return away.outputs
        run = Run(self, inputs)
        run.go(len(self.steps))
        return run.outputs

    def begin(self, inputs: list[int]) -> Run | AwayRun:
        """Return a run that stops where entries are read."""
        return Run(self, inputs) if self.device is None else AwayRun(self, inputs)


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
        self._is_told = bool(unusual) and (
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


class AwayRun:
    """A run on a device, to which the jobs between two stops go together."""

    def __init__(self, replay: Replay, inputs: list[int]) -> None:
        self._replay = replay
        self._device: Attached = replay.device
        self.outputs: list[Buffer] = []
        self._known = known = list(inputs)
        for size in replay.sizes:
            buffer = self._device.allocate(size)
            self.outputs.append(buffer)
            known.append(buffer.address)
        # What is let go of serves until what was launched before is done.
        self._tables: list[Buffer] = []
        for table in replay.tables:
            self._tables.append(self._device.filled(table.filled(known)))
            known.append(self._tables[-1].address)
        self._data = replay.template.filled(known)
        self._next = 0

    def go(self, end: int) -> None:
        """Launch the jobs before a position, where a batch ends."""
        first, self._next = self._next, end
        if first == end:
            return
        steps = self._replay.steps[first:end]
        if unusual and (
            flags.kernel_history
            or flags.launch_blocking
            or log.level >= log.LogLevel.Info
        ):
            for step in steps:
                self._launch_told(step)
            return
        planned = self._replay.planned.get(first)
        if planned is None:
            launches = [
                Planned(s.kernel, s.start, s.stop, s.size, s.block_size) for s in steps
            ]
            planned = self._replay.planned[first] = self._device.planned(launches)
        self._device.launch_all(planned, self._data)
        for step in steps:
            self._note(step)

    def _note(self, step: Step) -> None:
        writes = [self.outputs[k] for k in step.outputs]
        self._device.note_launch(writes, not step.is_helpable)

    def _launch_told(self, step: Step) -> None:
        """Launch a job, and tell of it."""
        device, args = self._device, self._data[step.start : step.stop]

        def launch() -> None:
            device.launch(step.kernel, args, step.size, step.block_size)

        seconds = 0.0
        if flags.kernel_history:
            seconds = device.timed(launch)
        else:
            launch()
        self._note(step)
        _tell(step, 0, seconds)
        if flags.launch_blocking:
            device.wait()

    def entry(self, number: int) -> Any:
        """Launch the jobs before an entry is read, wait for them, and read it."""
        done, place, dtype, position = self._replay.stops[number]
        self.go(done)
        if place < 0:
            start = self._replay.memory[-1 - place].address
        else:
            start = self._known[place]
        size = dtype.size_bytes
        data = self._device.copy_out(start + position * size, size)
        return np.frombuffer(data, dtype.numpy)[0].item()


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
