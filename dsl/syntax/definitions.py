"""What rewritten code refers to besides variables: functions of its pieces, and sites.

Owns what has been defined of one function, and how its variables are handed on. What
the functions consist of is up to `vectorized_code` and `expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.control_tree import If, Statement, While
from lumijit.syntax.invented import PREFIX, RUNTIME
from lumijit.syntax.liveness import DefiniteAssignment, EffectCache
from lumijit.syntax.names import NameScope, dotted_name
from lumijit.syntax.places import SourcePlace
from lumijit.syntax.purity import Purity
from lumijit.syntax.site import Site
from lumijit.syntax.source import Source, class_around, mangled
from lumijit.syntax.unsupported import raising_in


class Definitions:
    """The functions and sites of one function's rewritten code, as it is written."""

    def __init__(
        self,
        source: Source,
        scope: NameScope,
        effects: EffectCache,
        assigned: DefiniteAssignment,
        purity: Purity,
        new_name: Callable[[str], str],
        sites: list[Site],
    ) -> None:
        """Use the analyses of the function in `source`; extend `sites`."""
        self.source = source
        self.scope = scope
        self.effects = effects
        self.assigned = assigned
        self.purity = purity
        self.new_name = new_name
        self.sites = sites
        #: The functions written so far, inner ones first.
        self.functions: list[Any] = []
        # The pieces are kept: ids of what is gone come to stand for others.
        self._known: dict[tuple[int, str], tuple[Any, str]] = {}

    # Variables.

    def is_variable(self, name: str) -> bool:
        """Tell whether a name can be state of this function."""
        is_invented = name.startswith(PREFIX) and name != RUNTIME
        return is_invented or name in self.scope.variables

    def is_unsure(self, node: Any) -> bool:
        """Tell whether a variable or attribute may have no value when it is read."""
        if isinstance(node, gast.Attribute):
            return ".".join(dotted_name(node)) in self.assigned.stored
        return id(node) in self.assigned.unsure and node.id in self.scope.variables

    def state_names(self, names: set[str]) -> list[str]:
        """Select the names that are variables, in a fixed order."""
        chosen = (n for n in names if self.is_variable(n))
        return sorted(chosen, key=lambda n: (n.startswith(PREFIX), n))

    def values(self, names: list[str], bound: set[str]) -> Any:
        """Make the tuple of the values of variables, some of which may be unbound."""
        return build.pack(
            [build.name(n) if n in bound else self.value_or_none(n) for n in names]
        )

    def value_or_none(self, name: str) -> Any:
        """Make an expression for the value of a variable that may be without one."""
        scope = gast.Call(func=build.helper("locals"), args=[], keywords=[])
        return build.call("get", scope, build.constant(name))

    # Functions.

    def function_of(self, piece: Any, stem: str) -> tuple[str, bool]:
        """Name the function of a piece; tell whether it is to be defined."""
        known = self._known.get((id(piece), stem))
        if known is not None:
            return known[1], False
        identifier = self.new_name(stem)
        self._known[id(piece), stem] = piece, identifier
        return identifier, True

    def define(
        self,
        identifier: str,
        ins: list[str],
        body: list[Any],
        reference: Any,
        touched: set[str] | None = None,
    ) -> None:
        """Define a function of variables; it shares cells of those that it touches."""
        shared = sorted(self.scope.shared & (touched or set()))
        params = ins
        if shared:
            params = [f"{PREFIX}in_{n}" if n in shared else n for n in ins]
            enter = [
                build.assign(n, build.name(f"{PREFIX}in_{n}"))
                for n in ins
                if n in shared
            ]
            body = [gast.Nonlocal(names=shared), *enter, *body]
        definition = build.function(identifier, params, body)
        self.functions.append(build.located(definition, reference))

    # Sites.

    def site(
        self,
        node: Any,
        kind: str,
        ins: Iterable[str] = (),
        outs: Iterable[str] = (),
        **facts: Any,
    ) -> int:
        """Register a place of vectorized code; its number tells it from others."""
        site = Site(
            self.source.filename,
            self.source.function,
            SourcePlace.of(node),
            kind,
            tuple(ins),
            tuple(outs),
            **facts,
        )
        self.sites.append(site)
        return len(self.sites) - 1

    def construct_site(
        self,
        node: If | While,
        kind: str,
        ins: list[str],
        outs: list[str],
        optional: list[str],
        lenient: list[str],
    ) -> int:
        """Register a branch or a loop, with what its blocks do to variables."""
        effects = self.effects.deep(node)
        owner = class_around(self.source.function)
        paths = []
        for path in sorted(effects.stored):
            root, *attributes = path.split(".")
            if root in ins:
                paths.append((root, *(mangled(a, owner) for a in attributes)))
        return self.site(
            node.stmt,
            kind,
            ins,
            outs,
            optional=frozenset(optional),
            rebound=frozenset(effects.writes | effects.deletes),
            lenient=frozenset(lenient),
            excluded=frozenset(node.hints.exclude),
            paths=tuple(paths),
            raising=raising_in(node),
        )

    def refusal(self, node: Any, reason: str) -> Any:
        """Make the call that raises the error for `node`."""
        site = self.site(node, "statement")
        return build.call("refuse", build.constant(site), build.constant(reason))

    def check_mode(self, node: Statement, culprit: Any, reason: str) -> None:
        """Refuse at once what a hint says will be vectorized in any case."""
        hints = getattr(node, "hints", None)
        mode = getattr(hints and hints.mode, "value", None)
        if mode in ("symbolic", "evaluated"):
            raise self.source.error(
                culprit,
                f"{reason} can't be part of vectorized control flow, which "
                f"mode={mode!r} asks for around it",
                "remove the mode, or move the statement out of the conditional block.",
            )
