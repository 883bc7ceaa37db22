"""Arrays of Python objects whose methods are called per element.

Owns the array types made for a base class. The numbers that stand for objects are in
`instance_registry`; calling a method is `control.dispatch`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, cast

import numpy as np

from lumijit import array_types
from lumijit.arrays import FlatArray, data_node
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder, wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.logic import EQ, NE
from lumijit.instance_registry import (
    Domain,
    ScalarInstance,
    contents,
    note_contents,
    placed,
)
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import (
    ArrayAttributeError,
    ArrayTypeError,
)
from lumijit.runtime.tracebacks import hides_frames
from lumijit.spec import ArraySpec, Kind, declare, require
from lumijit.traits import spec_of

# Like array types, these live as long as the program.
_DOMAINS: dict[type[Any], Domain] = {}
_KINDS: dict[type[Any], Kind] = {}
# Where arrays hold their nodes.
_NODE: Any = vars(Holder)["_node"]


def _hold(array: Any, node: Node) -> None:
    """Give an instance array a node; find out what it may contain before it forgets."""
    _NODE.__set__(array, node)
    contents(node)


class InstanceArray(FlatArray):
    """An array whose entries are objects of one base class, or None."""

    __slots__ = ()
    _domain: ClassVar[Domain]
    _node: Any = property(_NODE.__get__, _hold)

    def __init__(self, *args: Any) -> None:
        """Make an array of objects, of a sequence of them, or of another array."""
        value = args[0] if len(args) == 1 else args
        cls = type(self)
        if isinstance(value, ArrayBase):
            if not (value._spec.is_instance and value._domain is cls._domain):
                raise ArrayTypeError(
                    cls.__name__,
                    f"can't be made from {type(value).__name__!r}",
                    "pass instances, or lumijit.reinterpret_array for numbers that "
                    "came from an instance array.",
                )
            node = value._node
        elif type(value) is int and value == 0:
            # What `zeros` and masked results consist of.
            node = trace.literal(UINT32, 0)
        elif isinstance(value, (list, tuple, np.ndarray)):
            number = cls._domain.number
            numbers = [number(item, cls.__name__) for item in value]
            if not numbers:
                node = trace.literal(UINT32, 0, 0)
            else:
                node = data_node(np.array(numbers, np.uint32))
                note_contents(node, numbers)
                node = placed(node, cls._spec.backend.device)
        else:
            found = cls._domain.number(value, cls.__name__)
            node = trace.literal(UINT32, found)
        self._become(node)

    def __eq__(self, other: Any) -> Any:
        """Compare with an object, None or another instance array."""
        return self._compared(EQ, other)

    def __ne__(self, other: Any) -> Any:
        """Compare with an object, None or another instance array."""
        return self._compared(NE, other)

    __hash__ = FlatArray.__hash__

    def _compared(self, op: Any, other: Any) -> Any:
        cls = type(self)
        mine = other if type(other) is cls else cls(other)
        return wrap(cls._mask_cls, trace.emit2(op, self._node, mine._node))

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the objects; evaluates the array."""
        return (self._domain.instance(n) for n in super().__iter__())

    def __getitem__(self, key: Any) -> Any:
        """Return one object, or several as an array."""
        found = super().__getitem__(key)
        return self._domain.instance(found) if isinstance(found, int) else found

    def _text(self, limit: int, spec: str = "") -> str:
        if self._is_symbolic():
            return f"{type(self).__name__}[<symbolic>]"
        shown = [repr(item) for item in self]
        if len(shown) > limit:
            left = len(shown) - 2 * (limit // 4)
            ends = limit // 4
            skipped = f".. {left} skipped .."
            shown = [*shown[:ends], skipped, *shown[len(shown) - ends :]]
        return f"[{', '.join(shown)}]"

    @hides_frames
    def __getattr__(self, name: str) -> Any:
        """Find what the base class was given later; explain which attributes it has."""
        if name.startswith("_"):
            raise AttributeError(name)
        cls = type(self)
        known = getattr(cls, name, None)
        if isinstance(known, property):
            # It has raised already, and is what Python asks before this function.
            return known.__get__(self)
        base = cls._domain.base
        declared = _interface(base)
        if name in declared:
            setattr(cls, name, _access(base, name, declared[name]))
            return getattr(self, name)
        listed = ", ".join(sorted(declared)) or "nothing"
        raise ArrayAttributeError(
            f"{cls.__name__}.{name}",
            f"the base class {base.__name__!r} has no attribute "
            f"{name!r} (it has: {listed})",
            "declare it in the base class, or use lumijit.dispatch.",
        )

    def __reduce__(self) -> Any:
        """Refuse to be pickled: numbers mean nothing in another process."""
        raise ArrayTypeError(
            f"pickle({type(self).__name__})",
            "the objects that an instance array refers to aren't part of it",
            "pickle list(array) instead.",
        )


def instance_array_t(arg: Any, base: type[Any], /) -> type[Any]:
    """Return the type of arrays of objects of a Python class.

    The entries are objects of `base` or of classes derived from it, or None. What
    `base` declares in public — methods, properties, annotated attributes — can be
    used on the array and is carried out per element, as by `dispatch`: each object
    is asked once, whatever the number of elements. A mask given as last positional
    argument or as `active` says which elements call; those, and entries that are
    None, return 0.

    Arrays don't keep objects alive. An entry whose object is gone counts as None.

    Args:
        arg: an array or array type, which tells the backend.
        base: a Python class, the interface that all objects have in common.

    Returns:
        The array type, always the same for the same backend and class. It takes
        an object, None, or a sequence of these. For the `scalar` namespace and
        Python numbers, a type that returns the object itself.

    Raises:
        ArrayTypeError: `base` is no class, or declares a name that all arrays use.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> class Material:
    ...     albedo: Float
    ...     def eval(self, cos_theta):
    ...         raise NotImplementedError
    >>> class Diffuse(Material):
    ...     def __init__(self, albedo):
    ...         self.albedo = albedo
    ...     def eval(self, cos_theta):
    ...         return self.albedo * cos_theta
    >>> class Black(Material):
    ...     albedo = 0
    ...     def eval(self, cos_theta):
    ...         return 0
    >>> MaterialPtr = dr.instance_array_t(Float, Material)
    >>> red, black = Diffuse(0.5), Black()
    >>> materials = MaterialPtr([red, black, None, red])
    >>> materials.eval(Float(1, 2, 3, 4))
    [0.5, 0, 0, 2]
    >>> materials.albedo
    [0.5, 0, 0, 0.5]
    """
    if not inspect.isclass(base):
        raise ArrayTypeError(
            "instance_array_t",
            f"the base is of type {type(base).__name__!r} (expected a class)",
            "pass the class from which the classes of the objects derive.",
        )
    spec = spec_of(arg)
    if base not in _KINDS:
        _check_names(base)
        _DOMAINS[base] = Domain(base)
        _KINDS[base] = Kind("instance", holds=base)
    if spec is None or not spec.is_jit:
        return _scalar_type(cast(Any, base))
    spec = spec.flat(UINT32).replaced(kind=_KINDS[base])
    for each in (spec, spec.replaced(is_diff=not spec.is_diff)):
        declare(each, functools.partial(_make_type, base, each))
    return require(spec, "instance_array_t")


def _make_type(base: type[Any], spec: ArraySpec) -> type[Any]:
    body: dict[str, Any] = {
        "__name__": f"{base.__name__}Ptr",
        "__module__": base.__module__,
        "__doc__": f"Array of {base.__name__} objects in lumijit.{spec.namespace}.",
        "_domain": _DOMAINS[base],
    }
    for attribute, member in _interface(base).items():
        body[attribute] = _access(base, attribute, member)
    made: type[Any] = array_types.make_instances(spec, InstanceArray, body)
    return made


def _interface(base: type[Any]) -> dict[str, Any]:
    """Return the public methods, properties and annotated attributes of a class."""
    found: dict[str, Any] = {}
    for cls in reversed(base.__mro__[:-1]):
        names = [*_annotated(cls), *vars(cls)]
        for name in names:
            is_public = not name.startswith("_") or name == "__call__"
            if is_public:
                found[name] = inspect.getattr_static(base, name, None)
    return {name: getattr(member, "__func__", member) for name, member in found.items()}


def _annotated(cls: type[Any]) -> Iterable[str]:
    """Return the names that a class annotates, as what may not be there yet."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(cls, format=Format.FORWARDREF)
    return inspect.get_annotations(cls)


def _check_names(base: type[Any]) -> None:
    """Refuse names that mean something for every array."""
    used = {"array", "index", "index_ad", "item", "label", "ndim", "numpy", "shape"}
    used |= {"state"}
    taken = sorted(used & _interface(base).keys())
    if taken:
        raise ArrayTypeError(
            "instance_array_t",
            f"{base.__name__!r} declares {taken[0]!r}, which is an attribute of "
            "every array",
            "use another name in the base class.",
        )


def _access(base: type[Any], name: str, member: Any) -> Any:
    make = _method if callable(member) else _attribute
    return make(base, name, member)


def _method(base: type[Any], name: str, member: Callable[..., Any]) -> Any:
    label = f"{base.__name__}.{name}"

    @functools.wraps(member)
    @hides_frames
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        from lumijit.control.callees import Member
        from lumijit.control.calls import dispatch

        return dispatch(self, Member(name, True), *args, label=label, **kwargs)

    return method


def _attribute(base: type[Any], name: str, member: Any) -> Any:
    label = f"{base.__name__}.{name}"

    @hides_frames
    def read(self: Any) -> Any:
        from lumijit.control.callees import Member
        from lumijit.control.calls import dispatch

        return dispatch(self, Member(name, False), label=label)

    doc = getattr(member, "__doc__", None) if isinstance(member, property) else None
    return property(read, doc=doc or f"Attribute {name!r} of each object.")


@functools.cache
def _scalar_type(base: type[Any]) -> type[Any]:
    """Return what stands for an instance array in the scalar namespace: objects."""

    def new(cls: type[Any], instance: Any = None) -> Any:
        if type(instance) is int and instance == 0:
            # What `zeros` consists of.
            return None
        if instance is not None and not isinstance(instance, base):
            raise ArrayTypeError(
                cls.__name__,
                f"an object of type {type(instance).__name__!r} is no instance of "
                f"{base.__name__!r}",
                f"derive its class from {base.__name__}, or pass None.",
            )
        return instance

    body = {"__new__": new, "__module__": base.__module__}
    return type(f"{base.__name__}Ptr", (ScalarInstance,), body)
