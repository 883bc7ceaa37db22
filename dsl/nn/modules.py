"""Networks: modules with parameters, and what they have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, ClassVar

from lumijit.base import ArrayBase
from lumijit.functions.creation import zeros
from lumijit.hashgrid import HashEncoding
from lumijit.initialize import whole_number
from lumijit.nn.vectors import CoopVec
from lumijit.nn.views import MatrixView, matvec
from lumijit.random.generator import Generator
from lumijit.random.generator import rng as make_rng
from lumijit.runtime.errors import (
    ArrayTypeError,
    SizeError,
    StateError,
    UnknownKeyError,
)
from lumijit.spec import TENSOR

# The seed of weights, so that they are independent of what programs draw by default.
_SEED = 0x100000000


class Module(MutableMapping[str, Any]):
    """A part of a network: a function of a vector, with parameters. A PyTree.

    As a dictionary, a module has its parameters by path, such as 'layers.0.weights';
    `opt.update(net)` adds them to an optimizer, and `net.update(opt)` takes them back.
    A module that went through `lumijit.nn.pack` has one, 'weights'.

    Subclasses name their attributes in `DRJIT_STRUCT`, and define `__call__` and, if
    they have parameters or change the number of components, `_alloc`.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float, TensorXf
    >>> nn = dr.nn
    >>> net = nn.Sequential(nn.Linear(-1, 8), nn.ReLU(), nn.Linear(-1, 1))
    >>> net = nn.pack(net.alloc(TensorXf, 2), layout="training")
    >>> len(net(nn.CoopVec(Float(1, 2, 3), Float(4, 5, 6))))
    1
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {}
    __hash__ = object.__hash__

    def __call__(self, arg: Any, /) -> Any:
        """Return what the module makes of a `CoopVec`, or of a tensor (C, N)."""
        raise NotImplementedError(f"{type(self).__name__}.__call__")

    def _alloc(self, dtype: Any, size: int, rng: Generator, /) -> tuple[Module, int]:
        """Return the module with parameters, and how many components it returns.

        Args:
            dtype: the type of its parameters, a tensor type.
            size: how many components it gets; -1 if that isn't known.
            rng: draws the first parameters.
        """
        return self, size

    def alloc(
        self, dtype: type[Any], size: int = -1, rng: Generator | None = None
    ) -> Any:
        """Return the module with parameters, drawn at random.

        Args:
            dtype: their type, such as `lumijit.llvm.ad.TensorXf16`.
            size: how many components the input has, if the module doesn't say it.
            rng: what draws them; without it, they are the same in each run.

        Raises:
            ArrayTypeError: if the type is no tensor type of floats.
            SizeError: if sizes don't fit, or aren't known.
        """
        spec = getattr(dtype, "_spec", None)
        if spec is None or spec.kind is not TENSOR or not spec.dtype.is_float:
            raise ArrayTypeError(
                f"{type(self).__name__}.alloc",
                f"parameters can't be of type {dtype!r}",
                "pass a tensor type of floats, such as lumijit.llvm.ad.TensorXf.",
            )
        return self._alloc(dtype, size, rng or make_rng(seed=_SEED))[0]

    def _settings(self) -> Iterable[Any]:
        """Yield what tells the module from others besides its parameters."""
        for name, value in vars(self).items():
            if name not in self.DRJIT_STRUCT:
                yield name
                yield from value if isinstance(value, (tuple, list)) else (value,)

    def _rebuilt(self, items: list[Any]) -> Module:
        made: Module = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name, item in zip(self.DRJIT_STRUCT, items, strict=True):
            setattr(made, name, item)
        return made

    def _parameters(self) -> Iterator[tuple[str, Module, str]]:
        """Yield the path of each parameter, whose attribute it is, and its name."""
        for name in self.DRJIT_STRUCT:
            yield from _found(getattr(self, name), name, self, name)

    def _owners(self) -> dict[str, tuple[Module, str]]:
        """Return whose attributes the parameters are, by their paths."""
        found: dict[str, tuple[Module, str]] = {}
        prefix = getattr(self, "prefix", "")
        for path, owner, name in self._parameters():
            if isinstance(getattr(owner, name), MatrixView):
                path = "weights"
            found.setdefault(f"{prefix}.{path}" if prefix else path, (owner, name))
        return found

    def _owner(self, key: str) -> tuple[Module, str]:
        found = self._owners()
        if key not in found:
            raise UnknownKeyError(
                type(self).__name__,
                f"there is no parameter {key!r} (there are {list(found)})",
                "use one of these; 'alloc' makes them.",
            )
        return found[key]

    def __getitem__(self, key: str) -> Any:
        """Return a parameter."""
        return _contents(getattr(*self._owner(key)))

    def __setitem__(self, key: str, value: Any) -> None:
        """Replace a parameter; it is converted to the type of the one before."""
        owner, name = self._owner(key)
        held = getattr(owner, name)
        before = _contents(held)
        after = type(before)(value)
        if after.shape != before.shape:
            raise SizeError(
                type(self).__name__,
                f"the parameter {key!r} has shape {before.shape}, and the new value "
                f"{after.shape}",
                "pass one of its shape.",
            )
        if before is held:
            setattr(owner, name, after)
        else:
            before[:] = after

    def __delitem__(self, key: str) -> None:
        raise StateError(
            type(self).__name__,
            f"the parameter {key!r} can't be removed",
            "make another network.",
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners())

    def __len__(self) -> int:
        """Return the number of parameters."""
        return len(self._owners())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return key in self._owners()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _found(
    value: Any, path: str, owner: Module, name: str
) -> Iterator[tuple[str, Module, str]]:
    if isinstance(value, Module):
        for inner, part, attribute in value._parameters():
            yield f"{path}.{inner}", part, attribute
    elif isinstance(value, (list, tuple)):
        for k, item in enumerate(value):
            yield from _found(item, f"{path}.{k}", owner, name)
    elif isinstance(value, (MatrixView, ArrayBase)) and isinstance(owner, Module):
        yield path, owner, name


