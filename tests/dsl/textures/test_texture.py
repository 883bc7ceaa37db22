"""What textures hold, how that is changed, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import auto, cuda, llvm, scalar
from lumijit.llvm import (
    Array1f,
    Array2f,
    Array3f,
    Float,
    Float64,
    TensorXf,
    Texture1f,
    Texture2f,
    UInt,
    ad,
)
from lumijit.runtime.errors import ArrayTypeError, SizeError, StateError

DATA = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
NAMES = [f"Texture{n}{t}" for n in (1, 2, 3) for t in ("f16", "f", "f64")]


@pytest.mark.parametrize("module", [llvm, ad, scalar], ids=lambda m: m.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_namespaces_have_them(module: Any, name: str) -> None:
    cls = getattr(module, name)
    assert (cls.__module__, cls.__name__) == (module.__name__, name)
    assert getattr(auto, name) in (getattr(llvm, name), getattr(cuda, name))
    assert name in dir(module)
    texture = cls([2] * int(name[7]), 1)
    assert type(texture.value()) is dr.array_t(texture.tensor())
    assert (np.asarray(texture.eval([0.5] * int(name[7]))) == 0).all()


class TestContents:
    def test_of_a_tensor(self) -> None:
        for value in (TensorXf(DATA), DATA, DATA.tolist(), llvm.TensorXi(DATA)):
            texture = Texture2f(value)
            assert texture.shape == (2, 3, 2)
            assert texture.channel_count() == 2
            np.testing.assert_array_equal(texture.tensor().numpy(), DATA)
            assert list(texture.value()) == list(range(12))
        assert repr(texture) == "Texture2f[shape=(2, 3, 2)]"

    def test_of_a_shape(self) -> None:
        for texture in (
            Texture2f([2, 3], 4),
            Texture2f((2, 3), channels=4),
            Texture2f(shape=(2, 3), channels=4),
        ):
            assert texture.shape == (2, 3, 4)
            assert list(texture.value()) == [0] * 24

    def test_properties(self) -> None:
        texture = Texture2f(DATA)
        assert texture.filter_mode() is dr.FilterMode.Linear
        assert texture.wrap_mode() is dr.WrapMode.Clamp
        assert texture.use_accel()
        assert not texture.migrated()
        texture = Texture2f(
            DATA,
            use_accel=False,
            migrate=False,
            filter_mode=dr.FilterMode.Nearest,
            wrap_mode=dr.WrapMode.Mirror,
        )
        assert texture.filter_mode() is dr.FilterMode.Nearest
        assert texture.wrap_mode() is dr.WrapMode.Mirror
        assert not texture.use_accel()

    def test_replacing(self) -> None:
        texture = Texture2f(DATA)
        texture.set_value(Float(DATA.reshape(-1) + 1), migrate=True)
        assert texture.eval([0, 0])[0] == 1
        values = dr.zeros(TensorXf, (1, 2, 3))
        texture.set_tensor(values)
        assert texture.shape == (1, 2, 3)
        values += 1
        assert list(texture.eval([0.5, 0.5]).numpy()) == [0, 0, 0]

    def test_changes_are_seen(self) -> None:
        texture = Texture2f(DATA)
        texture.value()[0] = 50
        assert texture.eval([0, 0])[0] == 50
        tensor = texture.tensor()
        tensor += 1
        texture.update_inplace()
        assert texture.eval([0, 0])[0] == 51
        dr.scatter(texture.value(), Float(7), llvm.UInt(0))
        assert texture.eval([0, 0])[0] == 7

    def test_texels_are_computed_when_needed(self) -> None:
        image = TensorXf(dr.arange(Float, 12) * 2, (2, 3, 2))
        texture = Texture2f(image)
        assert texture.value().state is dr.VarState.Unevaluated
        assert texture.eval([1, 1])[1] == 22


class TestConstructs:
    """What functions of constructs change of textures is found, as of other objects."""

    def test_branches(self) -> None:
        @dr.syntax
        def paint(texture: Texture1f, n: UInt) -> None:
            if n > 1:
                texture.set_value(Float(5, 6, 7, 8))

        texture = Texture1f([[1], [2], [3], [4]])
        paint(texture, UInt(0, 1, 2, 3))
        assert list(texture.value()) == [1, 2, 7, 8]

    def test_loops(self) -> None:
        @dr.syntax
        def count(texture: Texture1f, n: UInt) -> None:
            while n > 1:
                tensor = texture.tensor()
                tensor += 1
                n -= 1

        texture = Texture1f([[1], [2], [3], [4]])
        count(texture, UInt(0, 1, 2, 3))
        assert list(texture.value()) == [1, 2, 4, 6]
        assert list(texture.eval(Float(1))[0]) == [6]

    def test_updates(self) -> None:
        texture = Texture1f([[1], [2]])

        def body(i: UInt) -> tuple[UInt]:
            dr.scatter_add(texture.value(), Float(1), i % 2)
            return (i + 1,)

        dr.while_loop((UInt(0, 1, 2),), lambda i: i < 5, body)
        assert list(texture.value()) == [8, 7]
        assert list(texture.eval(Float(0, 1))[0]) == [8, 7]

    def test_texels_of_a_loop_are_not_for_others(self) -> None:
        texture = Texture1f([[1], [2]])

        def body(x: Float) -> tuple[Float]:
            texture.set_value(x)
            return (x + 1,)

        with pytest.raises(StateError, match="the body changes 'texture"):
            dr.while_loop((Float(1, 2),), lambda x: x < 5, body)
        assert list(texture.eval(Float(0.5))[0]) == [1.5]


class TestPositions:
    def test_types(self) -> None:
        texture = Texture2f(DATA)
        for pos in (
            Array2f(0.5, 0.5),
            [0.5, 0.5],
            (Float(0.5), 0.5),
            np.array([0.5, 0.5], np.float32),
            llvm.ArrayXf([0.5], [0.5]),
            scalar.Array2f(0.5),
        ):
            found = texture.eval(pos)
            assert type(found) is Array2f
            assert found.numpy().tolist() == [[5], [6]]
        assert texture.eval(llvm.Array2i(0, 0)).numpy().tolist() == [[0], [1]]

    def test_precision_is_that_of_the_position(self) -> None:
        texture = Texture2f(DATA)
        assert type(texture.eval(llvm.Array2f64(0.5))) is llvm.Array2f64
        assert type(texture.eval(llvm.Array2f16(0.5))) is llvm.Array2f16
        assert type(texture.eval([Float64(0.5), 0.5])) is llvm.Array2f64
        assert type(llvm.Texture2f16(DATA).eval(Array2f(0.5))) is Array2f
        assert type(texture.eval(ad.Array2f(0.5))) is ad.Array2f
        assert type(ad.Texture2f(DATA).eval(Array2f(0.5))) is ad.Array2f

    def test_one_dimension(self) -> None:
        texture = Texture1f([[1], [3]])
        for pos in (0.5, Float(0.5), Array1f(0.5), [0.5], np.array([0.5], "f4")):
            assert texture.eval(pos).numpy().tolist() == [[2]]
        assert len(Texture1f([[1]]).eval(Float(0, 1, 2))[0]) == 3

    @pytest.mark.parametrize(
        ("pos", "count"),
        [
            (Array3f(0), 3),
            (Float(0), 1),
            (0.5, 1),
            ([0.5], 1),
            (np.zeros(3), 3),
            (llvm.Array22f(0), 0),
            ("xy", 0),
        ],
    )
    def test_wrong_dimensions(self, pos: Any, count: int) -> None:
        texture = Texture2f(DATA)
        for method in (
            texture.eval,
            texture.eval_fetch,
            texture.eval_cubic,
            texture.eval_cubic_grad,
            texture.eval_cubic_hessian,
        ):
            pattern = rf"{method.__name__}: .* {count} components \(expected 2: x, y\)"
            with pytest.raises(ArrayTypeError, match=pattern):
                method(pos)


class TestBadInput:
    def test_dimensions_of_tensors(self) -> None:
        for wrong in (DATA[0], DATA[None], np.zeros((2, 0, 1)), np.zeros((1, 1, 0)), 1):
            with pytest.raises(SizeError, match=r"Texture2f: .* \(expected 3 dimens"):
                Texture2f(wrong)
        texture = Texture2f(DATA)
        with pytest.raises(SizeError, match=r"shape \(3,\)"):
            texture.set_tensor([1, 2, 3])
        tensor = texture.tensor()
        tensor *= dr.ones(TensorXf, (1, 1, 1, 1))
        with pytest.raises(SizeError, match=r"shape \(1, 2, 3, 2\)"):
            texture.update_inplace()
        with pytest.raises(SizeError, match=r"shape \(2, 3\)"):
            Texture2f([2], 3)

    def test_numbers_of_texels(self) -> None:
        with pytest.raises(SizeError, match=r"3 entries, .* shape \(2, 3, 2\) 12"):
            Texture2f(DATA).set_value(Float(1, 2, 3))

    def test_too_many_arguments(self) -> None:
        modes = dr.FilterMode.Nearest, dr.WrapMode.Repeat
        for arguments in ((DATA, True, True, *modes, 1), ([2, 2], 3, True, *modes, 1)):
            with pytest.raises(
                ArrayTypeError, match="too many arguments without names"
            ):
                Texture2f(*arguments)
        with pytest.raises(ArrayTypeError, match=r"use_accel.* each of them once"):
            Texture2f(DATA, True, use_accel=False)

    def test_modes(self) -> None:
        with pytest.raises(ArrayTypeError, match="member of FilterMode"):
            Texture2f(DATA, filter_mode="linear")  # type: ignore[arg-type]
        with pytest.raises(ArrayTypeError, match="member of WrapMode"):
            Texture2f(DATA, wrap_mode=dr.FilterMode.Linear)  # type: ignore[arg-type]

    def test_symbolic_texels(self) -> None:
        texture = Texture1f([[1], [2]])

        def body(x: Any) -> tuple[Any]:
            other = Texture1f(x, shape=None)
            return (x + other.eval(0.5)[0],)

        def wrong(x: Any) -> tuple[Any]:
            return (x + Texture1f(TensorXf(x, (2, 1))).eval(0.5)[0],)

        with pytest.raises(SizeError, match="expected 2 dimensions"):
            dr.while_loop((Float(1, 2),), lambda x: x < 5, body)
        with pytest.raises(StateError, match="both indexed and replaced by the body"):
            dr.while_loop((Float(1, 2),), lambda x: x < 5, wrong)
        assert texture.eval(0.5)[0] == 1.5


def test_arguments_without_names_are_those_of_both_constructors() -> None:
    modes = dr.FilterMode.Nearest, dr.WrapMode.Repeat
    empty = Texture1f([16], 3, False, *modes)
    assert empty.shape == (16, 3)
    for texture in (empty, Texture2f(DATA, False, True, *modes)):
        assert not texture.use_accel()
        assert (texture.filter_mode(), texture.wrap_mode()) == modes
    assert Texture2f(DATA, True).use_accel()
