"""What a construct sets in its thread while it runs, and that it ends with it.

A Ctrl-C may come between any two instructions of Python, also at the first one of an
`__exit__` or a `finally`, which then puts nothing back. So what restricts tracing lies
in context variables (`Variable`), and a construct runs in a copy of the context
(`apart`): that ends in C, with the construct, whatever ended this. What has to be
undone besides is known to `apart`, too: of a part of the construct (`on_error`), or
until the outermost construct that began later than a thing has ended (`remember`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from threading import get_ident
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Undo = Callable[[], object]
_UNSET: Any = object()
_own: set[ContextVar[Any]] = set()


class Variable(Generic[T]):
    """A value that ends with the construct that set it; also as an attribute."""

    __slots__ = ("get", "opened", "set")

    def __init__(self, name: str, default: T) -> None:
        variable = ContextVar(name, default=default)
        blocks: ContextVar[Blocks] = ContextVar(f"blocks of {name}", default=())
        _own.update((variable, blocks))
        # These are read in a quarter of the time of a thread-local attribute.
        self.get: Callable[[], T] = variable.get
        self.set: Callable[[T], object] = variable.set
        #: The blocks that have set it and are open, innermost last.
        self.opened: Any = blocks

    def __get__(self, instance: object, owner: object) -> T:
        return self.get()

    def __set__(self, instance: object, value: T) -> None:
        self.set(value)

    def during(self, value: T) -> During[T]:
        """Return a context manager that sets another value meanwhile."""
        return During(self, value)

    def block(self, value: T) -> Block[T]:
        """Return one that may end later than those around it, as in generators."""
        return Block(self, value)


def of_threads(table: dict[int, T]) -> Setting[T | None]:
    """Return the entries of threads in a table as a setting; None: there is none."""

    def get() -> T | None:
        return table.get(get_ident())

    def put(entry: T | None) -> None:
        if entry is None:
            table.pop(get_ident(), None)
        else:
            table[get_ident()] = entry

    return Setting(get, put)


class _Opened(threading.local):
    """The blocks that are open in a thread."""

    entries: Blocks = ()

    def get(self) -> Blocks:
        return self.entries

    def set(self, entries: Blocks) -> None:
        self.entries = entries


class Setting(Generic[T]):
    """A value that a thread keeps elsewhere, which outlives constructs."""

    __slots__ = ("get", "opened", "set")

    def __init__(self, get: Callable[[], T], put: Callable[[T], object]) -> None:
        self.get = get
        self.set = put
        self.opened = _Opened()

    def block(self, value: T) -> Block[T]:
        """Return one that may end later than those around it, as in generators."""
        return Block(self, value)


class During(Generic[T]):
    """Gives a variable another value for a `with` block.

    No generator: who drops the traceback of one that a Ctrl-C cut short would put back
    what was long past.
    """

    __slots__ = ("_outer", "_value", "_variable")

    def __init__(self, variable: Variable[T] | Setting[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._outer = self._variable.get()
        self._variable.set(self._value)

    def __exit__(self, *_error: object) -> None:
        self._variable.set(self._outer)


class Entry:
    """Gives a thread's entry of a table another value for a `with` block.

    None: it has none. What every evaluation on a device enters.
    """

    __slots__ = ("_ident", "_outer", "_table", "_value")

    def __init__(self, table: dict[int, Any], value: Any) -> None:
        self._table = table
        self._value = value

    def __enter__(self) -> None:
        self._ident = get_ident()
        self._outer = self._table.get(self._ident)
        self._put(self._value)

    def __exit__(self, *_error: object) -> None:
        self._put(self._outer)

    def _put(self, value: Any) -> None:
        if value is None:
            self._table.pop(self._ident, None)
        else:
            self._table[self._ident] = value


class Block(During[T]):
    """Does so for blocks of users.

    Those of generators may end in another order than they began in. Each takes back
    what it set itself: the next one inside then puts back what this one would have.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        opened = self._variable.opened
        opened.set((*opened.get(), self))

    def __exit__(self, *_error: object) -> None:
        variable = self._variable
        opened = variable.opened.get()
        if self not in opened:
            # The construct in which it was set has ended, or it is another thread's.
            return
        place = opened.index(self)
        inside = opened[place + 1 :]
        if inside:
            inside[0]._outer = self._outer
        # (First: cut short in between, those outside still put back their own.)
        variable.opened.set(opened[:place] + inside)
        if not inside:
            variable.set(self._outer)


Blocks = tuple[Block[Any], ...]


#: Numbers constructs and what they may change, in the order in which they begin.
serials = itertools.count(1)