def _contents(value: Any) -> Any:
    """Return what a parameter is to users: of a part of an array, all of that."""
    return value.buffer if isinstance(value, MatrixView) else value


class Sequential(Module):
    """Modules one after the other.

    Args:
        args: the modules.
        prefix: what the paths of parameters begin with, where several networks share
            an optimizer.
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"layers": tuple}
    layers: tuple[Module, ...]
    prefix: str

    def __init__(self, *args: Module, prefix: str = "") -> None:
        """Take the modules."""
        for arg in args:
            if not isinstance(arg, Module):
                raise ArrayTypeError(
                    "lumijit.nn.Sequential",
                    f"{type(arg).__name__!r} is no module",
                    "pass instances of lumijit.nn.Module.",
                )
        self.layers = args
        self.prefix = prefix

    def __call__(self, arg: Any, /) -> Any:
        """Apply the modules."""
        for layer in self.layers:
            arg = layer(arg)
        return arg

    def _alloc(self, dtype: Any, size: int, rng: Generator, /) -> tuple[Module, int]:
        layers = []
        for layer in self.layers:
            layer, size = layer._alloc(dtype, size, rng)
            layers.append(layer)
        return Sequential(*layers, prefix=self.prefix), size

    def __repr__(self) -> str:
        inner = ",\n".join(repr(layer) for layer in self.layers)
        inner = "\n".join(f"  {line}" for line in inner.split("\n"))
        return f"Sequential(\n{inner}\n)"


class HashEncodingLayer(Module):
    """Encodes a vector by a hash encoding, such as `HashGridEncoding`.

    The encoding's features aren't packed with the weights of a network; as a parameter
    they are called 'data'.
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"encoding": HashEncoding}

    def __init__(self, encoding: HashEncoding) -> None:
        """Take the encoding."""
        if not isinstance(encoding, HashEncoding):
            raise ArrayTypeError(
                "lumijit.nn.HashEncodingLayer",
                f"{type(encoding).__name__!r} is no hash encoding",
                "pass a HashGridEncoding or PermutoEncoding.",
            )
        self.encoding = encoding

    @property
    def data(self) -> Any:
        """The features of the encoding."""
        return self.encoding.data

    @data.setter
    def data(self, values: Any) -> None:
        self.encoding.set_params(values)

    def __call__(self, arg: Any, /) -> Any:
        """Return the features of points."""
        return CoopVec(self.encoding(arg))

    def _alloc(self, dtype: Any, size: int, rng: Generator, /) -> tuple[Module, int]:
        if size not in (-1, self.encoding.dimension):
            raise SizeError(
                "lumijit.nn.HashEncodingLayer",
                f"the encoding takes {self.encoding.dimension} components and gets "
                f"{size}",
                "make it for that dimension.",
            )
        return self, self.encoding.n_output_features

    def _parameters(self) -> Iterator[tuple[str, Module, str]]:
        yield "data", self, "data"

    def __repr__(self) -> str:
        return f"HashEncodingLayer({self.encoding!r})"


