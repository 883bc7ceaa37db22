"""Namespaces: their types are made when asked for, and behave as if always there."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

import lumijit as dr
from lumijit import array_types, spec
from lumijit.base import ArrayBase
from lumijit.runtime.errors import ArrayTypeError

SPACES = (dr.llvm, dr.llvm.ad, dr.scalar, dr.cuda, dr.cuda.ad)


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("module", SPACES, ids=lambda m: str(m.__name__))
def test_all_members_are_listed_and_there(module: ModuleType) -> None:
    assert len(module.__all__) == 137
    listed = dir(module)
    assert listed == sorted(listed)
    for name in module.__all__:
        assert name in listed
        found = getattr(module, name)
        assert isinstance(found, type)
        assert getattr(module, name) is found
        if issubclass(found, ArrayBase):
            assert found.__module__ == module.__name__
            assert found.__name__ in (name, "Int", "UInt", "Float")
            assert pickle.loads(pickle.dumps(found)) is found
            assert found._mask_cls._spec.dtype.is_bool


def test_aliases_are_one_class() -> None:
    for module in SPACES:
        assert module.Float is module.Float32
        assert module.UInt is module.UInt32
        assert module.Int is module.Int32


def test_a_missing_type_is_an_attribute_error() -> None:
    for module in SPACES:
        with pytest.raises(AttributeError, match="has no attribute 'Float128'"):
            _ = module.Float128
        assert not hasattr(module, "__path_to_nowhere__")


def test_star_import_brings_all() -> None:
    names: dict[str, Any] = {}
    exec("from lumijit.llvm import *", names)
    assert names["Array3f"] is dr.llvm.Array3f
    assert set(dr.llvm.__all__) <= names.keys()


def test_types_are_made_when_asked_for() -> None:
    out = run(
        "import lumijit\n"
        "from lumijit import spec\n"
        "print(len(spec._CLASSES))\n"
        "from lumijit.llvm import Array3f\n"
        "print(sorted(c.__name__ for c in spec._CLASSES.values()))\n"
    )
    assert out == "0\n['Array3b', 'Array3f', 'Bool', 'Float']\n"


def test_any_order_gives_the_same_classes() -> None:
    """An operation may make a type before its name is asked for."""
    out = run(
        "import lumijit as dr\n"
        "x = dr.llvm.Array3f(1, 2, 3)\n"
        "mask = x < 2\n"
        "print(type(mask) is dr.llvm.Array3b, type(mask.x) is dr.llvm.Bool)\n"
        "print(dr.uint32_array_t(x) is dr.llvm.Array3u)\n"
        "print(isinstance(dr.llvm.Array3u(x), dr.llvm.Array3u))\n"
    )
    assert out == "True True\nTrue\nTrue\n"


def test_threads_get_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = spec.plain_spec(spec.LLVM, False, dr.llvm.Float._spec.dtype, (3,))
    for attempt in range(20):
        monkeypatch.delitem(spec._CLASSES, wanted, raising=False)
        found: list[Any] = []
        barrier = threading.Barrier(4)

        def work(
            found: list[Any] = found, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait()
            cls = spec.find(wanted)
            assert cls is not None
            found.append((cls, cls.__add__))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4, attempt
        assert len({id(cls) for cls, _ in found}) == 1
    monkeypatch.undo()
    assert spec.find(wanted) is dr.llvm.Array3f


def test_generators_are_one_class() -> None:
    members: dict[str, Any] = {}
    first = array_types.member("llvm", "PCG32", members)
    assert array_types.member("llvm", "PCG32", members) is first
    assert dr.llvm.PCG32 is dr.llvm.PCG32


@pytest.mark.host("devices besides")
@pytest.mark.usefixtures("no_gpu")
def test_types_without_a_device_answer_questions() -> None:
    cuda = dr.cuda
    assert dr.backend_v(cuda.Array3f) is dr.JitBackend.CUDA
    assert dr.is_jit_v(cuda.Float)
    assert dr.is_diff_v(cuda.ad.Float)
    assert dr.diff_array_t(cuda.Float) is cuda.ad.Float
    assert dr.value_t(cuda.Matrix4f) is cuda.Array4f
    assert dr.matrix_t(cuda.Array3f) is cuda.Matrix3f
    assert dr.expr_t(cuda.Array3f, cuda.Float64) is cuda.Array3f64
    assert not dr.has_backend(dr.JitBackend.CUDA)
    with pytest.raises(ArrayTypeError, match="'cuda' and 'llvm' don't mix"):
        dr.gather(cuda.Float, dr.llvm.Float(1), dr.llvm.UInt(0))


def test_namespaces_are_imported_where_a_type_of_theirs_is_needed() -> None:
    program = (
        "import lumijit as dr\n"
        "from lumijit.llvm import Array3f\n"
        "print(type(dr.slice(Array3f([1, 2], 3, 4), 1)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "<class 'lumijit.scalar.Array3f'>"
