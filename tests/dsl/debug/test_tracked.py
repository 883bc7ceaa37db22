"""`whos_ad` and `graphviz_ad`."""

from __future__ import annotations

import pytest

import lumijit as dr
from lumijit.llvm.ad import Float


def test_table_lists_what_is_tracked(capsys: pytest.CaptureFixture[str]) -> None:
    x = Float(1, 2)
    dr.enable_grad(x)
    dr.set_label(x, "position")
    y = dr.sin(x)
    dr.set_grad(y, 1)
    text = dr.whos_ad(as_string=True)
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "variable" in rows[str(x.index_ad)]
    assert "position" in rows[str(x.index_ad)]
    row = rows[str(y.index_ad)]
    assert "sin" in row
    assert "yes" in row
    assert str(x.index_ad) in row.split()
    assert dr.whos_ad() is None
    assert "variable" in capsys.readouterr().out


def test_dead_values_vanish() -> None:
    x = Float(1)
    dr.enable_grad(x)
    y = x * 2
    number = str(y.index_ad)
    assert number in dr.whos_ad(as_string=True).split()
    del y
    assert number not in dr.whos_ad(as_string=True).split()


def test_diagram_has_nodes_and_edges() -> None:
    x = Float(1)
    dr.enable_grad(x)
    y = x * x
    text = dr.graphviz_ad(as_string=True)
    assert f"a{x.index_ad} -> a{y.index_ad};" in text
    assert "palegreen" in text
    assert text.count("{") == text.count("}")


def test_cleared_values_say_so() -> None:
    x = Float(1)
    dr.enable_grad(x)
    y = x * 3
    dr.backward(y)
    assert "cleared" in dr.whos_ad(as_string=True)
