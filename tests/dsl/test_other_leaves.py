"""Leaves of PyTrees that are no arrays: text, None, classes, also of arrays."""

import dataclasses
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Array3f, Bool, Float, UInt
from lumijit.runtime.errors import ArrayTypeError

MODES = ("symbolic", "evaluated")
MASK = Bool(True, False, True)


@dataclasses.dataclass
class Material:
    albedo: Float
    name: str = "gold"
    kind: Any = Float
    parent: Any = None


def material(*values: float) -> Material:
    return Material(Float(*values))


def check(found: Material, *values: float) -> None:
    assert list(found.albedo) == list(values)
    assert (found.name, found.kind, found.parent) == ("gold", Float, None)


def test_select_keeps_what_both_sides_hold() -> None:
    chosen = dr.select(MASK, material(1, 2, 3), material(4, 5, 6))
    check(chosen, 1, 5, 3)
    first: dict[str, Any] = {"a": [Float(1), "s"]}
    nested = dr.select(MASK, first, {"a": [2, "s"]})
    assert list(nested["a"][0]) == [1, 2, 1]
    assert nested["a"][1] == "s"


def test_select_between_different_objects_is_refused() -> None:
    other = dataclasses.replace(material(1), name="tin")
    with pytest.raises(ArrayTypeError, match=r"'gold' and 'tin'.*Fix: let both"):
        dr.select(MASK, material(1), other)
    assert dr.select(True, material(1), other).name == "gold"


def test_functions_of_pytrees_leave_other_leaves_alone() -> None:
    index = UInt(0, 2)
    check(dr.gather(Material, material(1, 2, 3), index), 1, 3)
    target = material(1, 2, 3)
    dr.scatter(target, material(9), index)
    check(target, 9, 2, 9)
    check(dr.copy(target), 9, 2, 9)
    check(dr.repeat(material(1, 2), 2), 1, 1, 2, 2)
    check(dr.tile(material(1, 2), 2), 1, 2, 1, 2)
    check(dr.block_sum(material(1, 2, 3, 4), 2), 3, 7)
    assert dr.slice(material(1, 2), 1).albedo == 2
    assert dr.width(target) == 3
    dr.make_opaque(target)
    dr.eval(target)
    buffer = dr.alloc_local(Material, 2, value=material(7))
    check(buffer[0], 7)


@pytest.mark.parametrize("mode", MODES)
def test_array_classes_are_arguments(mode: str) -> None:
    x = Float(1, 2, 3)

    def one(cls: Any, x: Float) -> Any:
        return cls(x)

    def other(cls: Any, x: Float) -> Any:
        return cls(x + 10)

    for cls in (Float, Array3f):
        called = dr.switch(UInt(0, 1, 0), [one, other], cls, x, mode=mode)
        assert list(dr.ravel(called))[:3] in ([1, 12, 3], [1, 1, 1])
        joined = dr.if_stmt((cls, x), MASK, one, other, mode=mode)
        assert dr.all(joined == called, axis=None)
    kept = dr.if_stmt((Array3f,), MASK, lambda c: c, lambda c: c, mode=mode)
    assert kept is Array3f


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compress", [False, True])
def test_array_classes_are_state(mode: str, compress: bool) -> None:
    cls, made, i = dr.while_loop(
        (Float, material(1, 2, 3), UInt(0, 1, 2)),
        lambda cls, m, i: i < 2,
        lambda cls, m, i: (cls, dataclasses.replace(m, albedo=cls(i)), i + 1),
        mode=mode,
        compress=compress,
    )
    assert cls is Float
    check(made, 1, 1, 3)
    assert list(i) == [2, 2, 2]


def test_fields_that_cannot_be_made_are_named() -> None:
    @dataclasses.dataclass
    class Odd:
        x: Float
        kind: type

    with pytest.raises(ArrayTypeError, match=r"the field 'kind'.*Fix: declare"):
        dr.zeros(Odd, 3)


def test_text_is_no_mask() -> None:
    for reduce in (dr.all, dr.any, dr.none, dr.count):
        with pytest.raises(ArrayTypeError, match="unsupported argument of type 'str'"):
            reduce("text")
