"""The errors that a user's mistake raises, and how their messages are made.

Each class also inherits the builtin that Python programs would expect. The
message names the user's own line: `user_frame` walks out of this package.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

_PACKAGE_DIRS = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name)
    + os.sep
    for name in ("dsl", "compiler", "runtime")
)
_INSTALLED_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
if os.path.basename(os.path.dirname(_INSTALLED_DIR)) == "lumijit":
    # Compiled modules name their sources relative to the package (`setup.py`).
    _PACKAGE_DIRS = (_INSTALLED_DIR, f"lumijit{os.sep}")


class LumijitError(Exception):
    """Base class of all errors that lumijit raises on purpose.

    Made from what `message` takes, or from a text that is worded already.
    """

    def __init__(
        self, construct: str = "", problem: str | None = None, fix: str = ""
    ) -> None:
        worded = construct if problem is None else message(construct, problem, fix)
        super().__init__(worded)


class ArrayTypeError(LumijitError, TypeError):
    """An operand has a type that the operation does not take."""


class ArrayValueError(LumijitError, ValueError):
    """An argument has the right type but a value that makes no sense."""


class SizeError(LumijitError, ValueError, RuntimeError):
    """Array sizes that can't be combined, negative or too large sizes."""


class ArrayIndexError(LumijitError, IndexError):
    """An index lies outside an array."""


class UnknownKeyError(LumijitError, KeyError):
    """There is nothing under a name."""

    __str__ = Exception.__str__


class ArrayAttributeError(LumijitError, AttributeError, RuntimeError):
    """An array has no such component or property."""


class SymbolicError(LumijitError, RuntimeError):
    """A symbolic variable's contents were asked for while tracing."""


class StateError(LumijitError, RuntimeError, TypeError):
    """The state of a loop, branch or call is inconsistent."""


class DerivativeError(LumijitError, RuntimeError, TypeError):
    """A derivative that isn't defined, or that would be wrong."""


class RecordingError(LumijitError, RuntimeError, TypeError):
    """A function does what can't be recorded and replayed."""


class RecursionBoundError(LumijitError, RecursionError):
    """A function calls itself under array conditions, without or past a bound."""


class SyntaxTransformError(LumijitError, SyntaxError, TypeError):
    """A decorated function holds syntax that can't be vectorized."""


class AllocationError(LumijitError, MemoryError):
    """Memory for an array could not be had."""


class CancelledError(LumijitError, RuntimeError):
    """An array's contents are gone: Ctrl-C stopped the kernel that computes it."""


def cancelled() -> CancelledError:
    """Word the error for reading what a stopped kernel should have written."""
    return CancelledError(
        "evaluation",
        "the contents of an array were never computed, because Ctrl-C stopped the "
        "kernel",
        "compute the array anew.",
    )


class KernelBuildError(LumijitError, RuntimeError):
    """The code generator refused a kernel: an error of lumijit itself."""


class MissingPackageError(LumijitError, ImportError):
    """An optional package that a function needs is not installed."""


class ExchangeError(LumijitError, BufferError):
    """An array can't be handed to another library as that asks for it."""


class BackendError(LumijitError, RuntimeError):
    """A backend is missing or can't do what was asked."""


def is_internal(filename: str) -> bool:
    """Tell whether a source file belongs to this package."""
    return filename.startswith(_PACKAGE_DIRS)


# Packages that call functions of ours, for derivatives of their own (`interop`) or
# because classes of ours have their methods (`collections.abc`).
_CALLERS = frozenset({"collections", "jax", "torch"})


def user_frame() -> FrameType | None:
    """Return the innermost frame that is not part of this package, or of a caller."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        is_internal(frame.f_code.co_filename)
        or str(frame.f_globals.get("__name__")).partition(".")[0] in _CALLERS
    ):
        frame = frame.f_back
    return frame


def where() -> str:
    """Describe the user's current line as `file:line in function`."""
    frame = user_frame()
    if frame is None:
        return "<unknown>"
    name = frame.f_code.co_name
    inside = "" if name == "<module>" else f" in {name}"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}{inside}"


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn as if the user's current line did, which filters and displays name."""
    frame = user_frame()
    if frame is None:
        warnings.warn(text, category, stacklevel=2)
        return
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", "<unknown>"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def message(construct: str, problem: str, fix: str = "") -> str:
    """Word an error: the user's line, the construct, the problem and the mend."""
    text = f"{where()}: {construct}: {problem}"
    if not fix:
        return text
    stop = "" if text.endswith((".", "!", "?")) else "."
    return f"{text}{stop} Fix: {fix}"


def check_nesting(depth: int) -> None:
    """Refuse what probably contains itself: compiled code would use up its stack."""
    if depth >= sys.getrecursionlimit():
        raise RecursionError(f"a container has over {depth} levels: is it in itself?")
