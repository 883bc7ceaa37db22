"""The stubs say of types what promotion does."""

from __future__ import annotations

import itertools
import re

import pytest

import lumijit as dr
from lumijit.spec import TENSOR
from tests.tools import stub_types, stubs


def test_stubs_are_up_to_date():
    for path, text in stubs.stubs().items():
        assert path.read_text() == text, f"{path}: run python -m tests.tools.stubs"


@pytest.fixture(scope="module")
def tags():
    """The classes that parameters of `Fits` are, as Python makes them."""
    found: dict[str, type] = {}
    exec(stub_types.orders(), found)
    return found


def _fits(a, b, tags):
    named = [re.findall(r"\w+", stub_types.fits(cls))[1:] for cls in (a, b)]
    return all(issubclass(tags[x], tags[y]) for x, y in zip(*named, strict=True))


def _is_tensor(cls):
    return cls._spec.kind is TENSOR


def _is_nested(cls):
    return bool(cls._spec.outer) and not _is_tensor(cls)


@pytest.mark.parametrize(
    ("first", "second"),
    [("llvm", "llvm"), ("scalar", "scalar"), ("llvm", "llvm.ad"), ("llvm.ad", "llvm")],
)
def test_what_fits_is_what_promotion_leaves_alone(first, second, tags):
    for a, b in itertools.product(
        stub_types.types(first).values(), stub_types.types(second).values()
    ):
        if (_is_nested(a) and _is_tensor(b)) or (_is_tensor(a) and _is_nested(b)):
            continue  # Some mix, but what mixes with one may not with the other.
        assert _fits(a, b, tags) == (a is b or stub_types.is_promoted(a, b)), (a, b)


def test_arrays_of_the_scalar_namespace_fit_others_of_their_shape(tags):
    for name, a in stub_types.types("scalar").items():
        if not name.startswith("Tensor"):
            b = getattr(dr.llvm, name)
            assert _fits(a, b, tags)
            assert stub_types.is_promoted(a, b)
            assert not _fits(b, a, tags)


def test_parameters_can_be_named_where_programs_run():
    assert dr.ArrayBase[int, float].__origin__ is dr.ArrayBase  # type: ignore[attr-defined]
