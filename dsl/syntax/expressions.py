"""Rewriting `and`, `or`, `not`, chained comparisons and `a if c else b`.

Owns expressions. Each operand is evaluated once; the test whether it is an array
comes first, and where it isn't, the original operator runs with Python's own
short-circuit rules. Branches of a conditional expression additionally become
functions of the variables they read, for the vectorized case.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.definitions import Definitions
from lumijit.syntax.names import (
    OPAQUE,
    effects_of,
    header_of,
    own_parts,
    suspension_in,
)
from lumijit.syntax.truth import (
    false_test,
    is_known,
    is_plain_test,
    note_truth_counts,
    truth_counts,
    truth_test,
)


class ExpressionRewriter(gast.NodeTransformer):  # type: ignore[misc]
    """Returns rewritten copies of expressions and simple statements."""

    def __init__(self, definitions: Definitions) -> None:
        """Rewrite for the function whose pieces are defined in `definitions`."""
        self.definitions = definitions
        self._local_names: list[set[str]] = []

    def rewrite(self, node: Any) -> Any:
        """Rewrite a copy of `node`; the places of its parts are kept."""
        return build.located(self.visit(node), node)

    def visit(self, node: Any) -> Any:
        """Copy and rewrite one node."""
        handler: Callable[[Any], Any] | None
        handler = getattr(self, f"_rewrite_{type(node).__name__}", None)
        if isinstance(node, OPAQUE):
            return self._definition(node)
        if handler is not None:
            return build.located(handler(node), node)
        return self._copy(node)

    def _visit_test(self, node: Any) -> Any:
        note_truth_counts(node)
        return self.visit(node)

    def _definition(self, node: Any) -> Any:
        """Copy a function or class, rewriting what is evaluated where it stands."""
        fresh = copy.deepcopy(node)
        for (old, field), (new, _) in zip(
            header_of(node), header_of(fresh), strict=True
        ):
            setattr(new, field, [self._copy_part(part) for part in getattr(old, field)])
        return build.located(fresh, node)

    def _copy(self, node: Any) -> Any:
        """Copy a node, rewriting what is in it."""
        fields = {}
        for key, value in gast.iter_fields(node):
            if isinstance(value, list):
                fields[key] = [self._copy_part(part) for part in value]
            else:
                fields[key] = self._copy_part(value)
        return build.with_fields(node, fields)

    def _copy_part(self, part: Any) -> Any:
        return self.visit(part) if isinstance(part, gast.AST) else part

    def _rewrite_Name(self, node: Any) -> Any:
        fresh = self._copy(node)
        if isinstance(node.ctx, gast.Load) and self.definitions.is_unsure(node):
            return build.call("read", fresh)
        return fresh

    _rewrite_Attribute = _rewrite_Name

    def _rewrite_BoolOp(self, node: Any) -> Any:
        # Python's own operator is enough where no operand but the last can be an
        # array: the last one is returned, not tested.
        if all(is_plain_test(value) for value in node.values[:-1]):
            return self._copy(node)
        is_and = isinstance(node.op, gast.And)
        for position in range(1, len(node.values)):
            if self._is_conditional(node.values[position]):
                return self._combine_apart(node, is_and, position)
        result = self.visit(node.values[0])
        for value in node.values[1:]:
            result = self._combine(is_and, result, value, truth_counts(node))
        return result

    def _is_conditional(self, value: Any) -> bool:
        """Tell whether an operand must not run for those who don't get there."""
        if suspension_in(value):
            return False
        may_change_objects = self.definitions.purity.may_change_objects
        return bool(effects_of(value).writes) or may_change_objects(value)

    def _combine_apart(self, node: Any, is_and: bool, position: int) -> Any:
        """Combine the operands before a position with those from there on.

        For an array, these are a branch of a conditional expression.
        """
        left = self._joined(node, node.values[:position])
        right = self._joined(node, node.values[position:])
        temp = self.definitions.new_name("t")
        other = build.located(build.constant(not is_and), node)
        sides = (right, other) if is_and else (other, right)
        choice = build.located(gast.IfExp(left, *sides), node)
        operator = build.both if is_and else build.either
        combine = "logical_and" if is_and else "logical_or"
        return build.choice(
            self._is_plain(temp, self.visit(left)),
            operator(build.name(temp), self.visit(right)),
            build.call(
                combine, build.name(temp), self._vectorized_choice(choice, temp)
            ),
        )

    def _joined(self, node: Any, values: list[Any]) -> Any:
        """Make the operation on some of the operands of `node`."""
        if len(values) == 1:
            return values[0]
        joined = build.located(gast.BoolOp(node.op, values), node)
        if truth_counts(node):
            note_truth_counts(joined)
        return joined

    def _combine(self, is_and: bool, left: Any, value: Any, is_test: bool) -> Any:
        """Combine a rewritten operand with one that is a function of its variables.

        Where the left one is plain, it stands there as it is. (What waits has to.)
        """
        right = self.visit(value)
        if is_test:
            right = build.call("truth", right)
        if suspension_in(value):
            return self._combine_once(is_and, left, right)
        temp = self.definitions.new_name("t")
        operator = build.both if is_and else build.either
        params = self._params(effects_of(value))
        kind = "and" if is_and else "or"
        site = self.definitions.site(value, kind, params, ["value"])
        joined = build.call(
            "join",
            build.constant(is_and),
            build.name(temp),
            build.pack(list(map(build.name, params))),
            build.name(self._function(value, params, [], is_test)),
            build.constant(site),
        )
        return build.choice(
            self._is_plain(temp, left), operator(build.name(temp), right), joined
        )

    def _combine_once(self, is_and: bool, left: Any, right: Any) -> Any:
        """Write the right operand once."""
        temp = self.definitions.new_name("t")
        enter = build.call(
            "needs_right", build.walrus(temp, left), build.constant(is_and)
        )
        joined = build.call("joined", build.constant(is_and), build.name(temp), right)
        return build.choice(enter, joined, build.name(temp))

    def _is_plain(self, temp: str, value: Any) -> Any:
        return build.either(
            build.identical(build.walrus(temp, value), True),
            build.identical(build.name(temp), False),
            is_known(temp),
        )

    def _rewrite_UnaryOp(self, node: Any) -> Any:
        if not isinstance(node.op, gast.Not) or is_plain_test(node.operand):
            return self._copy(node)
        operand = self._visit_test(node.operand)
        temp = self.definitions.new_name("t")
        return build.choice(
            self._is_plain(temp, operand),
            gast.UnaryOp(op=gast.Not(), operand=build.name(temp)),
            build.call("logical_not", build.name(temp)),
        )

    def _rewrite_Compare(self, node: Any) -> Any:
        if len(node.ops) == 1 or is_plain_test(node):
            return self._copy(node)
        return self._rewrite_BoolOp(self._apart(node))

    def _apart(self, node: Any) -> Any:
        """Return `a < b < c` as `a < (t := b) and t < c`, the same one each time."""
        found = getattr(node, "apart", None)
        if found is None:
            between, *rest = node.comparators
            again = between
            if not isinstance(between, gast.Constant):
                temp = self.definitions.new_name("t")
                between, again = build.walrus(temp, between), build.name(temp)
            first = gast.Compare(node.left, node.ops[:1], [between])
            second = gast.Compare(again, node.ops[1:], rest)
            links = [build.located(link, node) for link in (first, second)]
            joined = gast.BoolOp(gast.And(), links)
            found = node.apart = build.located(joined, node)
        return found

    def _rewrite_IfExp(self, node: Any) -> Any:
        if is_plain_test(node.test):
            return self._copy(node)
        test = self._visit_test(node.test)
        temp = self.definitions.new_name("t")
        vectorized = self._vectorized_choice(node, temp)
        plain_false = build.choice(
            false_test(temp),
            self.visit(node.orelse),
            vectorized,
        )
        return build.choice(truth_test(temp, test), self.visit(node.body), plain_false)

    def _params(self, effects: Any) -> list[str]:
        params = self.definitions.state_names(effects.reads | effects.writes)
        for names in self._local_names:
            params += sorted((names & effects.reads) - set(params))
        return params

    def _function(
        self, node: Any, params: list[str], bound: list[str], is_test: bool = False
    ) -> str:
        """Define a function of `params` that returns the expression `node`.

        If that binds variables, a tuple: their values come after its own. Of a test,
        only the truth counts.
        """
        definitions = self.definitions
        identifier, is_new = definitions.function_of(node, f"value{node.lineno}_")
        if is_new:
            value = self.visit(node)
            if is_test:
                value = build.call("truth", value)
            if bound:
                value = build.pack([value, *map(definitions.value_or_none, bound)])
            result = gast.Return(value=value)
            definitions.define(identifier, params, [result], node, set(bound))
        return identifier

    def _vectorized_choice(self, node: Any, temp: str) -> Any:
        effects = effects_of(node.body, node.orelse)
        writes = effects.writes
        bound = self.definitions.state_names(writes)
        if suspension_in(node):
            return self.definitions.refusal(node, "'await' in a conditional expression")
        if writes and (self._local_names or len(bound) < len(writes)):
            where = "a comprehension" if self._local_names else "a global variable"
            reason = f"an assignment (':=') for some elements, in {where},"
            return self.definitions.refusal(node, reason)
        params = self._params(effects)
        kind = "conditional expression"
        site = self.definitions.site(node, kind, params, ["value", *bound])
        functions = [
            build.name(self._function(part, params, bound))
            for part in (node.body, node.orelse)
        ]
        known = [
            self.definitions.value_or_none(p) if p in writes else build.name(p)
            for p in params
        ]
        chosen = build.call(
            "choose",
            build.name(temp),
            build.pack(known),
            *functions,
            build.constant(site),
        )
        return self._binding(chosen, bound) if bound else chosen

    def _binding(self, chosen: Any, bound: list[str]) -> Any:
        """Bind variables to what follows the value in a tuple; return the value."""
        temp = self.definitions.new_name("t")

        def entry(whole: Any, position: int) -> Any:
            return gast.Subscript(whole, build.constant(position), gast.Load())

        parts = [build.walrus(temp, chosen)]
        for position, name in enumerate(bound, start=1):
            parts.append(build.walrus(name, entry(build.name(temp), position)))
        return entry(entry(build.pack(parts), 0), 0)

    def _rewrite_Assert(self, node: Any) -> Any:
        # It stays an `assert`, for Python to raise or to leave out.
        if is_plain_test(node.test):
            return self._copy(node)
        temp = self.definitions.new_name("t")
        test = truth_test(temp, self._visit_test(node.test))
        is_array = gast.UnaryOp(op=gast.Not(), operand=false_test(temp))
        is_on = build.call("checks", build.name(temp))
        is_off = gast.UnaryOp(op=gast.Not(), operand=is_on)
        check = build.call("check", build.name(temp), *self._message(node.msg))
        holds = build.either(test, build.both(is_array, build.either(is_off, check)))
        message = None if node.msg is None else self.visit(node.msg)
        return gast.Assert(test=holds, msg=message)

    def _message(self, node: Any) -> list[Any]:
        """Make the pieces of a message; those of an f-string keep their values."""
        if node is None:
            return []
        pieces = []
        for part in node.values if isinstance(node, gast.JoinedStr) else [node]:
            if isinstance(part, gast.FormattedValue):
                form = part.format_spec or build.constant("")
                piece = [part.value, build.constant(part.conversion), form]
            else:
                piece = [part, build.constant(-1), build.constant("")]
            pieces.append(build.pack([self.visit(p) for p in piece]))
        return pieces

    def _iterable(self, node: Any) -> Any:
        """Rewrite what a comprehension iterates over: no `:=` may stand there."""
        if suspension_in(node) or not any(map(_is_rewritten, own_parts(node))):
            return self.visit(node)
        params = self._params(effects_of(node))
        function = self._function(node, params, [])
        value = build.name if self._local_names[-1] else self.definitions.value_or_none
        return gast.Call(build.name(function), list(map(value, params)), [])

    def _rewrite_ListComp(self, node: Any) -> Any:
        generators = []
        names: set[str] = set()
        self._local_names.append(names)
        for generator in node.generators:
            iterable = self._iterable(generator.iter)
            names |= effects_of(generator.target).writes
            fresh = gast.comprehension(
                target=copy.deepcopy(generator.target),
                iter=iterable,
                ifs=[self._visit_test(condition) for condition in generator.ifs],
                is_async=generator.is_async,
            )
            generators.append(fresh)
        values = {
            key: self.visit(getattr(node, key))
            for key in ("elt", "key", "value")
            if hasattr(node, key)
        }
        self._local_names.pop()
        return type(node)(generators=generators, **values)

    _rewrite_SetComp = _rewrite_DictComp = _rewrite_GeneratorExp = _rewrite_ListComp


def _is_rewritten(part: Any) -> bool:
    """Tell whether rewriting an expression may take an assignment expression."""
    is_not = isinstance(part, gast.UnaryOp) and isinstance(part.op, gast.Not)
    is_chain = isinstance(part, gast.Compare) and len(part.ops) > 1
    return is_not or is_chain or isinstance(part, (gast.BoolOp, gast.IfExp))
