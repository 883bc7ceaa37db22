"""Loads small x86-64 ELF objects into memory without LLVM.

LLVM needs 35 ms to import and 1 ms to link a kernel; a warm start, with all
kernels on disk, needs neither. Owns just what our code generator emits: one
relocatable object whose code refers to its own constants and to a few library
functions. What refers to nothing but itself is flattened to what will lie in
memory, and kept on disk as that. Anything else raises `UnknownObject`, and the
caller lets LLVM link; what contradicts itself raises `BrokenObject`, whatever its
bytes.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from typing import Any, Final, NamedTuple

_SHT_PROGBITS: Final = 1
_SHT_SYMTAB: Final = 2
_SHT_RELA: Final = 4
_SHT_NOBITS: Final = 8
_SHF_WRITE: Final = 1
_SHF_ALLOC: Final = 2
_SHN_UNDEF: Final = 0
_SHN_LORESERVE: Final = 0xFF00
_EM_X86_64: Final = 62

_R_64: Final = 1
_R_PC32: Final = 2
_R_PLT32: Final = 4
_R_GOT: Final = (9, 41, 42)

_FILE_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")

# movabs rax, address; jmp rax: reaches a library function from anywhere
_JUMP: Final = struct.Struct("<2sQ2s4x")
_JUMP_BYTES: Final = 16
_READ_EXECUTE: Final = 5

# What goes wrong when tables lead out of the file, or numbers out of what Python takes.
_NONSENSE: Final = (struct.error, LookupError, ValueError, OverflowError)
# No kernel comes near; memory without contents costs a broken object nothing.
_LARGEST: Final = 1 << 28

# Before what lies in memory: a mark, its size, and where the one function begins.
_FLAT: Final = struct.Struct("<8sQQ")
_MARK: Final = b"\x7fflat\x00\x01\x00"
_GLOBAL: Final = 1


class UnknownObject(Exception):
    """The object needs something that this loader does not do."""


class BrokenObject(Exception):
    """The object's tables contradict each other, or the file."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


class Image:
    """An object in executable memory, which is unmapped with the last reference."""

    __slots__ = ("_memory", "addresses")

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int]) -> None:
        self._memory: Final = memory
        self.addresses: Final = addresses


@functools.cache
def is_available() -> bool:
    """Tell whether objects of this platform are of the known kind."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    names = (None, "libm.so.6", "libgcc_s.so.1")
    found = []
    for name in names:
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return tuple(found)


@functools.cache
def _library_function(name: str) -> int:
    """Return the address of a function of the C library and its neighbours."""
    for library in _libraries():
        try:
            function = library[name]
        except AttributeError:
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise UnknownObject(f"the function '{name}' is unknown")


@functools.cache
def _protect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


class _Object:
    """The parsed tables of one object file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        header = _FILE_HEADER.unpack_from(data)
        if header[0][:6] != b"\x7fELF\x02\x01" or header[2] != _EM_X86_64:
            raise UnknownObject("it is no ELF object for x86-64")
        self.sections = [
            _Section._make(_SECTION.unpack_from(data, header[6] + i * header[11]))
            for i in range(header[12])
        ]
        stored = sum(s.size for s in self.sections if s.kind != _SHT_NOBITS)
        if stored > len(data):
            # Read again and again, they would take for ever.
            raise BrokenObject("its sections overlap")
        tables = [s for s in self.sections if s.kind == _SHT_SYMTAB]
        if len(tables) != 1:
            raise UnknownObject("it has no symbol table")
        self.strings = self.sections[tables[0].link].offset
        self.section_names = self.sections[header[13]].offset
        self.symbols = list(_SYMBOL.iter_unpack(self.contents(tables[0])))

    def contents(self, section: _Section) -> bytes:
        return self.data[section.offset : section.offset + section.size]

    def name(self, offset: int) -> str:
        start = self.strings + offset
        return self.data[start : self.data.index(b"\0", start)].decode()

    def is_constant(self, section: _Section) -> bool:
        """Tell whether a writable section is only written by relocations."""
        start = self.section_names + section.name
        return self.data.startswith(b".data.rel.ro", start)

    def relocations(
        self, placed: dict[int, int]
    ) -> list[tuple[int, tuple[int, int, int]]]:
        """List (section, relocation) for the sections that are in memory."""
        return [
            (section.info, entry)
            for section in self.sections
            if section.kind == _SHT_RELA and section.info in placed
            for entry in _RELOCATION.iter_unpack(self.contents(section))
        ]


