"""Arrays in a device's memory that other libraries see, and those of others that we do.

By DLPack and by `__cuda_array_interface__`, without copies where memory allows it.
Both say in which stream the memory is used: who takes an array has its stream wait for
that of who gives it. Owns the order of streams and what such memory means for arrays;
capsules are in `dlpack`, memory is in `runtime.attached`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from weakref import finalize

import numpy as np

from lumijit.base import symbolic_error
from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import exposed
from lumijit.compiler.record.writes import is_recorded
from lumijit.functions.shaping import ravel
from lumijit.functions.sizes import strides as dense_strides
from lumijit.instance_registry import opaque
from lumijit.interop import exchange
from lumijit.interop.dlpack import (
    CUDA,
    CUDA_MANAGED,
    Contents,
    Taken,
    capsule_of,
)
from lumijit.runtime import cuda, dtypes
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.device import DeviceId, find
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import (
    ArrayAttributeError,
    ArrayTypeError,
    ArrayValueError,
    ExchangeError,
)
from lumijit.spec import FLAT, TENSOR

_INTERFACE_VERSION: Final = 3
# What the protocols say of streams: the default one if nothing is said, and none.
_UNSAID, _NO_ORDER = 1, -1
# Memory that an interface was asked for, as long as the array lives; by ids of both.
_kept: Final[dict[tuple[int, int], Any]] = {}


def _memory(array: Any, construct: str, is_copy: bool) -> Buffer:
    """Return the memory of an array's entries on its device, the last index fastest."""
    if array._is_symbolic():
        raise symbolic_error(f"{type(array).__name__}.{construct}")
    flat = array._flat if array._spec.kind is TENSOR else ravel(array, "C")
    where = flat._spec.backend.device
    if flat._node.op is LITERAL:
        flat._rehouse(opaque(flat._node, where))
    evaluate.evaluate((flat._node,))
    is_copy = is_copy or is_recorded(flat)
    node = flat._node
    with placement.at(placement.owner(node) or where):
        placement.bring(node)
    buffer: Buffer = node.buffer
    if is_copy:
        return exposed.copied_there(buffer)
    # From here on, the array goes on with copies when it is written to.
    buffer.device.lend(buffer)
    exposed.note(node, flat)
    return buffer


def device_of(array: Any) -> tuple[int, int]:
    """Return what DLPack calls the device of an array."""
    flat = array._flat if array._spec.kind is TENSOR else ravel(array, "C")
    owner = placement.owner_of(flat._node) if placement.used else None
    return CUDA, (owner or array._spec.backend.device).number


def capsule(array: Any, options: dict[str, Any]) -> Any:
    """Return the contents as a DLPack capsule; the options are those of `__dlpack__`.

    Raises:
        ExchangeError: if the contents can't be given as they are asked for.
    """
    construct = f"{type(array).__name__}.__dlpack__"
    wanted, is_copy = options.get("dl_device"), options.get("copy")
    stream = _checked_stream(options.get("stream"), construct)
    device = device_of(array)
    if wanted is not None and tuple(wanted) == exchange.CPU and is_copy is not False:
        return exchange.writable(array).__dlpack__()
    if wanted is not None and tuple(wanted) != device:
        raise ExchangeError(
            construct,
            f"the contents are on device {device}, and are wanted on {tuple(wanted)}",
            "ask for them there, or on the CPU as a copy.",
        )
    buffer = _memory(array, "__dlpack__", bool(is_copy))
    if stream is not None:
        buffer.device.lead(stream)
    contents = _contents(array, buffer)
    return capsule_of(contents, partial(buffer.device.take_back, buffer, stream))


def _checked_stream(stream: Any, construct: str) -> int | None:
    """Return the stream that is to wait; None if none is."""
    if stream is None:
        return _UNSAID
    if type(stream) is not int or stream == 0 or stream < _NO_ORDER:
        raise ExchangeError(
            construct,
            f"'stream' is {stream!r}, which names no stream of a GPU (expected 1 for "
            "the default one, 2 for that of the thread, a handle, or -1 for no order)",
            "pass the stream in which the contents will be used.",
        )
    return None if stream == _NO_ORDER else stream


def _contents(array: Any, buffer: Buffer) -> Contents:
    address = buffer.address if math.prod(array.shape) else 0
    device = CUDA, buffer.device.id.number
    return Contents(address, array._spec.dtype.numpy, array.shape, None, device)


