"""Printing from symbolic code: what a kernel captures, and its text afterwards.

Each element that gets to a print takes the next position from a counter and, if
there is room, writes its values and its thread id there. The evaluation that
carries this out sorts what was captured by thread id and prints it (`delivery`).
Immediate printing is in `output`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit.arrays import FlatArray, data_node
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder, new_holder
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.logic import AND, LT
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import UNDEFINED
from lumijit.compiler.launch import delivery
from lumijit.compiler.launch.evaluate import data
from lumijit.compiler.record import memory, writes
from lumijit.debug.template import THREAD_ID
from lumijit.pytree import Parts, children, is_container, rebuild
from lumijit.pytree_walks import flat_map
from lumijit.runtime import recorders
from lumijit.runtime.dtypes import BOOL, UINT32
from lumijit.runtime.errors import warn
from lumijit.spec import LLVM, TENSOR, plain_spec, require

_PRINT = Op("lumijit.print", 0)

Values = dict[int | str, Any]
Deliver = Callable[[Values, int, int], None]


class Capture(delivery.Report):
    """The values of one print statement on their way from the kernel.

    `handle` gets the values as arrays of the captured entries, how many these are,
    and how many there would have been.
    """

    def __init__(self, values: Values, limit: int, handle: Deliver) -> None:
        # How many elements got to the print.
        self.holder = Holder(trace.literal(UINT32, 0))
        self.threads = Holder(trace.undefined(UINT32, limit))
        self.limit = limit
        self.handle = handle
        self.buffers: list[Holder] = []
        self.values = map_arrays(self._replace, values)

    @property
    def holders(self) -> list[Holder]:
        """All that is written: counter, thread ids and values."""
        return [self.holder, self.threads, *self.buffers]

    def _replace(self, array: FlatArray) -> FlatArray:
        """Hold an array's place; the kernel's values are not kept alive."""
        buffer = Holder(trace.undefined(array._node.type, self.limit))
        self.buffers.append(buffer)
        return _Placeholder.of(array, buffer)

    def deliver(self) -> None:
        """Sort what was captured and hand it on."""
        total = int(data(self.holder._node)[0])
        count = min(total, self.limit)
        if not count:
            return
        threads = _contents(self.threads, count)
        order = np.argsort(threads, kind="stable")

        def fill(array: Any) -> Any:
            captured = _contents(array.buffer, count)[order]
            return wrap_flat(array.cls, data_node(captured))

        values = map_arrays(fill, self.values)
        values.setdefault(THREAD_ID, unsigned(threads[order]))
        self.handle(values, count, total)


class _Placeholder(FlatArray):
    """Stands for a flat array within a PyTree until its entries are known."""

    __slots__ = ("buffer", "cls")
    buffer: Holder
    cls: type[Any]

    @classmethod
    def of(cls, array: FlatArray, buffer: Holder) -> _Placeholder:
        """Make one for an array."""
        made: _Placeholder = new_holder(cls)
        made.buffer = buffer
        made.cls = type(array)
        return made


def _contents(buffer: Holder, count: int) -> Any:
    node = buffer._node
    if node.op is UNDEFINED:
        return np.zeros(count, dtype=node.type.numpy)
    return data(node)[:count]


def unsigned(entries: Any) -> Array:
    """Return a UInt array of NumPy entries."""
    cls = require(plain_spec(LLVM, False, UINT32), "lumijit.print")
    return wrap_flat(cls, data_node(entries.astype(np.uint32)))


def map_arrays(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to the flat traced arrays in a PyTree, also in nested ones.

    It may return other numbers of entries, so tensors become flat arrays.
    """
    flat = _without_tensors(value)
    return flat_map(lambda v: function(v) if isinstance(v, FlatArray) else v, flat)


def _without_tensors(value: Any) -> Any:
    if isinstance(value, ArrayBase) and not isinstance(value, FlatArray):
        return value.array if value._spec.kind is TENSOR else value
    if not is_container(value):
        return value
    return rebuild(value, [_without_tensors(v) for _, v in children(value)])


def flat_arrays(value: Any) -> list[Array]:
    """Return the flat traced arrays in a PyTree."""
    return [leaf for leaf in Parts((value,)).leaves if isinstance(leaf, FlatArray)]


def is_symbolic(values: Any, active: Any) -> bool:
    """Tell whether values are known only when the kernel runs.

    That is the case for all arrays inside of a region: an array made outside has
    the entries of the elements that get there. It is also so while launches are
    recorded (`lumijit.kernel`): a replay prints other values.
    """
    arrays = flat_arrays((values, active))
    is_recorded = recorders.listening and recorders.is_heard()
    if trace.state.scope is not ROOT or is_recorded:
        return bool(arrays)
    return any(a._is_symbolic() for a in arrays)


def mask_node(active: Any) -> Node:
    """Return the node of an `active` argument that has been checked."""
    if isinstance(active, FlatArray):
        return active._node
    return trace.literal(BOOL, bool(active))


def capture(values: Values, active: Any, limit: int, handle: Deliver) -> None:
    """Have the next kernel capture values of up to `limit` elements.

    Raises:
        SizeError: if the sizes of the arrays don't fit together.
    """
    note(Capture(values, limit, handle), values, active)


def note(report: Capture, values: Values, active: Any) -> None:
    """Have the next kernel capture values for a report, which may have some already."""
    limit = report.limit
    nodes = [a._node for a in flat_arrays(values)]
    mask = mask_node(active)
    width = trace.broadcast_size(
        _PRINT, (*nodes, mask, trace.literal(BOOL, True, trace.state.scope.width))
    )
    zero = trace.literal(UINT32, 0, width)
    with trace.guarded(None):
        slot = memory.scatter_inc(report.holder, zero, mask)
        if not report.holder._node.deps:
            return
        fits = trace.emit2(LT, slot, trace.literal(UINT32, limit))
        mask = trace.emit2(AND, trace.under_mask(mask), fits)
        writes.write(report.threads, trace.counter(width), slot, mask)
        for node, buffer in zip(nodes, report.buffers, strict=True):
            writes.write(buffer, node, slot, mask)
    delivery.register(report)


def warn_incomplete(count: int, total: int) -> None:
    """Warn that a print statement shows a part of the entries only."""
    if total > count:
        warn(
            f"lumijit.print(): symbolic print statement only captured {count} of "
            f"{total} available outputs. The above is a non-deterministic sample, in "
            "which entries are in the right order but not necessarily contiguous. "
            "Specify `limit=..` to capture more information and/or add the special "
            "format field `{thread_id}` show the thread ID/array index associated "
            "with each entry of the captured output."
        )
