"""Calls each public function here and in the peer, and prints what differs.

`python -m tests.fuzz.interface --peer-python PATH` runs the same expressions in both:
each function on values of each type that it may take, among them what it refuses.
Types, shapes and entries are compared, gradients, and that both refuse. What differs
on purpose is in `KNOWN`, with number and reason: `docs/differences.md` lists it.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tests.fuzz.drawn import Expression, drawn, in_doubles
from tests.fuzz.expressions import expressions
from tests.fuzz.judged import is_right
from tests.fuzz.systems import ENDED, both, is_better, is_refused, is_same

_NUMBER = r"(Complex2f|Quaternion4f)\d*\("
_MATRIX = r"Matrix\df\d*"
_UNSIGNED = r"(UInt\d*|\w*[\dX]u\d*|Bool|\w*[\dX]b|True|False)\(?"
#: What differs on purpose: patterns of expressions, with how many differ, and why.
#: Another number than this is printed: what differs by accident hides under no pattern.
KNOWN = {
    rf"dr\.safe_acos\({_NUMBER}": (
        2,
        "of the clipped number; Dr.Jit's `acos` of a quaternion acts on each part",
    ),
    rf"dr\.safe_a\w+\({_MATRIX}": (
        2,
        "each entry, as `asin`; Dr.Jit clears those that aren't on the diagonal",
    ),
    r"dr\.power\((Quaternion4f.*, Bool|True, Quaternion4f)|"
    r"(Quaternion4f.* \*\* Bool|True \*\* Quaternion4f)": (
        4,
        "q ** 0 and 1 ** q are 1; Dr.Jit gives NaN",
    ),
    rf"dr\.power\({_MATRIX}|{_MATRIX}.* \*\* |dr\.power\(.*, {_MATRIX}"
    rf"|.* \*\* {_MATRIX}": (
        22,
        "whole powers are products of matrices, others of entries, and vectors are no "
        "exponents; Dr.Jit mixes products and entries",
    ),
    rf"{_MATRIX}.* / Array\df": (
        1,
        "a quotient of a matrix and a vector has no meaning",
    ),
    r"dr\.(a?(cos|sin|tan)h?|sincosh?)\(Quaternion4f": (
        26,
        "functions of the whole number; Dr.Jit acts on each part",
    ),
    r"dr\.mulsign\(": (
        66,
        "the common type, as `a * sign(b)` has; Dr.Jit's that of `a`",
    ),
    rf"dr\.copysign\((.*, )?{_UNSIGNED}": (
        5,
        "unsigned numbers take no sign; Dr.Jit leaves them as they are",
    ),
    rf"dr\.copysign\({_MATRIX}": (4, "at 0, the derivative is that of `abs`, 0"),
    r".* (//|%) (Bool|\w*[\dX]b|True|False)\b": (
        12,
        "a mask counts as 0 and 1; division by 0 gives 0",
    ),
    r"dr\.count\((?!Bool)": (
        6,
        "UInt32, as the reference says, also of numbers; Dr.Jit counts these in nested "
        "arrays only, in their type",
    ),
    r"dr\.isinf\(Matrix\df": (1, "Dr.Jit tests for infinity wrongly at 0"),
    r"dr\.sign\((True|False)": (1, "an int, as of other Python numbers"),
    r"dr\.erfinv\(.*\b(1|True)\b": (3, "erfinv(1) is infinite; Dr.Jit gives NaN"),
    r"dr\.lgamma\(Matrix3f": (1, "at 0, an infinite derivative; Dr.Jit's is 0"),
    r"dr\.arg\((\w+\()?([-\d.e]+|True|False)\)": (3, "a float, also of a whole number"),
    r"(Array22|Matrix\d)f\d*\((ArrayX|Complex2f)": (
        2,
        "a row for each row, as of an Array2f in both",
    ),
    r"dr\.has_backend\(|\[dr\.has_backend": (1, "a Python bool"),
    r"dr\.grad\((True|False|-?\d+)\)": (1, "the type of the value"),
    r"dr\.is_half_v\((-?\d\S*|float)\)": (2, "a Python float isn't of half precision"),
    r"dr\.(size_v|depth_v)\(TensorX": (
        4,
        "one dynamic dimension, as its entries have",
    ),
    r"dr\.tensor_t\((float|int|bool)\)|dr\.replace_type_t\(float": (
        4,
        "a Python number's type has counterparts, too",
    ),
    r"dr\.opaque_width\((Array|Matrix|Complex|Quaternion)": (
        1,
        "the width of the whole array; Dr.Jit's of `x`",
    ),
    r"dr\.cross\(.*\w*[\dX]u": (
        1,
        "computed in the common type; Dr.Jit's negation wraps",
    ),
    r"dr\.unit_angle\(": (
        20,
        "0 or pi where vectors aren't of length 1; Dr.Jit gives NaN",
    ),
    r"dr\.sphdir\(": (5, "the common type; Dr.Jit's that of the first"),
    r"dr\.meshgrid\(\w+\([^()]*\)\)": (1, "a tuple, as the reference says"),
    r"dr\.width\(\[\]\)": (1, "1 without arrays, as the reference says"),
    r"dr\.reshape\((Array3f, TensorXf|Array3f, Float\(range\(6\)\), -1)": (
        2,
        "of the type that is asked for, or an error; Dr.Jit returns another one",
    ),
    r"dr\.reshape\(TensorXf, Array3f.*order=.F": (
        1,
        "as NumPy rearranges in that order",
    ),
    r"dr\.nn\.CoopVec.* \+ 1$": (1, "the text of a vector"),
    r"list\(dr\.": (
        13,
        "components of one entry stay so; Dr.Jit gives them the vector's width",
    ),
    r"(Array\d\df|Complex2f|Quaternion4f|Matrix\df).* / (Float16|\w+f16)": (
        4,
        "divided in the common type; Dr.Jit takes the reciprocal in half precision",
    ),
    r"\[Complex2f.*imag": (1, "a quaternion's vector part; Dr.Jit gives zeros"),
    r"\[v := dr\.nn\.view": (2, "the text of a view; `A.T` for `A.transpose`"),
}


_FLAT = r"(U?Int\d*|Float\d*|Bool)\("
_WHOLE = r"(U?Int\d*|\w*[\dX][ui]\d*)"
_FLOATS = r"(Float|\w*[\dX]f)\d*\("
_REFUSED = r".*= \['!'"
#: The same of drawn values, where it shows only there: forms of `namespace: expression
#: = our result`. NumPy and double precision are asked first.
DRAWN = {
    r".*\b(nan|inf)\b.* = ": "at infinities and NaN as NumPy, also of complex numbers",
    r".*\de-(3[89]|4\d|30\d|5)\b.* = ": (
        "denormal operands aren't taken for 0, and in `scalar` results are kept"
    ),
    r".*dr\.backward.* = .*\b(nan|inf)": (
        "no derivative outside of the domain and at poles, where Dr.Jit has numbers"
    ),
    rf"\S+: {_WHOLE}\({_FLOATS}|.*dr\.unravel\({_WHOLE}, {_FLOATS}": (
        "conversions to integers saturate"
    ),
    r".*(<<|>>|[lr]shift)": "all bits are moved out by shifts as wide as the type",
    r".*(//|%|floordiv|mod\().*\b(0|False)\b.* = ": "division by 0 gives 0",
    r".*(dr\.power\(|pow\().*-.* = |.*-.*pow\(|.* \*\* .*-.* = |.*-.* \*\* ": (
        "powers of negative numbers; Dr.Jit gives tiny numbers in place of NaN"
    ),
    r".*(dr\.erfinv|next_float64_normal|dr\.lgamma).*64": (
        "double precision; Dr.Jit is off by 1e-7 (erfinv) and 5e-12 (lgamma)"
    ),
    r".*dr\.(quat_to_euler|slerp|quat_to_matrix|quat_apply)\((?!dr\.normalize)": (
        "of quaternions of length 1 only"
    ),
    r".*dr\.(quat_to_euler|matrix_to_quat|slerp|euler_to_quat)\(.*f(16|64)": (
        "the common type of the arguments; Dr.Jit's is of single precision"
    ),
    r".*(power|pow)\((Quaternion.*\b0(\.0)?\)|\w+\(.*Quaternion)": (
        "q ** 0 and 1 ** q are 1; Dr.Jit gives NaN, and other powers of reals wrongly"
    ),
    r".*Complex2.*dr\.a(cos|sin|tan)h?\(x\), dr\.backward": (
        "the slope of the function also where a part is 0 or 1"
    ),
    r".*dr\.reshape\(": "of the type that is asked for, in the order of NumPy",
    r".*dr\.take\(.*\(\d+\)(, axis=\d)?\)": "an array of one index keeps the axis",
    r".*prefix_reduce\(.*exclusive=True": "the first entry is the neutral one",
    r".*dr\.switch\(.*TensorX": "tensors keep their shapes",
    r".*replace_shape_t\(TensorX": "the static type that the shape asks for",
    r".*dr\.mul_wide\(TensorX": "of twice the width, also of tensors",
    r".*dr\.(linear_to_srgb|srgb_to_linear)\(x\), dr\.backward": (
        "the derivative of an end that is reached, as of `clip`"
    ),
    r".*\be\+(3\d|30\d)\b.* = |.*\de\+(3\d|30\d)\b.* = ": (
        "large numbers as NumPy, without overflow on the way"
    ),
    r".*dr\.copysign\(x, z\), dr\.backward": "at 0, as of `abs`, 0",
    rf".*{_MATRIX}.*dr\.safe_\w+\(x\), dr\.backward": (
        "no slope where the argument is clipped; Dr.Jit has NaN in matrices"
    ),
    r".*(power|pow)\(.*\b0(\.0)?\b.* = |.* \*\* .*\b(0|False)\b.* = ": (
        "x ** 0 is 1, as of C and NumPy"
    ),
    r".*dr\.prod\(x\), dr\.backward": "also where a factor is 0",
    r".*dr\.cross\(.*Array33": "vectors of rows; Dr.Jit mixes rows and columns",
    r".*dr\.s?lerp\(.*U?Int": "the opposite of an unsigned number doesn't wrap",
    r".*dr\.reduce\(ReduceOp\.(Or|And)": "reduced, as the reference says",
    r".*dr\.(clip|clamp)\(": (
        "where the ends are in wrong order, the first one counts; derivatives are 1 at "
        "both ends"
    ),
    r".*(prefix_(reduce|sum)|cumsum)\(.*reverse=True": (
        "results keep their places; Dr.Jit reverses components"
    ),
    r".*Texture\df(16|64)": "of the texture's entries; Dr.Jit's have single precision",
    rf".*{_FLAT}.* @ |.*matmul\(.*{_FLAT}": (
        "of flat arrays, the sum of products; Dr.Jit reads other memory"
    ),
    r".*dr\.(std|var)\(.*ddof=": "where nothing is left to divide by, as NumPy",
    r".*dr\.(std|var|norm|squared_norm)\(.*(Complex|Quaternion|Matrix).*axis=": (
        "of the parts of numbers and the entries of matrices; Dr.Jit multiplies these"
    ),
    r".*dr\.allclose\(.*U": "distances of unsigned numbers don't wrap",
    r".*dr\.ravel\(x\), dr\.backward": "of a number for all lanes, a sum over lanes",
    r"scalar: .*(Matrix3|Array33|Array3b\(Array)": (
        "three entries; Dr.Jit shows or reads four"
    ),
    r"scalar: dr\.(lzcnt|log2i|brev|popcnt|tzcnt)\(\w+8": "eight bits, not 32",
    r"scalar: .*(//|%|prod|sum|nested|dot|matmul|mul|pow|power)\W": (
        "integers wrap and divide as on other backends; Dr.Jit's as Python's"
    ),
    r"scalar: dr\.(width|\w+_t|argm\w+|\w+_v)\(": (
        "static arrays have no vectorized dimension, and entries are Python's numbers"
    ),
    r".*type_t\((float|int|bool)": "also of a Python number's type",
    rf".*dr\.block_{_REFUSED}": "a block that isn't full is an error",
    r".*(zyx|\.x) = \['!'": "a component that isn't there is an error",
    rf".*axis={_REFUSED}": "an axis or index that isn't there is an error",
    rf".*(__setitem__|dr\.scatter){_REFUSED}": (
        "values that would lose digits, and masks of other shapes, are errors"
    ),
    rf".*dr\.(reshape|reinterpret_array|unravel)\({_REFUSED}": (
        "types of other shapes or widths are errors"
    ),
    rf".*Matrix\df\d*\((Quaternion|Complex|Array){_REFUSED}": (
        "a matrix is made of a number or of all its entries"
    ),
    r".*dr\.(norm|sh_eval|euler_to_quat|quat_apply|take_interp|transform_compose|nn\.)"
    rf"{_REFUSED}": "of floats only",
    rf".*dr\.(abs_)?dot\({_REFUSED}": "as many items on both sides",
    rf".*(len|list|dr\.reverse)\(TensorX\w+\([^[]*{_REFUSED}": (
        "no dimensions, as NumPy"
    ),
    rf".*(\[[^[]*\(.*|\)\[-?\d)\]{_REFUSED}": (
        "a flat array has one dimension, a number none, and indices are within"
    ),
    rf".*Xb.* [-+*] {_REFUSED}": "masks aren't added",
    r".*TensorX.*\[\w+\([^()]*\)\]$|.*TensorX.*\)\[.* = ": (
        "0 out of bounds; Dr.Jit reads other memory"
    ),
    r".*dr\.sh_eval\(": "components that are as wide as others of their degree",
    r".*dr\.(abs_)?dot\(.*TensorX": "of the shape to which tensors broadcast",
    r"scalar: (\S+ [<>]=? Array3b|Array3b.* [<>]=? )": (
        "a mask counts as 0 and 1; Dr.Jit takes numbers for masks"
    ),
    r"scalar: ArrayX.* @ ": "the sum of products; Dr.Jit reads other memory",
    r".*dr\.(sort|argsort)\((x\), dr\.backward|ArrayX)": (
        "along the vectorized dimension"
    ),
    r".*dr\.(cumsum|prefix_sum)\(\w*b\(": "masks have no sum of their type",
    r"scalar: dr\.block_prefix": "the first entry, as on other backends",
    r".*dr\.switch\(.*, (True|False)\)$": (
        "an array at any index; Dr.Jit keeps Python numbers"
    ),
    r".*dr\.oklab_to_linear_srgb\(Matrix": "cubes of entries; see powers of matrices",
    r".*dr\.erfinv\(.*inf": "erfinv(1) is infinite; Dr.Jit gives NaN",
    r".*Quaternion.*dr\.power\(x, z\), dr\.backward|.*dr\.exp\(Quaternion": (
        "real quaternions have functions, too; Dr.Jit gives NaN"
    ),
    r"scalar: dr\.(min|max)(imum)?\(Array\d(u64|b)": (
        "whole numbers, and masks as 0 or 1"
    ),
    r"scalar: .*__setitem__\(Bool\(False": "nothing where no entry is chosen",
    r".*dr\.block_\w+\(.*TensorX.*, 1\)": "of one dimension, as with larger blocks",
    r".*dr\.lerp\((\d|True|False)": "a float, also of whole numbers",
    r".*dr\.linspace\(.*, 1(, endpoint=\w+)?\)": "the first number; Dr.Jit gives NaN",
    r".*dr\.eval\(": "also whether other arrays were waiting",
    rf".*dr\.select\({_REFUSED}": "only a mask selects",
    r".*dr\.(linear_srgb_to_oklab|oklab_to_linear_srgb)\(\w*Float": (
        "of three components, also of a flat array; Dr.Jit scales a matrix by others"
    ),
    r".*dr\.hypot\(.*(Complex2|Quaternion4)f\(": (
        "lengths have the precision of each argument, rounded in other ways"
    ),
    r".*dr\.grad\((JitBackend|Invalid|\w+$)": "what isn't a number stays as it is",
}

_DERIVATIVE = re.compile(r"\[x := (.*?\)), (z := (.*?\)), )?dr\.en.*?y := ([\w.]*)\(")


def main() -> None:
    """Compare both systems, and print the differences."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.interface", description=__doc__)
    words = parser.add_argument
    words("--peer-python", required=True, help="a Python that has the peer")
    words("--count", type=int, default=0, help="draw as many expressions at random")
    words("--seed", type=int, default=1, help="of what is drawn")
    words("--all", action="store_true", help="print known differences, too")
    options = parser.parse_args()
    if options.count:
        asked = drawn(options.seed, options.count)
        compare_drawn(options.peer_python, asked, options.all)
    else:
        compare_listed(options.peer_python, options.all)


