"""`Optimizer`: a dictionary of parameters that can take steps along their gradients.

Owns learning rates, and when values are computed; `methods` has the formulas,
`parameters` values and what is remembered of them. Flat arrays are optimized one by
one, whatever PyTree they stand in. Rates lie in memory and values, too, so all steps of
a program are the same kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.derivatives.gradients import detach
from lumijit.functions import evaluation
from lumijit.functions.evaluation import flat_leaves, make_opaque, opaque
from lumijit.functions.repetition import copy
from lumijit.functions.selection import select
from lumijit.initialize import real_number
from lumijit.opt.parameters import Entry, Parameter, State, track
from lumijit.pytree import tree_map
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    DerivativeError,
    SizeError,
    UnknownKeyError,
)
from lumijit.type_traits import uint32_array_t


def _shared(value: Any) -> Any:
    """Return the same values in arrays that the program may change."""
    return tree_map(lambda v: v._copy() if isinstance(v, ArrayBase) else v, value)


class Optimizer(MutableMapping[str, Any]):
    """A dictionary of parameters, and how to improve them by their gradients.

    Base class of `SGD`, `RMSProp`, `Adam` and `AdamW`. A parameter is an array of
    floats of an `.ad` namespace, or a PyTree of such; the optimizer keeps a copy whose
    derivatives are tracked, and reading gives its present value. After a step, read it
    again.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> opt = dr.opt.SGD(lr=0.25, params={"x": Float(3)})
    >>> for _ in range(3):
    ...     x = opt["x"]
    ...     dr.backward(x * x)
    ...     opt.step()
    >>> opt["x"]
    [0.375]
    """

    # The names of what is remembered of each entry of a parameter.
    slots: tuple[str, ...] = ()
    _holds_arrays = True

    def __init__(
        self,
        lr: float,
        params: Mapping[str, Any] | None = None,
        *,
        mask_updates: bool = False,
    ) -> None:
        """Set the learning rate, and add parameters.

        Args:
            lr: learning rate of all parameters that have none of their own.
            params: parameters to add.
            mask_updates: whether entries whose gradient is zero keep value and state.
        """
        self._name = f"lumijit.opt.{type(self).__name__}"
        self._parameters: dict[str, Parameter] = {}
        self._own_rates: dict[str, float] = {}
        # Rates in memory, by key and type; None stands for parameters without own rate.
        self._stored_rates: dict[tuple[str | None, type[Any]], Any] = {}
        self._masks_updates = mask_updates
        self._rate = self._checked("lr", lr)
        if params is not None and not isinstance(params, Mapping):
            raise ArrayTypeError(
                self._name,
                f"'params' has type {type(params).__name__!r} (expected a dict)",
                "name the parameters: params={'x': x}.",
            )
        self.update(params or {})

    def _checked(self, name: str, value: Any, below: float = math.inf) -> float:
        """Return a number of the method, which isn't negative."""
        # (One that is recorded stays one: see `lumijit.kernel`.)
        value = real_number(self._name, f"'{name}'", value)
        number = value if isinstance(value, float) else float(value)
        if not 0 <= number < below:
            what = "finite" if below == math.inf else f"below {below:g}"
            raise ArrayValueError(
                self._name,
                f"'{name}' is {number:g} (expected 0 or more, {what})",
                "pass another one.",
            )
        return number

    def _updated(
        self, gradient: Any, value: Any, state: State, rate: Any, count: Any
    ) -> tuple[Any, State]:
        """Return the next value and state of an entry.

        Args:
            gradient: its gradient, of the type in which it is computed.
            value: the present value, of that type.
            state: what is remembered of it.
            rate: the learning rate, in double precision.
            count: how many steps there are with this one: a number, or an array.
        """
        raise NotImplementedError

    def __getitem__(self, key: str) -> Any:
        """Return the present value of a parameter, whose derivatives are tracked."""
        return _shared(self._parameter(key).value)

    def __setitem__(self, key: str, value: Any) -> None:
        """Add a parameter, or replace its value.

        What the method remembers of it is kept if types and sizes are the same.
        """
        if not isinstance(key, str):
            raise ArrayTypeError(
                self._name,
                f"the name of a parameter is {key!r} (expected a string)",
                "name parameters, as in opt['x'] = x.",
            )
        copied = self._copied(key, value)
        known = self._parameters.get(key)
        if known is not None and known.take(copied):
            return
        made = Parameter(copied, self.slots)
        if known is not None and known.kinds == made.kinds:
            for old, new in zip(known.entries, made.entries, strict=True):
                new.state, new.count = old.state, old.count
        self._parameters[key] = made
        self._store_rates()

    def __delitem__(self, key: str) -> None:
        """Remove a parameter."""
        self._parameter(key)
        del self._parameters[key]
        self._own_rates.pop(key, None)
        self._store_rates()

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        """Return the number of parameters."""
        return len(self._parameters)

    def __contains__(self, key: object) -> bool:
        return key in self._parameters

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self._rate:g}, keys={list(self)})"

    def _parameter(self, key: str) -> Parameter:
        found = self._parameters.get(key)
        if found is None:
            raise UnknownKeyError(
                self._name,
                f"there is no parameter {key!r} (there are {list(self)})",
                "add it: opt[key] = value.",
            )
        return found

    def _copied(self, key: str, value: Any) -> Any:
        """Return a copy of a value in memory of its own, tracked."""
        leaves = list(flat_leaves(value))
        wrong = [v for v in leaves if v._spec.dtype.is_float and not v._spec.is_diff]
        if wrong or not any(v._spec.dtype.is_float for v in leaves):
            kind = type((wrong or leaves or [value])[0]).__name__
            raise ArrayTypeError(
                self._name,
                f"the parameter {key!r} can't be differentiated: it is made of {kind!r}"
                " (expected an array of floats of an '.ad' namespace, or a PyTree of "
                "such)",
                "use lumijit.llvm.ad.Float, for example.",
            )
        kept = copy(detach(value))
        make_opaque(kept)
        track(kept)
        return kept

    def set_learning_rate(
        self, value: float | Mapping[str, float | None] | None = None, **rates: float
    ) -> None:
        """Change learning rates; kernels stay as they are.

        Args:
            value: rate of all parameters that have none of their own, or rates of
                their own by key, where None takes one away.
            **rates: rates of their own by key.

        Raises:
            ArrayValueError: if a rate is negative or no finite number.
            UnknownKeyError: if there is no such parameter.

        >>> import lumijit as dr
        >>> opt = dr.opt.SGD(lr=1, params={"x": dr.llvm.ad.Float(1)})
        >>> opt.set_learning_rate({"x": 0.5})
        >>> opt.learning_rate(), opt.learning_rate("x")
        (1.0, 0.5)
        """
        own: dict[str, float | None] = dict(rates)
        if isinstance(value, Mapping):
            own = {**value, **rates}
        elif value is not None:
            self._rate = self._checked("lr", value)
        for key, rate in own.items():
            self._parameter(key)
            self._own_rates.pop(key, None)
            if rate is not None:
                self._own_rates[key] = self._checked(f"lr of {key}", rate)
        self._stored_rates = {}
        self._store_rates()

    def learning_rate(self, key: str | None = None) -> float:
        """Return a learning rate.

        Args:
            key: of a parameter; None for the rate of those without one of their own.

        Returns:
            The rate.

        Raises:
            UnknownKeyError: if there is no such parameter.

        >>> import lumijit as dr
        >>> dr.opt.Adam(lr=1e-3).learning_rate()
        0.001
        """
        if key is None:
            return self._rate
        self._parameter(key)
        return self._own_rates.get(key, self._rate)

    def _store_rates(self) -> None:
        """Put the rates of all parameters into memory, if they aren't there."""
        known, self._stored_rates = self._stored_rates, {}
        for key, parameter in self._parameters.items():
            for entry in parameter.entries:
                place = self._place(key, entry)
                rate = known.get(place)
                if rate is None:
                    rate = opaque(place[1], self.learning_rate(key))
                self._stored_rates[place] = known[place] = rate

    def _place(self, key: str, entry: Entry) -> tuple[str | None, type[Any]]:
        owner = key if key in self._own_rates else None
        return owner, entry.wide

    def gradients(self) -> list[Any]:
        """Return the gradients that have arrived, as flat arrays.

        >>> import lumijit as dr
        >>> opt = dr.opt.Adam(lr=0.1, params={"x": dr.llvm.ad.Float(2)})
        >>> dr.backward(3 * opt["x"])
        >>> opt.gradients()
        [[3]]
        """
        found = [e.gradient() for p in self._parameters.values() for e in p.entries]
        return [gradient for gradient in found if gradient is not None]

    def step(
        self, *, eval: bool = True, grad_scale: Any = None, active: Any = None
    ) -> None:
        """Improve all parameters.

        What no gradient has arrived at has the gradient zero: momentum moves it on, and
        weights decay. With `mask_updates`, it stays.

        Args:
            eval: whether to compute the results here: all of them, together.
            grad_scale: number or array of one entry by which to multiply gradients.
            active: mask of one entry; if it isn't set, nothing changes.

        Raises:
            DerivativeError: if no gradient has arrived at all.

        >>> import lumijit as dr
        >>> opt = dr.opt.RMSProp(lr=0.1, params={"x": dr.llvm.ad.Float(2)})
        >>> dr.backward(3 * opt["x"])
        >>> opt.step()
        >>> opt["x"]
        [1]
        """
        entries = [(k, e) for k, p in self._parameters.items() for e in p.entries]
        gradients = [entry.gradient() for _, entry in entries]
        if entries and all(gradient is None for gradient in gradients):
            raise DerivativeError(
                f"{self._name}.step",
                f"no gradient has arrived at any parameter ({', '.join(self)})",
                "call lumijit.backward on what was computed of opt[key], read anew "
                "after each step.",
            )
        for (key, entry), gradient in zip(entries, gradients, strict=True):
            found = entry.cls(0) if gradient is None else gradient
            rate = self._stored_rates[self._place(key, entry)]
            self._improve(entry, found, rate, grad_scale, active)
        if eval:
            evaluation.eval([entry.saved() for _, entry in entries])
        track([entry.array for _, entry in entries])

    def _improve(
        self, entry: Entry, gradient: Any, rate: Any, scale: Any, active: Any
    ) -> None:
        if scale is not None:
            gradient = gradient * entry.cls(scale)
        value = entry.cls(detach(entry.array, preserve_type=False))
        count, mask = entry.count + 1, None
        if active is not None:
            mask = active
            if isinstance(entry.count, int):
                entry.count = opaque(uint32_array_t(entry.cls), entry.count)
            count = select(active, entry.count + 1, entry.count)
        if self._masks_updates:
            mask = gradient != 0 if mask is None else mask & (gradient != 0)
        after, state = self._updated(gradient, value, entry.state, rate, count)
        if mask is not None:
            after = select(mask, after, value)
            state = {k: select(mask, v, entry.state[k]) for k, v in state.items()}
        entry.state, entry.count = state, count
        entry.become(after)

    def reset(self, key: str | None = None) -> None:
        """Forget what the method remembers of a parameter; its value stays.

        Args:
            key: of the parameter; None for all.

        Raises:
            UnknownKeyError: if there is no such parameter.

        >>> import lumijit as dr
        >>> dr.opt.Adam(lr=0.1, params={"x": dr.llvm.ad.Float(2)}).reset("x")
        """
        keys = list(self) if key is None else [key]
        for parameter in map(self._parameter, keys):
            for entry in parameter.entries:
                entry.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return values, states and rates as arrays of NumPy.

        Returns:
            A dictionary that `numpy.savez` and `pickle` can keep.

        >>> import lumijit as dr
        >>> opt = dr.opt.SGD(lr=0.5, params={"x": dr.llvm.ad.Float(1, 2)})
        >>> opt.state_dict()["x/0/value"]
        array([1., 2.], dtype=float32)
        """
        saved = {"rate": np.array(self._rate)}
        for key, rate in self._own_rates.items():
            saved[f"{key}/rate"] = np.array(rate)
        for prefix, entry in self._named_entries():
            for slot, value in entry.saved().items():
                saved[prefix + slot] = np.array(value)
        return saved

    def _named_entries(self) -> Iterator[tuple[str, Entry]]:
        for key, parameter in self._parameters.items():
            for position, entry in enumerate(parameter.entries):
                yield f"{key}/{position}/", entry

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another optimizer of this class, with these parameters, was.

        Args:
            state: what its `state_dict` has returned.

        Raises:
            UnknownKeyError: if its parameters are others, or those of another method.
            SizeError: if a parameter had another size.

        >>> import lumijit as dr
        >>> opt = dr.opt.Adam(lr=0.1, params={"x": dr.llvm.ad.Float(2)})
        >>> opt.load_state_dict(opt.state_dict())
        """
        self._check(state)
        self._rate = float(state["rate"])
        self._own_rates = {
            key: float(state[f"{key}/rate"]) for key in self if f"{key}/rate" in state
        }
        self._stored_rates = {}
        self._store_rates()
        for prefix, entry in self._named_entries():
            entry.restore({slot: state[prefix + slot] for slot in entry.saved()})
            track(entry.array)

    def _check(self, state: Mapping[str, Any]) -> None:
        """Raise unless a saved state is one of these parameters and this method."""
        construct = f"{self._name}.load_state_dict"
        sizes = {"rate": 0}
        for prefix, entry in self._named_entries():
            for slot in entry.saved():
                sizes[prefix + slot] = 0 if slot == "count" else len(entry.array)
        rates = {f"{key}/rate" for key in self}
        wrong = sorted(set(sizes) ^ (set(state) - rates))
        if wrong:
            verb = "lacks" if wrong[0] in sizes else "has"
            raise UnknownKeyError(
                construct,
                f"the state {verb} {wrong[0]!r}",
                "restore what this class has saved, with the same parameters.",
            )
        for name, size in sizes.items():
            found = np.size(state[name])
            if size and found != size:
                raise SizeError(
                    construct,
                    f"{name!r} has {found} entries (expected {size})",
                    "add parameters of the sizes that were saved.",
                )
