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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from examples import gallery
from lumijit.compiler.launch import kernels, named_kernels
from lumijit.compiler.lower.cooperative.kernels import Cooperative, nvvm
from lumijit.compiler.lower.thread.ptx import PtxTarget
from lumijit.compiler.plan import target as targets
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.target import Code
from lumijit.runtime import nvptx
from lumijit.runtime.errors import LumijitError
from lumijit.runtime.settings import settings
from tests.emulated_block import SHAPE, EmulatedBlock
from tests.thread_target import ThreadPlan, ThreadTarget
from tests.tools.assembling import assemble

SIZE = 32


class Collectives(Cooperative):
    """The thread target's collectives, which are written as PTX, too."""

    def __init__(self, target: Translating) -> None:
        super().__init__(SHAPE, SHAPE, EmulatedBlock)
        self.target = target

    def write(
        self, name: str, code: Callable[..., None], *args: Any, **options: Any
    ) -> str:
        """Write a kernel for the CPU, and a file for GPUs."""
        self.target.translate(lambda: nvvm().write(name, code, *args, **options), "")
        return super().write(name, code, *args, **options)


class Translating(ThreadTarget):
    """The thread target, which writes PTX of each kernel, too, and assembles it."""

    name = "translating"

    def __init__(self, folder: Path, processor: str, is_quiet: bool = False) -> None:
        self.folder = folder
        self.processor = processor
        self.is_quiet = is_quiet
        self.picture = "kernel"
        self.files: list[Path] = []
        self.failures: list[str] = []
        self._collectives = Collectives(self)

    @property
    def collectives(self) -> Collectives:
        """The collective kernels, which are translated, too."""
        return self._collectives

    def lower(self, program: Program, plan: ThreadPlan, name: str) -> Code:
        """Write a program's kernel for the CPU, and a file for GPUs."""
        code = super().lower(program, plan, name)
        operations = f"{code.operations} operations, "
        self.translate(
            lambda: PtxTarget().code(program, name, plan.info).ir, operations
        )
        return code

    def translate(self, write: Callable[[], str], operations: str) -> None:
        """Translate a kernel that is to be written, and note if that fails."""
        number = sum(f.name.startswith(self.picture) for f in self.files)
        path = self.folder / f"{self.picture}{number}.ptx"
        self.files.append(path)
        try:
            path.write_text(nvptx.translate(write(), self.processor))
            self.report(path, operations)
        except LumijitError as error:
            self.failures.append(f"{path.name}: {error}")
            self.say(self.failures[-1])

    def report(self, path: Path, operations: str) -> None:
        """Assemble a kernel, and print what it takes, as far as that is known here."""
        found = ""
        if nvptx.assembler():
            told = assemble(path, self.processor)
            registers = re.findall(r"Used (\d+) registers", told)
            found = f", {max(map(int, registers))} registers"
        lines = len(path.read_text().splitlines())
        self.say(f"{path.name}: {operations}{lines} lines of PTX{found}")

    def say(self, text: str) -> None:
        """Print a line, whatever the gallery prints."""
        if not self.is_quiet:
            print(text, file=sys.__stdout__, flush=True)


@contextlib.contextmanager
def translating(
    folder: Path, processor: str = nvptx.PROCESSOR, is_quiet: bool = False
) -> Iterator[Translating]:
    """Run what is in the block on threads, and write its kernels as PTX, too."""
    former, without_disk = targets.in_use(), settings.no_disk_cache
    settings.no_disk_cache = True
    target = Translating(folder, processor, is_quiet)
    kernels.use(target)
    try:
        yield target
    finally:
        named_kernels.flush()
        kernels.use(former)
        settings.no_disk_cache = without_disk


def main(arguments: Sequence[str] | None = None) -> int:
    """Write and assemble the files; return the status."""
    parser = argparse.ArgumentParser(prog="tests.tools.ptx", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/ptx"))
    parser.add_argument("--processor", default=nvptx.PROCESSOR)
    parser.add_argument("--only", choices=[p.TITLE for p in gallery.PICTURES])
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with translating(options.out, options.processor) as target:
        for picture in gallery.PICTURES:
            if options.only not in (None, picture.TITLE):
                continue
            target.picture = picture.TITLE
            with tempfile.TemporaryDirectory() as folder:
                words = ["--out", folder, "--size", str(SIZE), "--only", picture.TITLE]
                with contextlib.redirect_stdout(io.StringIO()):
                    gallery.main(words)
    count, refused = len(target.files), len(target.failures)
    print(f"{count} kernels in {options.out}/, {refused} refused")
    if not nvptx.assembler():
        print("They were not assembled: ptxas is not installed.")
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main())
