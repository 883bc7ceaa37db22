"""The programs of the control-flow tests, differentiated.

Each runs with its numbers as floats: in plain Python for central differences, and
vectorized in forward and reverse mode, with symbolic control flow and evaluated.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from lumijit.runtime.errors import ArrayTypeError, StateError
from tests.dsl.programs import (
    functions,
    idioms,
    names,
    plain,
    recursion,
    statements,
    structures,
)
from tests.dsl.programs.floats import Endless, FloatProgram, NoFloats, candidates
from tests.dsl.programs.modes import PROGRAMS

assert functions, idioms
assert names, plain
assert recursion, statements
assert structures
ERRORS = (ArrayTypeError, Endless, NoFloats, RecursionError, StateError, TypeError)
#: What becomes a float, if not all that are signed.
CHOSEN = {
    "captured_variables_that_loops_and_branches_only_read": ("y",),
    "counters_in_nests": ("x", "bins"),
    "counting_lanes": ("x", "y"),
    "loop_in_recursion": ("bins",),
    "methods": ("y",),
    "range_to_array": ("y",),
    "walruses": ("y",),
    "while_true": ("y",),
}
BITS = "unsupported operand type|not defined for entries of type Float64"
RANGE = "'float' object cannot be interpreted as an integer"
NUMBERS = "no float results"
#: Programs of which no number can be a float, or that return none then, and why.
INTEGERS = {
    **dict.fromkeys(
        (
            "augmented",
            "bitwise_and_shifts",
            "collatz",
            "conditions_of_all_kinds",
            "for_over_lists",
            "recursive_closure",
            "super_methods",
            "switch_in_loop",
            "wide_integers",
        ),
        BITS,
    ),
    **dict.fromkeys(
        (
            "decorated_function_in_loop",
            "for_else_with_return",
            "for_range",
            "for_range_steps",
            "jump_in_a_plain_branch_beside_a_loop",
            "range_downwards",
            "range_else",
            "range_nested",
            "range_of_three_bounds",
            "range_variable_after_loop",
            "range_with_array_step",
            "range_with_start",
            "range_with_step",
            "range_with_steps_per_lane",
            "recursion_in_a_loop",
        ),
        RANGE,
    ),
    **dict.fromkeys(
        ("for_else_over_a_list", "return_everywhere", "return_in_plain_for"),
        "the branches disagree",
    ),
    "mutual_recursion": "maximum recursion depth",
    "random_numbers": "as a seed",
    "while_true_that_returns": "more than 20000 lines",
    **dict.fromkeys(
        (
            "boolean_operators",
            "chained_comparison",
            "jumps_out_of_unrolled_loops_beside_nested_jumps",
            "literal_counter",
            "long_operands",
            "mask_state",
            "nested_loops",
            "none_result",
            "python_flag",
            "return_in_nested_plain_loops",
        ),
        NUMBERS,
    ),
}
#: Programs whose derivatives are 0: they count, or choose between numbers.
CONSTANT = (
    "jumps_out_of_nested_loops",
    "loop_in_branch_in_loop",
    "not_a_number",
    "promoted_in_branch",
    "python_float_state",
    "walruses",
)
BY_NAME = {program.function.__name__: program for program in PROGRAMS}
#: Recursion under array conditions takes evaluated mode.
RUNS = [
    (name, mode)
    for name, program in BY_NAME.items()
    for mode in ("symbolic", "evaluated")
    if name not in INTEGERS and not (program.is_recursive and mode == "symbolic")
]


def choice(name: str) -> Sequence[str]:
    """Return the names of what becomes a float."""
    program = BY_NAME[name]
    given = {**program.columns, **program.shared}
    every = candidates(program)
    signed = [key for key in every if not given[key][0].startswith("UInt")]
    return CHOSEN.get(name, signed or every)


@functools.cache
def made(name: str) -> FloatProgram:
    return FloatProgram(BY_NAME[name], choice(name))


@pytest.mark.parametrize("way", ["forward", "reverse"])
@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_derivatives_agree_with_differences(name: str, mode: str, way: str) -> None:
    program = made(name)
    assert np.any(program.jacobian) == (name not in CONSTANT)
    program.compare(mode, way)


@pytest.mark.parametrize("name", INTEGERS)
def test_programs_of_integers_have_no_derivatives(name: str) -> None:
    """Those that start to have some belong to the other list."""
    every = candidates(BY_NAME[name])
    with pytest.raises(ERRORS, match=INTEGERS[name]):
        FloatProgram(BY_NAME[name], every)
    for count in range(1, len(every)):
        for chosen in itertools.combinations(every, count):
            with pytest.raises(ERRORS):
                FloatProgram(BY_NAME[name], chosen)


def test_lists_name_programs() -> None:
    assert {*CHOSEN, *INTEGERS, *CONSTANT} <= set(BY_NAME)
    assert len(PROGRAMS) == len(BY_NAME) >= 180
