"""Renders every picture and prints what it took: `python -m examples.gallery`.

Owns the command line and the table; the pictures are modules of their own. One
row of the table is one evaluation of one picture, its file not included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import lumijit as dr
from examples import (
    ambient_occlusion,
    bumpy_sphere,
    mandelbrot,
    materials,
    quickstart,
    sdf_sphere,
)
from examples.image import save_png
from lumijit.llvm import Float


class Picture(Protocol):
    """What a module of a picture offers."""

    TITLE: str
    SIZE: int
    ASPECT: float
    VARIANTS: Sequence[Any]

    def render(self, width: int, height: int, look: Any) -> Float:
        """Trace the picture, as interleaved sRGB values."""
        ...


PICTURES = cast(
    "tuple[Picture, ...]",
    (quickstart, bumpy_sphere, sdf_sphere, mandelbrot, ambient_occlusion, materials),
)

HEADINGS = ("picture", "size", "kernels", "ops", "trace ms", "build ms", "run ms")


@dataclass(frozen=True)
class Row:
    """What one picture took."""

    title: str
    width: int
    height: int
    kernels: int
    operations: int
    trace_ms: float
    build_ms: float
    run_ms: float
    origin: str

    def cells(self) -> tuple[str, ...]:
        """Return the row as text, in the order of the headings."""
        return (
            self.title,
            f"{self.width} x {self.height}",
            str(self.kernels),
            str(self.operations),
            f"{self.trace_ms:.1f}",
            f"{self.build_ms:.1f}",
            f"{self.run_ms:.1f}",
            self.origin,
        )


def origin(entries: Sequence[dict[str, Any]]) -> str:
    """Tell where the kernels' machine code came from; the costliest counts."""
    if not all(entry["cache_hit"] or entry["cache_disk"] for entry in entries):
        return "miss (compiled)"
    if any(entry["cache_disk"] for entry in entries):
        return "hit (disk)"
    return "hit (memory)"


def measure(picture: Picture, width: int, height: int, look: Any) -> tuple[Row, Float]:
    """Trace and evaluate a picture; return what it took, and its pixels."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        start = time.perf_counter()
        pixels = picture.render(width, height, look)
        traced = time.perf_counter()
        dr.eval(pixels)
        dr.sync_thread()
        entries = dr.kernel_history([dr.KernelType.JIT])
    row = Row(
        title=picture.TITLE,
        width=width,
        height=height,
        kernels=len(entries),
        operations=sum(entry["operation_count"] for entry in entries),
        trace_ms=(traced - start) * 1e3,
        # The history's times are in microseconds.
        build_ms=sum(e["codegen_time"] + e["backend_time"] for e in entries) / 1e3,
        run_ms=sum(entry["execution_time"] for entry in entries) / 1e3,
        origin=origin(entries),
    )
    return row, pixels


def format_table(rows: Sequence[Row]) -> str:
    """Lay the rows out in aligned columns, numbers to the right."""
    lines = [(*HEADINGS, "kernel cache"), *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    last = len(widths) - 1
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, last) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="examples.gallery", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of PNGs")
    parser.add_argument("--size", type=int, help="width in pixels, for all pictures")
    parser.add_argument(
        "--variant", type=int, default=0, help="render with other numbers: 0, 1 or 2"
    )
    parser.add_argument(
        "--repeat", type=int, default=1, help="evaluate each picture this many times"
    )
    parser.add_argument(
        "--only", choices=[p.TITLE for p in PICTURES], help="render this picture alone"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Render the pictures, write their PNGs, print the table and return its rows."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for picture in PICTURES:
        if options.only not in (None, picture.TITLE):
            continue
        width = options.size or picture.SIZE
        height = max(1, round(width / picture.ASPECT))
        look = picture.VARIANTS[options.variant % len(picture.VARIANTS)]
        pixels = Float()
        for _ in range(options.repeat):
            row, pixels = measure(picture, width, height, look)
            rows.append(row)
        save_png(options.out / f"{picture.TITLE}.png", pixels, width, height)
    print(format_table(rows))
    print(f"\nPNG files are in {options.out}/")
    return rows


if __name__ == "__main__":
    main()
