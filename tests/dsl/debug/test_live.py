"""Tables and diagrams of live values, and marks in the log."""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import pytest

import lumijit as dr
from lumijit.debug.whos import live_nodes, readable_size
from lumijit.llvm import Array3f, Float, Int, UInt
from lumijit.runtime.errors import MissingPackageError


def row(text, label):
    (line,) = [line for line in text.splitlines() if line.endswith(f"  {label}")]
    return line.split()


def test_a_row_describes_a_value():
    x = dr.arange(Float, 1000) + 0.125
    dr.set_label(x, "mine")
    assert row(dr.whos(as_string=True), "mine")[1:-1] == [
        "f32",
        "Unevaluated",
        "add",
        "1000",
    ]
    dr.eval(x)
    found = row(dr.whos(as_string=True), "mine")
    assert found[1:-1] == ["f32", "Evaluated", "evaluated", "1000", "3.906", "KiB"]


def test_values_that_nobody_needs_are_gone():
    x = dr.arange(UInt, 17) * 3
    dr.set_label(x, "fleeting")
    assert "fleeting" in dr.whos(as_string=True)
    del x
    assert "fleeting" not in dr.whos(as_string=True)


def test_listing_keeps_nothing_alive():
    dr.whos(as_string=True)
    before = len(live_nodes())
    dr.graphviz(as_string=True)
    dr.whos(as_string=True)
    assert len(live_nodes()) == before


def test_only_the_user_s_values_are_listed():
    @dr.syntax
    def f(x):
        while x < 50:
            x = x * 1.5 + 3
        if x > 60.25:
            x = x - 7 * 0.0
        return x

    before = len(live_nodes())
    x = dr.arange(Float, 1000) * 2.5 + 1.75
    y = f(x)
    dr.eval(x, y)
    assert float(y[3]) == 71.203125
    assert list(dr.compress(x > 2495)) == [998, 999]
    assert list(dr.prefix_sum(Int(1, 2, 3)) + 4) == [4, 5, 7]
    table = dr.whos(as_string=True).splitlines()
    assert len(live_nodes()) == before + 2
    assert sum(line.split()[1:3] == ["f32", "Evaluated"] for line in table) >= 2
    assert re.match(rf"Values   : {before + 2};", table[-3])
    del x, y
    assert len(live_nodes()) == before


def test_states_and_structures():
    target = dr.zeros(UInt, 5)
    dr.scatter_add(target, UInt(1), UInt(0, 1))
    tree = {"a": Array3f(1, [2.5, 7], 3), "t": target}
    dr.set_label(tree, "all")
    text = dr.whos(as_string=True)
    assert row(text, "all_t")[2] == "Dirty"
    assert row(text, "all_a_1")[2] == "Evaluated"


def test_it_is_printed_by_default(capsys):
    assert dr.whos() is None
    text = capsys.readouterr().out
    assert text.startswith("    ID  Type")
    assert "Memory   :" in text


def test_totals_count_launches():
    dr.kernel_history_clear()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        for _ in range(2):
            dr.eval(dr.arange(Float, 100) + 0.3)
    text = dr.whos(as_string=True)
    dr.kernel_history_clear()
    assert re.search(r"2 launches in the history, [12] of them", text)
    known = re.search(r"Kernels  : (\d+) known", text)
    assert known is not None
    assert int(known[1]) > 0


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (3 << 40, "3 TiB")],
)
def test_sizes(size_bytes, text):
    assert readable_size(size_bytes) == text
    assert readable_size(5000 << 40) == "5000 TiB"


def test_a_diagram_of_operations():
    x = dr.arange(Float, 12345) * 7
    dr.set_label(x, 'quoted "x"')
    text = dr.graphviz(as_string=True)
    assert text.startswith("digraph {")
    assert text.count("{") == text.count("}")
    (name,) = re.findall(r'(n\d+) \[label="quoted \\"x\\"\\nmul\\nf32\[12345\]"', text)
    assert len(re.findall(rf'n\d+ -> {name} \[label="[12]"\]', text)) == 2
    assert 'fillcolor="wheat"' in text


def test_regions_are_boxes():
    @dr.syntax
    def f(n):
        i = Int(0)
        while i < n:
            if (i & 1) == 0:
                i += 3
            else:
                i += 1
        return i

    result = f(Int(5, 6, 7))
    text = dr.graphviz(as_string=True)
    assert text.count("{") == text.count("}")
    loop = text.index('label="loop')
    body = text.index('label="body"', loop)
    branch = text.index('label="branch', body)
    assert text.index('label="true"', branch) < text.index('label="false"', branch)
    names = re.findall(r"^ +(n\d+) \[label=", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert result.numpy().tolist() == [7, 7, 7]


def test_the_package_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(MissingPackageError, match="pip install graphviz") as caught:
        dr.graphviz()
    assert "test_live.py" in str(caught.value)


def test_the_package_gets_the_diagram(monkeypatch):
    package: Any = types.ModuleType("graphviz")
    package.Source = lambda text: ("source", text)
    monkeypatch.setitem(sys.modules, "graphviz", package)
    kind, text = dr.graphviz()
    assert kind == "source"
    assert text.startswith("digraph {")


def test_marks_and_ranges_are_logged(capsys):
    former = dr.log_level()
    dr.set_log_level(dr.LogLevel.Debug)
    try:
        with dr.profile_range("outer"):
            dr.profile_mark("half-way 50%")
    finally:
        dr.set_log_level(former)
    begin, mark, end = capsys.readouterr().err.splitlines()
    assert re.search(r"\d s: begin outer$", begin)
    assert re.search(r"\d s: mark half-way 50%$", mark)
    assert re.search(r"\d s: end outer after \d+\.\d+ ms$", end)


def test_without_the_level_nothing_is_logged(capsys):
    with dr.profile_range("outer"):
        dr.profile_mark("inside")
    assert capsys.readouterr().err == ""
