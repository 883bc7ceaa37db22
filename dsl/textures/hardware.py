"""Lookups by the texture units of GPUs, which interpolate with weights of 8 bits.

Owns when they are used: `lumijit.cuda`, single precision, up to four channels, nothing
that is tracked, and no recording, which wouldn't copy the texels anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lumijit.arrays import FlatArray
from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import TEXEL
from lumijit.compiler.launch import evaluate
from lumijit.derivatives.gradients import grad_enabled
from lumijit.enums import FilterMode
from lumijit.runtime import device, recorders
from lumijit.runtime.cuda_textures import Kind, largest
from lumijit.runtime.device import DeviceId
from lumijit.runtime.dtypes import FLOAT32, UINT64

if TYPE_CHECKING:
    from lumijit.textures.texture import TextureBase

# The texels that texture units have, and the handle, if there is one. (It is no part of
# a texture's state, which functions may not change.)
_units: WeakKeyDictionary[TextureBase, tuple[Node, Node | None]] = WeakKeyDictionary()


def looked_up(texture: TextureBase, positions: list[Any]) -> list[Any] | None:
    """Return the channels at a position, or None if texture units can't find them."""
    source = texture.value()
    # (That of the texels: this thread may have chosen another one.)
    where = placement.owner_of(source._node) or source._spec.backend.device
    arrays = (source, *positions)
    if (
        where is None
        or not device.is_there(where)
        or not device.find(where).has_textures
        or not all(isinstance(x, FlatArray) for x in arrays)
        or any(x._spec.dtype is not FLOAT32 for x in arrays)
        or texture.shape[-1] > 4
        or recorders.listening
        or trace.is_symbolic(source._node)
        or grad_enabled(*arrays)
    ):
        return None
    handle = _handle(texture, where)
    if handle is None:
        return None
    nothing = trace.literal(FLOAT32, 0.0)
    deps = [handle, *(x._node for x in positions), nothing, nothing][:4]
    found = []
    for channel in range(texture.shape[-1]):
        attr = 4 * len(positions) + channel
        node = trace.append(TEXEL, FLOAT32, tuple(deps), attr)
        found.append(wrap_flat(type(positions[0]), node))
    return found


def _handle(texture: TextureBase, where: DeviceId) -> Node | None:
    """Return the handle of a texture in texture memory, made anew if texels change."""
    known, node = _units.get(texture), texture.value()._node
    if known is None or known[0] is not node:
        known = _units[texture] = node, _made(texture, evaluate.opaque(node), where)
    # (What others may write to changes without a new node.)
    is_foreign = node.buffer is not None and node.buffer.is_foreign
    return None if is_foreign else known[1]


def _made(texture: TextureBase, texels: Node, where: DeviceId) -> Node | None:
    *sizes, channels = texture.shape
    kind = Kind(
        tuple(reversed(sizes)),
        channels,
        texture.filter_mode() is FilterMode.Linear,
        texture.wrap_mode().name.lower(),
    )
    limits = largest(len(sizes))
    if any(n > limit for n, limit in zip(kind.sizes, limits, strict=True)):
        return None
    with placement.at(where):
        placement.bring(texels)
        assert texels.buffer is not None
        made: Any = device.find(where)
        buffer = made.texture(kind, texels.buffer.address)
    return trace.from_buffer(UINT64, buffer, 1)
