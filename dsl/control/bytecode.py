"""What the code of functions tells: which outer variables and objects they may change.

Owns facts about code objects, and the quick test that spares most functions a closer
look. The closer look is up to `reachability`.
"""

from __future__ import annotations

import dis
import os
import sys
from abc import ABC
from collections.abc import Sequence
from functools import lru_cache
from types import (
    CodeType,
    FunctionType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, Generic, Protocol

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.nested import NestedArray
from lumijit.runtime.errors import is_internal
from lumijit.syntax.entry_points import Runtime
from lumijit.syntax.undefined import Undefined

# Values in which nobody looks for arrays.
PLAIN = {
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    object,
    range,
    property,
    staticmethod,
    classmethod,
    MemberDescriptorType,
    Runtime,
    Undefined,
}
#: Methods that change what they are called of, functions that change an argument.
MUTATORS = {"append", "extend", "insert", "pop", "clear", "update", "setdefault"}
MUTATORS |= {"remove", "sort", "reverse", "popitem", "delattr", "setattr", "exec"}
MUTATORS |= {"__setattr__", "__setitem__", "eval", "setitem", "delitem", "iconcat"}
MUTATORS |= {"heappush", "heappop", "heapify", "heapreplace", "heappushpop"}
MUTATORS |= {"insort", "insort_left", "insort_right", "shuffle"}
MUTATORS |= {"set_tensor", "set_value", "__delattr__", "__delitem__", "__set__"}
# (Who makes an object calls these of a new one, without mentioning them.)
MUTATORS |= {"__init__", "__post_init__", "__setstate__"}
_SIGNS = ["add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow"]
_SIGNS += ["rshift", "sub", "truediv", "xor"]
MUTATORS |= {form.format(sign) for sign in _SIGNS for form in ("i{}", "__i{}__")}
# Functions of Python that other objects have methods called like.
_BUILTINS = {"eval"}
#: What finds attributes and variables by names that are computed, or texts.
BY_NAME = {"getattr", "attrgetter", "methodcaller", "getmembers", "dir", "vars"}
BY_NAME |= {"__dict__", "__getattribute__", "globals", "builtins", "__builtins__"}
# What leads to modules without naming or importing them (`sys.modules`).
_LEADS_TO_MODULES = "modules"
# What imports modules by names that are computed, or texts.
_IMPORTERS = {"import_module", "__import__"}
# What decorators leave, ours among them.
_DECORATED = {"__wrapped__", "__lumijit_syntax__"}
#: Bases that call none of a class's methods by name, and change nothing.
SILENT = (object, tuple, ABC, Generic, Protocol)
#: Modules whose variables hold no arrays of users.
_LIBRARIES = sys.stdlib_module_names - {"__main__"} | {"lumijit", "numpy"}
_INSTALLED = {"site-packages", "dist-packages"}
_IS_USERS: dict[str, bool] = {}


class Facts:
    """What a function's code, and that of functions in it, does to outer objects.

    `names` are global names and attributes that it mentions, `globals` those that may
    be variables of its module. `rebinds` tells whether it assigns variables of
    functions around it, `stores_globals` whether global ones, `attributes` which
    attributes (of modules, too), `stores` whether it assigns anything but local
    variables, `changes` whether it does or works in place. `computes_names` tells
    whether it may ask for attributes that it doesn't mention, `imports` whether it
    imports anything itself, `is_internal` whether it is code of this package.
    """

    __slots__ = (
        "attributes",
        "changes",
        "code",
        "computes_names",
        "globals",
        "imports",
        "is_internal",
        "names",
        "rebinds",
        "stores",
        "stores_globals",
    )

    def __init__(
        self,
        code: CodeType,
        names: tuple[str, ...],
        globals: tuple[str, ...],
        changing: tuple[bool, bool, frozenset[str], bool, bool],
        computes_names: bool,
        imports: bool,
    ) -> None:
        self.code = code
        self.names = names
        self.globals = globals
        self.rebinds, self.stores_globals, self.attributes = changing[:3]
        self.stores, self.changes = changing[3:]
        self.computes_names = computes_names
        self.imports = imports
        self.is_internal = is_internal(code.co_filename)


def _numbers(*prefixes: str) -> frozenset[int]:
    return frozenset(n for name, n in dis.opmap.items() if name.startswith(prefixes))


_GLOBAL = ("_GLOBAL", "_GLOBALS", "_NAME")
_STORE_DEREF = _numbers("STORE_DEREF", "DELETE_DEREF")
_STORE_GLOBAL = _numbers("STORE_GLOBAL", "DELETE_GLOBAL")
_STORE_ATTRIBUTE = _numbers("STORE_ATTR", "DELETE_ATTR")
_CHANGE = _numbers("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE") | _STORE_ATTRIBUTE
_IN_PLACE = _numbers("INPLACE_")
_IMPORT = _numbers("IMPORT_NAME")
_BINARY = dis.opmap.get("BINARY_OP", -1)
_HEAP_TYPE = 1 << 9
_FUNCTIONS = (staticmethod, classmethod, property)
# With these operands, BINARY_OP works in place. (Later ones read subscripts.)
_OPERANDS_IN_PLACE = range(13, 26)
# Where there are more names, operands need a prefix.
_BYTE = 256
_FACTS: dict[int, Facts] = {}


def facts_of(code: CodeType) -> Facts:
    """Return what is known of a code object."""
    found = _FACTS.get(id(code))
    if found is None:
        if len(_FACTS) > 4096:
            _FACTS.clear()
        found = _FACTS[id(code)] = _facts(code)
    return found


def _facts(code: CodeType) -> Facts:
    names: dict[str, None] = {}
    used: set[int] = set()
    attributes: set[str] = set()
    is_in_place = False
    for inner in codes_in(code):
        names.update(dict.fromkeys(inner.co_names))
        operations, operands = inner.co_code[::2], inner.co_code[1::2]
        used.update(operations)
        if not _STORE_ATTRIBUTE.isdisjoint(operations):
            attributes.update(_assigned(inner, operations, operands))
        is_in_place |= any(
            op == _BINARY and arg in _OPERANDS_IN_PLACE
            for op, arg in zip(operations, operands, strict=True)
        )
    rebinds = not _STORE_DEREF.isdisjoint(used) and bool(rebound_by(code))
    globals_too = bool(used & _STORE_GLOBAL)
    computes = not BY_NAME.isdisjoint(names)
    # (Such a name may be that of a method that changes something.)
    stores = rebinds or globals_too or computes or bool(used & _CHANGE)
    mutators = MUTATORS.intersection(names)
    if not (computes or mutators.isdisjoint(_BUILTINS)):
        mutators -= _BUILTINS.difference(globals_of(code))
    stores |= bool(mutators)
    changes = stores or is_in_place or bool(used & _IN_PLACE)
    if computes:
        texts = [c for inner in codes_in(code) for c in inner.co_consts]
        names.update(dict.fromkeys([c for c in texts if type(c) is str]))
    assigned = frozenset(attributes)
    imports = bool(used & _IMPORT) or not _IMPORTERS.isdisjoint(names)
    changing = rebinds, globals_too, assigned, stores, changes
    # An attribute may be one of this module, if that is got at.
    is_open = computes or imports or _LEADS_TO_MODULES in names
    found = names if is_open else globals_of(code)
    return Facts(code, tuple(names), tuple(found), changing, computes, imports)


def _assigned(code: CodeType, operations: bytes, operands: bytes) -> list[str]:
    """List the attributes that code assigns; of many names, all."""
    names = code.co_names
    if len(names) > _BYTE:
        return list(names)
    pairs = zip(operations, operands, strict=True)
    return [names[arg] for op, arg in pairs if op in _STORE_ATTRIBUTE]


@lru_cache(4096)
def rebound_by(code: CodeType) -> frozenset[str]:
    """Return the variables of functions around that a function's code assigns."""
    steps = (i for inner in codes_in(code) for i in dis.get_instructions(inner))
    assigned = {i.argval for i in steps if i.opcode in _STORE_DEREF}
    return frozenset(assigned.intersection(code.co_freevars))


@lru_cache(4096)
def globals_of(code: CodeType) -> tuple[str, ...]:
    """Return the names of global variables that a function's code asks for or sets."""
    found = (i for inner in codes_in(code) for i in dis.get_instructions(inner))
    names = {i.argval for i in found if i.opname.endswith(_GLOBAL)}
    return tuple(sorted(names))


@lru_cache(4096)
def attributes_of(code: CodeType) -> list[tuple[str, str]]:
    """List the names by which a function's code asks objects for attributes.

    Each with that of the global variable that is asked at once, or for an attribute
    that is asked next; "" where it is something else.
    """
    found: dict[tuple[str, str], None] = {}
    for inner in codes_in(code):
        asked = ""
        for instruction in dis.get_instructions(inner):
            if instruction.is_jump_target:
                asked = ""
            # (Python 3.10 has CALL_METHOD, too, with the count of its arguments.)
            name = instruction.argval
            if instruction.opname.endswith(("_ATTR", "_METHOD")) and type(name) is str:
                found[name, asked] = None
            elif instruction.opname == "LOAD_GLOBAL":
                asked = instruction.argval
            else:
                asked = ""
    return list(found)


@lru_cache(4096)
def imports_of(code: CodeType) -> list[tuple[int, str]]:
    """List levels and names of the modules that a function's code imports."""
    found = []
    for inner in codes_in(code):
        # (Of which level, and what of a module, lies on the stack.)
        constants = [0, 0]
        for instruction in dis.get_instructions(inner):
            if instruction.opname == "IMPORT_NAME":
                found.append((constants[-2], instruction.argval))
            elif instruction.opname.startswith("LOAD_"):
                constants = [constants[-1], instruction.argval]
        if not _IMPORTERS.isdisjoint(inner.co_names):
            found += [(0, text) for text in inner.co_consts if type(text) is str]
    return found


def codes_in(code: CodeType) -> list[CodeType]:
    """List a function's code and that of the functions written in it."""
    found = [code]
    for inner in found:
        found += [c for c in inner.co_consts if isinstance(c, CodeType)]
    return found


def functions_in(member: Any) -> list[FunctionType]:
    """List the functions that an attribute of a class has its objects call."""
    if type(member) not in _FUNCTIONS:
        return [member] if type(member) is FunctionType else []
    held = [getattr(member, name, None) for name in ("fget", "fset", "__func__")]
    return [f for f in held if isinstance(f, FunctionType)]


def is_own(cls: type[Any]) -> bool:
    """Tell whether a class is a program's, whose methods may know of arrays."""
    return bool(cls.__flags__ & _HEAP_TYPE) and is_users(cls.__module__)


def is_foreign(cls: Any) -> bool:
    """Tell whether a class, or a function, isn't one of this package."""
    module: Any = getattr(cls, "__module__", None)
    is_told = type(module) is str
    return not (is_told and (module == "lumijit" or module.startswith("lumijit.")))


def holds_arrays(cls: type[Any]) -> bool:
    """Tell whether objects of a class of this package, which is no array, hold some."""
    return pytree.struct_fields(cls) is not None or hasattr(cls, "_holds_arrays")


def holds_nothing(cls: type[Any]) -> bool:
    """Tell whether objects of a class, which are no arrays, lead to nothing.

    That is a class of this package, such as that of local buffers.
    """
    found = _HOLDS_NOTHING.get(cls)
    if found is None:
        if is_foreign(cls):
            return False
        is_container = issubclass(cls, (list, tuple, dict, set, frozenset))
        found = not (is_container or holds_arrays(cls))
        found = _HOLDS_NOTHING[cls] = found and not hasattr(cls, "_wraps_function")
    return found


#: Of classes of this package.
_HOLDS_NOTHING: dict[type[Any], bool] = {}


def is_users(module: str) -> bool:
    """Tell whether a module's functions may know of arrays in its variables.

    What is installed counts only if it uses this package.
    """
    found = _IS_USERS.get(module)
    if found is None:
        found = _IS_USERS[module] = _knows_arrays(module)
    return found


def is_library(value: Any) -> bool:
    """Tell whether a value is a module whose functions know of no arrays of users."""
    return type(value) is ModuleType and not is_users(value.__name__)


def is_called_by_library(cls: type[Any]) -> bool:
    """Tell whether a class has bases in a library, which may call its methods."""
    bases = [base for base in cls.__bases__ if base not in SILENT]
    return any([not is_users(base.__module__) for base in bases])


def has_only_python(cls: type[Any]) -> bool:
    """Tell whether what objects of a class are is all in attributes and slots."""
    return all([c in SILENT or is_users(c.__module__) for c in cls.__mro__])


def _knows_arrays(module: str) -> bool:
    if type(module) is not str:
        # Classes in C may have something else.
        return False
    if module.partition(".")[0] in _LIBRARIES:
        return False
    namespace = vars(sys.modules.get(module, sys))
    path = os.path.normpath(namespace.get("__file__") or "")
    if _INSTALLED.isdisjoint(path.split(os.sep)):
        return True
    values = list(namespace.values())
    names = {getattr(v, "__module__", None) or _name_of(v) for v in values}
    return any(str(name).partition(".")[0] == "lumijit" for name in names)


def _name_of(value: Any) -> str | None:
    return value.__name__ if type(value) is ModuleType else None


def has_attributes(function: FunctionType) -> bool:
    """Tell whether a function has attributes, but for those that decorators leave."""
    space = function.__dict__
    return bool(space) and not _DECORATED.issuperset(space)


def has_defaults(function: FunctionType) -> bool:
    """Tell whether parameters of a function have defaults that may hold arrays."""
    values, named = function.__defaults__, function.__kwdefaults__
    return bool(values and not PLAIN.issuperset(map(type, values))) or bool(
        named and not PLAIN.issuperset(map(type, named.values()))
    )


def is_state(value: Any) -> bool:
    """Tell whether a value is an array or holds nothing that tracing follows."""
    kind = type(value)
    if kind in PLAIN or isinstance(value, (FlatArray, NestedArray)):
        return True
    return holds_nothing(kind)


def keys_of(containers: Sequence[Any]) -> list[Any]:
    """List the keys of dictionaries, but for plain values."""
    found = [c for c in containers if type(c) is dict]
    return [key for c in found for key in c if type(key) not in PLAIN] if found else []
