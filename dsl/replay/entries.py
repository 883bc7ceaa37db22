"""What a decorated function knows of its recordings: keys and reasons.

Owns what belongs to a key besides arguments and surroundings, and saying in what two
keys differ. What a recording is, is up to `playback`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from lumijit.compiler.ir import vertices
from lumijit.compiler.launch import evaluate
from lumijit.compiler.plan import target
from lumijit.replay.differentiated import Differentiated
from lumijit.replay.inputs import Call
from lumijit.replay.numbers import Guard
from lumijit.replay.playback import Recording
from lumijit.runtime import workers
from lumijit.runtime.config import FLAG_NAMES, flags


@dataclass
class Entry:
    """A recording as its function knows it: why it was made, and what it depends on.

    `problem` says why there is none; the function runs in such calls, unless it is
    known how its results are `differentiated`.
    """

    recording: Recording | None
    problem: str
    reason: str
    names: list[str]
    differentiated: Differentiated | None = None
    call_count: int = 0

    def text(self) -> list[str]:
        """Describe it, in lines."""
        lines = [self.reason]
        if self.differentiated is not None:
            lines += self.differentiated.text()
        elif self.recording is None:
            lines.append(f"runs as it is, since {self.problem}")
        else:
            replay = self.recording.replay
            kernels = {id(step.kernel) for step in replay.steps}
            lines.append(
                f"{len(replay.steps)} launches of {len(kernels)} kernels, replayed "
                f"{self.call_count} times, {replay.temporary_bytes} bytes of memory"
            )
        return [*lines, f"inputs: {', '.join(self.names) or 'none'}"]


# What only tells of launches is no part of a recording.
_flags_of = operator.attrgetter(
    *(name for name in FLAG_NAMES if name not in ("kernel_history", "launch_blocking"))
)
_UNCHANGED = _flags_of(flags)


def context() -> tuple[Any, ...]:
    """Return what a recording depends on besides the call."""
    chosen = vertices.selected()
    # (No flag was ever set in this thread, mostly. One is no attribute.)
    is_changed = flags.__dict__ or flags.symbolic_scope
    return (
        _flags_of(flags) if is_changed else _UNCHANGED,
        chosen and (chosen.is_complement, frozenset(chosen.serials)),
        workers.thread_count(),
        evaluate.expand_threshold(),
        target.in_use().name,
    )


#: Where a key has what tells arrays; `context` is behind that.
ARRAYS = 3


def without_sizes(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key but for what tells arrays."""
    return key[:ARRAYS] + key[ARRAYS + 1 :]


_DIFFERENCES = (
    "arguments have other types, another structure, or other constants",
    "what the function reaches besides arguments has another structure or constants",
    "other containers are one",
    "arrays have other sizes, derivatives, or devices, or others are one",
    "flags have changed",
    "other derivatives are suspended",
    "the number of threads has changed",
    "the threshold of private copies has changed",
    "there is another target",
)


def reason_for(
    call: Call,
    key: tuple[Any, ...],
    before: tuple[Any, ...] | None,
    cause: Guard | Exception | None,
) -> str:
    """Say why a call is recorded: what keeps it from a replay, or from the last key."""
    if isinstance(cause, Guard):
        names = call.number_names()
        used = [f"'{names[k]}'" for k in sorted(cause.inputs)]
        used += ["an array's entry"] * cause.has_reads
        what = " and ".join(used)
        return f"Python uses the value of {what}, which has changed, {cause.where}"
    if cause is not None:
        return f"what is computed of its numbers fails ({cause})"
    if before is None:
        return "the first call"
    return _difference(before, key, call)


def _difference(before: tuple[Any, ...], key: tuple[Any, ...], call: Call) -> str:
    """Say in what a call differs from another one."""
    for text, old, new in zip(_DIFFERENCES, before, key, strict=True):
        if old != new:
            if old is before[ARRAYS]:
                arrays = zip(call.array_names(), call.arrays, strict=True)
                sizes = ", ".join(f"{n}: {len(a)}" for n, a in arrays)
                text = f"{text} (now {sizes})"
            return text
    return "recordings for such calls were forgotten"
