"""Scaled losses: small gradients survive, and steps that would harm aren't taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float, Float16
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError


def test_small_gradients_of_half_precision_survive():
    # The momentum shows it, which is kept in single precision.
    opt = dr.opt.SGD(lr=1, momentum=0.5, params={"x": Float16(1)})
    scaler = dr.opt.GradScaler(init_scale=2.0**14)
    dr.backward(scaler.scale(Float(opt["x"] * Float16(1e-4)) * 1e-5))
    scaler.step(opt)
    assert opt.state_dict()["x/0/velocity"] == pytest.approx(1e-9, rel=2e-2)
    opt = dr.opt.SGD(lr=1, momentum=0.5, params={"x": Float16(1)})
    dr.backward(Float(opt["x"] * Float16(1e-4)) * 1e-5)
    opt.step()
    assert opt.state_dict()["x/0/velocity"] == 0


def test_numbers_are_scaled_as_arrays_are():
    scaler = dr.opt.GradScaler()
    assert scaler.scale({"loss": 1.0, "name": "x", "x": Float(2)}) == {
        "loss": 65536,
        "name": "x",
        "x": 2 * 65536,
    }
    assert scaler.scale(0.5) == 0.5 * 65536
    assert scaler.unscale(65536.0) == 1


def test_the_result_is_that_without_a_scale():
    plain, scaled = (dr.opt.Adam(lr=0.1, params={"x": Float(1, 2)}) for _ in "ab")
    scaler = dr.opt.GradScaler(init_scale=2.0**10, growth_interval=3)
    for _ in range(10):
        dr.backward(dr.sum(dr.square(plain["x"] - 5)))
        plain.step()
        dr.backward(scaler.scale(dr.sum(dr.square(scaled["x"] - 5))))
        scaler.step(scaled)
    np.testing.assert_allclose(scaled["x"].numpy(), plain["x"].numpy(), rtol=1e-6)
    assert scaler.state_dict() == {"scale": 2.0**13, "streak": 1}


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_gradient_that_is_not_finite_skips_the_step(bad):
    opt = dr.opt.Adam(lr=0.1, params={"x": Float(1, 2), "y": Float(3)})
    scaler = dr.opt.GradScaler(init_scale=8, growth_interval=2)
    scales = []
    for step in range(5):
        factor = Float(1, bad if step == 2 else 1)
        before = opt.state_dict()
        dr.backward(scaler.scale(dr.sum(opt["x"] * factor) + opt["y"]))
        scaler.step(opt)
        after = opt.state_dict()
        is_same = all((before[key] == after[key]).all() for key in before)
        assert is_same == (step == 2)
        scales.append(float(scaler.state_dict()["scale"]))
    assert scales == [8, 16, 8, 8, 16]
    assert opt.state_dict()["x/0/count"] == 4


def test_the_scale_stays_finite():
    scaler = dr.opt.GradScaler(init_scale=1e38, growth_factor=100, growth_interval=1)
    opt = dr.opt.SGD(lr=1e-3, params={"x": Float(1)})
    for _ in range(3):
        dr.backward(scaler.scale(opt["x"] * 1e-3))
        scaler.step(opt)
    assert scaler.state_dict()["scale"] == pytest.approx(1e38)


def test_one_scaler_serves_several_optimizers():
    first, second = (dr.opt.SGD(lr=1, params={"x": Float(1)}) for _ in "ab")
    scaler = dr.opt.GradScaler(init_scale=16)
    dr.backward(scaler.scale(first["x"] * np.inf + second["x"]))
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (first["x"][0], second["x"][0]) == (1, 0)
    assert scaler.state_dict()["scale"] == 8


def test_no_kernel_is_built_for_later_steps():
    opt = dr.opt.Adam(lr=0.1, params={"x": Float(np.ones(9)), "y": Float(np.ones(5))})
    scaler = dr.opt.GradScaler(init_scale=8, growth_interval=3)
    built = []
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        for step in range(10):
            dr.kernel_history_clear()
            factor = dr.opaque(Float, np.inf if step == 4 else 1)
            loss = dr.sum(opt["x"] * factor) + dr.sum(dr.square(opt["y"]))
            dr.backward(scaler.scale(loss))
            scaler.step(opt)
            entries = dr.kernel_history([dr.KernelType.JIT])
            built.append(sum(not (e["cache_hit"] or e["cache_disk"]) for e in entries))
    assert sum(built[2:]) == 0


def test_a_restored_scaler_goes_on():
    def begin():
        opt = dr.opt.Adam(lr=0.1, params={"x": Float(1, 2)})
        return opt, dr.opt.GradScaler(init_scale=8, growth_interval=4)

    def improve(opt, scaler):
        dr.backward(scaler.scale(dr.sum(dr.square(opt["x"] - 7))))
        scaler.step(opt)

    opt, scaler = begin()
    for _ in range(3):
        improve(opt, scaler)
    other, its_scaler = begin()
    other.load_state_dict(opt.state_dict())
    its_scaler.load_state_dict(scaler.state_dict())
    improve(opt, scaler)
    improve(other, its_scaler)
    assert its_scaler.state_dict() == {"scale": 16, "streak": 0}
    for key, value in opt.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[key], value)


def test_disabled_it_does_nothing():
    scaler = dr.opt.GradScaler(enabled=False)
    opt = dr.opt.SGD(lr=1, params={"x": Float(3)})
    loss = opt["x"] * 1
    assert scaler.scale(loss) is scaler.unscale(loss) is loss
    dr.backward(loss)
    scaler.step(opt)
    assert opt["x"][0] == 2


def test_trees_of_losses():
    scaler = dr.opt.GradScaler(init_scale=4)
    scaled = scaler.scale({"a": Float(1), "b": [Float16(2), 3]})
    assert type(scaled["b"][0]) is Float
    assert repr(scaler.unscale(scaled)) == "{'a': [1], 'b': [[2], 3]}"
    assert (list(scaled["a"]), list(scaled["b"][0]), scaled["b"][1]) == ([4], [8], 3)


def test_mistakes():
    with pytest.raises(ArrayTypeError, match="no loss has been scaled yet"):
        dr.opt.GradScaler().step(dr.opt.SGD(lr=1, params={"x": Float(1)}))
    for name in ("init_scale", "growth_factor", "backoff_factor", "growth_interval"):
        options: dict[str, Any] = {name: -1}
        with pytest.raises(ArrayValueError, match=f"'{name}' is -1"):
            dr.opt.GradScaler(**options)
