"""Draws expressions for `interface`: functions, types, and values at random.

The functions are those of `expressions`, the calls of `calls.txt`, and the lines of
`interface.txt` with other entry types and numbers. In many calls, an argument is itself
what a call returns. What is drawn need not be legal: both may refuse it.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import lumijit as dr
from tests.fuzz import expressions
from tests.fuzz.expressions import names
from tests.fuzz.systems import scope

#: Suffixes of entry types, and their flat arrays.
ENTRIES = {
    "b": "Bool",
    "i8": "Int8",
    "u8": "UInt8",
    "i": "Int",
    "u": "UInt",
    "i64": "Int64",
    "u64": "UInt64",
    "f16": "Float16",
    "f": "Float",
    "f64": "Float64",
}
FLOATS = ("f16", "f", "f64")
#: Shapes of types: numbers of components, entry types, and how often they are drawn.
SHAPES: dict[str, tuple[int, tuple[str, ...], int]] = {
    "": (1, tuple(ENTRIES), 12),
    "Array1": (1, tuple(ENTRIES), 1),
    "Array2": (2, tuple(ENTRIES), 3),
    "Array3": (3, tuple(ENTRIES), 4),
    "Array4": (4, tuple(ENTRIES), 1),
    "ArrayX": (0, tuple(ENTRIES), 3),
    "TensorX": (0, tuple(ENTRIES), 6),
    "Array22": (4, ("b", *FLOATS), 2),
    "Array33": (9, ("b", *FLOATS), 1),
    "Complex2": (2, ("f", "f64"), 3),
    "Quaternion4": (4, FLOATS, 3),
    "Matrix2": (4, FLOATS, 2),
    "Matrix3": (9, FLOATS, 2),
    "Matrix4": (16, FLOATS, 1),
    "Python": (1, ("b", "i", "f64"), 4),
}
DTYPES = {
    "i8": np.int8,
    "u8": np.uint8,
    "i": np.int32,
    "u": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
    "f16": np.float16,
    "f": np.float32,
    "f64": np.float64,
}
CHOICES = {
    "axis": ["None", "0", "1", "-1", "-2", "(0, 1)", "..."],
    "op": names("Add Mul Min Max And Or"),
    "bool": names("True False"),
    "n": names("0 1 2 3 -1"),
    "quat": names("quat_to_matrix quat_to_euler conj exp log rcp sqrt"),
    "linear": names("det inverse trace transpose frob diag rcp"),
    "order": names("A C F"),
    "shape": ["-1", "(-1,)", "(2, -1)", "(3, -1)", "2", "(2, 2)", "(-1, 1)"],
    "filter": names("box linear cubic lanczos gaussian hamming"),
    "number": names("0 1 5 -3 0.5 2.5"),
    "subscript": [
        *names("0 -1 ... None"),
        "slice(None, None, -1)",
        "slice(1, None)",
        "(..., 0)",
        "(slice(None), 1)",
        "(0, ..., None)",
        "UInt(1, 0)",
        "(UInt(0), slice(0, 1))",
    ],
    "reduction": names(
        "sum prod min max mean all any none count std var norm squared_norm argmin "
        "argmax median"
    ),
    "inplace": [
        f"i{name}"
        for name in names(
            "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul"
        )
    ],
    "var": names("Bool Int8 UInt8 Int32 UInt32 Int64 UInt64 Float16 Float32 Float64"),
}
_HOLE = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Value:
    """An operand: a type, and the entries of its components."""

    cls: str
    entries: tuple[tuple[str, ...], ...]
    #: Of tensors.
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.shape is not None:
            cells = iter(self.entries[0])
            return f"{self.cls}({_nested(self.shape, cells)})"
        if not self.cls:
            return self.entries[0][0]
        if self.cls in ENTRIES.values():
            return f"{self.cls}({', '.join(self.entries[0])})"
        parts = [p[0] if len(p) == 1 else f"[{', '.join(p)}]" for p in self.entries]
        if self.cls.startswith(("Array22", "Array33")):
            side = math.isqrt(len(parts))
            return f"{self.cls}({_nested((side, side), iter(parts))})"
        return f"{self.cls}({', '.join(parts)})"

    def lane(self, number: int) -> Value:
        """Return the value of one lane."""
        if self.shape is not None:
            return self
        return replace(
            self,
            entries=tuple(p if len(p) == 1 else (p[number],) for p in self.entries),
        )


def _nested(shape: tuple[int, ...], cells: object) -> str:
    if not shape:
        return str(next(cells))  # type: ignore[call-overload]
    return f"[{', '.join(_nested(shape[1:], cells) for _ in range(shape[0]))}]"


@dataclass(frozen=True)
class Expression:
    """A form with its operands, in a namespace."""

    namespace: str
    form: str
    values: tuple[Value, ...] = ()
    width: int = 1
    #: The call whose result is an argument, if there is one.
    inner: Expression | None = None

    def __str__(self) -> str:
        if not self.values:
            return self.form
        values = iter(self.values)
        return _HOLE.sub(lambda _: str(next(values)), self.form)

    def lanes(self) -> list[Expression]:
        """List what is left of this with single lanes."""
        if self.width == 1:
            return []
        return [self._lane(k) for k in range(self.width)]

    def _lane(self, number: int) -> Expression:
        values = tuple(v.lane(number) for v in self.values)
        inner = self.inner and self.inner._lane(number)
        return replace(self, values=values, width=1, inner=inner)

    def with_argument(self, place: int, inner: Expression) -> Expression:
        """Return this with a call in place of one of the values."""
        holes = list(_HOLE.finditer(self.form))
        start, end = holes[place].span()
        form = f"{self.form[:start]}({inner.form}){self.form[end:]}"
        values = (*self.values[:place], *inner.values, *self.values[place + 1 :])
        return replace(self, form=form, values=values, inner=inner)


class Writer:
    """Draws expressions."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._namespace = "llvm.ad"
        self._width = 1
        self._is_edgy = False
        self._kinds: dict[Callable[[], Expression], int] = {
            self._unary: 4,
            self._binary: 4,
            self._operator: 4,
            self._conversion: 2,
            self._trait: 1,
            self._call: 6,
            self._line: 4,
            self._gradient: 2,
            self._gradients: 2,
            self._composed: 20,
        }
        self._outer = (self._unary, self._binary, self._operator, self._call)
        self._inner = (*self._outer, self._conversion)

    def expression(self) -> Expression:
        """Draw an expression."""
        choose = self._random.choices
        (self._namespace,) = choose(("llvm.ad", "llvm", "scalar"), (4, 2, 2))
        self._width = 1
        if self._namespace != "scalar":
            (self._width,) = choose((1, 2, 3, 17), (3, 3, 3, 1))
        self._is_edgy = self._random.random() < 0.2
        (kind,) = choose(list(self._kinds), list(self._kinds.values()))
        return kind()

    def _made(self, form: str, *values: Value) -> Expression:
        return Expression(self._namespace, form, values, self._width)

    def _composed(self) -> Expression:
        """Draw a call of which an argument is what a call returns."""
        choose = self._random.choice
        outer = choose((*self._outer, *self._outer, self._gradient, self._gradients))()
        while not outer.values:
            outer = choose(self._outer)()
        inner = choose(self._inner)()
        while not _is_value(inner):
            inner = choose(self._inner)()
        return outer.with_argument(self._random.randrange(len(outer.values)), inner)

    def _unary(self) -> Expression:
        name = self._random.choice(expressions.UNARY)
        return self._made(f"dr.{name}({{v}})", self._value())

    def _binary(self) -> Expression:
        name = self._random.choice(expressions.BINARY)
        return self._made(f"dr.{name}({{v}}, {{v}})", *self._pair())

    def _operator(self) -> Expression:
        name = self._random.choice(expressions.OPERATORS)
        return self._made(f"{{v}} {name} {{v}}", *self._pair())

    def _conversion(self) -> Expression:
        return self._made(f"{self._type()}({{v}})", self._value())

    def _trait(self) -> Expression:
        name = self._random.choice(expressions.TRAITS)
        return self._made(f"dr.{name}({self._type()})")

    def _gradient(self) -> Expression:
        return self._derivative(expressions.SMOOTH, "x := {v}")

    def _gradients(self) -> Expression:
        return self._derivative(expressions.SMOOTH_PAIRS, "x := {v}, z := {v}")

    def _derivative(self, names: list[str], form: str) -> Expression:
        self._namespace = "llvm.ad"
        name = self._random.choice(names)
        self._width = self._width or 1
        values = [self._value(FLOATS), self._value(FLOATS)][: form.count("{")]
        args = "x, z" if len(values) == 2 else "x"
        grads = "x.grad, z.grad" if len(values) == 2 else "x.grad"
        call = f"y := dr.{name}({args}), dr.backward(y), {grads}"
        return self._made(f"[{form}, dr.enable_grad({args}), {call}]", *values)

    def _call(self) -> Expression:
        first: Value | None = None
        values: list[Value] = []

        def fill(hole: re.Match[str]) -> str:
            nonlocal first
            name = hole[1]
            if name in CHOICES:
                return self._random.choice(CHOICES[name])
            if name == "part":
                return str(self._random.choice((1, self._width)))
            if name == "type":
                return self._type()
            if name == "w" and first:
                values.append(self._like(first))
            else:
                values.append(self._argument(name))
            first = first or values[-1]
            return "{v}"

        form = _HOLE.sub(fill, self._random.choice(_CALLS))
        return self._made(form, *values)

    def _argument(self, name: str) -> Value:
        flat = "ArrayX" if self._namespace == "scalar" else ""
        if name == "x":
            # Of full width: what is drawn besides may index all of it.
            value = self._value(shapes=(flat,))
            kind = _suffix(value.cls)
            entries = tuple(self._number(kind) for _ in range(self._width))
            return replace(value, entries=(entries,))
        if name == "flat":
            return self._value(("b",), (flat,))
        if name == "k":
            kind = self._random.choice(("u", "u", "i", "u64", "u8", "i64"))
            draw = self._random.randrange
            entries = tuple(str(draw(self._width)) for _ in range(self._width))
            return Value(self._name(flat, kind), (entries,))
        shapes = {"t": "TensorX", "q": "Quaternion4", "matrix": "Matrix"}.get(name, "")
        kinds = ("b",) if name == "m" else tuple(ENTRIES)
        return self._value(kinds, tuple(s for s in SHAPES if s.startswith(shapes)))

    def _line(self) -> Expression:
        """Take a written line to other entry types, with other numbers."""
        text = self._random.choice(_LINES)
        kind = self._random.choice(list(DTYPES))
        special = kind if kind in FLOATS else self._random.choice(FLOATS)
        index = self._random.choice(("UInt", "UInt", "Int", "UInt64", "Int64", "UInt8"))

        def renamed(found: re.Match[str]) -> str:
            shape = found[1] or ""
            suffix = special if shape.startswith(("M", "C", "Q", "Texture")) else kind
            if shape[:-1] in SHAPES and suffix not in SHAPES[shape[:-1]][1]:
                suffix = "f"
            return f"{shape[:-1]}{suffix}" if shape else ENTRIES[suffix]

        def redrawn(found: re.Match[str]) -> str:
            number = partial(self._number, found[2] or _SUFFIX[found[1]])
            return (
                found[1]
                + (found[2] or "")
                + "("
                + _NUMBER.sub(lambda _: number(), found[3])
                + ")"
            )

        text = re.sub(r"\b(?:(\w+[\dX]f)|Float)\b", renamed, text)
        text = re.sub(r"\bUInt\b", index, text)
        return self._made(_LITERAL.sub(redrawn, text))

    def _type(self) -> str:
        value = self._value()
        return value.cls or self._random.choice(("float", "int", "bool"))

    def _pair(self) -> tuple[Value, Value]:
        first = self._value()
        how = self._random.random()
        if how < 0.4:
            other = self._like(first)
        elif how < 0.7:
            shapes = {"", "Python", _shape(first.cls)}
            other = self._value(shapes=tuple(sorted(shapes)))
        else:
            other = self._value()
        return (first, other) if self._random.random() < 0.5 else (other, first)

    def _like(self, value: Value) -> Value:
        """Draw a value of the same type and shape."""
        kind = _suffix(value.cls)
        if not value.cls:
            return self._value(shapes=("Python",))
        entries = tuple(
            tuple(self._number(kind) for _ in part) for part in value.entries
        )
        return replace(value, entries=entries)

    def _value(
        self, kinds: tuple[str, ...] = tuple(ENTRIES), shapes: tuple[str, ...] = ()
    ) -> Value:
        choose, choices = self._random.choice, self._random.choices
        possible = [s for s in shapes or SHAPES if set(SHAPES[s][1]) & set(kinds)]
        (shape,) = choices(possible, [SHAPES[s][2] for s in possible])
        kind = choose([k for k in SHAPES[shape][1] if k in kinds])
        count = SHAPES[shape][0]
        number = partial(self._number, kind)
        if shape == "Python":
            return Value("", ((number(),),))
        name = self._name(shape, kind)
        if shape == "TensorX":
            dims = choose(((2, 3), (2, 3), (3,), (2, 2), (1, 3), (), (2, 1, 3)))
            return Value(name, (tuple(number() for _ in range(math.prod(dims))),), dims)
        if shape == "ArrayX":
            count = choose((1, 2, 3))
        wide = [self._width if self._random.random() < 0.7 else 1 for _ in range(count)]
        return Value(name, tuple(tuple(number() for _ in range(w)) for w in wide))

    def _name(self, shape: str, kind: str) -> str:
        return shape + kind if shape else ENTRIES[kind]

    def _number(self, kind: str) -> str:
        choose = self._random.choice
        if kind == "b":
            return choose(("True", "False"))
        if kind in FLOATS:
            return self._float(kind)
        info = np.iinfo(DTYPES[kind])  # type: ignore[type-var]
        if self._is_edgy and self._random.random() < 0.4:
            ends = (int(info.min), int(info.max), 0, 1, int(info.max) // 2 + 1)
            return str(choose((*ends, max(-1, info.min))))
        low = max(info.min, choose((0, 1, -5, -100)))
        return str(self._random.randint(low, choose((5, 10, 100))))

    def _float(self, kind: str) -> str:
        dtype = DTYPES[kind]
        info = np.finfo(dtype)  # type: ignore[type-var]
        choose = self._random.choice
        if self._is_edgy and self._random.random() < 0.4:
            ends = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, info.max)
            number = float(choose((*ends, info.tiny, float(info.tiny) / 8, 0.5)))
        elif self._random.random() < 0.2:
            number = float(self._random.randint(-3, 5))
        else:
            low, high = choose(((0, 1), (0, 1), (-1, 1), (1, 5), (-10, 10)))
            number = self._random.uniform(low, high)
            number = round(number * 32) / 32 if self._random.random() < 0.8 else number
        return repr(float(np.asarray(number).astype(dtype)))


