"""Kernels that merge the private copies of a scatter (`lower.packet.access`)."""

from __future__ import annotations

from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import each, lanes
from lumijit.runtime.dtypes import DType


def merge_ir(name: str, op: str, t: DType) -> str:
    """Combine private copies into dst[begin … end), whole vectors at a time.

    Slots: dst, base, entries between copies, their number.
    """
    width = lanes(t)
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    body = f"""  %to = getelementptr {element}, ptr %dst, i64 %e
  %old = load {ty}, ptr %to, align {t.size_bytes}
  br label %slot
slot:
  %t = phi i64 [ 0, %next ], [ %t.n, %slot ]
  %at = phi i64 [ %e, %next ], [ %at.n, %slot ]
  %sum = phi {ty} [ %old, %next ], [ %sum.n, %slot ]
  %from = getelementptr {element}, ptr %base, i64 %at
  %v = load {ty}, ptr %from, align {t.size_bytes}
{combine_text(op, t, ty, "sum.n", "%sum", "%v")}
  %at.n = add i64 %at, %stride
  %t.n = add i64 %t, 1
  %tmore = icmp ult i64 %t.n, %copies
  br i1 %tmore, label %slot, label %store
store:
  store {ty} %sum.n, ptr %to, align {t.size_bytes}"""
    return each(name, "dst base stride:i64 copies:i64", body, step=width, last="store")
