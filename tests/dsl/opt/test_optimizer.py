"""Optimizers as dictionaries: parameters, rates, states, kernels, mistakes."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Float as Detached
from lumijit.llvm import ad
from lumijit.llvm.ad import (
    Array2f,
    Array2f64,
    Array3f,
    Float,
    Float16,
    Float64,
    Matrix2f,
    TensorXf,
    UInt32,
)
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    DerivativeError,
    SizeError,
    UnknownKeyError,
)

MAKERS = {
    "SGD": lambda **k: dr.opt.SGD(lr=0.1, momentum=0.9, **k),
    "RMSProp": lambda **k: dr.opt.RMSProp(lr=0.1, **k),
    "Adam": lambda **k: dr.opt.Adam(lr=0.1, **k),
    "AdamW": lambda **k: dr.opt.AdamW(lr=0.1, **k),
}


def descend(opt, target=2.0):
    for value in opt.values():
        dr.backward(dr.sum(dr.square(value - target)))
    opt.step()


@pytest.mark.parametrize("name", MAKERS)
def test_parameters_can_follow_the_rate(name):
    assert list(getattr(dr.opt, name)(0.1, {"a": Float(1)})) == ["a"]


def test_it_is_a_dictionary():
    opt = dr.opt.Adam(lr=0.1, params={"a": Float(1)})
    opt["b"] = Float(2, 3)
    opt.update({"c": Float(4)})
    assert len(opt) == 3
    assert list(opt) == list(opt.keys()) == ["a", "b", "c"]
    assert "b" in opt
    assert "z" not in opt
    assert opt.get("z") is None
    assert [list(v) for v in opt.values()] == [[1], [2, 3], [4]]
    assert dict(opt.items()).keys() == {"a", "b", "c"}
    del opt["b"]
    assert list(opt) == ["a", "c"]
    assert repr(opt) == "Adam(lr=0.1, keys=['a', 'c'])"


def test_values_are_copies_in_both_directions():
    data = np.arange(4, dtype=np.float32)
    mine = Float(data)
    opt = dr.opt.SGD(lr=1, params={"x": mine, "one": Float(5)})
    data[0] = 9
    mine += 1
    assert list(opt["x"]) == [0, 1, 2, 3]
    assert not dr.grad_enabled(mine)
    handed = opt["x"]
    handed += 1
    handed[1] = 7
    assert list(opt["x"]) == [0, 1, 2, 3]
    assert dr.grad_enabled(opt["x"])


def test_a_parameter_is_cut_off_from_what_it_was_computed_of():
    y = Float(3)
    dr.enable_grad(y)
    opt = dr.opt.SGD(lr=1, params={"x": y * y})
    dr.backward(opt["x"])
    assert y.grad[0] == 0
    assert opt.gradients()[0][0] == 1


@dataclass
class Mesh:
    points: Array3f
    faces: UInt32
    name: str


def test_vectors_tensors_and_trees():
    rng = np.random.default_rng(1)
    points = rng.random((3, 5)).astype(np.float32)
    tensor = rng.random((2, 4)).astype(np.float32)
    opt = dr.opt.SGD(lr=0.25)
    opt["p"] = Array3f(points)
    opt["mesh"] = Mesh(Array3f(points), UInt32(0, 1, 2), "cube")
    opt["net"] = [{"w": TensorXf(tensor), "b": Float16(1)}, (Float64(2), 3)]
    mesh, net = opt["mesh"], opt["net"]
    dr.backward(dr.squared_norm(opt["p"]))
    dr.backward(dr.sum(mesh.points.x * 2))
    dr.backward(dr.sum(dr.square(net[0]["w"].array)))
    dr.backward(net[0]["b"] * 2)
    dr.backward(net[1][0] * 2)
    opt.step()
    np.testing.assert_allclose(opt["p"].numpy(), points * 0.5, rtol=1e-6)
    mesh, net = opt["mesh"], opt["net"]
    np.testing.assert_allclose(mesh.points.x.numpy(), points[0] - 0.5, rtol=1e-5)
    np.testing.assert_array_equal(mesh.points.y.numpy(), points[1])
    assert (list(mesh.faces), mesh.name) == ([0, 1, 2], "cube")
    np.testing.assert_allclose(net[0]["w"].numpy(), tensor * 0.5, rtol=1e-6)
    assert (list(net[0]["b"]), list(net[1][0]), net[1][1]) == ([0.5], [1.5], 3)


METHODS = [
    # Two steps: what becomes of 2, if the gradient is 4 in the first one and then 0.
    (lambda p: dr.opt.SGD(lr=0.1, params=p), 1.6),
    (lambda p: dr.opt.SGD(lr=0.1, momentum=0.9, params=p), 1.24),
    (lambda p: dr.opt.SGD(lr=0.1, momentum=0.9, nesterov=True, params=p), 0.916),
    (lambda p: dr.opt.Adam(lr=0.1, params=p), 1.83299),
    (lambda p: dr.opt.AdamW(lr=0.1, weight_decay=0.1, params=p), 1.79419),
    (lambda p: dr.opt.RMSProp(lr=0.1, params=p), 1),
]


@pytest.mark.parametrize(("method", "moved"), METHODS)
def test_where_no_gradient_arrives_it_is_zero(method, moved):
    opt = method({"a": Float64(2), "b": Array2f64(1, 2)})
    for key in "ab":
        x = opt[key] if key == "a" else opt[key].y
        dr.backward(x * x)
        opt.step()
    assert abs(opt["a"][0] - moved) < 1e-5
    decayed = 0.99**2 if isinstance(opt, dr.opt.AdamW) else 1
    assert abs(opt["b"].x[0] - decayed) < 1e-12


@pytest.mark.parametrize("method", [method for method, _ in METHODS])
def test_masked_updates_leave_what_has_no_gradient(method):
    opt = method({"a": Float64(2), "b": Array2f64(1, 2)})
    opt._masks_updates = True
    dr.backward(opt["b"].y * 1)
    opt.step()
    assert (opt["a"][0], opt["b"].x[0]) == (2, 1)
    assert opt["b"].y[0] < 2


def test_components_are_stepped_together():
    opt = dr.opt.AdamW(lr=0.1, weight_decay=0.1, params={"b": Array2f64(1, 2)})
    for _ in range(2):
        y = opt["b"].y
        dr.backward(y * y)
        opt.step()
    assert abs(opt["b"].x[0] - 0.9801) < 1e-12
    assert abs(opt["b"].y[0] - 1.76141) < 1e-5


def test_empty_parameters():
    opt = dr.opt.Adam(lr=0.1, params={"x": Float(), "y": Float(1)})
    dr.backward(dr.sum(opt["x"]) + opt["y"])
    opt.step()
    assert len(opt["x"]) == 0
    assert opt["y"][0] == pytest.approx(0.9)


def test_a_gradient_that_is_not_finite_arrives():
    opt = dr.opt.SGD(lr=0.1, params={"x": Float(1, 2)})
    dr.set_grad(opt["x"], [np.nan, 1])
    opt.step()
    np.testing.assert_allclose(opt["x"].numpy(), [np.nan, 1.9])


def test_suspended_tracking_does_not_end_it():
    with dr.suspend_grad():
        opt = dr.opt.SGD(lr=0.25, params={"x": Float(1)})
    for _ in range(2):
        dr.backward(dr.square(opt["x"]))
        with dr.suspend_grad():
            opt.step()
    assert opt["x"][0] == 0.25


@pytest.mark.parametrize("name", MAKERS)
def test_the_state_stays_with_values_that_fit(name):
    steady, edited = (MAKERS[name](params={"x": Float(1, 2)}) for _ in "ab")
    for _ in range(3):
        descend(steady)
        descend(edited)
        edited["x"] = dr.minimum(edited["x"], 10)
    np.testing.assert_array_equal(edited["x"].numpy(), steady["x"].numpy())
    edited["x"] = Float(1, 2, 3)
    steady["x"] = Float64(1, 2)
    for opt, value in ((edited, Float(1, 2, 3)), (steady, Float64(1, 2))):
        fresh = MAKERS[name](params={"x": value})
        descend(opt)
        descend(fresh)
        np.testing.assert_array_equal(opt["x"].numpy(), fresh["x"].numpy())


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("key", ["x", None])
def test_reset_forgets_what_is_remembered(name, key):
    opt = MAKERS[name](params={"x": Float(1, 2)})
    descend(opt)
    opt.reset(key)
    fresh = MAKERS[name](params={"x": dr.detach(opt["x"])})
    descend(opt)
    descend(fresh)
    np.testing.assert_array_equal(opt["x"].numpy(), fresh["x"].numpy())


def test_rates_by_key():
    opt = dr.opt.SGD(lr=1, params={"x": Float(0), "y": Float(0), "z": Float(0)})
    opt.set_learning_rate({"x": 2}, y=3)
    opt.set_learning_rate(4)
    assert [opt.learning_rate(k) for k in (None, "x", "y", "z")] == [4, 2, 3, 4]
    for value in opt.values():
        dr.backward(value * 1)
    opt.step()
    assert [v[0] for v in opt.values()] == [-2, -3, -4]
    opt.set_learning_rate({"x": None})
    assert opt.learning_rate("x") == 4
    del opt["y"]
    opt["y"] = Float(0)
    assert opt.learning_rate("y") == 4


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("is_masked", [False, True])
def test_changing_rates_and_counts_build_no_kernels(name, is_masked):
    opt = MAKERS[name](mask_updates=is_masked)
    opt["a"], opt["b"] = Float(np.zeros(17)), Float(np.ones(17))
    built = []
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        for rate in (0.1, 1, 0.5, 0, 2, 0.1, 1e-3, 1, 0.2, 0.3):
            dr.kernel_history_clear()
            opt.set_learning_rate({"a": rate, "b": 0.1})
            for value in opt.values():
                dr.backward(dr.square(value - 3))
            opt.step()
            entries = dr.kernel_history([dr.KernelType.JIT])
            built.append([e["cache_hit"] or e["cache_disk"] for e in entries])
    assert all(len(step) == 1 for step in built)
    assert all(step == [True] for step in built[1:])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("how", ["savez", "pickle"])
def test_a_restored_state_goes_on_bit_by_bit(name, how, tmp_path):
    def parameters():
        rng = np.random.default_rng(3)
        return {
            "x": Float(rng.random(7)),
            "a/b": {"v": Array3f(rng.random((3, 4))), "h": Float16(0.25)},
            "d": Float64(rng.random(1)),
        }

    def once(opt):
        dr.backward(dr.sum(dr.square(opt["x"] - 2)))
        dr.backward(dr.squared_norm(opt["a/b"]["v"] - 1) + Float(opt["a/b"]["h"]))
        dr.backward(dr.square(opt["d"]))
        opt.step()

    opt = MAKERS[name](params=parameters())
    opt.set_learning_rate({"x": 0.07, "a/b": 0.2})
    for _ in range(5):
        once(opt)
    if how == "savez":
        np.savez(tmp_path / "state.npz", **opt.state_dict())
        with np.load(tmp_path / "state.npz") as file:
            saved = dict(file)
    else:
        saved = pickle.loads(pickle.dumps(opt.state_dict()))
    other = MAKERS[name](params=parameters())
    other.load_state_dict(saved)
    assert [other.learning_rate(k) for k in other] == [0.07, 0.2, 0.1]
    for _ in range(5):
        once(opt)
        once(other)
    mine, theirs = opt.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    for key, value in mine.items():
        assert theirs[key].dtype == value.dtype
        np.testing.assert_array_equal(theirs[key], value)


def test_a_saved_state_is_no_view():
    opt = dr.opt.SGD(lr=1, params={"x": Float(1, 2)})
    saved = opt.state_dict()
    saved["x/0/value"][0] = 9
    assert opt["x"][0] == 1
    opt.load_state_dict(saved)
    saved["x/0/value"][0] = 5
    assert opt["x"][0] == 9


def test_steps_under_a_mask_and_a_scale():
    opt = dr.opt.Adam(lr=0.1, params={"x": Float(1)})
    dr.backward(opt["x"] * 8)
    opt.step(grad_scale=0.5, active=dr.llvm.Bool(False))
    assert opt["x"][0] == 1
    dr.backward(opt["x"] * 8)
    opt.step(grad_scale=0.5, active=dr.llvm.Bool(True), eval=False)
    assert opt["x"].state is dr.VarState.Unevaluated
    assert opt["x"][0] == pytest.approx(0.9)
    saved = opt.state_dict()
    assert saved["x/0/count"] == 1
    assert saved["x/0/mean"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Detached(1), "Float"),
        (ad.UInt32(1), "UInt"),
        (1.0, "float"),
        ({}, "dict"),
        ([Float(1), Detached(2)], "Float"),
        (dr.scalar.Array3f(1), "Array3f"),
    ],
    ids=str,
)
def test_what_cannot_be_differentiated(value, kind):
    opt = dr.opt.SGD(lr=1)
    match = f"the parameter 'x' can't be differentiated: it is made of '{kind}'"
    with pytest.raises(ArrayTypeError, match=match):
        opt["x"] = value
    assert "x" not in opt
    for add in (lambda: opt.update({"x": value}), lambda: dr.opt.Adam(1, {"x": value})):
        # The user's line, not one of the mapping's own methods.
        with pytest.raises(ArrayTypeError, match=rf"^{re.escape(__file__)}:\d+ in "):
            add()


def test_parameters_have_names():
    opt: Any = dr.opt.SGD(lr=1)
    with pytest.raises(ArrayTypeError, match=r"is 3 \(expected a string\)"):
        opt[3] = Float(1)
    wrong: Any = {("x", 0): Float(1)}
    with pytest.raises(ArrayTypeError, match="expected a string"):
        dr.opt.Adam(1, wrong)


@pytest.mark.parametrize(
    "use",
    [
        lambda opt: opt["z"],
        lambda opt: opt.__delitem__("z"),
        lambda opt: opt.reset("z"),
        lambda opt: opt.learning_rate("z"),
        lambda opt: opt.set_learning_rate({"z": 1}),
    ],
)
def test_keys_that_do_not_exist(use):
    opt = dr.opt.SGD(lr=1, params={"x": Float(1)})
    with pytest.raises(
        UnknownKeyError, match=r"no parameter 'z' \(there are \['x'\]\)"
    ):
        use(opt)


def test_negative_rates():
    opt = dr.opt.SGD(lr=1, params={"x": Float(1)})
    with pytest.raises(ArrayValueError, match="'lr' is -2"):
        opt.set_learning_rate(-2)
    with pytest.raises(ArrayValueError, match="'lr of x' is -2"):
        opt.set_learning_rate({"x": -2})
    assert opt.learning_rate("x") == 1


def test_a_step_without_any_gradient():
    opt = dr.opt.SGD(lr=1)
    opt.step()
    opt["x"] = Float(1)
    stale = opt["x"]
    dr.backward(stale * 1)
    opt.step()
    with pytest.raises(DerivativeError, match=r"no gradient has arrived .* \(x\)"):
        opt.step()
    dr.backward(stale * 1)
    with pytest.raises(DerivativeError, match="read anew after each step"):
        opt.step()


def test_states_that_do_not_fit():
    opt = dr.opt.Adam(lr=1, params={"x": Float(1, 2)})
    saved = opt.state_dict()
    with pytest.raises(UnknownKeyError, match="the state has 'x/0/mean'"):
        dr.opt.SGD(lr=1, params={"x": Float(1, 2)}).load_state_dict(saved)
    with pytest.raises(UnknownKeyError, match="the state lacks 'y/0/count'"):
        dr.opt.Adam(lr=1, params={"x": Float(1, 2), "y": Float(1)}).load_state_dict(
            saved
        )
    with pytest.raises(SizeError, match=r"'x/0/value' has 2 entries \(expected 3\)"):
        dr.opt.Adam(lr=1, params={"x": Float(1, 2, 3)}).load_state_dict(saved)


@pytest.mark.parametrize("name", MAKERS)
def test_copies_go_their_own_ways(name):
    one = MAKERS[name]()
    one["x"] = Float(-5, 7, 30)
    other = copy.deepcopy(one)
    for _ in range(3):
        descend(one)
        descend(other)
    np.testing.assert_allclose(one["x"], other["x"], rtol=1e-5)
    descend(one)
    assert not np.allclose(one["x"], other["x"], rtol=1e-5)


@pytest.mark.parametrize(
    "value", [Float(1), Array2f(1, 2), Matrix2f(1, 2, 3, 4), TensorXf([1, 2], (2, 1))]
)
def test_copied_parameters_take_steps(value):
    original = dr.opt.SGD(lr=0.25, params={"p": value})
    optimizer = copy.deepcopy(original)
    dr.backward(dr.sum(optimizer["p"] * 2, axis=None))
    optimizer.step()
    np.testing.assert_allclose(optimizer["p"], np.array(value) - 0.5)
    np.testing.assert_allclose(original["p"], value)
