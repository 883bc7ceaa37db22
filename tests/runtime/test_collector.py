"""The garbage collector is relaxed, but works, and the program's choice counts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHOW = "print(gc.isenabled(), *gc.get_threshold())"


def run(program: str, **environment: str) -> str:
    command = [sys.executable, "-c", program]
    settings = {**os.environ, **environment}
    return subprocess.check_output(command, env=settings, text=True).strip()


def test_young_objects_are_collected_less_often() -> None:
    assert run(f"import gc, lumijit; {SHOW}").startswith("True 25000 ")


@pytest.mark.parametrize("young", [0, 500, 60000])
def test_the_programs_choice_is_kept(young: int) -> None:
    out = run(f"import gc; gc.set_threshold({young}, 7, 8); import lumijit; {SHOW}")
    assert out.startswith(f"True {young} ")


def test_the_setting_leaves_all_as_it_is() -> None:
    default = run(f"import gc; {SHOW}")
    assert run(f"import gc, lumijit; {SHOW}", LUMIJIT_KEEP_GC="1") == default


YOUNG = "sum(map(len, map(gc.get_objects, (0, 1))))"


def test_what_importing_made_is_old() -> None:
    assert int(run(f"import gc, lumijit; print({YOUNG})")) < 200


def test_nothing_is_collected_while_importing() -> None:
    # But for what comes before the collector is told.
    program = """if True:
        import gc, sys
        found = []
        def note(*told):
            if "lumijit.runtime.dtypes" in sys.modules:
                found.append(told)
        gc.callbacks.append(note)
        import lumijit
        print(found)
    """
    assert run(program) == "[]"


def test_what_the_program_has_frozen_stays_so() -> None:
    program = "gc.freeze(); before = gc.get_freeze_count(); import lumijit as dr"
    program += "; dr.eval(dr.arange(dr.llvm.Float, 9) * 2)"
    program += "; print(before - gc.get_freeze_count() < 100)"
    assert run(f"import gc; {program}") == "True"


def test_cycles_of_arrays_do_not_pile_up() -> None:
    """Arrays in cycles are the collector's business; it takes some, not all."""
    program = (
        "import weakref\n"
        "import lumijit as dr\n"
        "x = dr.opaque(dr.llvm.Float, 1, 4)\n"
        "most, dead = 0, []\n"
        "for k in range(60_000):\n"
        "    cycle = [x + k]\n"
        "    cycle.append(cycle)\n"
        "    weakref.finalize(cycle[0], dead.append, None).atexit = False\n"
        "    most = max(most, k + 1 - len(dead))\n"
        "print(most)\n"
    )
    assert int(run(program)) < 25_000


STEPS = """
import lumijit as dr
from lumijit.llvm.ad import Float
from lumijit.runtime import buffers
x, most = dr.arange(Float, 1 << 22), 0
for _ in range(40):
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.square(x)))
    x = dr.detach(x) - dr.grad(x) * 0.1
    dr.eval(x)
    most = max(most, buffers.memory_stats()["live_bytes"])
print(most >> 20)
"""


def test_large_arrays_in_cycles_do_not_pile_up() -> None:
    """A variable's gradient refers to it; that is 16 MiB in each step."""
    assert int(run(STEPS)) <= 128


@pytest.mark.parametrize("setting", ["gc.disable()", "gc.enable()"])
def test_cycles_are_collected_when_memory_is_short(setting: str) -> None:
    out = run(f"import gc; {setting}\n{STEPS}", LUMIJIT_MEMORY_LIMIT_MB="160")
    assert int(out) <= 160
