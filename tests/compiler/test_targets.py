"""Code for processors other than this one: both forms of masks, and few features."""

from __future__ import annotations

import pytest

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.launch import kernels
from tests.runtime.support import run_script
from tests.targets import NAMES, generating_for, target_of


def test_targets_differ_in_the_form_of_masks(each_target: TargetInfo) -> None:
    assert kernels.target() is each_target
    assert not each_target.has_avx512


def test_the_target_is_part_of_the_key() -> None:
    hashes = set()
    for name in ("vectors", "masks"):
        with generating_for(target_of(name)):
            hashes.add(kernels.structural_hash("a kernel"))
    assert len(hashes) == 2
    assert NAMES[0] == "host"


PROGRAM = """
    import numpy as np
    import lumijit as dr
    from lumijit.llvm import Bool, Float, Float16, Float64, Int64, UInt

    a = np.linspace(-3, 5, 1001, dtype=np.float32)
    x = Float(a)
    other = (np.arange(1001) * 7) % 1001
    y = dr.fma(x, x, dr.sin(x)) + dr.gather(Float, x, UInt(other))
    assert np.allclose(y.numpy(), a * a + np.sin(a) + a[other], 1e-5, 1e-5)
    assert np.allclose(dr.exp(Float64(x)).numpy(), np.exp(a.astype(np.float64)))
    h = a.astype(np.float16)
    z = h.astype(np.float64)
    assert (dr.fma(Float16(h), Float16(h), Float16(h)).numpy()
            == (z * z + z).astype(np.float16)).all()
    counts = [20, 10, 8, 6]
    start = (Float(-3, 0, 2, 8), UInt(0))
    found = dr.while_loop(
        start, lambda x, i: (x < 100) & (i < 20), lambda x, i: (x * 1.5 + 1, i + 1)
    )
    assert found[1].numpy().tolist() == counts
    assert (Int64(x * 1e12).numpy() == (a * np.float32(1e12)).astype(np.int64)).all()
    assert (dr.compress(x > 4).numpy() == np.flatnonzero(a > 4)).all()
    n = dr.arange(UInt, 64)
    assert dr.block_sum(n, 16).numpy().tolist() == [120, 376, 632, 888]
    assert dr.prefix_sum(n)[63] == 1953 and dr.sum(n)[0] == 2016
    table = dr.zeros(UInt, 8)
    dr.scatter_add(table, UInt(1), n & 7)
    assert table.numpy().tolist() == [8] * 8
    print("right")
"""


@pytest.mark.parametrize(
    "without", ["avx512*", "avx*,fma,f16c", "avx*,fma,f16c,sse4*,ssse3,popcnt,bmi*"]
)
def test_few_features_suffice(without: str) -> None:
    assert run_script(PROGRAM, LUMIJIT_CPU_WITHOUT=without).stdout == "right\n"
