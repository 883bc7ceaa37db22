"""What all tests share: a kernel cache of their own, and verified stages.

The trace, the schedule and the program of every evaluation are verified. With
`--target` all tests run on code in the form for another processor (`tests.targets`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
from collections.abc import Iterable, Iterator
from typing import Any

import hypothesis
import pytest

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.ir.nodes import Node, interruptions
from lumijit.compiler.launch import delivery, evaluate, launching
from lumijit.compiler.plan import describe, general, program, schedule
from lumijit.runtime import cache, device, errors, libcuda
from lumijit.runtime.config import flags
from lumijit.runtime.settings import settings
from tests import targets
from tests.verifier.verify import verify, verify_plan, verify_program

# What builds kernels takes as long as the machine is loaded. (In CI, nothing is timed.)
if "CI" not in os.environ:
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")


def _checked_plan(wanted: Iterable[Node]) -> schedule.Plan:
    nodes = list(wanted)
    found = schedule.plan(nodes)
    verify(nodes)
    verify_plan(found)
    return found


_structures: dict[Any, Any] = {}
_describe = describe.describe


def _checked_description(*args: Any) -> describe.Launch | None:
    """Describe a program; equal keys must mean equal programs."""
    found = _describe(*args)
    if found is not None:
        try:
            verify([*found.outputs, *found.effects])
            made = _CheckedProgram(
                found.size,
                found.outputs,
                found.effects,
                found.expand_limit,
                found.targets,
            )
        except Exception:
            if found.began == interruptions.count:
                raise
        if found.began != interruptions.count:
            return found
        assert _structures.setdefault(found.key, made.key) == made.key
        assert [str(v) for v in found.values] == [
            str(n.attr if n.buffer is None else n.buffer.address)
            for n in made.arguments
        ]
        roots = [target.root for target in made.targets.values()]
        assert [t.root for t in found.targets] == roots
    return found


class _CheckedProgram(program.Program):
    """A program that is verified as soon as it is made."""

    __slots__ = ()

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        verify_program(self)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    settings.cache_dir = str(folder)
    os.environ["LUMIJIT_CACHE_DIR"] = settings.cache_dir
    # All kernels are built, and so verified.
    cache._installed = str(folder / "prebuilt")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--target", choices=targets.NAMES, default="host")
    parser.addoption("--order", type=int, help="seed of a random order of all tests")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Skip what is of packets, of the host or of elements in their order, elsewhere.

    With `--order`, modules, and tests in each, come in a random order: what one leaves
    behind may break another.
    """
    seed = config.getoption("--order")
    if seed is not None:
        numbers = random.Random(seed)
        modules = {item.nodeid.split("::")[0]: numbers.random() for item in items}
        places = {item.nodeid: numbers.random() for item in items}
        items.sort(key=lambda i: (modules[i.nodeid.split("::")[0]], places[i.nodeid]))
    kind = config.getoption("--target")
    devices = set(targets.DEVICES)
    kinds_of = {"packets": {"thread", *devices}, "host": devices, "ordered": {"gpu"}}
    for name, others in kinds_of.items():
        for item in items:
            for mark in item.iter_markers(name):
                reason = f"of the {name} only: {mark.args[0]}"
                if kind in others:
                    item.add_marker(pytest.mark.skip(reason))


@pytest.fixture(autouse=True, scope="session")
def _target(_own_cache: None, pytestconfig: pytest.Config) -> Iterator[None]:
    name = pytestconfig.getoption("--target")
    targets.use(name)
    wanted = targets.target_of(name)
    with targets.generating_for(wanted), contextlib.ExitStack() as stack:
        stack.enter_context(targets.standing_in(name))
        yield


@pytest.fixture(autouse=True, scope="session")
def _answers_interrupts() -> None:
    """Answer Ctrl-C, which shells have what they run in the background ignore."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the GPU of a machine that has one."""

    found = ctypes.CDLL

    def missing(name: str | None, **options: Any) -> Any:
        if name == "libcuda.so.1":
            raise OSError("libcuda.so.1: no such file")
        return found(name, **options)

    monkeypatch.setattr(device, "opened", {})
    monkeypatch.setattr(ctypes, "CDLL", missing)
    libcuda.library.cache_clear()
    yield
    libcuda.library.cache_clear()


@pytest.fixture(params=["vectors", "masks"])
def each_target(request: pytest.FixtureRequest) -> Iterator[TargetInfo]:
    """Run a test on code with and without mask registers, whatever the processor."""
    with targets.generating_for(targets.target_of(request.param)) as target:
        yield target


@pytest.fixture(autouse=True, scope="session")
def _verified_stages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # Messages name the user's line, which isn't in here.
        internal = (*errors._PACKAGE_DIRS, __file__)
        patch.setattr(errors, "_PACKAGE_DIRS", internal)
        patch.setattr(evaluate, "plan", _checked_plan)
        patch.setattr(evaluate, "describe", _checked_description)
        for module in (evaluate, general, launching):
            patch.setattr(module, "Program", _CheckedProgram)
        yield


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Keep what a test scheduled, perhaps broken on purpose, from the next one.

    Likewise flags, which interrupts may have left as they were in between. A GPU whose
    context is lost ends the process; what divides tests begins another one.
    """
    before = dict(vars(flags))
    yield
    targets.leave_if_lost()
    vars(flags).update(before)
    delivery.waiting().scheduled.clear()
    delivery.waiting().reports.clear()