_LINES = expressions.written()
_CALLS = expressions.written("calls.txt")
_SUFFIX = {name: suffix for suffix, name in ENTRIES.items()}
_LITERAL = re.compile(
    r"\b(Float|Float16|Float64|(?:Array\d|Array22|ArrayX|TensorX|Matrix\d|Complex2|"
    r"Quaternion4)(?=f))(f\d*)?\(([-\d., \[\]]+)\)"
)
_NUMBER = re.compile(r"-?\d[\d.]*")


def _is_value(expression: Expression) -> bool:
    """Tell whether an expression is computed here, to one array or number."""
    try:
        found = eval(str(expression), scope(dr, expression.namespace))
    except Exception:
        return False
    return isinstance(found, (dr.ArrayBase, bool, int, float))


def _suffix(cls: str) -> str:
    found = re.search(r"[\dX](b|[iuf]\d*)$", cls)
    return found[1] if found else _SUFFIX.get(cls, "f64")


def _shape(cls: str) -> str:
    return next((s for s in SHAPES if s and cls.startswith(s)), "")


def drawn(seed: int, count: int) -> list[Expression]:
    """Draw expressions, each once."""
    writer = Writer(seed)
    found: dict[str, Expression] = {}
    while len(found) < count:
        expression = writer.expression()
        found[f"{expression.namespace} {expression}"] = expression
    return list(found.values())


def in_doubles(text: str) -> str:
    """Return an expression with all floating-point types in double precision."""
    text = re.sub(r"\bFloat(16)?\b(?!64)", "Float64", text)
    return re.sub(
        r"\b((?:Array|Tensor|Complex|Quaternion|Matrix)[\dX]+f)(16)?\b",
        r"\g<1>64",
        text,
    )
