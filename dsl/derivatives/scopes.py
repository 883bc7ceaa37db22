"""Where derivatives are tracked: suspended, resumed and isolated parts of a program."""

from __future__ import annotations

from typing import Any

from lumijit.compiler.derive import isolation
from lumijit.compiler.ir import vertices
from lumijit.compiler.ir.vertices import Selection
from lumijit.derivatives.gradients import tracked_leaves
from lumijit.runtime.contexts import Block


class _Tracking:
    """Tracks other variables for a `with` block."""

    def __init__(self, args: tuple[Any, ...], when: bool, is_added: bool) -> None:
        self._args = args
        self._when = when
        self._is_added = is_added
        self._entered: list[Block[Selection | None]] = []

    def __enter__(self) -> None:
        if not self._when:
            return
        now = vertices.selected() or vertices.EVERYTHING
        if self._args:
            leaves = tracked_leaves(*self._args)
            known = [n.vertex for n in (f._node for f in leaves) if n.vertex]
            chosen = now.altered(known, self._is_added)
        else:
            chosen = Selection(self._is_added, frozenset())
        during = vertices.selecting(chosen)
        during.__enter__()
        self._entered.append(during)

    def __exit__(self, *error: Any) -> None:
        if self._when:
            self._entered.pop().__exit__(*error)


def suspend_grad(*args: Any, when: bool = True) -> Any:
    """Stop tracking derivatives in a `with` block.

    Args:
        *args: arrays and PyTrees that aren't tracked there; without any, nothing is,
            and `enable_grad` does nothing.
        when: whether to do anything.

    Returns:
        A context manager.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.enable_grad(x)
    >>> with dr.suspend_grad():
    ...     y = x + 1
    >>> dr.grad_enabled(y)
    False
    """
    return _Tracking(args, when, False)


def resume_grad(*args: Any, when: bool = True) -> Any:
    """Track derivatives again in a `with` block.

    Args:
        *args: arrays and PyTrees that are tracked there, besides those that are;
            without any, everything is.
        when: whether to do anything.

    Returns:
        A context manager.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.enable_grad(x)
    >>> with dr.suspend_grad():
    ...     with dr.resume_grad(x):
    ...         y = x + 1
    >>> dr.grad_enabled(y)
    True
    """
    return _Tracking(args, when, True)


def isolate_grad(when: bool = True) -> Any:
    """Keep reverse mode in a `with` block from going on beyond it.

    Gradients arrive at what was computed before the block; from there, they are
    propagated when the block ends. Forward mode isn't concerned.

    Args:
        when: whether to do anything.

    Returns:
        A context manager.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> with dr.isolate_grad():
    ...     dr.backward(2 * y)
    ...     print(x.grad)
    [0]
    >>> x.grad
    [12]
    """
    return isolation.isolated(when)