class _Construct:
    """A construct that runs: how to undo what it does, and to things made before it.

    `attempt` is the innermost attempt to run one that it is part of.
    """

    __slots__ = ("attempt", "before", "began", "undo")

    def __init__(self, attempt: Attempt | None) -> None:
        self.attempt = attempt
        self.began = next(serials)
        self.undo: list[Undo] = []
        self.before: dict[int, Undo] = {}

    def unwind(self) -> None:
        """Undo it all."""
        undo = self.undo
        while undo:
            undo[-1]()
            undo.pop()
        if self.before:
            for put_back in self.before.values():
                put_back()

    def end(self, outer: _Construct | None) -> None:
        """Keep what it has done, unless a construct around it raises."""
        if outer is not None and self.before:
            for serial, undo in self.before.items():
                if serial < outer.began:
                    outer.before.setdefault(serial, undo)
        self.undo.clear()
        self.before.clear()


_construct: Variable[_Construct | None] = Variable("construct", None)
_running = _construct.get


def on_error(undo: Undo) -> None:
    """Have a function called, perhaps twice, if the construct that runs raises."""
    known = _running()
    if known is not None:
        known.undo.append(undo)


def is_new(serial: int) -> bool:
    """Tell whether the construct changes something for the first time.

    What it has made itself doesn't count, as nobody has it if the construct raises.
    """
    known = _construct.get()
    return known is not None and serial < known.began and serial not in known.before


def remember(serial: int, undo: Undo) -> None:
    """Have a change undone if the construct that runs raises, or one around it.

    Args:
        serial: the thing's number (`serials`), which `is_new` to the construct.
        undo: makes it what it is now; may be called twice.
    """
    known = _construct.get()
    if known is not None:
        known.before[serial] = undo


#: What is called when the outermost construct has ended.
afterwards: list[Callable[[], object]] = []


def is_apart() -> bool:
    """Tell whether a construct runs."""
    return _construct.get() is not None


def settle(undo: Undo) -> None:
    """Keep what would have been undone."""
    known = _running()
    if known is not None:
        known.undo.remove(undo)


def apart(
    function: Callable[..., R],
    args: tuple[Any, ...] = (),
    variable: Variable[T] | None = None,
    value: T | None = None,
    attempt: Attempt | None = None,
) -> R:
    """Call a function that traces; what it sets in variables ends with it.

    If it raises, what it did is undone. Whoever goes on after an error in tracing has
    called it in this way. Context variables of the user's keep what it gave them.

    Args:
        function: what to call.
        args: its arguments.
        variable: one that is to be something else in there.
        value: what it is to be.
        attempt: the attempt that this is, if it is one.
    """
    outer = _construct.get()
    if attempt is None and outer is not None:
        attempt = outer.attempt
    construct = _Construct(attempt)
    context = copy_context()
    try:
        try:
            result = context.run(_with, construct, variable, value, function, args)
            construct.end(outer)
        finally:
            construct.unwind()
    finally:
        # A Ctrl-C may have cut the first short.
        construct.unwind()
    if not _own.issuperset(context):
        for other, value in context.items():
            if other not in _own and other.get(_UNSET) is not value:
                other.set(value)
    if outer is None:
        for then in afterwards:
            then()
    return result


def _with(
    construct: _Construct,
    variable: Variable[Any] | None,
    value: Any,
    function: Callable[..., R],
    args: tuple[Any, ...],
) -> R:
    """Call a function as a construct, in whose context a variable has a value."""
    _construct.set(construct)
    if variable is not None:
        variable.set(value)
    return function(*args)


class Attempt:
    """An attempt to run a construct: what can't be undone waits until it is kept."""

    __slots__ = ("_outer", "_waiting")

    def __init__(self, outer: Attempt | None) -> None:
        self._outer = outer
        self._waiting: list[Callable[[], object]] | None = []

    def do(self, action: Callable[[], object]) -> None:
        """Call a function once it is sure that the attempt counts."""
        if self._waiting is not None:
            self._waiting.append(action)
        else:
            when_kept(self._outer, action)

    def carry_out(self) -> None:
        """Do what has waited so far, unless an attempt around this one may fail."""
        waiting = self._waiting
        while waiting and self._outer is None:
            waiting.pop(0)()

    def keep(self) -> None:
        """Do what has waited, and from now on all at once."""
        waiting, self._waiting = self._waiting or [], None
        while waiting:
            when_kept(self._outer, waiting.pop(0))


def running_attempt() -> Attempt | None:
    """Return the innermost attempt that runs."""
    known = _construct.get()
    return None if known is None else known.attempt


def when_kept(running: Attempt | None, action: Callable[[], object]) -> None:
    """Call a function, at once or when an attempt is kept."""
    if running is None:
        action()
    else:
        running.do(action)
