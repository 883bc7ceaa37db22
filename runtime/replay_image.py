"""Replays as data: what a file holds so that another process can run them.

Machine code comes from the disk cache and goes into the file. Addresses are told by
whose they are: those of memory that stays, of kernels, and of the pool's words.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from lumijit.runtime import buffers, cache, cpu, dtypes, history, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.replay import Replay, Step, Template
from lumijit.runtime.tape import Read

Data = dict[str, Any]
# Where, before its arguments, an inline job names its kernel (in words).
_KERNEL = 2


class MissingCodeError(Exception):
    """A kernel whose machine code isn't on disk."""


class Blobs:
    """Bytes that a description refers to by number."""

    def __init__(self, data: bytes = b"", sizes: Sequence[int] = ()) -> None:
        self.parts: list[bytes] = []
        start = 0
        for size in sizes:
            self.parts.append(data[start : start + size])
            start += size

    def add(self, data: bytes) -> int:
        """Add bytes; return their number."""
        self.parts.append(data)
        return len(self.parts) - 1

    @property
    def sizes(self) -> list[int]:
        """How long each is."""
        return list(map(len, self.parts))

    def add_memory(self, buffer: Buffer) -> int:
        """Add what lies in memory."""
        workers.sync()
        buffer.check_intact()
        return self.add(ctypes.string_at(buffer.address, buffer.size_bytes))

    def memory(self, number: int) -> Buffer:
        """Return bytes in memory."""
        return buffers.filled(np.frombuffer(self.parts[number], np.uint8))


def described(replay: Replay, blobs: Blobs) -> Data:
    """Describe a replay.

    Raises:
        MissingCodeError: if the disk cache doesn't have one of its kernels.
    """
    kernels: dict[str, Any] = {}
    for step in replay.steps:
        if step.kernel.hash not in kernels:
            found = cache.lookup(step.kernel.hash)
            if found is None:
                raise MissingCodeError(step.kernel.hash)
            count = step.kernel.operation_count
            kernels[step.kernel.hash] = [blobs.add(found[0]), count]
    memory: list[Any] = []
    for buffer, contents in zip(replay.memory, replay.contents, strict=True):
        if contents is False:
            memory.append(buffer.size_bytes)
        elif contents is True:
            memory.append([blobs.add_memory(buffer)])
        else:
            memory.append(_template(contents, replay, blobs))
    return {
        "sizes": replay.sizes,
        "memory": memory,
        "tables": [_template(table, replay, blobs) for table in replay.tables],
        "stops": [
            (read.done, read.place, read.dtype.name, read.position)
            for read in replay.stops
        ],
        "steps": [
            step._replace(
                kernel=step.kernel.hash,
                summary={k: _plain(v) for k, v in step.summary.items()},
            )
            for step in replay.steps
        ],
        "template": _template(replay.template, replay, blobs),
        "kernels": kernels,
    }


def restored(data: Data, blobs: Blobs) -> Replay:
    """Return a replay from its description."""
    kernels = {
        name: cpu.link(blobs.parts[blob], f"lumijit_{name}", name)
        for name, (blob, _) in data["kernels"].items()
    }
    for name, (_, count) in data["kernels"].items():
        kernels[name].operation_count = count
    memory: list[Buffer] = []
    contents: list[Template | bool] = []
    for entry in data["memory"]:
        table: Template | bool = False
        if isinstance(entry, int):
            memory.append(buffers.allocate(entry))
        elif isinstance(entry, list):
            memory.append(blobs.memory(entry[0]))
            table = True
        else:
            # It refers to memory before it only.
            table = _with_addresses(entry, memory, blobs)
            memory.append(buffers.filled(table.words))
        contents.append(table)
    steps = [Step(*step) for step in data["steps"]]
    template = _with_addresses(data["template"], memory, blobs)
    for step in steps:
        if step.is_inline:
            template.words[step.start // 8 - _KERNEL] = kernels[step.kernel].address
    return Replay(
        data["sizes"],
        memory,
        contents,
        [_with_addresses(table, memory, blobs) for table in data["tables"]],
        [
            Read(done, place, dtypes.BY_NAME[name], position)
            for done, place, name, position in data["stops"]
        ],
        [
            step._replace(
                kernel=kernels[step.kernel],
                summary={k: _rich(v) for k, v in step.summary.items()},
            )
            for step in steps
        ],
        template,
    )


def _template(template: Template, replay: Replay, blobs: Blobs) -> Data:
    words = template.words.copy()
    for position, number in template.fixed:
        words[position] -= np.uint64(replay.memory[number].address)
    polled = np.flatnonzero(words == workers.cancel_address())
    words[polled] = 0
    return {
        "words": blobs.add(words.tobytes()),
        "positions": template.positions.tolist(),
        "sources": template.sources.tolist(),
        "fixed": template.fixed,
        "polled": polled.tolist(),
    }


def _with_addresses(data: Data, memory: Sequence[Buffer], blobs: Blobs) -> Template:
    words = np.frombuffer(blobs.parts[data["words"]], "<u8").copy()
    for position, number in data["fixed"]:
        words[position] += np.uint64(memory[number].address)
    words[data["polled"]] = workers.cancel_address()
    positions, sources = (
        np.array(data[name], np.intp) for name in ("positions", "sources")
    )
    fixed = [(position, number) for position, number in data["fixed"]]
    return Template(words, positions, sources, fixed)


def _plain(value: Any) -> Any:
    """Return a field of a summary as JSON has it."""
    if isinstance(value, (history.JitBackend, history.KernelType)):
        return [type(value).__name__, value.name]
    return value


def _rich(value: Any) -> Any:
    return (
        getattr(getattr(history, value[0]), value[1]) if type(value) is list else value
    )
