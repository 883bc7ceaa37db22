"""Kernels that copy and fill memory, and that collect single values."""

from __future__ import annotations

from lumijit.compiler.lower.collectives.pieces import each, spread

#: Lines of a launch's blocks.
LINES = FEW_LINES = 4096


def copy_ir(name: str) -> str:
    """Copy lines of 64 bytes; slots: src, dst. The size counts lines."""
    body = """  %from = getelementptr <64 x i8>, ptr %src, i64 %e
  %to = getelementptr <64 x i8>, ptr %dst, i64 %e
  %v = load <64 x i8>, ptr %from, align 1
  store <64 x i8> %v, ptr %to, align 64"""
    return each(name, "src dst", body)


def fill_ir(name: str) -> str:
    """Fill lines of 64 bytes with an 8-byte pattern; slots: dst, pattern."""
    body = """  %to = getelementptr <8 x i64>, ptr %dst, i64 %e
  store <8 x i64> %p, ptr %to, align 64"""
    return each(name, "dst pattern:i64", body, spread("p", 8, "i64", "%pattern"))


def collect_ir(name: str, element: str, bits: int) -> str:
    """Copy single values from many places; the size counts values.

    Slot: pairs of addresses, from (an `element`) and to (an integer of `bits`).
    """
    wide = f"i{bits}"
    if element == "half":
        convert = "%s = fpext half %v to float\n  %w = bitcast float %s to i32"
    elif element == wide:
        convert = f"%w = add {wide} %v, 0"
    else:
        convert = f"%w = zext {element} %v to {wide}"
    body = f"""  %pair = getelementptr {{ ptr, ptr }}, ptr %pairs, i64 %e
  %second = getelementptr ptr, ptr %pair, i64 1
  %from = load ptr, ptr %pair
  %to = load ptr, ptr %second
  %v = load {element}, ptr %from
  {convert}
  store {wide} %w, ptr %to"""
    return each(name, "pairs", body)
