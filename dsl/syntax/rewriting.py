"""From a function to its rewritten code: what `@syntax` does with the source.

Owns what has been rewritten already.

The rewritten module looks like this, for `def f(x): while x < 3: x += 1`::

    def outline(_lj, _lj_condition2_1, _lj_body2_2):
        def _lj_condition2_1(x):
            return x < 3

        def _lj_body2_2(x):
            x += 1
            return (x,)

        def f(x):
            while (_lj_c := x < 3) is True or _lj_c is not False and (
                _lj_c.__class__ in _lj.plain_types or _lj.is_plain(_lj_c)
            ) and _lj_c:
                x += 1
            else:
                if not (_lj_c is False or …the same…):
                    (x,) = _lj.while_loop((x,), _lj_condition2_1, _lj_body2_2, 0)

A plain bool costs one comparison. Each block of the function exists twice: in place,
and in the function that serves arrays. `outline` is never called; it only makes the
compiler treat the names of helpers and of the closure as free variables.
"""

from __future__ import annotations

import ast
import itertools
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import gast

from lumijit.runtime import collector
from lumijit.syntax import build
from lumijit.syntax.control_tree import Statement, TreeBuilder
from lumijit.syntax.counters import rebind
from lumijit.syntax.definitions import Definitions
from lumijit.syntax.entry_points import Runtime
from lumijit.syntax.hint_reader import HintReader
from lumijit.syntax.invented import PREFIX, RESULT
from lumijit.syntax.jumps import JumpRemover
from lumijit.syntax.liveness import DefiniteAssignment, EffectCache, Liveness
from lumijit.syntax.meanings import Meanings, Path
from lumijit.syntax.names import NameScope, own_parts, scope_of
from lumijit.syntax.outline import bound, compiled, outline
from lumijit.syntax.plain_code import SPLIT, NativeWriter
from lumijit.syntax.purity import Purity
from lumijit.syntax.site import Site
from lumijit.syntax.source import Source, read_function
from lumijit.syntax.vectorized_code import RegionWriter

_FUNCTIONS = (gast.FunctionDef, gast.AsyncFunctionDef)


class Code(NamedTuple):
    """What a function's code became, and what it was taken to mean."""

    codes: dict[str, CodeType]
    sites: list[Site]
    answers: dict[tuple[str, Path], bool]


# Nested functions are made, and decorated, again and again.
_known: dict[tuple[object, ...], Code] = {}
_KEPT = 1024


def decorated(
    f: FunctionType, recursive: bool, print_ast: bool, print_code: bool
) -> FunctionType:
    """Return the twin of a function; what has been rewritten before is known."""
    meanings = Meanings(f)
    key = (f.__code__, f.__code__.co_filename, f.__qualname__, recursive)
    known = _known.get(key)
    # To be refused, or shown.
    is_asked = hasattr(f, "__wrapped__") or print_ast or print_code
    if known is None or is_asked or not meanings.agree_with(known.answers):
        known = _rewrite(f, meanings, recursive, print_ast, print_code)
        # (Other threads may add some meanwhile.)
        for oldest in list(_known)[: max(0, len(_known) + 1 - _KEPT)]:
            _known.pop(oldest, None)
        _known[key] = known
    return bound(f, known.codes, Runtime(known.sites))


def _rewrite(
    f: FunctionType,
    meanings: Meanings,
    recursive: bool,
    print_ast: bool,
    print_code: bool,
) -> Code:
    """Rewrite and compile a function."""
    source = read_function(f)
    tree = source.tree
    tree.decorator_list = []
    tree.type_params = []
    rewriting = _Rewriting(source, meanings)
    try:
        if recursive:
            rewriting.inner_functions(tree)
        helpers = rewriting.function(tree, f.__code__.co_freevars)
        module = outline(f, tree, helpers)
        if print_ast:
            print(ast.dump(gast.gast_to_ast(module), indent=2))
        if print_code:
            print(ast.unparse(gast.gast_to_ast(module)))
        return Code(compiled(f, module), rewriting.sites, meanings.answers)
    except RecursionError:
        raise source.error(
            source.tree,
            "the control flow of this function is nested too deeply",
            "split it into several functions.",
        ) from None


