"""Writing vectorized control flow: functions of the state, and calls of them.

Owns the jump-free side: each branch and loop body becomes one function that takes
the variables it needs and returns those that matter afterwards. Every such function
is written once, however deep it is nested. `plain_code` writes the plain side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.control_tree import (
    Compound,
    For,
    If,
    Simple,
    Statement,
    While,
    caught_name,
)
from lumijit.syntax.definitions import Definitions
from lumijit.syntax.expressions import ExpressionRewriter
from lumijit.syntax.hint_reader import Hints
from lumijit.syntax.invented import PREFIX
from lumijit.syntax.liveness import surely_bound
from lumijit.syntax.names import Effects, effects_of
from lumijit.syntax.truth import is_plain_test
from lumijit.syntax.unsupported import find_obstacle

_DROPPED = PREFIX + "dropped"
#: Writes a list of nodes, given the names bound before, which it extends.
Writer = Callable[[list[Statement], set[str]], list[Any]]


class RegionWriter:
    """Writes the vectorized form of constructs of one function."""

    def __init__(
        self,
        definitions: Definitions,
        write_plain: Callable[[list[Statement], str], list[Any]],
    ) -> None:
        """Write for the function whose pieces are defined in `definitions`.

        `write_plain` writes constructs that can't be vectorized where they stand.
        """
        self.definitions = definitions
        self.scope = definitions.scope
        self.effects = definitions.effects
        self.assigned = definitions.assigned
        self.rewriter = ExpressionRewriter(definitions)
        self.write_plain = write_plain

    # Statements.

    def statements(self, nodes: list[Statement], bound: set[str]) -> list[Any]:
        """Write jump-free nodes; `bound` grows by what they surely bind."""
        result: list[Any] = []
        for node in nodes:
            result += self._statement(node, bound)
        return result

    def _statement(self, node: Statement, bound: set[str]) -> list[Any]:
        if isinstance(node, Simple):
            return [self.simple(node.stmt, bound)]
        if isinstance(node, If):
            if is_plain_test(node.test) and not node.hints.keywords:
                return [self._plain_branch(node, bound)]
            return self.branch(node, self.rewriter.rewrite(node.test), bound)
        if isinstance(node, While):
            return self.loop(node, bound)
        if isinstance(node, For):
            return self._for(node, bound)
        assert isinstance(node, Compound)
        return self._block(node, bound)

    def simple(self, stmt: Any, bound: set[str]) -> Any:
        """Write a statement without control flow of its own."""
        effects = effects_of(stmt)
        bound |= surely_bound(stmt)
        bound -= effects.deletes
        return self.rewriter.rewrite(stmt)

    def _plain_branch(self, node: If, bound: set[str]) -> Any:
        test = self.rewriter.rewrite(node.test)
        left, right = set(bound), set(bound)
        body = self.statements(node.body, left)
        orelse = self.statements(node.orelse, right)
        bound |= left & right
        bound &= left & right
        return build.located(build.branch(test, body, orelse), node.stmt)

    def branch(self, node: If, test: Any, bound: set[str]) -> list[Any]:
        """Write a branch as a call of `if_stmt`."""
        inside = [*node.body, *node.orelse]
        obstacle = find_obstacle(inside, self.scope, self.effects)
        if obstacle:
            return [self._refuse(node, obstacle)]
        effects = self.effects.of_all(inside)
        live = node.live_body | node.live_orelse | node.hints.include
        mentioned = effects.mentioned | node.hints.include
        ins = self.definitions.state_names(live & mentioned)
        rebound = (effects.writes | effects.deletes) & node.live_out
        outs, optional = self._outputs(node.hints, effects, rebound, set(ins))
        # A variable that is surely bound wherever it is read may be anything in
        # lanes that don't get there.
        lenient = [n for n in outs if n not in self.assigned.unsure_names]
        kind = "guarded statements" if node.is_guard else "if"
        site = self.definitions.construct_site(node, kind, ins, outs, optional, lenient)
        functions = [
            self.block_function(node.body, f"then{node.stmt.lineno}_", ins, outs),
            self.block_function(node.orelse, f"else{node.stmt.lineno}_", ins, outs),
        ]
        value = build.call(
            "if_stmt",
            test,
            self.definitions.values(ins, bound),
            *map(build.name, functions),
            build.constant(site),
            **self._keywords(node.hints),
        )
        return [self._receive(node, outs, value, bound)]

    def loop(self, node: While, bound: set[str], first: Any = False) -> list[Any]:
        """Write a loop as a call of `while_loop`."""
        obstacle = find_obstacle(node.body, self.scope, self.effects)
        if obstacle:
            return [self._refuse(node, obstacle)]
        effects = self.effects.deep(node)
        mentioned = effects.mentioned | node.hints.include
        state = self.definitions.state_names(
            (node.live_head | node.hints.include) & mentioned
        )
        rebound = (effects.writes | effects.deletes) & set(state)
        outs, optional = self._outputs(node.hints, effects, rebound, set(state))
        kind = "while" if isinstance(node.stmt, gast.While) else "for"
        # Others may be read after a loop that not all elements have entered.
        unsure = self.assigned.unsure_names
        own = [n for n in outs if not n.startswith(PREFIX)]
        lenient = [n for n in outs if n not in unsure or n not in own]
        site = self.definitions.construct_site(
            node, kind, state, outs, optional, lenient
        )
        line = node.stmt.lineno
        test = self._loop_test(node, f"condition{line}_", state)
        body = self.block_function(node.body, f"body{line}_", state, outs)
        keywords = self._keywords(node.hints)
        if first is not False:
            keywords["entered"] = build.constant(True)
        if first:
            keywords["first"] = first
        value = build.call(
            "while_loop",
            self.definitions.values(state, bound),
            build.name(test),
            build.name(body),
            build.constant(site),
            **keywords,
        )
        return [self._receive(node, outs, value, bound)]

    def _loop_test(self, node: While, stem: str, state: list[str]) -> str:
        identifier, is_new = self.definitions.function_of(node, stem)
        if is_new:
            result = gast.Return(value=self.rewriter.rewrite(node.test))
            self.definitions.define(identifier, state, [result], node.stmt)
        return identifier

    def _for(self, node: For, bound: set[str]) -> list[Any]:
        stmt = node.stmt
        if isinstance(stmt, gast.AsyncFor):
            return [self._refuse(node, (stmt, "'async for'"))]
        iterable = self.rewriter.rewrite(node.iterable)
        first, source = self.range_source(node, iterable)
        inner = bound | effects_of(node.target).writes
        body = self.statements(node.body, inner)
        if node.flags:
            done = build.call("all_done", *map(build.name, node.flags))
            body.append(build.branch(done, [gast.Break()], []))
        target = self.rewriter.rewrite(node.target)
        plain: Any = gast.For(target, source, body, [], None)
        if not node.range_name:
            return [build.located(plain, stmt)]
        counted = self.statements(node.counted, set(bound))
        test = self.is_array_range(node)
        chosen = build.branch(test, counted, [plain])
        return [build.located(s, stmt) for s in (*first, chosen)]

    def range_source(self, node: For, iterable: Any) -> tuple[list[Any], Any]:
        """Split a call of `range` off the loop that iterates over it."""
        if not node.range_name:
            return [], iterable
        make = build.call("range", *iterable.args)
        return [build.assign(node.range_name, make)], build.name(node.range_name)

    def is_array_range(self, node: For) -> Any:
        """Make the test whether the range has array bounds."""
        kind = build.name(str(node.range_name))
        kind = gast.Attribute(kind, "__class__", gast.Load())
        return gast.Compare(kind, [gast.Is()], [build.helper("ArrayRange")])

    def _block(self, node: Compound, bound: set[str]) -> list[Any]:
        if node.plain_only:
            if node.jumps:
                return [self._refuse(node, (node.stmt, f"a jump {node.plain_only}"))]
            bound -= self.effects.deep(node).deletes
            return self.write_plain([node], node.plain_only)
        return [self.block_statement(node, self.statements, bound)]

    def block_statement(self, node: Compound, write: Writer, bound: set[str]) -> Any:
        """Write `with`, `try` or `match` around blocks written by `write`."""
        effects = self.effects.header(node)
        header = effects.writes - effects.deletes
        is_with = isinstance(node.stmt, (gast.With, gast.AsyncWith))
        stmt = build.shallow_copy(node.stmt)
        copies = {id(node.stmt): stmt}
        for name in ("handlers", "cases"):
            originals = getattr(stmt, name, None)
            if originals is not None:
                setattr(stmt, name, [build.shallow_copy(part) for part in originals])
                copies |= zip(map(id, originals), getattr(stmt, name), strict=True)
        for holder, name, body in node.parts:
            inner = bound | header | caught_name(holder)
            statements = write(body, inner)
            if is_with or name == "finalbody":
                bound |= inner
            if not statements and name == "body":
                statements = [gast.Pass()]
            setattr(copies[id(holder)], name, statements)
        if is_with:
            stmt.items = [self.rewriter.rewrite(item) for item in stmt.items]
        if isinstance(stmt, gast.Match):
            stmt.subject = self._plain(stmt.subject, node)
            for case in stmt.cases:
                if case.guard is not None:
                    case.guard = self._plain(case.guard, node)
        bound -= self.effects.deep(node).deletes
        return build.located(stmt, node.stmt)

    def _plain(self, value: Any, node: Compound) -> Any:
        """Write what `match` inspects, which must not be an array."""
        value = self.rewriter.rewrite(value)
        site = build.constant(self.definitions.site(node.stmt, "match"))
        return build.located(build.call("require_plain", value, site), value)

    # Pieces.

    def block_function(
        self, nodes: list[Statement], stem: str, ins: list[str], outs: list[str]
    ) -> str:
        """Define the function that runs `nodes` on a state."""
        # An empty block has no node to tell it by; it returns the state as it is.
        identifier, is_new = self.definitions.function_of(nodes, stem)
        if not is_new:
            return identifier
        bound = set(ins)
        body = self.statements(nodes, bound)
        reference = nodes[0].stmt if nodes else self.definitions.source.tree
        last = nodes[-1].stmt if nodes else reference
        result = gast.Return(value=self.definitions.values(outs, bound))
        body.append(build.located(result, last))
        changed = self.effects.of_all(nodes)
        touched = set(ins) | set(outs) | changed.mentioned
        self.definitions.define(identifier, ins, body, reference, touched)
        return identifier

    def _receive(
        self, node: Statement, outs: list[str], value: Any, bound: set[str]
    ) -> Any:
        assignable = self.scope.local | self.scope.nonlocal_names
        targets = [
            n if n in assignable or n.startswith(PREFIX) else _DROPPED for n in outs
        ]
        bound |= set(outs)
        return build.located(build.unpack(targets, value), node.stmt)

    def _outputs(
        self, hints: Hints, effects: Effects, rebound: set[str], ins: set[str]
    ) -> tuple[list[str], list[str]]:
        """Return the results of a construct and those that are so only if mutable."""
        assignable = self.scope.local | self.scope.nonlocal_names
        own = {n for n in ins if not n.startswith(PREFIX)}
        sure = {n for n in rebound if n in assignable or n.startswith(PREFIX)}
        sure |= effects.changed & own
        if effects.calls:
            # Whom it calls may have the variable of an outer function, too.
            sure |= self.scope.nonlocal_names & own
        sure |= {n for n in hints.include if self.definitions.is_variable(n)}
        lent = self.scope.lent if effects.calls else frozenset()
        # The functions of the construct assign to the cells of all they take.
        maybe = ((effects.passed | lent | self.scope.shared) & own) - sure
        gone = hints.exclude
        outs = self.definitions.state_names((sure | maybe) - gone)
        return outs, [n for n in outs if n in maybe]

    def _keywords(self, hints: Hints) -> dict[str, Any]:
        return {k: self.rewriter.rewrite(v) for k, v in hints.keywords.items()}

    def _refuse(self, node: Statement, obstacle: tuple[Any, str]) -> Any:
        culprit, reason = obstacle
        self.definitions.check_mode(node, culprit, reason)
        return build.located(
            gast.Expr(value=self.definitions.refusal(culprit, reason)), node.stmt
        )
