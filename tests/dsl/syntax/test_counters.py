"""Which names are those of Python's numbers only."""

from __future__ import annotations

import ast

import gast
import pytest

from lumijit.syntax.counters import rebind
from lumijit.syntax.names import scope_of

# The names that are rewritten, and programs.
REBOUND = [
    ({"i"}, "i = 0\ni += 1"),
    ({"i"}, "for i in range(n):\n    i += 1"),
    ({"i", "k"}, "i, k = 0, -1.5\ni += k\nk *= 2"),
    ({"i"}, "[i, (j, s)] = [0, (n, 1)]\ni -= 3\ns += j"),
    ({"i"}, "i: int = 0\nif n:\n    i += 1"),
    (set(), "i = n\ni += 1"),
    (set(), "i = 0\ni += n"),
    (set(), "i = 0\ni = n\ni += 1"),
    (set(), "i = 0\nfor i in n:\n    i += 1"),
    (set(), "i = 0\nwith n as i:\n    i += 1"),
    (set(), "i = 0\nprint(i := n)\ni += 1"),
    (set(), "i = 0\ndef i(): pass\ni += 1"),
    (set(), "i = 0\nimport n as i\ni += 1"),
    (set(), "i = 0\ndef g():\n    nonlocal i\n    i = n\ni += 1"),
    ({"i"}, "i = 0\ndef g():\n    nonlocal i\n    i += 1\ni += 1"),
    ({"i"}, "i = 0\nif n:\n  def g():\n    nonlocal i\n    i *= 2\n    k = n"),
    (set(), "i = 0\ndef g():\n    nonlocal i\n    for i in n: pass\ni += 1"),
    (set(), "i = 0\n@n\ndef g():\n    nonlocal i\n    i += 1\ni += 1"),
    (set(), "i = 0\ndef g():\n  def h():\n    nonlocal i\n    i += 1\ni += 1"),
    (set(), "i = 0\nclass A:\n    nonlocal i\n    i = n\ni += 1"),
    (set(), "global i\ni = 0\ni += 1"),
    (set(), "i = 0\nmatch n:\n    case {**i}: pass\ni += 1"),
    (set(), "i, j = n, 0\ni, j = j, i\ni += 1\nj += 1"),
    (set(), "n += 1"),
    (set(), "s = ''\ns += 'a'"),
    (set(), "def g():\n    i = 0\n    i += 1"),
]


@pytest.mark.parametrize(("names", "text"), REBOUND)
def test_which_names_are_numbers(names: set[str], text: str) -> None:
    lines = text.replace("\n", "\n    ")
    (function,) = gast.parse(f"def f(n):\n    {lines}\n    return n").body
    before = {n.target.id for n in gast.walk(function) if isinstance(n, gast.AugAssign)}
    rebind(function, scope_of(function, ()), True)
    after = {n.target.id for n in gast.walk(function) if isinstance(n, gast.AugAssign)}
    assert before - after == names
    compile(ast.unparse(gast.gast_to_ast(function)), "<test>", "exec")