def interface(array: Any) -> dict[str, Any]:
    """Return what `__cuda_array_interface__` is; the memory lives as long as the array.

    Who takes it has its stream wait for ours. As nobody says when it is done with the
    memory, it must be before the array is let go.
    """
    if array._spec.kind not in (FLAT, TENSOR):
        raise ArrayAttributeError(
            f"{type(array).__name__}.__cuda_array_interface__",
            "the components lie apart, so that there is no memory that lives as long "
            "as the array",
            "hand it over by DLPack, or as lumijit.ravel(x) or a tensor.",
        )
    buffer = _memory(array, "__cuda_array_interface__", is_copy=False)
    key = id(array), id(buffer)
    if key not in _kept:
        _kept[key] = buffer
        finalize(array, _kept.pop, key).atexit = False
    contents = _contents(array, buffer)
    return {
        "shape": contents.shape,
        "typestr": contents.dtype.str,
        "data": (contents.address, False),
        "strides": None,
        "stream": buffer.device.stream,
        "version": _INTERFACE_VERSION,
    }


def _dlpack_number(value: Any) -> int | None:
    """Return the number of the GPU that has an array, as DLPack tells it."""
    ask: Callable[[], tuple[int, int]] | None
    ask = getattr(value, "__dlpack_device__", None)
    kind, number = (0, 0) if ask is None else ask()
    return number if kind in (CUDA, CUDA_MANAGED) else None


def offers(value: Any) -> bool:
    """Tell whether an object of another library has an array in a GPU's memory."""
    if isinstance(value, type):
        return False
    if _dlpack_number(value) is not None:
        return True
    return hasattr(value, "__cuda_array_interface__")


def imported(value: Any, construct: str) -> tuple[Node, tuple[int, ...]]:
    """Return a node of the contents of another library's array, and its shape.

    Raises:
        ArrayTypeError, ArrayValueError: if no array can have them.
        BackendError: if the device isn't there.
    """
    number = _dlpack_number(value)
    if number is not None:
        where = find(DeviceId("cuda", number))
        taken = Taken(value.__dlpack__(stream=where.stream), construct)
        contents, owner = taken.contents, taken
    else:
        contents, stream = _described(value.__cuda_array_interface__, construct)
        where, owner = find(DeviceId("cuda", contents.device[1])), value
        if stream is not None:
            where.follow(stream)
    dtype = _checked(contents, construct)
    size = math.prod(contents.shape)
    trace.check_size(size, construct)
    if not size:
        return trace.literal(dtype, dtype.wrap(0), 0), contents.shape
    buffer = where.adopt(contents.address, size * dtype.size_bytes, owner)
    placement.used.add(where.id)
    node = trace.from_buffer(dtype, buffer, size)
    if buffer.is_foreign:
        exposed.note(node)
    return node, contents.shape


def _described(info: Any, construct: str) -> tuple[Contents, int | None]:
    """Read what an interface says: the contents, and the stream to wait for."""
    if info.get("mask") is not None:
        raise ArrayTypeError(
            construct,
            "entries of the array are masked: they have no value",
            "fill them first.",
        )
    stream = info.get("stream")
    if stream is not None and (type(stream) is not int or stream < 1):
        raise ArrayValueError(
            construct,
            f"the array's interface names the stream {stream!r}, which is none",
            "report this to who makes the array.",
        )
    dtype, shape = np.dtype(info["typestr"]), tuple(info["shape"])
    strides = info.get("strides")
    if strides is not None:
        strides = tuple(s // dtype.itemsize for s in strides)
    address = info["data"][0] or 0
    number = cuda.number_at(address) if address else 0
    return Contents(address, dtype, shape, strides, (CUDA, number)), stream


def _checked(contents: Contents, construct: str) -> DType:
    """Return the type of entries that lie as those of arrays do."""
    dtype = dtypes.from_numpy(contents.dtype)
    if dtype is None:
        raise ArrayTypeError(
            construct,
            f"arrays of dtype {contents.dtype} have no counterpart",
            "convert the array first, for example to float32.",
        )
    shape, strides = contents.shape, contents.strides
    if strides is not None and 0 not in shape:
        rows = zip(shape, strides, dense_strides(shape), strict=True)
        if any(size > 1 and own != dense for size, own, dense in rows):
            raise ArrayValueError(
                construct,
                f"the entries of the array aren't in order (shape {shape}, strides "
                f"{strides}): on a device, arrays are taken as they are",
                "pass one that is contiguous, for example array.contiguous().",
            )
    return dtype
