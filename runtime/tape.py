"""Tapes: the jobs that a piece of a program submits, to be submitted again.

A `Tape` listens while its thread runs: it notes each job, and finds in its arguments
the addresses of the buffers that it knows. `replay` submits the same jobs with other
inputs. Nothing here knows what the jobs compute, nor what buffers mean to the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Final, NamedTuple

import numpy as np

from lumijit.runtime import buffers, device, history, recorders
from lumijit.runtime.attached import Attached
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import DType

# Smaller numbers are no addresses.
_LOWEST_ADDRESS: Final = 1 << 16


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


class Read(NamedTuple):
    """An entry that the host reads, once a number of jobs has been done.

    `place` is what holds the memory. In a replay it counts the addresses that vary, or,
    from -1 downwards, the memory that stays.
    """

    done: int
    place: Any
    dtype: DType
    position: int


class Tape(recorders.Recorder):
    """The jobs that a thread submits while the tape is in use, and their buffers.

    `refuse` is called when the program reads what lies in memory; it raises, or there
    can be no replay. `meet` is called with the values of entries that are read, and the
    numbers of such reads; it returns what the program gets.
    """

    def __init__(
        self,
        inputs: Iterable[Buffer | None],
        refuse: Callable[[], None],
        meet: Callable[[int, Any], Any],
        where: Attached | None = None,
    ) -> None:
        self.jobs: list[Job] = []
        self.reads: list[Read] = []
        self.inputs: list[Held | None] = []
        # Memory taken while the tape was in use, what of it the host has filled, and
        # memory of other arrays; by the buffers' ids.
        self.taken: dict[int, Held] = {}
        self.filled: dict[int, Held] = {}
        self.foreign: dict[int, Held] = {}
        # What of it contains addresses: words, and in which of them which buffer, from
        # which of its bytes on.
        self.tables: dict[Held, tuple[Any, list[tuple[int, Held, int]]]] = {}
        #: Gradients that vertices had before they got another one; by serial numbers.
        self.gradients: dict[int, Any] = {}
        #: Whether derivatives go on to what was computed before.
        self.goes_outside = False
        #: On which device the jobs run (None: the host), and whether all do.
        self.device = where
        self.is_mixed = False
        # Of what a device has, where the host has filled it.
        self._sources: dict[Held, Held] = {}
        self._held: dict[int, Held] = {}
        self._at: dict[tuple[Any, int], Held] = {}
        self._refuse = refuse
        self._meet = meet
        for buffer in inputs:
            self.add_input(buffer)

    def _hold(self, buffer: Buffer) -> Held:
        """Return what holds a buffer, as long as there is the tape."""
        held = self._held.get(id(buffer))
        if held is None:
            held = self._held[id(buffer)] = Held(buffer)
        self._at[buffer.device, buffer.address] = held
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
        held = self._hold(buffer)
        self._note_words(held, self._sources.get(held, held).buffer.address)

    def _note_words(self, table: Held, address: int) -> None:
        """Note that memory contains addresses, given where the host has its words."""
        data = ctypes.string_at(address, table.buffer.size_bytes // 8 * 8)
        words = np.frombuffer(data, "<u8")
        places = []
        for k, word in enumerate(words.tolist()):
            held = self._around(word)
            if held is not None:
                places.append((k, held, word - held.buffer.address))
        self.tables[table] = words, places

    def note_gradient(self, vertex: Any) -> None:
        """Note the gradient that a vertex has had."""
        self.gradients.setdefault(vertex.serial, vertex.grad)

    def note_traversal(self, found: Iterable[Any]) -> None:
        """Note whether there are vertices that were computed before the tape."""
        start = self.start
        for vertex in found:
            self.goes_outside |= vertex.serial < start and bool(vertex.inputs)

    def note_brought(self, source: Buffer, made: Buffer, address: int) -> None:
        """Note that a device has got what the host had: an input lies there then."""
        former, held = self._held.get(id(source)), self._hold(made)
        if former is None or id(source) in self.foreign:
            self.foreign[id(made)] = held
        elif former in self.inputs:
            self.is_mixed |= any(former in self.used_by(job) for job in self.jobs)
            self.inputs = [held if v is former else v for v in self.inputs]
        elif id(source) in self.filled:
            self.filled[id(made)] = held
            self._sources[held] = former
        else:
            # The host has computed it.
            self.is_mixed = True
        if former in self.tables:
            self._note_words(held, address)

    def _around(self, address: int) -> Held | None:
        """Return the buffer in which an address lies."""
        if address < _LOWEST_ADDRESS:
            return None
        held = self._known_at(address)
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

    def note_entry(
        self, buffer: Buffer, dtype: DType, position: int, value: Any
    ) -> Any:
        """Note that the host reads an entry."""
        if id(buffer) in self.filled:
            return value
        self._note_place(buffer.device)
        held = self._held.get(id(buffer))
        if held is None:
            held = self.foreign[id(buffer)] = self._hold(buffer)
        self.reads.append(Read(len(self.jobs), held, dtype, position))
        return self._meet(len(self.reads) - 1, value)

    def _note_place(self, where: Attached | None) -> None:
        """Note where something happens."""
        if where is not self.device:
            # What has been recorded so far may be nothing but numbers.
            is_first = self.device is None and not (self.jobs or self.reads)
            self.is_mixed |= not is_first
            self.device = where

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
        self._note_place(device.away.get(get_ident()))
        words = np.frombuffer(args, "<u8", len(args) // 8).tolist()
        patches = []
        for slot, word in enumerate(words):
            held = self._known_at(word) if word >= _LOWEST_ADDRESS else None
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

    def _known_at(self, address: int) -> Held | None:
        """Return the buffer at an address of what computes; it may be new to us."""
        here = device.away.get(get_ident())
        held = self._at.get((here, address))
        if held is not None:
            return held
        find = buffers.at_address if here is None else here.at_address
        buffer = find(address)
        if buffer is None:
            return None
        held = self.foreign[id(buffer)] = self._hold(buffer)
        return held
