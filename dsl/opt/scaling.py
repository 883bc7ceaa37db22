"""`GradScaler`: keeps small gradients of half precision from vanishing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.functions import evaluation
from lumijit.functions.evaluation import opaque
from lumijit.functions.masks import all_nested
from lumijit.functions.selection import isfinite, select
from lumijit.initialize import real_number
from lumijit.opt.optimizer import Optimizer
from lumijit.pytree import tree_map
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.type_traits import detached_t, float32_array_t, leaf_t, uint32_array_t


class GradScaler:
    """Multiplies losses by a number that is as large as gradients tolerate.

    Half precision has no numbers below 6e-8, so gradients vanish that single precision
    would hold. Here the loss is multiplied before `backward`, and gradients are divided
    before a step. If one isn't finite, the step isn't taken, and the next scale is
    smaller; after some good steps, it grows. No decision is made by Python.

    Source: P. Micikevicius et al., "Mixed Precision Training" (ICLR 2018), with the
    numbers of PyTorch.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float16
    >>> opt = dr.opt.SGD(lr=1, params={"x": Float16(1)})
    >>> scaler = dr.opt.GradScaler(init_scale=1024)
    >>> loss = opt["x"] * 1e-4 * 1e-4
    >>> dr.backward(scaler.scale(loss))
    >>> opt.gradients()
    [[1.0252e-05]]
    >>> scaler.step(opt)
    """

    _holds_arrays = True

    def __init__(
        self,
        init_scale: float = 65536.0,
        *,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        """Set the numbers of the method.

        Args:
            init_scale: the first scale.
            growth_factor: by how much the scale grows.
            backoff_factor: by how much it shrinks.
            growth_interval: after how many good steps it grows.
            enabled: whether to do anything but take steps.

        Raises:
            ArrayValueError: if a number makes no sense.
        """
        numbers: list[tuple[str, Any, Callable[[Any], bool], str]] = [
            ("init_scale", init_scale, lambda v: 0 < v < math.inf, "a positive number"),
            ("growth_factor", growth_factor, lambda v: v >= 1, "1 or more"),
            ("backoff_factor", backoff_factor, lambda v: 0 < v < 1, "below 1"),
            ("growth_interval", growth_interval, lambda v: v >= 1, "1 or more"),
        ]
        for name, value, is_good, wanted in numbers:
            real_number("lumijit.opt.GradScaler", f"'{name}'", value)
            if not is_good(value):
                raise ArrayValueError(
                    "lumijit.opt.GradScaler",
                    f"'{name}' is {value!r} (expected {wanted})",
                    "pass another number.",
                )
        self._growth = growth_factor
        self._backoff = backoff_factor
        self._interval = growth_interval
        self._is_enabled = enabled
        # Numbers until the first loss tells in which namespace to compute.
        self._scale: Any = float(init_scale)
        self._streak: Any = 0
        # Whether all gradients since the last update were finite.
        self._is_finite: Any = None

    def scale(self, value: Any) -> Any:
        """Multiply a loss by the scale, in single precision at least.

        Args:
            value: array, number or PyTree.

        Returns:
            The product.

        >>> import lumijit as dr
        >>> dr.opt.GradScaler(init_scale=8).scale(dr.llvm.ad.Float16(2))
        [16]
        """
        if not self._is_enabled:
            return value
        self.update()
        return tree_map(self._scaled, value)

    def _scaled(self, value: Any) -> Any:
        if isinstance(value, float):
            return value * self._scale
        if not isinstance(value, ArrayBase) or not value._spec.dtype.is_float:
            return value
        cls = type(value)
        if cls._spec.dtype.bits < 32:
            value = float32_array_t(cls)(value)
        if isinstance(self._scale, float):
            flat = detached_t(leaf_t(value))
            self._scale = opaque(float32_array_t(flat), self._scale)
            self._streak = opaque(uint32_array_t(flat), self._streak)
        return value * self._scale

    def unscale(self, value: Any) -> Any:
        """Divide gradients by the scale, in single precision at least (as `step`).

        Args:
            value: array, number or PyTree.

        Returns:
            The quotient.

        >>> import lumijit as dr
        >>> dr.opt.GradScaler(init_scale=8).unscale(dr.llvm.Float(16))
        [2]
        """
        return tree_map(self._unscaled, value) if self._is_enabled else value

    def _unscaled(self, value: Any) -> Any:
        if isinstance(value, float):
            return value / self._scale
        if not isinstance(value, ArrayBase) or not value._spec.dtype.is_float:
            return value
        if value._spec.dtype.bits < 32:
            value = float32_array_t(type(value))(value)
        return value / self._scale

    def step(self, optimizer: Optimizer) -> None:
        """Take a step along gradients divided by the scale, if all are finite.

        Args:
            optimizer: what holds parameters and gradients.

        Raises:
            ArrayTypeError: if no loss has been scaled yet.
        """
        if not self._is_enabled:
            optimizer.step()
            return
        if isinstance(self._scale, float):
            raise ArrayTypeError(
                "lumijit.opt.GradScaler.step",
                "no loss has been scaled yet",
                "call lumijit.backward on scaler.scale(loss).",
            )
        gradients = optimizer.gradients()
        evaluation.schedule(gradients)
        masks = [isfinite(gradient) for gradient in gradients]
        evaluation.schedule(masks)
        is_finite = all_nested(masks) if masks else None
        optimizer.step(grad_scale=1 / self._scale, active=is_finite)
        if self._is_finite is not None:
            is_finite = is_finite & self._is_finite
        self._is_finite = is_finite

    def update(self) -> None:
        """Adapt the scale to what steps have found; `scale` does so by itself."""
        if self._is_finite is None:
            return
        is_finite, scale, streak = self._is_finite, self._scale, self._streak + 1
        grows = is_finite & (streak >= self._interval)
        grown = scale * self._growth
        larger = select(grows & isfinite(grown), grown, scale)
        self._scale = select(is_finite, larger, scale * self._backoff)
        self._streak = select(grows | ~is_finite, 0, streak)
        self._is_finite = None
        evaluation.eval(self._scale, self._streak)

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and the number of good steps as arrays of NumPy.

        >>> import lumijit as dr
        >>> dr.opt.GradScaler(init_scale=8).state_dict()
        {'scale': array(8.), 'streak': array(0)}
        """
        self.update()
        return {
            "scale": np.array(float(self._scale)),
            "streak": np.array(int(self._streak)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another scaler was.

        Args:
            state: what its `state_dict` has returned.

        >>> import lumijit as dr
        >>> scaler = dr.opt.GradScaler()
        >>> scaler.load_state_dict({"scale": 8, "streak": 3})
        >>> scaler.state_dict()
        {'scale': array(8.), 'streak': array(3)}
        """
        self._scale = float(state["scale"])
        self._streak = int(state["streak"])
        self._is_finite = None
