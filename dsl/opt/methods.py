"""How each method steps: gradient descent with momentum, RMSProp, Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumijit.functions.elementwise import sqrt
from lumijit.functions.transcendental import power
from lumijit.opt.optimizer import Optimizer
from lumijit.opt.parameters import State
from lumijit.runtime.errors import ArrayValueError
from lumijit.type_traits import float64_array_t


class SGD(Optimizer):
    """Gradient descent, with momentum if wanted.

    With gradient g, momentum mu and learning rate lr, a step is

        v <- mu v + g,    x <- x - lr v,

    and Nesterov's variant x <- x - lr (g + mu v). Source: I. Sutskever, J. Martens,
    G. Dahl, G. Hinton, "On the importance of initialization and momentum in deep
    learning" (ICML 2013), with the rate outside of v, as PyTorch has it.

    >>> import lumijit as dr
    >>> opt = dr.opt.SGD(lr=0.1, momentum=0.9, params={"x": dr.llvm.ad.Float(1)})
    >>> for _ in range(2):
    ...     dr.backward(opt["x"] * 2)
    ...     opt.step()
    >>> opt["x"]
    [0.42]
    """

    def __init__(
        self,
        lr: float,
        params: Mapping[str, Any] | None = None,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        mask_updates: bool = False,
    ) -> None:
        """Set the numbers of the method; see `Optimizer` for the others.

        Args:
            lr: learning rate.
            params: parameters to add.
            momentum: share of the last step that the next one goes on with.
            nesterov: whether to use Nesterov's variant.
            mask_updates: whether entries whose gradient is zero keep value and state.

        Raises:
            ArrayValueError: if a number is negative, or Nesterov's momentum zero.
        """
        self._momentum = float(momentum)
        self._is_nesterov = nesterov
        self.slots = ("velocity",) if momentum else ()
        super().__init__(lr, params=params, mask_updates=mask_updates)
        self._checked("momentum", momentum)
        if nesterov and not momentum:
            raise ArrayValueError(
                self._name,
                "'nesterov' is set, and the momentum is 0",
                "pass a momentum, such as 0.9.",
            )

    def _updated(
        self, gradient: Any, value: Any, state: State, rate: Any, count: Any
    ) -> tuple[Any, State]:
        del count
        rate = type(value)(rate)
        if not self._momentum:
            return value - rate * gradient, state
        velocity = self._momentum * state["velocity"] + gradient
        step = gradient + self._momentum * velocity if self._is_nesterov else velocity
        return value - rate * step, {"velocity": velocity}


class RMSProp(Optimizer):
    """Gradient descent, divided by a running mean of the gradient's size.

    With gradient g, a step is

        v <- alpha v + (1 - alpha) g^2,    x <- x - lr g / (sqrt(v) + epsilon).

    Source: T. Tieleman, G. Hinton, "Lecture 6.5: rmsprop", COURSERA: Neural Networks
    for Machine Learning (2012); epsilon is outside of the root, as in PyTorch.

    >>> import lumijit as dr
    >>> opt = dr.opt.RMSProp(lr=0.1, params={"x": dr.llvm.ad.Float(2)})
    >>> dr.backward(opt["x"] * 5)
    >>> opt.step()
    >>> opt["x"]
    [1]
    """

    slots = ("mean_square",)

    def __init__(
        self,
        lr: float,
        params: Mapping[str, Any] | None = None,
        *,
        alpha: float = 0.99,
        epsilon: float = 1e-8,
        mask_updates: bool = False,
    ) -> None:
        """Set the numbers of the method; see `Optimizer` for the others.

        Args:
            lr: learning rate.
            params: parameters to add.
            alpha: how slowly the mean changes.
            epsilon: what keeps the divisor from zero.
            mask_updates: whether entries whose gradient is zero keep value and state.

        Raises:
            ArrayValueError: if a number is negative, or `alpha` not below 1.
        """
        super().__init__(lr, params=params, mask_updates=mask_updates)
        self._alpha = self._checked("alpha", alpha, 1)
        self._epsilon = self._checked("epsilon", epsilon)

    def _updated(
        self, gradient: Any, value: Any, state: State, rate: Any, count: Any
    ) -> tuple[Any, State]:
        del count
        mean = _averaged(self._alpha, state["mean_square"], gradient * gradient)
        step = gradient / (sqrt(mean) + self._epsilon)
        return value - type(value)(rate) * step, {"mean_square": mean}


class Adam(Optimizer):
    """Adaptive moments: momentum, divided by a running mean of the gradient's size.

    With gradient g, step i counted from 1, a step is

        m <- beta_1 m + (1 - beta_1) g,    v <- beta_2 v + (1 - beta_2) g^2,
        x <- x - lr m / (1 - beta_1^i) / (sqrt(v / (1 - beta_2^i)) + epsilon).

    Source: D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization" (ICLR
    2015), algorithm 1, computed in the order at the end of its section 2.

    >>> import lumijit as dr
    >>> opt = dr.opt.Adam(lr=0.125, params={"x": dr.llvm.ad.Float(2)})
    >>> dr.backward(opt["x"] * 5)
    >>> opt.step()
    >>> opt["x"]
    [1.875]
    """

    slots = ("mean", "mean_square")
    _decay = 0.0

    def __init__(
        self,
        lr: float,
        params: Mapping[str, Any] | None = None,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        mask_updates: bool = False,
    ) -> None:
        """Set the numbers of the method; see `Optimizer` for the others.

        Args:
            lr: learning rate.
            params: parameters to add.
            beta_1: how slowly the gradient's mean changes.
            beta_2: how slowly the mean of its square changes.
            epsilon: what keeps the divisor from zero.
            mask_updates: whether entries whose gradient is zero keep value and state;
                steps are counted for all entries together.

        Raises:
            ArrayValueError: if a number is negative, or a beta not below 1.
        """
        super().__init__(lr, params=params, mask_updates=mask_updates)
        self._beta_1 = self._checked("beta_1", beta_1, 1)
        self._beta_2 = self._checked("beta_2", beta_2, 1)
        self._epsilon = self._checked("epsilon", epsilon)

    def _updated(
        self, gradient: Any, value: Any, state: State, rate: Any, count: Any
    ) -> tuple[Any, State]:
        cls = type(value)
        mean = _averaged(self._beta_1, state["mean"], gradient)
        square = _averaged(self._beta_2, state["mean_square"], gradient * gradient)
        # Both corrections for the zeros of the beginning, as one factor of the rate.
        root = sqrt(1 - _raised(self._beta_2, count))
        factor = cls(rate * (root / (1 - _raised(self._beta_1, count))))
        if self._decay:
            value = value * cls(1 - rate * self._decay)
        step = mean / (sqrt(square) + cls(root * self._epsilon))
        return value - factor * step, {"mean": mean, "mean_square": square}


class AdamW(Adam):
    """Adam with weights that decay by themselves, not by a term of the gradient.

    Before a step as `Adam` takes it, x <- (1 - lr weight_decay) x. Source:
    I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization" (ICLR 2019), with
    the decay multiplied by the rate, as in PyTorch.

    >>> import lumijit as dr
    >>> opt = dr.opt.AdamW(lr=0.125, weight_decay=1, params={"x": dr.llvm.ad.Float(2)})
    >>> dr.backward(opt["x"] * 5)
    >>> opt.step()
    >>> opt["x"]
    [1.625]
    """

    def __init__(
        self,
        lr: float,
        params: Mapping[str, Any] | None = None,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        mask_updates: bool = False,
    ) -> None:
        """Set the numbers of the method; see `Adam` for the others.

        Args:
            lr: learning rate.
            params: parameters to add.
            beta_1: how slowly the gradient's mean changes.
            beta_2: how slowly the mean of its square changes.
            epsilon: what keeps the divisor from zero.
            weight_decay: how fast the weights decay.
            mask_updates: whether entries whose gradient is zero keep value and state.

        Raises:
            ArrayValueError: if a number is negative, or a beta not below 1.
        """
        super().__init__(
            lr,
            params=params,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            mask_updates=mask_updates,
        )
        self._decay = self._checked("weight_decay", weight_decay)


def _averaged(share: float, mean: Any, value: Any) -> Any:
    """Return an exponentially weighted running mean."""
    return share * mean + (1 - share) * value


def _raised(base: float, count: Any) -> Any:
    """Return a power in double precision, of a number or an array of steps."""
    if isinstance(count, int):
        return base**count
    return power(base, float64_array_t(count)(count))