def compare_listed(peer_python: str, prints_all: bool) -> None:
    """Compare the expressions that are listed, and how many differ in each form."""
    texts = expressions()
    found = both(peer_python, [("llvm.ad", text) for text in texts])
    ours, theirs = (dict(zip(texts, results, strict=True)) for results in found)
    differing = [text for text in ours if not is_same(ours[text], theirs[text])]
    refused = [text for text in differing if is_refused(theirs[text])]
    forms = {text: _form(text, KNOWN) for text in differing if text not in refused}
    counts = Counter(forms.values())
    changed = {form for form, (count, _) in KNOWN.items() if counts[form] != count}
    for text, form in forms.items():
        if not form or form in changed or prints_all:
            print(f"{text}\n    {ours[text]}\n    {theirs[text]}\n    {form}")
    for form in sorted(changed):
        print(f"{counts[form]} of {form} differ, not {KNOWN[form][0]}")
    known = sum(map(bool, forms.values()))
    ended = sum(theirs[text] == ENDED for text in refused)
    print(
        f"{len(ours)} expressions, {len(differing)} differ: {len(refused)} are refused "
        f"there ({ended} end the process), {known} differ on purpose"
    )


def compare_drawn(peer_python: str, asked: list[Expression], prints_all: bool) -> None:
    """Compare expressions that are drawn; print what differs and isn't known."""
    results = list(_compared(peer_python, asked))
    differing = [(e, ours, theirs) for e, kind, ours, theirs in results if not kind]
    # Most differ in some lanes only.
    lanes = [lane for expression, _, _ in differing for lane in expression.lanes()]
    smaller = {
        lane: (lane, ours, theirs)
        for lane, kind, ours, theirs in _compared(peer_python, lanes)
        if not kind
    }
    inner = [e.inner for e in (*(e for e, _, _ in differing), *smaller) if e.inner]
    arguments = {e: (kind, ours) for e, kind, ours, _ in _compared(peer_python, inner)}
    counts = Counter(kind for _, kind, _, _ in results if kind)
    for found in differing:
        parts = [smaller[e] for e in found[0].lanes() if e in smaller] or [found]
        reasons = {
            _reason(e, ours, arguments.get(e.inner or e)): (e, ours, theirs)
            for e, ours, theirs in parts
        }
        reason = min(reasons)
        counts[reason and "on purpose"] += 1
        if not reason or prints_all:
            expression, ours, theirs = reasons[reason]
            print(f"{expression.namespace}: {expression}\n    {ours}\n    {theirs}")
            print(f"    {reason}" if reason else "")
    print(f"{len(asked)} expressions: {dict(counts)}, {counts['']} are new")