class Linear(Module):
    """An affine function, y = A x + b, with the parameters `weights` and `bias`.

    Weights begin evenly distributed between -k and k, where k = 1 / sqrt(out_features),
    and the bias at zero.

    Args:
        in_features: components of x; -1: as many as there are.
        out_features: components of y; -1: as many as x has.
        bias: whether to add b.
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"weights": Any, "bias": Any}

    def __init__(
        self, in_features: int = -1, out_features: int = -1, bias: bool = True
    ) -> None:
        """Note the sizes; `alloc` makes the parameters."""
        for name, count in (
            ("in_features", in_features),
            ("out_features", out_features),
        ):
            whole_number("lumijit.nn.Linear", name, count)
        self.config = (in_features, out_features, bool(bias))
        self.weights: Any = None
        self.bias: Any = None

    def __call__(self, arg: Any, /) -> Any:
        """Apply the function to a vector, or to each column of a tensor."""
        weights, bias = self.weights, self.bias
        if weights is None:
            raise StateError(
                "lumijit.nn.Linear",
                "there are no parameters yet",
                "make them: net = net.alloc(TensorXf, size).",
            )
        if isinstance(arg, CoopVec):
            if not isinstance(weights, MatrixView):
                raise StateError(
                    "lumijit.nn.Linear",
                    "the parameters are tensors, and the input is a CoopVec",
                    "pack them: net = lumijit.nn.pack(net).",
                )
            return matvec(weights, arg, bias)
        if isinstance(weights, MatrixView):
            raise StateError(
                "lumijit.nn.Linear",
                f"the parameters are packed, and the input is a {type(arg).__name__!r}",
                "pass a CoopVec, or lumijit.nn.unpack the network.",
            )
        found = weights @ arg
        if bias is None:
            return found
        return found + (bias[:, None] if arg.ndim > 1 else bias)

    def _alloc(self, dtype: Any, size: int, rng: Generator, /) -> tuple[Module, int]:
        inputs, outputs, has_bias = self.config
        if -1 not in (inputs, size) and inputs != size:
            raise SizeError(
                "lumijit.nn.Linear",
                f"the layer takes {inputs} components and gets {size}",
                "correct in_features, or pass -1.",
            )
        inputs = size if inputs == -1 else inputs
        outputs = inputs if outputs == -1 else outputs
        if inputs < 1 or outputs < 1:
            raise SizeError(
                "lumijit.nn.Linear",
                f"the layer's size isn't known: {inputs} inputs, {outputs} outputs",
                "pass the input's size: net.alloc(TensorXf, size).",
            )
        made = Linear(inputs, outputs, has_bias)
        limit = 1 / math.sqrt(outputs)
        made.weights = rng.uniform(dtype, (outputs, inputs), -limit, limit)
        made.bias = zeros(dtype, outputs) if has_bias else None
        return made, outputs

    def __repr__(self) -> str:
        inputs, outputs, has_bias = self.config
        rest = "" if has_bias else ", bias=False"
        return f"Linear(in_features={inputs}, out_features={outputs}{rest})"
