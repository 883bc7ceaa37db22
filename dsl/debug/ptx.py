"""`ptx`: the code of kernels for NVIDIA's GPUs, without one.

Owns which kernels that are; writing them is up to `compiler/lower/thread/ptx`.
"""

from __future__ import annotations

from typing import Any

from lumijit.compiler.ir.ops.structural import EVALUATED, LITERAL, UNDEFINED
from lumijit.compiler.launch import evaluate, kernels
from lumijit.compiler.lower.thread.ptx import PtxTarget
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.schedule import phases, plan
from lumijit.functions.evaluation import nodes_of
from lumijit.runtime import nvptx
from lumijit.runtime.errors import ArrayValueError

_CONSTRUCT = "lumijit.ptx"


def ptx(*args: Any, processor: str = nvptx.PROCESSOR) -> list[str]:
    """Return the PTX of the kernels that compute arrays, which stay unevaluated.

    Args:
        *args: arrays and PyTrees, of any compiled backend.
        processor: for which GPUs, such as "sm_90".

    Returns:
        The text of each kernel; none for arrays in memory and literals.

    Raises:
        ArrayValueError: if a kernel needs the results of another one.

    >>> import lumijit as dr
    >>> (text,) = dr.ptx(dr.arange(dr.cuda.Float, 100) + 1)
    >>> "add.rn.f32" in text
    True
    """
    nodes = nodes_of(args, _CONSTRUCT)
    wanted = [n for n in nodes if n.op not in (EVALUATED, LITERAL, UNDEFINED)]
    if not wanted:
        return []
    with evaluate.lock:
        levels = list(phases(plan(wanted)))
        if len(levels) > 1:
            raise ArrayValueError(
                _CONSTRUCT,
                f"the arrays take {len(levels)} kernels one after the other, of which "
                "the later ones read what the earlier ones compute by index",
                "evaluate what is read by index first, with lumijit.eval.",
            )
        found = []
        for number, group in enumerate(levels[0]):
            outputs = [n for n in group.outputs if n.op is not UNDEFINED]
            program = Program(
                group.size, outputs, group.effects, evaluate.expand_threshold()
            )
            code = PtxTarget().code(program, f"kernel{number}", kernels.target())
            found.append(nvptx.translate(code.ir, processor))
    return found
