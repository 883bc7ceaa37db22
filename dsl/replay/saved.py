"""Recordings in a file, for a process that neither traces nor compiles them.

A file holds machine code that will be run: it is looked at as those of the disk cache
are (whose it is, checksum), and has to be from the same version, on such a processor.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from typing import Any

from lumijit import pytree
from lumijit.replay.codec import (
    ChangedCodeError,
    UnknownValueError,
    code_of,
    decode,
    decode_tree,
    encode,
    encode_tree,
)
from lumijit.replay.differentiated import Differentiated, Recorded
from lumijit.replay.entries import ARRAYS, Entry
from lumijit.replay.numbers import Arithmetic, Guard
from lumijit.replay.playback import Leaf, Made, Put, Recording, Slot
from lumijit.replay.tracked_results import Tracked
from lumijit.runtime import cache, cpu
from lumijit.runtime.attached import Attached
from lumijit.runtime.errors import RecordingError
from lumijit.runtime.replay_image import Blobs, MissingCodeError, described, restored

Data = dict[str, Any]
Keyed = tuple[tuple[Any, ...], Entry]
_FORMAT = 5


def save(construct: str, path: str, kernel: Recorded, entries: Iterable[Keyed]) -> None:
    """Write recordings of a function to a file."""
    blobs, entries = Blobs(), list(entries)
    if any(isinstance(t, Attached) for key, _ in entries for t in key[ARRAYS]):
        raise RecordingError(
            f"{construct}.save",
            "a recording runs on a device, and only those of the CPU can be saved",
            "save what was recorded with arrays of lumijit.llvm; after clear(), say.",
        )
    try:
        found = _described(entries, blobs)
    except UnknownValueError as error:
        raise RecordingError(
            f"{construct}.save",
            f"a recording depends on {error}",
            "define it at the top level of a module, or pass it as an argument.",
        ) from None
    except MissingCodeError:
        raise RecordingError(
            f"{construct}.save",
            "the machine code of a kernel isn't in the disk cache",
            "see 'python -m lumijit doctor' for why, and record again.",
        ) from None
    code = code_of(kernel.function)
    meta = {"entries": found, "sizes": blobs.sizes, "code": code, **_environment()}
    data = cache.pack(construct, b"".join(blobs.parts), meta)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def load(construct: str, path: str, kernel: Recorded) -> list[Keyed]:
    """Read recordings from a file, for a function."""
    where = f"{construct}.load"
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        fault = cache.fault_of(status)
        if fault or not stat.S_ISREG(status.st_mode):
            raise RecordingError(
                where,
                f"the file {path!r} {fault or 'is no regular file'}",
                "use files of your own that only you may write to (chmod go-w).",
            )
        data = file.read()
    try:
        code, meta = cache.unpack(data, construct)
    except ValueError as error:
        raise RecordingError(
            where,
            f"the file {path!r} holds no recordings of this function: {error}",
            "save them again.",
        ) from None
    for name, value in _environment().items():
        if meta[name] != value:
            raise RecordingError(
                where,
                f"the file {path!r} was saved with another {name}",
                "save the recordings again, here and with this version.",
            )
    try:
        if meta["code"] != code_of(kernel.function):
            raise ChangedCodeError(f"the code of {kernel.name!r} has changed")
        return _restored(meta["entries"], Blobs(code, meta["sizes"]), kernel)
    except ChangedCodeError as error:
        raise RecordingError(
            where, f"{error} since {path!r} was saved", "save the recordings again."
        ) from None


def _environment() -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version of lumijit, LLVM or processor": cpu.environment_key(),
        "version of Python": list(sys.version_info[:2]),
    }


def _described(entries: Iterable[Keyed], blobs: Blobs) -> list[Data]:
    """Describe recordings, and those of derivatives; what just runs is left out."""
    found = []
    for key, entry in entries:
        data: Data = {"key": encode(key), "reason": entry.reason, "names": entry.names}
        differentiated = entry.differentiated
        if differentiated is not None:
            data["is_result"] = differentiated.tracked.is_result
            data["sources"] = differentiated.tracked.sources
            data["arithmetic"] = _arithmetic(differentiated.arithmetic)
            for name in ("pushed", "pulled"):
                own = getattr(differentiated, name).entries()
                data[name] = _described(own, blobs)
        elif entry.recording is not None:
            data["recording"] = _recording(entry.recording, blobs)
        else:
            continue
        found.append(data)
    return found


def _restored(entries: list[Data], blobs: Blobs, kernel: Recorded) -> list[Keyed]:
    found = []
    for data in entries:
        entry = Entry(None, "", data["reason"], data["names"])
        if "recording" in data:
            entry.recording = _from_data(data["recording"], blobs)
        else:
            entry.problem = "its results can be differentiated"
            arithmetic = _restored_arithmetic(data["arithmetic"])
            tracked = Tracked(data["is_result"], data["sources"])
            entry.differentiated = Differentiated(kernel, tracked, arithmetic)
            for name in ("pushed", "pulled"):
                own = getattr(entry.differentiated, name)
                own.adopt(_restored(data[name], blobs, own))
        found.append((decode(data["key"]), entry))
    return found


def _recording(recording: Recording, blobs: Blobs) -> Data:
    if recording.reports:
        raise UnknownValueError("text that it prints, or checks")
    if any(leaf.contents is not None for leaf in recording.leaves):
        raise UnknownValueError("arrays of instances")
    nodes = [
        made._replace(source=blobs.add_memory(made.source))
        if made.kind == "memory"
        else made
        for made in recording.nodes
    ]
    return {
        "replay": described(recording.replay, blobs),
        "slots": [encode(tuple(slot)) for slot in recording.slots],
        "arithmetic": _arithmetic(recording.arithmetic),
        "nodes": [encode(tuple(made)) for made in nodes],
        "parts": [encode_tree(value) for value in recording.parts.values],
        "leaves": [encode(tuple(leaf)) for leaf in recording.leaves],
        "puts": [encode(tuple(put)) for put in recording.puts],
        "changed": recording.changed,
        "gradients": recording.gradients,
    }


def _from_data(data: Data, blobs: Blobs) -> Recording:
    nodes = [Made(*decode(made)) for made in data["nodes"]]
    return Recording(
        restored(data["replay"], blobs),
        [Slot(*decode(slot)) for slot in data["slots"]],
        _restored_arithmetic(data["arithmetic"]),
        [
            made._replace(source=blobs.memory(made.source))
            if made.kind == "memory"
            else made
            for made in nodes
        ],
        pytree.Parts(tuple(map(decode_tree, data["parts"]))),
        [Leaf(*decode(leaf)) for leaf in data["leaves"]],
        [Put(*decode(put)) for put in data["puts"]],
        [(k, made) for k, made in data["changed"]],
        [(k, made) for k, made in data["gradients"]],
        [],
    )


def _arithmetic(arithmetic: Arithmetic) -> Data:
    return {
        "names": arithmetic.names,
        "steps": [
            operands[0] if operation is None else [encode(operation), encode(operands)]
            for operation, operands in arithmetic.steps
        ],
        "guards": [
            encode((g.index, g.expected, g.inputs, g.has_reads, g.where))
            for g in arithmetic.guards
        ],
    }


def _restored_arithmetic(data: Data) -> Arithmetic:
    steps = [
        (None, (step,)) if isinstance(step, int) else tuple(map(decode, step))
        for step in data["steps"]
    ]
    guards = []
    for guard in data["guards"]:
        *facts, where = decode(guard)
        guards.append(Guard(*facts))
        guards[-1].where = where
    return Arithmetic.restored(data["names"], steps, guards)
