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
