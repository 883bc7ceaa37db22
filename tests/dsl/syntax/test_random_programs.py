"""Random nestings of all constructs, compared with plain Python lane by lane."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.dsl.syntax.lanes import agree, define

_VARIABLES = ("x", "y", "z")


class Program:
    """Draws the text of a function over a few integers; all loops are bounded."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.loops = 0
        self.budget = 14

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def value(self) -> str:
        name = self.pick(*_VARIABLES)
        other = self.pick(*_VARIABLES, "1", "2", "3")
        return self.pick(
            name,
            other,
            f"{name} + {other}",
            f"{name} - {other}",
            f"({name} if {self.condition()} else {other})",
        )

    def condition(self, depth: int = 0) -> str:
        a, b = self.pick(*_VARIABLES), self.pick(*_VARIABLES, "0", "2", "5")
        simple = [f"{a} < {b}", f"{a} % 3 == 1", f"{b} <= {a} < 7", "k == 1"]
        if depth < 2 and self.draw(st.booleans()):
            c, d = self.condition(depth + 1), self.condition(depth + 1)
            return self.pick(f"({c} and {d})", f"({c} or {d})", f"not {c}")
        return self.pick(*simple)

    def block(self, indent: int, in_loop: bool) -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            self.statement(indent, in_loop)

    def emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def statement(self, indent: int, in_loop: bool) -> None:
        self.budget -= 1
        kinds = ["assign", "assign"]
        if self.budget > 0 and indent < 6:
            kinds += ["if", "ifelse", "while", "for", "range", "with", "jump"]
        kind = self.pick(*kinds)
        if kind == "assign":
            # Bounded, so that NumPy's integers don't wrap around.
            target, value = self.pick(*_VARIABLES), self.value()
            update = f"{target} {self.pick('+=', '-=')} {self.pick('1', '2', '3')}"
            self.emit(indent, self.pick(f"{target} = ({value}) % 23 - 7", update))
        elif kind in ("if", "ifelse"):
            self.emit(indent, f"if {self.condition()}:")
            self.block(indent + 1, in_loop)
            if kind == "ifelse":
                self.emit(indent, "else:")
                self.block(indent + 1, in_loop)
        elif kind == "with":
            self.emit(indent, "with nothing():")
            self.block(indent + 1, in_loop)
        elif kind == "jump":
            options = ["return x", f"return {self.value()} * 2"]
            options += ["break", "continue"] * 2 if in_loop else []
            self.emit(indent, f"if {self.pick(self.condition(), 'k == 1')}:")
            self.emit(indent + 1, self.pick(*options))
            if self.draw(st.booleans()):
                self.emit(indent, "else:")
                self.block(indent + 1, in_loop)
        else:
            self.loop(kind, indent)

    def loop(self, kind: str, indent: int) -> None:
        self.loops += 1
        counter = f"n{self.loops}"
        if kind == "while":
            self.emit(indent, f"{counter} = 0")
            test = f"{counter} < 3 and {self.condition()}"
            self.emit(indent, f"while {self.pick(test, f'({counter} < 4)')}:")
            self.emit(indent + 1, f"{counter} += 1")
        elif kind == "for":
            self.emit(indent, f"for k in {self.pick('(1, 2)', '[0, 1, 3]')}:")
        else:
            bounds = self.pick("3", "x % 4", "0, y % 5, 2", "z % 4, -1, -1", "x % 2, 3")
            self.emit(indent, f"for k in range({bounds}):")
        self.block(indent + 1, True)
        if self.draw(st.booleans()):
            self.emit(indent, "else:")
            self.block(indent + 1, False)


@st.composite
def programs(draw: st.DrawFn) -> str:
    program = Program(draw)
    program.emit(0, "def f(x, y, z):")
    program.emit(1, "k = 0")
    program.block(1, False)
    program.block(1, False)
    program.emit(1, "return x + 10 * y + 100 * z + 1000 * k")
    return "\n".join(program.lines) + "\n"


class nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        pass


_COLUMN = st.lists(st.integers(-4, 9), min_size=5, max_size=5)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
@given(programs(), _COLUMN, _COLUMN, _COLUMN)
def test_a_random_program_agrees_with_plain_python(
    text: str, x: list[int], y: list[int], z: list[int]
) -> None:
    agree(define(text, nothing=nothing), x, y, z)
