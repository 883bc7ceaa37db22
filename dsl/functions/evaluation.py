"""When arrays are computed: schedule, eval, opaque values, labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase, symbolic_error
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.launch import evaluate, kernels, named_kernels
from lumijit.functions.creation import Shape, opaque_full
from lumijit.functions.repetition import copy
from lumijit.instance_registry import opaque as opaque_node
from lumijit.instance_registry import placed
from lumijit.labels import set_label_of
from lumijit.nested import flat_parts
from lumijit.pytree import Parts, tree_leaves
from lumijit.runtime import device
from lumijit.runtime.errors import ArrayTypeError
from lumijit.runtime.history import JitBackend
from lumijit.spec import CUDA, LLVM


def flat_leaves(value: Any) -> Iterator[FlatArray]:
    """Return all flat traced arrays in a PyTree."""
    return (holder for holder in _holders(value) if isinstance(holder, FlatArray))


def nodes_of(args: Any, construct: str) -> list[Node]:
    """Return the nodes of all arrays in PyTrees, none of which may be symbolic."""
    nodes = []
    for arg in args:
        # A small launch takes hardly longer than a walk over a PyTree.
        if isinstance(arg, FlatArray):
            nodes.append(arg._node)
        else:
            nodes += [holder._node for holder in _holders(arg)]
    for node in nodes:
        if node.scope is not ROOT:
            raise symbolic_error(construct)
    return nodes


def _holders(value: Any) -> list[Any]:
    """Return what has a node in a PyTree: flat arrays, and parts of local buffers."""
    found = []
    for leaf in Parts((value,)).leaves:
        if isinstance(leaf, FlatArray):
            found.append(leaf)
        elif hasattr(type(leaf), "_holders"):
            # A local buffer (`control.local_memory`), which isn't an array itself.
            found += leaf._holders
    return found


def eval(*args: Any) -> bool:
    """Compute arrays now, together with everything scheduled.

    Args:
        *args: arrays and PyTrees; without any, only what has been scheduled.

    Returns:
        Whether anything had to be computed.

    Raises:
        SymbolicError: for symbolic variables.

    >>> import lumijit as dr
    >>> x = dr.llvm.Float(1, 2) + 1
    >>> dr.eval(x), x.state
    (True, VarState.Evaluated)
    """
    if not args:
        return evaluate.evaluate_pending()
    return evaluate.evaluate(nodes_of(args, "lumijit.eval"))


def schedule(*args: Any) -> bool:
    """Let the next evaluation compute arrays as well.

    Args:
        *args: arrays and PyTrees.

    Returns:
        Whether anything was scheduled.

    Raises:
        SymbolicError: for symbolic variables.

    >>> import lumijit as dr
    >>> dr.schedule(dr.llvm.Float(1, 2) + 1), dr.schedule(dr.llvm.Float(1))
    (True, False)
    """
    return evaluate.schedule(nodes_of(args, "lumijit.schedule"))


def make_opaque(*args: Any) -> None:
    """Put arrays into memory, literals as well, so that no kernel contains them.

    Args:
        *args: arrays and PyTrees; changed.

    Raises:
        SymbolicError: for symbolic variables.

    >>> import lumijit as dr
    >>> x = dr.llvm.Float(1)
    >>> dr.make_opaque(x)
    >>> x.state
    VarState.Evaluated
    """
    evaluate.evaluate(nodes_of(args, "lumijit.make_opaque"))
    for array in flat_leaves(args):
        where = array._spec.backend.device
        array._rehouse(placed(opaque_node(array._node, where), where))


def opaque(dtype: Any, value: Any = ..., shape: Shape = 1) -> Any:
    """Make an instance filled with one value that lies in memory.

    Unlike the literals of `full`, the value is no part of the traced program. Given
    nothing but arrays, returns copies of them that lie in memory.

    Args:
        dtype: array class, Python scalar type, or class of a PyTree; alone, an array or
            PyTree of arrays.
        value: number (of instance arrays: object or None) that all entries get; of
            static arrays also a sequence, one value for each component.
        shape: size of the vectorized dimension, or all dimensions of an array.

    Returns:
        An instance of `dtype`.

    Raises:
        ArrayTypeError: if a type comes without a value.

    >>> import lumijit as dr
    >>> dr.opaque(dr.llvm.Float, 2).state
    VarState.Evaluated
    """
    if value is not ...:
        return opaque_full(dtype, value, shape)
    if isinstance(dtype, type):
        raise ArrayTypeError(
            "lumijit.opaque",
            f"there is no value for the type {dtype.__name__!r}",
            "pass one, as in opaque(Float, 1), or arrays in place of the type.",
        )
    result = copy(dtype)
    make_opaque(result)
    return result


def set_label(*args: Any, **kwargs: Any) -> None:
    """Name arrays, for debugging.

    Args:
        *args: an array or PyTree, and its name.
        **kwargs: arrays or PyTrees by name.

    >>> import lumijit as dr
    >>> x = dr.llvm.Float(1) + dr.opaque(dr.llvm.Float, 1)
    >>> dr.set_label(x, "offset")
    >>> x.label
    'offset'
    """
    named = dict(kwargs)
    if args:
        if len(args) != 2 or not isinstance(args[1], str):
            raise ArrayTypeError(
                "lumijit.set_label",
                f"the arguments are no value and its name ({len(args)} of them)",
                "write set_label(x, 'name') or set_label(name=x).",
            )
        value, label = args
        named[label] = value
    for name, value in named.items():
        for path, leaf in tree_leaves(value):
            if isinstance(leaf, ArrayBase):
                _label(leaf, name + _suffix(path))


def _suffix(path: str) -> str:
    words = path.replace("[", " ").replace("]", " ").replace(".", " ").split()
    return "".join("_" + w.strip("'\"") for w in words)


def _label(array: ArrayBase, name: str) -> None:
    parts = list(flat_parts(array))
    for position, part in enumerate(parts):
        if isinstance(part, FlatArray):
            suffix = f"_{position}" if len(parts) > 1 else ""
            set_label_of(part._node, name + suffix)


def sync_thread() -> None:
    """Wait until everything that has been launched is done.

    >>> import lumijit as dr
    >>> dr.sync_thread()
    """
    device.wait_for_all()


def has_backend(backend: JitBackend, /) -> bool:
    """Tell whether a backend can be used.

    Args:
        backend: member of JitBackend.

    Returns:
        Whether it was found.

    >>> import lumijit as dr
    >>> dr.has_backend(dr.JitBackend.LLVM)
    True
    """
    found = (b.device for b in (LLVM, CUDA) if b.public == backend)
    return any(which is None or device.is_there(which) for which in found)


def flush_kernel_cache() -> None:
    """Forget all kernels in memory; those on disk stay.

    >>> import lumijit as dr
    >>> dr.flush_kernel_cache()
    """
    device.wait_for_all()
    kernels.flush()
    named_kernels.flush()
