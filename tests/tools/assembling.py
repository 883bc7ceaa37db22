"""Assembling PTX where the CUDA toolkit is installed.

`ptxas` turns PTX into machine code and says what is wrong with it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from lumijit.runtime import nvptx
from lumijit.runtime.errors import KernelBuildError


def assemble(path: Path, processor: str = nvptx.PROCESSOR) -> str:
    """Assemble a file of PTX beside it (`.cubin`); return what `ptxas` tells of it.

    Raises:
        KernelBuildError: `ptxas` refuses the code.
    """
    command = nvptx.assembler()
    assert command is not None
    done = subprocess.run(
        [command, "-v", f"-arch={processor}", path, "-o", path.with_suffix(".cubin")],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise KernelBuildError(
            "assembling PTX",
            f"ptxas refuses '{path}': {done.stderr.strip()}",
            "please report this as a bug of lumijit.",
        )
    return done.stderr
