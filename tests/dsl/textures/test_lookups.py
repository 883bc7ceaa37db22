"""Lookups in textures against NumPy: filters, wrap modes, types and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import GATHER
from lumijit.llvm import Array2f, Array3f, Bool, Float, TensorXf, Texture1f, Texture2f
from tests import targets
from tests.dsl.textures.reference import lookups

MODES = pytest.mark.parametrize("mode", list(dr.WrapMode), ids=lambda m: m.name)
DIMENSIONS = pytest.mark.parametrize("count", [1, 2, 3])
FILTERS = ("nearest", "linear", "cubic")
SIZES = [(5,), (1,), (2,), (4,), (3, 4), (1, 5), (2, 1), (4, 3, 5), (1, 2, 7)]


def make(module: Any, data: Any, suffix: str = "f", **options: Any) -> Any:
    """Return a texture of a namespace with these texels."""
    tensor = getattr(module, f"TensorX{suffix}")(data)
    cls = getattr(module, f"Texture{data.ndim - 1}{suffix}")
    return cls(tensor, **options)


def found(
    data: Any, positions: Any, filtering: str, mode: dr.WrapMode, suffix: str = "f"
) -> Any:
    """Look up positions of (dimensions, n) in `llvm`."""
    kind = dr.FilterMode.Nearest if filtering == "nearest" else dr.FilterMode.Linear
    texture = make(llvm, data, suffix, filter_mode=kind, wrap_mode=mode)
    array = getattr(llvm, f"Array{len(positions)}{suffix}")
    method = texture.eval_cubic if filtering == "cubic" else texture.eval
    return method(array(list(positions)))


def texels(*shape: int, seed: int = 0, dtype: str = "f4") -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def places(count: int, size: int = 37, dtype: str = "f4") -> Any:
    """Return random positions in and far outside of the unit interval."""
    inside = np.random.default_rng(1).uniform(-0.2, 1.2, (count, size))
    inside[:, ::3] = inside[:, ::3] * 8 - 4
    return inside.astype(dtype)


class TestValues:
    @MODES
    @pytest.mark.parametrize("filtering", FILTERS)
    @pytest.mark.parametrize("sizes", SIZES, ids=str)
    @pytest.mark.parametrize("channels", [1, 2, 3, 4, 6])
    def test_numpy(
        self, sizes: Any, channels: int, filtering: str, mode: dr.WrapMode
    ) -> None:
        data = texels(*sizes, channels)
        positions = places(len(sizes))
        result = found(data, positions, filtering, mode)
        assert dr.size_v(result) == (channels if channels <= 4 else dr.Dynamic)
        expected = lookups(data, positions, filtering, mode)
        np.testing.assert_allclose(result.numpy(), expected, atol=4e-6)

    @MODES
    @pytest.mark.parametrize("filtering", FILTERS)
    @pytest.mark.parametrize(("suffix", "atol"), [("f16", 2e-3), ("f64", 1e-14)])
    def test_precision(
        self, filtering: str, suffix: str, atol: float, mode: dr.WrapMode
    ) -> None:
        dtype = {"f16": "f2", "f64": "f8"}[suffix]
        data = texels(4, 5, 3, dtype=dtype)
        positions = places(2, dtype=dtype)
        result = found(data, positions, filtering, mode, suffix)
        assert result.numpy().dtype == np.dtype(dtype)
        expected = lookups(data, positions, filtering, mode)
        np.testing.assert_allclose(result.numpy(), expected, atol=atol)

    @given(
        sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
        channels=st.integers(1, 5),
        filtering=st.sampled_from(["linear", "cubic"]),
        mode=st.sampled_from(list(dr.WrapMode)),
        data=st.data(),
    )
    @settings(max_examples=60, deadline=None)
    def test_any_position(
        self, sizes: Any, channels: int, filtering: str, mode: Any, data: Any
    ) -> None:
        coordinate = st.floats(-5, 5, width=32)
        point = st.lists(coordinate, min_size=len(sizes), max_size=len(sizes))
        points = data.draw(st.lists(point, min_size=1, max_size=5))
        positions = np.array(points, np.float64).T
        values = texels(*sizes, channels, dtype="f8")
        result = found(values, positions, filtering, mode, "f64").numpy()
        expected = lookups(values, positions, filtering, mode)
        result = np.broadcast_to(result, expected.shape)
        np.testing.assert_allclose(result, expected, atol=1e-12)

    @MODES
    @pytest.mark.parametrize("filtering", FILTERS)
    def test_borders_between_texels(self, filtering: str, mode: dr.WrapMode) -> None:
        # Sizes and steps are powers of two, so nothing is rounded.
        data = texels(8, 1)
        positions = np.linspace(-3, 3, 97, dtype=np.float32)[None]
        result = found(data, positions, filtering, mode)
        expected = lookups(data, positions, filtering, mode)
        np.testing.assert_allclose(result.numpy(), expected, atol=1e-6)

    @MODES
    def test_constants_stay(self, mode: dr.WrapMode) -> None:
        data = np.full((4, 4, 3), 0.7, np.float32)
        for filtering in FILTERS:
            result = found(data, places(2, 1000), filtering, mode).numpy()
            np.testing.assert_allclose(result, 0.7, rtol=4e-7)

    @MODES
    @pytest.mark.parametrize("filtering", FILTERS)
    @pytest.mark.parametrize("channels", [1, 3])
    @DIMENSIONS
    def test_positions_that_are_nowhere(
        self, count: int, channels: int, filtering: str, mode: dr.WrapMode
    ) -> None:
        data = texels(*[5] * count, channels)
        wild = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 1e-45, -1e-9]
        positions = np.array([wild] * count, np.float32)
        result = found(data, positions, filtering, mode).numpy()
        expected = lookups(data, positions[:, -2:], filtering, mode)
        np.testing.assert_allclose(result[:, -2:], expected, atol=1e-6)
        near = ~np.isnan(result) & (filtering != "cubic")
        assert (abs(result[near]) <= 1).all()

    def test_clamped_positions_have_a_limit(self) -> None:
        texture = make(llvm, texels(5, 1))
        wild = Float(np.inf, -np.inf, 1e30, -1e30)
        last, first = texture.value()[4], texture.value()[0]
        assert list(texture.eval(wild)[0]) == [last, first, last, first]
        assert np.isnan(texture.eval(np.nan)[0][0])

    def test_many_texels(self) -> None:
        # More than single precision can count.
        size = (1 << 24) + 3
        texture = Texture1f(TensorXf(dr.arange(Float, size), (size, 1)))
        found = texture.eval(llvm.Float64((size - 0.75) / size))
        assert found[0][0] == np.float32(size - 1)
        for mode in dr.WrapMode:
            texture = Texture1f(texture.tensor(), wrap_mode=mode)
            assert 0 <= texture.eval(Float(0.9999999))[0][0] <= size


class TestModes:
    @MODES
    @DIMENSIONS
    def test_scalar(self, count: int, mode: dr.WrapMode) -> None:
        data = texels(*[3, 4, 5][:count], 2)
        texture = make(scalar, data, wrap_mode=mode)
        positions = places(count, 10)
        array = getattr(scalar, f"Array{count}f")
        columns = [array(list(p)) for p in positions.T]
        for filtering, method in (
            ("linear", texture.eval),
            ("cubic", texture.eval_cubic),
        ):
            result = [method(p) for p in columns]
            assert type(result[0]) is scalar.Array2f
            expected = lookups(data, positions, filtering, mode)
            np.testing.assert_allclose(np.transpose(result), expected, atol=4e-6)
        for wild in (np.nan, np.inf, -np.inf):
            texture.eval(array(wild))
            texture.eval_cubic(array(wild))
        assert list(texture.eval(array(0.5), False)) == [0, 0]

    @pytest.mark.parametrize("how", ["symbolic", "evaluated"])
    @pytest.mark.parametrize("filtering", ["linear", "cubic"])
    def test_in_loops_and_branches(self, filtering: str, how: str) -> None:
        data = texels(4, 6, 3)
        texture = make(llvm, data, wrap_mode=dr.WrapMode.Mirror)
        method = texture.eval_cubic if filtering == "cubic" else texture.eval
        positions = places(2)

        def body(k: Any, pos: Any, total: Any) -> tuple[Any, ...]:
            value = dr.if_stmt(
                (pos,), pos.x > 0.5, method, lambda pos: -method(pos), mode=how
            )
            return k + 1, pos + 0.25, total + value

        size = positions.shape[1]
        state = dr.zeros(Float, size), Array2f(list(positions)), dr.zeros(Array3f, size)
        *_, total = dr.while_loop(state, lambda k, pos, total: k < 3, body, mode=how)
        expected = np.zeros((3, size))
        for k in range(3):
            moved = positions + np.float32(0.25 * k)
            value = lookups(data, moved, filtering, dr.WrapMode.Mirror)
            expected += np.where(moved[0] > 0.5, value, -value)
        np.testing.assert_allclose(total.numpy(), expected, atol=1e-5)

    def test_called_per_element(self) -> None:
        class Material:
            def __init__(self, data: Any, **options: Any) -> None:
                self.texture = make(llvm, data, **options)

            def color(self, pos: Array2f) -> Array3f:
                return self.texture.eval(pos)

        data = [texels(4, 4, 3, seed=1), texels(2, 5, 3, seed=2)]
        targets = [Material(d) for d in data]
        positions = places(2, 20)
        index = np.arange(20) % 2
        functions = [m.color for m in targets]
        result = dr.switch(llvm.UInt(index), functions, Array2f(list(positions)))
        each = [lookups(d, positions, "linear", dr.WrapMode.Clamp) for d in data]
        expected = np.where(index == 0, *each)
        np.testing.assert_allclose(result.numpy(), expected, atol=1e-5)

    def test_flag_debug_reports_nothing(self, capfd: Any) -> None:
        with dr.scoped_set_flag(dr.JitFlag.Debug, True):
            for mode in dr.WrapMode:
                for filtering in FILTERS:
                    dr.eval(found(texels(3, 4, 3), places(2), filtering, mode))
        assert "out of bounds" not in capfd.readouterr().err


class TestMasks:
    @pytest.mark.parametrize("method", ["eval", "eval_cubic"])
    def test_zero_elsewhere(self, method: str) -> None:
        texture = make(llvm, texels(4, 4, 3))
        pos = Array2f([0.3, np.nan, 0.7, np.inf], 0.4)
        active = Bool(True, False, True, False)
        result = getattr(texture, method)(pos, active).numpy()
        assert (result[:, [1, 3]] == 0).all()
        expected = getattr(texture, method)(pos).numpy()
        assert (result[:, [0, 2]] == expected[:, [0, 2]]).all()
        assert (getattr(texture, method)(pos, False).numpy() == 0).all()

    def test_everything_takes_a_mask(self) -> None:
        texture = make(llvm, texels(4, 4, 2))
        pos = Array2f(np.nan, 0.5)
        for texel in texture.eval_fetch(pos, Bool(False)):
            assert (texel.numpy() == 0).all()
        value, gradients, hessians = texture.eval_cubic_hessian(pos, Bool(False))
        for array in (value, *gradients, *hessians):
            assert (array.numpy() == 0).all()


class TestFetch:
    @MODES
    @DIMENSIONS
    def test_texels_in_the_order_of_positions(
        self, count: int, mode: dr.WrapMode
    ) -> None:
        sizes = (3, 4, 5)[:count]
        data = texels(*sizes, 2)
        texture = make(llvm, data, wrap_mode=mode)
        positions = places(count)
        array = getattr(llvm, f"Array{count}f")(list(positions))
        around = texture.eval_fetch(array)
        assert len(around) == 2**count
        for number, texel in enumerate(around):
            # The lower one of two neighbours is at the center of a texel.
            scale = np.array(sizes[::-1])[:, None]
            corner = [(number >> axis) & 1 for axis in range(count)]
            moved = np.floor(positions.astype("f8") * scale - 0.5)
            moved = (moved + np.array(corner)[:, None] + 0.5) / scale
            expected = lookups(data, moved, "nearest", mode)
            np.testing.assert_array_equal(texel.numpy(), expected)

    def test_interpolating_by_hand(self) -> None:
        texture = make(llvm, texels(4, 6, 3))
        pos = Array2f(list(places(2)))
        v00, v10, v01, v11 = texture.eval_fetch(pos)
        x, y = pos.x * 6 - 0.5, pos.y * 4 - 0.5
        x, y = x - dr.floor(x), y - dr.floor(y)
        mixed = dr.lerp(dr.lerp(v00, v10, x), dr.lerp(v01, v11, x), y)
        assert dr.allclose(mixed, texture.eval(pos), atol=1e-6)


class TestKernels:
    @pytest.mark.packets("vector loads of neighbours")
    @pytest.mark.parametrize(
        ("sizes", "channels", "mode", "spans"),
        [
            ((8, 8), 1, dr.WrapMode.Clamp, {2: 2}),
            ((8, 8), 1, dr.WrapMode.Mirror, {2: 2}),
            ((8, 8), 2, dr.WrapMode.Clamp, {4: 2}),
            ((8, 8), 2, dr.WrapMode.Repeat, {2: 4}),
            ((8, 8), 3, dr.WrapMode.Clamp, {4: 2, 2: 2}),
            ((8, 8), 3, dr.WrapMode.Repeat, {4: 4}),
            ((8, 8), 4, dr.WrapMode.Clamp, {4: 4}),
            ((8, 8, 8), 1, dr.WrapMode.Clamp, {2: 4}),
        ],
    )
    def test_neighbours_are_read_together(
        self, sizes: Any, channels: int, mode: Any, spans: Any, capfd: Any
    ) -> None:
        texture = make(llvm, texels(*sizes, channels), wrap_mode=mode)
        pos = getattr(llvm, f"Array{len(sizes)}f")(list(places(len(sizes), 1024)))
        flag = dr.scoped_set_flag(dr.JitFlag.PrintIR, True)
        with flag, targets.generating_for(targets.target_of("vectors")):
            found = texture.eval(pos)
            # That all texels exist is known while tracing.
            assert all(node.deps[2].attr is True for node in gathers_of(found))
            dr.eval(found)
        text = "".join(capfd.readouterr())
        width = spans_in(text)
        lanes = sum(width.values()) // sum(spans.values())
        assert width == {span: count * lanes for span, count in spans.items()}


def gathers_of(array: Any) -> list[Node]:
    """Return the indirect reads that an array is computed from."""
    seen: dict[int, Node] = {}
    pending = [part._node for part in array]
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            pending += node.deps
    return [node for node in seen.values() if node.op is GATHER]


def spans_in(text: str) -> dict[int, int]:
    """Count the loads of rows of floats by how many they read, per width."""
    found: dict[int, int] = {}
    for span in (2, 4):
        if count := text.count(f"load <{span} x float>"):
            found[span] = count
    return found


def test_an_alias_of_eval() -> None:
    texture = Texture2f(TensorXf(texels(3, 4, 1)))
    pos = Array2f(0.4, 0.6)
    assert dr.all(texture.eval_nonaccel(pos) == texture.eval(pos), axis=None)
