"""PTX: translating LLVM IR for NVIDIA's GPUs.

LLVM's back-end is part of `llvmlite`, and needs no GPU.
"""

from __future__ import annotations

import functools
import shutil
from typing import Any

from lumijit.runtime.cpu import build_lock
from lumijit.runtime.errors import KernelBuildError

#: The oldest GPUs (Turing) that the assemblers of today know.
PROCESSOR = "sm_75"
#: Slots of so many bytes are a kernel's parameter, which lies where all threads read
#: fast; longer ones are in memory, and the parameter is their address.
PARAMETER_BYTES = 4000


def slots_parameter(count: int) -> str:
    """Return the type of the parameter of a kernel with so many slots."""
    if 8 * count > PARAMETER_BYTES:
        return "ptr"
    return f"ptr byval([{count} x i64]) align 8"


@functools.cache
def _target_machine(processor: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return target.create_target_machine(cpu=processor, opt=2)


def translate(ir: str, processor: str = PROCESSOR) -> str:
    """Return the PTX of a module of LLVM IR.

    Raises:
        KernelBuildError: LLVM refuses the code.
    """
    import llvmlite.binding as llvm

    try:
        with build_lock:
            machine = _target_machine(processor)
            with llvm.parse_assembly(ir, llvm.create_context()) as module:
                module.triple = machine.triple
                module.data_layout = str(machine.target_data)
                module.verify()
                text: str = machine.emit_assembly(module)
                return text
    except RuntimeError as error:
        raise KernelBuildError(
            "translation to PTX",
            f"LLVM refuses the generated code: {str(error).strip()}",
            "please report this as a bug of lumijit.",
        ) from error


def assembler() -> str | None:
    """Return where `ptxas` of the CUDA toolkit is, or None if it isn't installed."""
    return shutil.which("ptxas")
