"""`@kernel`: recordings in files."""

from __future__ import annotations

import enum
import importlib
import linecache
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float
from lumijit.runtime import cpu
from lumijit.runtime.errors import RecordingError
from tests.dsl.replay import saved_programs
from tests.dsl.replay.support import array, assert_equal

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.host("recordings on devices aren't saved")


def run(mode: str, folder: Path, **settings: str) -> str:
    command = [sys.executable, "-m", "tests.dsl.replay.saved_programs", mode]
    found = subprocess.run(
        [*command, str(folder)],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_another_process_needs_neither_tracing_nor_compiling(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    expected = run("save", tmp_path, LUMIJIT_CACHE_DIR=str(cache))
    # With no cache, each kernel would have to be compiled.
    found = run("load", tmp_path, LUMIJIT_NO_DISK_CACHE="1")
    assert found == expected
    assert len(found.splitlines()) >= 4 * 9


@dr.kernel
def scaled(x: Float, factor: float) -> Any:
    return x * factor * saved_programs.GAIN[0] if factor > 100 else x * factor


def test_loaded_recordings_serve_calls_like_those_recorded(tmp_path: Path) -> None:
    path = tmp_path / "scaled"
    scaled.clear()
    scaled(array(1, 2), 2.0)
    scaled.save(path)
    scaled.clear()
    scaled.load(path)
    assert_equal(scaled(array(3, 4), 5.0), [15, 20])
    assert scaled.n_recordings == 0
    assert "replayed 1 times" in scaled.explain()
    assert_equal(scaled(array(3, 4, 5), 5.0), [15, 20, 25])
    assert scaled.n_recordings == 1
    assert os.stat(path).st_mode & 0o777 == 0o600


class Mode(enum.Enum):
    ADD, MULTIPLY = 1, 2


class Film:
    def __init__(self) -> None:
        self.sums, self._gain = Float(1, 2), 2.0

    @property
    def gain(self) -> float:
        return self._gain * saved_programs.RATE

    @dr.kernel
    def add(self, x: Float, mode: Mode) -> Any:
        self.sums = self.sums + x if mode is Mode.ADD else self.sums * x
        return self.sums * self.gain


def test_properties_and_enums(tmp_path: Path) -> None:
    x = array(3, 4)
    first, film = Film(), Film()
    expected = [first.add(x, mode).numpy() for mode in Mode]
    Film.add.save(tmp_path / "film")
    Film.add.clear()
    Film.add.load(tmp_path / "film")
    for mode, wanted in zip(Mode, expected, strict=True):
        assert_equal(film.add(x, mode), wanted)
    assert Film.add.n_recordings == 0


def damaged(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


FILES = {
    "checksum": (damaged, "its checksum is wrong"),
    "truncated": (lambda data: data[:-7], "it is truncated"),
    "empty": (lambda data: b"", "it is truncated"),
    "other": (lambda data: b"other" + data, "not written by this version"),
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "scaled"
    scaled.clear()
    scaled(array(1, 2), 2.0)
    scaled.save(path)
    change, message = FILES[name]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(RecordingError, match=f"holds no recordings.*{message}"):
        scaled.load(path)
    with pytest.raises(RecordingError, match="holds no recordings"):
        saved_programs.energy.load(path)


def test_files_of_others_and_of_other_versions_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scaled"
    scaled.clear()
    scaled(array(1, 2), 2.0)
    scaled.save(path)
    path.chmod(0o666)
    with pytest.raises(RecordingError, match="may be written by other users"):
        scaled.load(path)
    path.chmod(0o600)
    monkeypatch.setattr(cpu, "environment_key", lambda: "another")
    with pytest.raises(RecordingError, match="another version of lumijit, LLVM or pro"):
        scaled.load(path)
    with pytest.raises(FileNotFoundError):
        scaled.load(tmp_path / "nothing")


def test_changed_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "step"
    model = saved_programs.Model()
    saved_programs.Model.step.clear()
    model.step(array(1, 2, 3), 1.0)
    saved_programs.Model.step.save(path)

    def shifted(self: Any, x: Float) -> Float:
        return x - self.bias

    code = shifted.__code__.replace(co_freevars=())
    monkeypatch.setattr(saved_programs.Model.shifted, "__code__", code)
    with pytest.raises(RecordingError, match="the code of 'Model' has changed"):
        saved_programs.Model.step.load(path)


# Of each program, {0} is 2 when it is saved, and 3 when it is loaded.
PROGRAMS = {
    "the function itself": """
        @dr.kernel
        def f(x):
            return x * {0}
    """,
    "what it decorates": """
        def twice(function):
            @functools.wraps(function)
            def run(x):
                return function(x) * 2
            return run

        @dr.kernel
        @twice
        def f(x):
            return x * {0}
    """,
    "what decorates it": """
        def times(function):
            @functools.wraps(function)
            def run(x):
                return function(x) * {0}
            return run

        @dr.kernel
        @times
        def f(x):
            return x + 1
    """,
    "a helper": """
        def helper(x):
            return (lambda y: y * {0})(x)

        @dr.kernel
        def f(x):
            return helper(x)
    """,
    "a default": """
        def helper(x, factor={0}):
            return x * factor

        @dr.kernel
        def f(x):
            return helper(x)
    """,
    "a property of an object outside": """
        class A:
            @property
            def gain(self):
                return {0}

        a = A()

        @dr.kernel
        def f(x):
            return x * a.gain
    """,
    "a setter": """
        class A:
            @property
            def gain(self):
                return self._gain

            @gain.setter
            def gain(self, value):
                self._gain = value * {0}

        a = A()

        @dr.kernel
        def f(x):
            a.gain = 5
            return x * a.gain
    """,
    "a cached property": """
        class A:
            @functools.cached_property
            def gain(self):
                return {0}

        @dr.kernel
        def f(x):
            return x * A().gain
    """,
    "a method of a base class of an argument": """
        @dataclasses.dataclass
        class Base:
            x: Float

            def scaled(self):
                return self.x * {0}

        class Derived(Base):
            pass

        @dr.kernel
        def g(a):
            return a.scaled()

        def f(x):
            return g(Derived(x))
        f.save, f.load = g.save, g.load
    """,
    "a number of an argument's class": """
        @dataclasses.dataclass
        class A:
            x: Float
            factor = {0}

            def scaled(self):
                return self.x * self.factor

        @dr.kernel
        def g(a):
            return a.scaled()

        def f(x):
            return g(A(x))
        f.save, f.load = g.save, g.load
    """,
    "a property of the class of an argument": """
        class Meta(type):
            @property
            def gain(cls):
                return {0}

        class A(metaclass=Meta):
            pass

        @dr.kernel
        def g(x, cls):
            return x * cls.gain

        def f(x):
            return g(x, A)
        f.save, f.load = g.save, g.load
    """,
    "the value of an enumeration's member": """
        class Mode(enum.Enum):
            HIGH = {0}

        @dr.kernel
        def g(x, mode):
            return x * mode.value

        def f(x):
            return g(x, Mode.HIGH)
        f.save, f.load = g.save, g.load
    """,
    "a class inside of one": """
        class A:
            class Inner:
                def gain(self):
                    return {0}

        @dr.kernel
        def f(x):
            return x * A.Inner().gain()
    """,
    "a static method": """
        class A:
            @staticmethod
            def scaled(x):
                return x * {0}

        @dr.kernel
        def f(x):
            return A.scaled(x)
    """,
    "a class method": """
        class A:
            factor = {0}

            @classmethod
            def scaled(cls, x):
                return x * cls.factor

        @dr.kernel
        def f(x):
            return A.scaled(x)
    """,
    "a kernel beside a static one": """
        class A:
            @staticmethod
            @dr.kernel
            def doubled(x):
                return x * 2

            @dr.kernel
            def scaled(self, x):
                return x * {0}

        def f(x):
            return A().scaled(x)
        f.save, f.load = A.scaled.save, A.scaled.load
    """,
    "a named tuple": """
        Pair = collections.namedtuple("Pair", "a b")
        pair = Pair(1.5, {0})

        @dr.kernel
        def f(x):
            return x * pair.a + pair.b
    """,
    "a class with slots": """
        class A:
            __slots__ = ("factor",)

            def __init__(self):
                self.factor = {0}

        a = A()

        @dr.kernel
        def f(x):
            return x * a.factor
    """,
    "a function of ours under another name": """
        sine = dr.sin if {0} == 2 else dr.cos

        @dr.kernel
        def f(x):
            return sine(x)
    """,
    "constants of other types": """
        FACTOR, WHOLE, TURNS = {0}j, np.float32({0}), range({0})

        @dr.kernel
        def f(x):
            for k in TURNS:
                x = x + k
            return dr.imag(Complex2f(x) * FACTOR) * WHOLE
    """,
    "a constant": """
        FACTOR = ({0},)

        @dr.kernel
        def f(x):
            return x * FACTOR[0]
    """,
}


IMPORTS = """
import collections, dataclasses, enum, functools
import numpy as np
import lumijit as dr
from lumijit.llvm.ad import Complex2f, Float
"""


@pytest.fixture
def imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, int], Any]]:
    """Give what imports the function of a program, anew each time."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(name: str, number: int) -> Any:
        text = IMPORTS + textwrap.dedent(PROGRAMS[name]).format(number)
        (tmp_path / "changing.py").write_text(text)
        sys.modules.pop("changing", None)
        importlib.invalidate_caches()
        linecache.checkcache()
        return importlib.import_module("changing").f

    yield run
    sys.modules.pop("changing", None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_changed_since_is_told(
    tmp_path: Path, imported: Callable[[str, int], Any], name: str
) -> None:
    f = imported(name, 2)
    first = f(array(1, 2)).numpy()
    f.save(tmp_path / "saved")
    f = imported(name, 3)
    # Numbers are inputs, or what tells recordings apart.
    try:
        f.load(tmp_path / "saved")
    except RecordingError as error:
        assert "has changed since" in str(error)  # noqa: PT017
    assert not np.array_equal(f(array(1, 2)).numpy(), first)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_as_it_was_is_replayed(
    tmp_path: Path, imported: Callable[[str, int], Any], name: str
) -> None:
    f = imported(name, 2)
    first = f(array(1, 2)).numpy()
    f.save(tmp_path / "saved")
    f = imported(name, 2)
    f.load(tmp_path / "saved")
    np.testing.assert_array_equal(f(array(1, 2)).numpy(), first)
    assert f.load.__self__.n_recordings == 0


def test_what_has_no_name_elsewhere_is_refused(tmp_path: Path) -> None:
    def local(x: Float) -> Float:
        return x + 1

    @dr.kernel
    def f(x: Float) -> Any:
        return local(x)

    f(array(1))
    with pytest.raises(RecordingError, match=r"local'?, which can't be imported"):
        f.save(tmp_path / "f")
    assert not list(tmp_path.iterdir())


@dr.kernel
def printing(x: Float) -> Any:
    dr.print("{}", x)
    return x


def test_what_prints_is_refused(tmp_path: Path) -> None:
    printing(array(1))
    with pytest.raises(RecordingError, match="text that it prints"):
        printing.save(tmp_path / "f")