def _place(parsed: _Object) -> tuple[dict[int, int], int]:
    """Choose where the sections with code and constants go."""
    placed: dict[int, int] = {}
    end = 0
    for index, section in enumerate(parsed.sections):
        if not section.flags & _SHF_ALLOC or not section.size:
            continue
        if section.kind not in (_SHT_PROGBITS, _SHT_NOBITS):
            # Unwinding tables: nothing unwinds through a kernel.
            continue
        if section.flags & _SHF_WRITE and not parsed.is_constant(section):
            raise UnknownObject("it has variables of its own")
        align = max(section.align, 1)
        placed[index] = end = -(-end // align) * align
        end += section.size
        if end > _LARGEST or mmap.PAGESIZE % align:
            raise BrokenObject("a section can't be placed")
    return placed, end


class _Linker:
    """Places one object at an address and applies its relocations."""

    def __init__(self, parsed: _Object, placed: dict[int, int], end: int) -> None:
        self.parsed = parsed
        self.placed = placed
        relocations = parsed.relocations(placed)
        self.jumps: dict[int, int] = {}
        self.slots: dict[int, int] = {}
        end = -(-end // _JUMP_BYTES) * _JUMP_BYTES
        for _, (_, info, _) in relocations:
            symbol, kind = info >> 32, info & 0xFFFFFFFF
            if kind in _R_GOT and symbol not in self.slots:
                self.slots[symbol] = end
                end += 8
        end = -(-end // _JUMP_BYTES) * _JUMP_BYTES
        for _, (_, info, _) in relocations:
            symbol, kind = info >> 32, info & 0xFFFFFFFF
            outside = parsed.symbols[symbol][3] == _SHN_UNDEF
            if kind == _R_PLT32 and outside and symbol not in self.jumps:
                self.jumps[symbol] = end
                end += _JUMP_BYTES
        self.relocations = relocations
        self.size_bytes = max(end, 1)
        # What is written to, and where it begins.
        self.memory: mmap.mmap | bytearray = bytearray()
        self.base = 0

    def needs_only_itself(self) -> bool:
        """Tell whether the contents are the same wherever they lie."""
        return all(
            info & 0xFFFFFFFF in (_R_PC32, _R_PLT32)
            and self.parsed.symbols[info >> 32][3] != _SHN_UNDEF
            for _, (_, info, _) in self.relocations
        )

    def resolve(self, number: int) -> int:
        """Return the address of a symbol."""
        name, _, _, section, value, _ = self.parsed.symbols[number]
        if section == _SHN_UNDEF:
            return _library_function(self.parsed.name(name))
        if section >= _SHN_LORESERVE or section not in self.placed:
            raise UnknownObject("it refers to a section that is not loaded")
        return int(self.base + self.placed[section] + value)

    def write(self) -> None:
        """Copy the sections and apply the relocations."""
        memory = self.memory
        for index, offset in self.placed.items():
            section = self.parsed.sections[index]
            if section.kind == _SHT_PROGBITS:
                contents = self.parsed.contents(section)
                memory[offset : offset + section.size] = contents
        for symbol, offset in self.slots.items():
            struct.pack_into("<Q", memory, offset, self.resolve(symbol))
        for symbol, offset in self.jumps.items():
            _JUMP.pack_into(
                memory, offset, b"\x48\xb8", self.resolve(symbol), b"\xff\xe0"
            )
        for section_index, (offset, info, addend) in self.relocations:
            at = self.placed[section_index] + offset
            self._relocate(at, info >> 32, info & 0xFFFFFFFF, addend)

    def _relocate(self, at: int, symbol: int, kind: int, addend: int) -> None:
        if kind == _R_64:
            struct.pack_into("<Q", self.memory, at, self.resolve(symbol) + addend)
            return
        if kind in _R_GOT:
            target = self.base + self.slots[symbol]
        elif kind == _R_PLT32 and symbol in self.jumps:
            target = self.base + self.jumps[symbol]
        elif kind in (_R_PC32, _R_PLT32):
            target = self.resolve(symbol)
        else:
            raise UnknownObject(f"relocation {kind} is unknown")
        distance = target + addend - (self.base + at)
        if not -(2**31) <= distance < 2**31:
            raise UnknownObject("a relocation reaches too far")
        struct.pack_into("<i", self.memory, at, distance)


def load(object_code: bytes, symbols: tuple[str, ...]) -> Image:
    """Put an object into executable memory.

    Args:
        object_code: the contents of the object file, or what `flattened` returned.
        symbols: the functions whose addresses are wanted.
    """
    try:
        if is_flat(object_code):
            return _load_flat(object_code, symbols)
        return _load(object_code, set(symbols))
    except _NONSENSE as error:
        raise BrokenObject(f"its tables are inconsistent ({error})") from error
    except OSError as error:
        raise UnknownObject(f"there is no memory for it ({error})") from error


def _load(object_code: bytes, wanted: set[str]) -> Image:
    parsed = _Object(object_code)
    linker = _Linker(parsed, *_place(parsed))
    memory, linker.base = _mapped(linker.size_bytes)
    linker.memory = memory
    linker.write()
    _make_executable(linker.base, linker.size_bytes)
    addresses = {}
    for number, entry in enumerate(parsed.symbols):
        if entry[3] != _SHN_UNDEF and entry[0]:
            name = parsed.name(entry[0])
            if name in wanted:
                addresses[name] = linker.resolve(number)
    if len(addresses) != len(wanted):
        raise UnknownObject(f"it does not define {sorted(wanted - set(addresses))}")
    lowest, size = linker.base, linker.size_bytes
    if not all(lowest <= address < lowest + size for address in addresses.values()):
        raise BrokenObject("a function lies outside of it")
    return Image(memory, addresses)


def _mapped(size_bytes: int) -> tuple[mmap.mmap, int]:
    """Return memory of whole pages, and where it begins."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _make_executable(base: int, size_bytes: int) -> None:
    if _protect()(base, size_bytes, _READ_EXECUTE):
        raise UnknownObject("the system refuses executable memory")


def flattened(object_code: bytes) -> bytes:
    """Return an object as it will lie in memory, if it has one function.

    The object itself where it isn't the same everywhere, or unknown.
    """
    try:
        parsed = _Object(object_code)
        linker = _Linker(parsed, *_place(parsed))
        entries = [
            number
            for number, (_, info, _, section, _, _) in enumerate(parsed.symbols)
            if info >> 4 == _GLOBAL and section != _SHN_UNDEF
        ]
        if len(entries) != 1 or not linker.needs_only_itself():
            return object_code
        linker.memory = bytearray(linker.size_bytes)
        linker.write()
        entry = linker.resolve(entries[0])
        return _FLAT.pack(_MARK, linker.size_bytes, entry) + linker.memory
    except (UnknownObject, BrokenObject, *_NONSENSE):
        return object_code


def is_flat(code: bytes) -> bool:
    """Tell whether code has been flattened."""
    return code.startswith(_MARK)


def _load_flat(code: bytes, symbols: tuple[str, ...]) -> Image:
    """Put flattened code into executable memory."""
    _, size_bytes, entry = _FLAT.unpack_from(code)
    if len(code) != _FLAT.size + size_bytes or entry >= size_bytes:
        raise BrokenObject("it is truncated")
    if len(symbols) != 1:
        raise BrokenObject("it defines one function only")
    memory, base = _mapped(size_bytes)
    memory[:] = code[_FLAT.size :]
    _make_executable(base, size_bytes)
    return Image(memory, {symbols[0]: base + entry})
