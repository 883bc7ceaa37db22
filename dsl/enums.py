"""The enumerations of the public interface that describe arrays and updates.

Backend, kernel and log enumerations belong to the runtime, which fills them in.
"""

from __future__ import annotations

from lumijit.runtime.named_enum import NamedEnum


class VarType(NamedEnum):
    """The scalar type of an array's entries.

    >>> import lumijit as dr
    >>> dr.type_v(dr.llvm.Array3f)
    VarType.Float32
    """

    Void = 0
    Bool = 1
    Int8 = 2
    UInt8 = 3
    Int16 = 4
    UInt16 = 5
    Int32 = 6
    UInt32 = 7
    Int64 = 8
    UInt64 = 9
    Pointer = 10
    Float16 = 11
    Float32 = 12
    Float64 = 13


class VarState(NamedEnum):
    """What is known and stored of an array: see `ArrayBase.state`.

    >>> import lumijit as dr
    >>> dr.llvm.Float(1).state
    VarState.Literal
    """

    Invalid = 0
    Literal = 1
    Undefined = 2
    Unevaluated = 3
    Evaluated = 4
    Dirty = 5
    Symbolic = 6
    Mixed = 7


class ReduceOp(NamedEnum):
    """How entries are combined by reductions and scatters.

    >>> import lumijit as dr
    >>> dr.reduce(dr.ReduceOp.Max, [1, 7, 3])
    7
    """

    Identity = 0
    Add = 1
    Mul = 2
    Min = 3
    Max = 4
    And = 5
    Or = 6

    def __init__(self, _: int) -> None:
        #: The word that the compiler uses for this operation.
        self.trace_name = self._name_.lower()


class ReduceMode(NamedEnum):
    """How conflicting updates of a scatter-reduction are resolved.

    `Auto` chooses: `Expand` for targets of up to `expand_threshold()` entries, if there
    are values enough, else `Local` (`Direct` without flag `ScatterReduceLocal`).
    `Direct` updates memory atomically; `Local` combines equal indices of a packet
    first; `NoConflicts` and `Permute` are promises that no two updates hit the same
    entry; `Expand` gives each thread a copy of the target.

    >>> import lumijit as dr
    >>> dr.ReduceMode.Expand.name
    'Expand'
    """

    Auto = 0
    Direct = 1
    Local = 2
    NoConflicts = 3
    Permute = 4
    Expand = 5

    def __init__(self, _: int) -> None:
        #: The word that the compiler uses for this strategy.
        is_two = self._name_ == "NoConflicts"
        self.trace_name = "no_conflicts" if is_two else self._name_.lower()


class FilterMode(NamedEnum):
    """How a texture is looked up between the centers of its texels.

    `Nearest` takes the texel that contains the position, `Linear` interpolates.

    >>> import lumijit as dr
    >>> dr.FilterMode.Linear
    FilterMode.Linear
    """

    Nearest = 0
    Linear = 1


class WrapMode(NamedEnum):
    """What a texture has outside of the positions between 0 and 1.

    `Repeat` the same over and over, `Clamp` the texel at the border, `Mirror` the same
    over and over, every other time reversed.

    >>> import lumijit as dr
    >>> dr.WrapMode.Repeat
    WrapMode.Repeat
    """

    Repeat = 0
    Clamp = 1
    Mirror = 2
