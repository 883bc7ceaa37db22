"""The table of promotion rules."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.array_types import declare_namespace, member
from lumijit.llvm import ad
from lumijit.promotion import mask_for
from lumijit.runtime.errors import ArrayTypeError
from lumijit.runtime.history import JitBackend
from lumijit.spec import Backend


@pytest.mark.parametrize(
    ("a", "b", "cls"),
    [
        (llvm.Float(1), 1, llvm.Float),
        (llvm.Float(1), True, llvm.Float),
        (llvm.Int(1), 1.5, llvm.Float),
        (llvm.UInt64(1), 0.5, llvm.Float),
        (llvm.UInt8(1), 1, llvm.UInt8),
        (llvm.Float16(1), 1e10, llvm.Float16),
        (llvm.Float64(1), 1.5, llvm.Float64),
        (llvm.Bool(True), 1, llvm.Int),
        (llvm.Bool(True), 1.5, llvm.Float),
        (llvm.Int(1), llvm.UInt(1), llvm.UInt),
        (llvm.UInt64(1), llvm.Int64(1), llvm.UInt64),
        (llvm.Int64(1), llvm.Float16(1), llvm.Float16),
        (llvm.Float(1), llvm.Float64(1), llvm.Float64),
        (llvm.UInt8(1), llvm.Int(1), llvm.Int),
        (llvm.Bool(True), llvm.Float(1), llvm.Float),
        (llvm.Float(1), ad.Float(1), ad.Float),
        (llvm.Array3f(1), ad.Float(1), ad.Array3f),
        (llvm.Array3i(1), llvm.Float(1, 2), llvm.Array3f),
        (llvm.Array3f(1), [1, 2, 3], llvm.Array3f),
        (llvm.Array3i(1), [0.5, 1, 2], llvm.Array3f),
        (llvm.Float(1, 2), (1, 2), llvm.Float),
        (llvm.ArrayXf(1), llvm.Array3f(1), llvm.ArrayXf),
        (llvm.Array22f(1), llvm.Array2f(1, 2), llvm.Array22f),
        (scalar.Array3f(1), llvm.Float(1, 2), llvm.Array3f),
        (scalar.Array3f(1), ad.Array3f(2), ad.Array3f),
        (scalar.ArrayXf(1, 2), llvm.Float(1, 2), llvm.ArrayXf),
        (scalar.Array3f(1), scalar.ArrayXf(1, 2, 3), scalar.ArrayXf),
        (scalar.Array3i(1), 0.5, scalar.Array3f),
    ],
)
def test_result_types(a, b, cls):
    assert type(a + b) is cls
    assert type(b + a) is cls
    assert dr.expr_t(a, b) is cls if not isinstance(b, (list, tuple)) else True


def test_trailing_dimensions_broadcast():
    assert str(llvm.Array22f(1) + llvm.Array2f(1, 2)) == "[[[2, 3],\n  [2, 3]]]"
    assert str(llvm.Array22f(1, 2) * llvm.Float(3)) == "[[[3, 3],\n  [6, 6]]]"


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        (lambda: llvm.Array3f(1) + [1, 2], "expected 3 components, got 2"),
        (lambda: llvm.Array2f(1) + llvm.Array3f(1), "incompatible shapes"),  # type: ignore[operator]
        (lambda: llvm.Array22f(1) + 2 + llvm.Array22b(True) * llvm.UInt(1), None),
        (lambda: llvm.Float(1) + ["a"], "unsupported operand of type 'str'"),  # type: ignore[list-item]
        (lambda: dr.minimum(llvm.Float(1), "a"), "unsupported operand of type 'str'"),  # type: ignore[misc]
        (lambda: dr.minimum("a", 1), "unsupported argument of type 'str'"),  # type: ignore[call-overload]
        (lambda: llvm.Array22f(1) & llvm.Int(1), "not defined for entries of type"),
    ],
)
def test_what_cannot_be_combined(expression, match):
    if match is None:
        with pytest.raises(ArrayTypeError, match="there is no array type"):
            expression()
        return
    with pytest.raises(ArrayTypeError, match=match):
        expression()


def test_masks_must_be_masks():
    with pytest.raises(ArrayTypeError, match="expected a mask"):
        dr.select(llvm.Float(1), 1, 2)
    with pytest.raises(ArrayTypeError, match="the mask has type Int"):
        mask_for(llvm.Int(1), llvm.Float(1), "test")


def test_what_is_remembered_depends_on_types_alone() -> None:
    """Sequences, errors and the sign of zero are looked at each time."""
    x, mask = llvm.Float(1, -2), llvm.Bool(True, False)
    for _ in range(2):
        assert type(llvm.Int(1, 2) + [1, 2]) is llvm.Int
        assert type(llvm.Int(1, 2) + [1.5, 2]) is llvm.Float
        assert type(dr.select(mask, x, 1)) is llvm.Float
        assert type(dr.select(mask, llvm.Int(1), 1.5)) is llvm.Float
        for zero, sign in ((0.0, 1), (-0.0, -1), (0, 1), (False, 1)):
            chosen = dr.select(mask, x, zero)
            assert math.copysign(1, chosen[1]) == sign
            assert math.copysign(1, llvm.Float(zero)[0]) == sign
        with pytest.raises(ArrayTypeError, match="unsupported operand of type 'str'"):
            dr.select(mask, x, "a")
        with pytest.raises(ArrayTypeError, match="incompatible shapes"):
            dr.select(mask, llvm.Array2f(1), llvm.Array3f(1))


def test_changed_specs_are_remembered() -> None:
    spec = llvm.Array3f._spec
    first = spec.replaced(dtype=llvm.Bool._spec.dtype)
    assert spec.replaced(dtype=llvm.Bool._spec.dtype) is first
    assert first.outer == (3,)
    assert spec.replaced(outer=()).dtype is spec.dtype
    assert spec.replaced(outer=()) != spec.replaced(outer=(2,))


class TestBackends:
    """Which backend, and whether derivatives are tracked, are separate facts."""

    @pytest.fixture(scope="class")
    @classmethod
    def other(cls):
        """Array types of a second backend that compiles: a row of a table."""
        backend = Backend("other", JitBackend.CUDA)
        names = declare_namespace(backend, is_diff=False)
        assert "Array3f" in names
        return SimpleNamespace(
            Float=member("other", "Float", {}), Array3f=member("other", "Array3f", {})
        )

    def test_two_that_compile_dont_mix(self, other):
        with pytest.raises(ArrayTypeError, match=r"'llvm' and 'other' don't mix"):
            llvm.Float(1) + other.Float(1)
        with pytest.raises(ArrayTypeError, match=r"'other' and 'llvm' don't mix"):
            other.Array3f(1) * ad.Float(1)
        with pytest.raises(ArrayTypeError, match=r"operator \*.*'other' and 'llvm'"):
            other.Float(1) * ad.Array3f(1)
        with pytest.raises(ArrayTypeError, match="don't mix"):
            dr.select(llvm.Bool(True), other.Float(1), 2)

    def test_scalar_arrays_go_with_each(self, other):
        assert type(scalar.Array3f(1) + other.Float(1)) is other.Array3f
        assert dr.expr_t(other.Float, scalar.Array3f) is other.Array3f
        assert dr.backend_v(other.Float) is JitBackend.CUDA

    def test_there_are_no_derivatives_where_the_backend_has_none(self, other):
        with pytest.raises(ArrayTypeError, match=r"no array type .* lumijit.other.ad"):
            dr.diff_array_t(other.Float)
