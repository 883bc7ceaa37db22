"""What functions called by a construct change in objects is state of it."""

from __future__ import annotations

from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm import PCG32, Array2f, Float, Int
from lumijit.runtime.errors import StateError

from ..programs.modes import MODES, flags_of

every_mode = pytest.mark.parametrize("mode", MODES)


class Sampler:
    """Keeps its state in attributes, and isn't declared to be a PyTree."""

    def __init__(self) -> None:
        self.rng = PCG32(size=3)
        self.draws = Int(0)
        self.calls = 0
        self.sums: dict[str, Any] = {"all": Float(0), "last": [Array2f(0)]}
        self.name = "sampler"

    def draw(self) -> Any:
        """Return the next number."""
        self.draws += 1
        self.calls += 1
        value = self.rng.next_float32()
        self.sums["all"] += value
        self.sums["last"][0] = Array2f(value, self.draws)
        return value


class Holder:
    """Has a sampler, which the code below calls through methods only."""

    n: Any

    def __init__(self) -> None:
        self.sampler = Sampler()
        self.bins = lj.zeros(Int, 4)

    def draw(self) -> Any:
        return self.sampler.draw()


shared = Sampler()


@lj.syntax
def through_object(holder: Any, n: Any) -> Any:
    i, total = Int(0), Float(0)
    while i < n:
        if i != 1:
            total += holder.draw()
        i += 1
    return total


@lj.syntax
def through_global(holder: Any, n: Any) -> Any:
    i, total = Int(0), Float(0)
    while i < n:
        if i != 1:
            total += shared.draw()
        i += 1
    return total


@lj.syntax
def through_closure(holder: Any, n: Any) -> Any:
    def draw() -> Any:
        return sampler.draw()

    sampler = holder.sampler
    i, total = Int(0), Float(0)
    while i < n:
        if i != 1:
            total += draw()
        i += 1
    return total


@lj.syntax
def in_an_expression(holder: Any, n: Any) -> Any:
    i, total = Int(0), Float(0)
    while i < n:
        total += holder.draw() if i != 1 else 0
        i += 1
    return total


@every_mode
@pytest.mark.parametrize(
    "program", [through_object, through_global, through_closure, in_an_expression]
)
def test_methods_advance_generators(program: Any, mode: str) -> None:
    global shared
    holder = Holder()
    shared = holder.sampler
    expected, rng = [], PCG32(size=3)
    columns = [rng.next_float32().numpy() for _ in range(4)]
    for lane, n in enumerate([0, 2, 5]):
        expected.append(sum(column[lane] for column in columns[: n - (n > 1)]))
    with flags_of(mode):
        total = program(holder, Int(0, 2, 5))
        sampler = holder.sampler
        assert lj.allclose(total, expected)
        assert lj.allclose(sampler.sums["all"], expected)
        assert list(sampler.draws) == [0, 1, 4]
        assert list(sampler.sums["last"][0].y) == [0, 1, 4]
        following = [columns[0][0], columns[1][1]]
        assert list(sampler.rng.next_float32())[:2] == following


@every_mode
def test_branches_leave_other_elements_alone(mode: str) -> None:
    @lj.syntax
    def program(holder: Holder, n: Any) -> None:
        if n > 1:
            holder.draw()
        elif n < 0:
            holder.sampler.sums["all"] -= 1

    with flags_of(mode):
        holder = Holder()
        program(holder, Int(0, 2, -5))
        assert list(holder.sampler.draws) == [0, 1, 0]
        assert list(holder.sampler.sums["all"])[::2] == [0, -1]


@every_mode
def test_lists_of_closures(mode: str) -> None:
    @lj.syntax
    def program(n: Any) -> Any:
        sums = [Int(0), Int(0)]

        def add(value: Any) -> None:
            sums[0] += value
            sums[1] = sums[0] * 2

        i = Int(0)
        while i < n:
            add(i)
            i += 1
        return sums

    with flags_of(mode):
        assert [list(s) for s in program(Int(1, 2, 4))] == [[0, 1, 6], [0, 2, 12]]


@every_mode
def test_writes_by_index_are_no_state(mode: str) -> None:
    class Film(Holder):
        def put(self, i: Any) -> None:
            lj.scatter_add(self.bins, 1, i)

    @lj.syntax
    def program(film: Film, n: Any) -> Any:
        i = Int(0)
        while i < n:
            if i != 1:
                film.put(i)
            i += 1
        return i

    with flags_of(mode):
        film = Film()
        program(film, Int(1, 2, 4))
        assert list(film.bins) == [3, 0, 1, 1]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_errors_name_the_attribute(mode: str) -> None:
    class Wrong(Sampler):
        def draw(self) -> Any:
            self.draws = Float(self.draws) + 0.5  # type: ignore[assignment]
            return self.draws

    @lj.syntax
    def program(holder: Holder, n: Any) -> Any:
        i = Int(0)
        while i < n:
            holder.draw()
            i += 1

    holder = Holder()
    holder.sampler = Wrong()
    before = holder.sampler.draws
    pattern = (
        r"test_adopted.py:\d+ in program: .*'holder\.sampler\.draws' is inconsistent"
    )
    with flags_of(mode), pytest.raises(StateError, match=pattern):
        program(holder, Int(1, 2, 4))
    assert holder.sampler.draws is before


@lj.syntax
def _maybe_add(holder: Any, amount: Any) -> None:
    if amount > 3:
        holder.n += amount


@lj.syntax
def _add_on_the_other_side(condition: Any, holders: list[Any]) -> None:
    if condition:
        pass
    else:
        holders[1].n = Int(7)
        _maybe_add(holders[0], Int(24))


@every_mode
@pytest.mark.parametrize("number", [Int(2), 2], ids=["array", "number"])
@pytest.mark.parametrize("known", [True, False])
def test_changes_under_known_conditions_are_made_once(mode, number, known):
    """Though the other object's change has the construct run once more."""
    holder, other = Holder(), Holder()
    holder.n, other.n = type(number)(number), 3
    condition = Int(5) < Int(5) if known else lj.opaque(lj.llvm.Bool, False)
    with flags_of(mode):
        _add_on_the_other_side(condition, [holder, other])
    assert (holder.n, other.n) == (Int(26), Int(7))
