"""Writes the gallery's kernels as PTX: `python -m tests.tools.ptx --out out/ptx`.

Renders every picture small on the thread target, translates each kernel on the way,
and assembles it with `ptxas` if that is installed. The status is 1 if any is refused.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from examples import gallery
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.thread.ptx import PtxTarget
from lumijit.compiler.lower.thread.target import ThreadPlan, ThreadTarget
from lumijit.compiler.plan import target as targets
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.target import Code
from lumijit.runtime import nvptx
from lumijit.runtime.config import settings
from lumijit.runtime.errors import LumijitError

SIZE = 32


class Translating(ThreadTarget):
    """The thread target, which writes PTX of each kernel, too."""

    def __init__(self, folder: Path, processor: str) -> None:
        self.folder = folder
        self.processor = processor
        self.picture = ""
        self.files: list[Path] = []
        self.failures = 0

    def lower(self, program: Program, plan: ThreadPlan, name: str) -> Code:
        """Write a program's kernel for the CPU, and a file for GPUs."""
        number = sum(f.name.startswith(self.picture) for f in self.files)
        path = self.folder / f"{self.picture}{number}.ptx"
        self.files.append(path)
        try:
            code = PtxTarget().code(program, name, plan.info)
            path.write_text(nvptx.translate(code.ir, self.processor))
            self.report(path, code.operations)
        except LumijitError as error:
            self.failures += 1
            self.say(f"{path.name}: {error}")
        return super().lower(program, plan, name)

    def report(self, path: Path, operations: int) -> None:
        """Print what a kernel takes, as far as that is known here."""
        found = ""
        if nvptx.assembler():
            told = nvptx.assemble(path, self.processor)
            registers = re.findall(r"Used (\d+) registers", told)
            found = f", {max(map(int, registers))} registers"
        lines = len(path.read_text().splitlines())
        self.say(f"{path.name}: {operations} operations, {lines} lines of PTX{found}")

    def say(self, text: str) -> None:
        """Print a line, whatever the gallery prints."""
        print(text, file=sys.__stdout__, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write and assemble the files; return the status."""
    parser = argparse.ArgumentParser(prog="tests.tools.ptx", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/ptx"))
    parser.add_argument("--processor", default=nvptx.PROCESSOR)
    parser.add_argument("--only", choices=[p.TITLE for p in gallery.PICTURES])
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    former, settings.no_disk_cache = targets.in_use(), True
    target = Translating(options.out, options.processor)
    kernels.use(target)
    try:
        for picture in gallery.PICTURES:
            if options.only not in (None, picture.TITLE):
                continue
            target.picture = picture.TITLE
            with tempfile.TemporaryDirectory() as folder:
                words = ["--out", folder, "--size", str(SIZE), "--only", picture.TITLE]
                with contextlib.redirect_stdout(io.StringIO()):
                    gallery.main(words)
    finally:
        kernels.use(former)
    count = len(target.files)
    print(f"{count} kernels in {options.out}/, {target.failures} refused")
    if not nvptx.assembler():
        print("They were not assembled: ptxas is not installed.")
    return int(target.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