class _Rewriting:
    """Rewrites function definitions in place."""

    def __init__(self, source: Source, meanings: Meanings) -> None:
        self.source = source
        self.meanings = meanings
        self.hints = HintReader(source, meanings)
        self.new_name = _NameSource()
        self.sites: list[Site] = []

    def function(
        self, tree: Any, free: tuple[str, ...], inside: bool = False
    ) -> list[Any]:
        """Rewrite the body of `tree`; return the functions that it calls.

        With `inside`, and where they share a variable with it by its cell, those
        functions are defined in `tree` itself.
        """
        scope = scope_of(tree, free)
        _name_super_arguments(tree, scope)
        shadowed = "range" in scope.local or "range" in scope.global_names
        is_range = not shadowed and self.meanings.is_range(("range",))
        rebind(tree, scope, is_range)
        head, nodes = self._nodes(tree, is_range)
        purity = Purity(scope, self.meanings)
        lowered = JumpRemover(self.new_name, purity.is_pure).function(nodes)
        effects, assigned = _analyse(lowered, scope)
        definitions = Definitions(
            self.source, scope, effects, assigned, purity, self.new_name, self.sites
        )

        def write_plain(nodes: list[Statement], reason: str) -> list[Any]:
            return NativeWriter(regions, reason).block(nodes, set())

        regions = RegionWriter(definitions, write_plain)
        native = NativeWriter(regions, _refused_function(tree))
        body = native.function(nodes, set(scope.parameters))
        if native.tests_split:
            start = build.assign(SPLIT, build.constant(False))
            body.insert(0, build.located(start, tree))
        helpers = definitions.functions
        if inside or any(_shared_in(helper) & scope.local for helper in helpers):
            body = [*helpers, *body]
            helpers = []
        tree.body = [*head, *body]
        return helpers

    def _nodes(self, tree: Any, is_range: bool) -> tuple[list[Any], list[Statement]]:
        """Build the control-flow tree, apart from docstring and declarations."""
        builder = TreeBuilder(self.hints, self.new_name, is_range)
        first = tree.body[0]
        has_doc = (
            isinstance(first, gast.Expr)
            and isinstance(first.value, gast.Constant)
            and isinstance(first.value.value, str)
        )
        body = tree.body[1:] if has_doc else tree.body
        nodes = builder.function(body, tree.body[-1])
        head = [first] if has_doc else []
        return head + builder.declarations, nodes

    def inner_functions(self, tree: Any) -> None:
        """Rewrite the functions defined inside `tree`, innermost first."""
        for node in gast.iter_child_nodes(tree):
            self.inner_functions(node)
            if isinstance(node, _FUNCTIONS):
                self.function(node, (), inside=True)


class _NameSource:
    """Makes up names that occur nowhere else in the function."""

    def __init__(self) -> None:
        self._counter = itertools.count(1)

    def __call__(self, stem: str) -> str:
        return f"{PREFIX}{stem}{next(self._counter)}"


def _analyse(
    nodes: list[Statement], scope: NameScope
) -> tuple[EffectCache, DefiniteAssignment]:
    """Run the analyses of a jump-free tree."""
    effects = EffectCache(scope)
    always = scope.captured | scope.nonlocal_names | {RESULT}
    Liveness(effects, always).block(nodes, set())
    assigned = DefiniteAssignment(effects)
    assigned.block(nodes, set(scope.parameters | scope.free))
    return effects, assigned


def _refused_function(tree: Any) -> str:
    """Say why no control flow of a function can be vectorized, if so."""
    is_async = isinstance(tree, gast.AsyncFunctionDef)
    if is_async and any(isinstance(n, gast.Yield) for n in gast.walk(tree)):
        return "in an asynchronous generator"
    return ""


def _shared_in(helper: Any) -> frozenset[str]:
    """List the variables that a helper shares with the function by their cells."""
    names = (s.names for s in helper.body if isinstance(s, gast.Nonlocal))
    return frozenset(itertools.chain.from_iterable(names))


def _name_super_arguments(tree: Any, scope: NameScope) -> None:
    """Write `super()` with its arguments, which a helper would not find."""
    arguments = [*tree.args.posonlyargs, *tree.args.args]
    if "__class__" not in scope.free or "super" in scope.local or not arguments:
        return
    for node in own_parts(*tree.body):
        if isinstance(node, gast.Call) and not node.args:
            function = node.func
            if isinstance(function, gast.Name) and function.id == "super":
                names = ("__class__", arguments[0].id)
                node.args = [build.located(build.name(name), node) for name in names]


# What the first of rewritten functions imports stays.
collector.keep()