def _compared(
    peer_python: str, asked: list[Expression]
) -> Iterator[tuple[Expression, str, Any, Any]]:
    """Say of each expression how results agree; "" where they don't."""
    found = both(peer_python, [(e.namespace, str(e)) for e in asked])
    results = list(zip(asked, *found, strict=True))
    kinds = [_kind(str(e), ours, theirs) for e, ours, theirs in results]
    apart = [r for r, kind in zip(results, kinds, strict=True) if not kind]
    wide = both(peer_python, [(e.namespace, in_doubles(str(e))) for e, _, _ in apart])
    better = {
        expression
        for (expression, *results_), *exact in zip(apart, *wide, strict=True)
        if is_better(*results_, *exact)
    }
    for (expression, ours, theirs), kind in zip(results, kinds, strict=True):
        if expression in better:
            kind = "less precise there"
        yield expression, kind, ours, theirs


def _kind(text: str, ours: Any, theirs: Any) -> str:
    # Of half precision are also some of Python's numbers.
    tolerance = 5e-3 if "16" in text else 2e-5
    if is_same(ours, theirs, 0, tolerance):
        return "refused" if is_refused(ours) else "same"
    return "refused there" if is_refused(theirs) else ""


def _reason(expression: Expression, ours: Any, argument: tuple[str, Any] | None) -> str:
    """Return why a result may differ, if it may; `argument` is what `inner` gives."""
    verdict = is_right(expression, ours)
    if verdict is not None:
        return "wrong there" if verdict else ""
    text = str(expression)
    if argument and expression.inner:
        kind, value = argument
        if not kind:
            return "an argument differs"
        text = text.replace(f"({expression.inner})", _as_call(value))
    found = _form(text, KNOWN)
    return found or _form(f"{expression.namespace}: {text} = {ours}", DRAWN)


def _as_call(value: Any) -> str:
    """Return what makes a value, as forms of expressions know them."""
    cls, _, entries = value
    words = [f"{complex(e).real:g}" if "j" in e else e for e in entries]
    return words[0] if cls in ("bool", "int", "float") else f"{cls}({', '.join(words)})"


def _form(text: str, forms: Iterable[str]) -> str:
    """Return the form of what differs on purpose; derivatives do where values do."""
    found = _DERIVATIVE.match(text)
    if found:
        first, _, second, call = found.groups()
        text = f"{call}({first}{f', {second}' if second else ''})"
    return next((form for form in forms if re.match(form, text)), "")


if __name__ == "__main__":
    main()
