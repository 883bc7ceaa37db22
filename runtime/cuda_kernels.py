"""Kernels of NVIDIA's GPUs: assembling PTX, loading code, and what launches are given.

A kernel's parameters are the number of elements, of those whose blocks work together
also that of a block, and the slots, in place or by address
(`nvptx.slots_parameter`).
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import finalize

from lumijit.runtime.cuda_launching import GRID, words_of
from lumijit.runtime.errors import KernelBuildError
from lumijit.runtime.libcuda import BAD_CODE, NOT_FOUND, check, described

# CUfunction_attribute, CUjit_option, CUjitInputType.
_MAX_THREADS, _SHARED_BYTES = 0, 1
_LOG, _LOG_BYTES = 5, 6
_PTX = 1
_LOG_SIZE = 4096
# Threads of an elementwise kernel's blocks, unless its registers are too many for that.
_THREADS = 256
# Before the code of a kernel, how long it is.
_LENGTH = struct.Struct("<Q")


class Module:
    """Code in a GPU's memory, which goes with the object."""

    def __init__(self, driver: Any, handle: c_void_p) -> None:
        self.handle = handle
        # (When the process ends, the driver may have gone before.)
        finalize(self, driver.cuModuleUnload, handle).atexit = False


@dataclass(frozen=True)
class Loaded:
    """A kernel in a GPU's memory: what starts it, and what must live until then."""

    name: str
    module: Module
    words: bytes
    size_bytes: int

    @property
    def handle(self) -> int:
        """The driver's function."""
        return int.from_bytes(self.words[:8], "little")


class Form(NamedTuple):
    """How a kernel is written.

    Its blocks have so many `threads`; with 0, any number, which compute `width`
    elements each. Of the GPU, so many threads are `resident` at once.
    """

    threads: int
    width: int
    resident: int


def assembled(driver: Any, ptx: bytes) -> bytes:
    """Return the machine code of PTX for the context's GPU.

    Raises:
        KernelBuildError: the driver refuses it.
    """
    state, code, size = c_void_p(), c_void_p(), c_size_t()
    log = ctypes.create_string_buffer(_LOG_SIZE)
    options = (c_int * 2)(_LOG, _LOG_BYTES)
    values = (c_void_p * 2)(ctypes.addressof(log), _LOG_SIZE)
    made = driver.cuLinkCreate_v2(2, options, values, byref(state))
    check(made, "making an assembler")
    try:
        done = driver.cuLinkAddData_v2(
            *(state, _PTX, ptx, c_size_t(len(ptx) + 1), b"kernel", 0, None, None)
        )
        done = done or driver.cuLinkComplete(state, byref(code), byref(size))
        if done in BAD_CODE:
            raise KernelBuildError(
                "assembling PTX",
                f"the driver refuses a kernel, {described(done)}: "
                f"{log.value.decode(errors='replace').strip()}",
                "update an old driver; else report this as a bug of lumijit.",
            )
        check(done, "assembling a kernel")
        return whole(ctypes.string_at(code, size.value))
    finally:
        driver.cuLinkDestroy(state)


def whole(code: bytes) -> bytes:
    """Return machine code as `loaded` takes it: behind its length.

    The driver believes what code says of its size.
    """
    return _LENGTH.pack(len(code)) + code


def loaded(driver: Any, code: bytes, symbol: str, form: Form) -> Loaded:
    """Put machine code into the GPU's memory, and find its kernel.

    Raises:
        KernelBuildError: the code isn't that of the kernel.
    """
    module, function = c_void_p(), c_void_p()
    start = _LENGTH.size
    if code[:start] != _LENGTH.pack(max(0, len(code) - start)):
        raise _refused("it isn't whole")
    done = driver.cuModuleLoadData(byref(module), code[start:])
    if done in BAD_CODE:
        raise _refused(described(done))
    check(done, "loading a kernel")
    kept = Module(driver, module)
    found = driver.cuModuleGetFunction(byref(function), module, symbol.encode())
    if found == NOT_FOUND:
        raise _refused(f"there is no {symbol} in it")
    check(found, f"finding kernel {symbol}")
    assert function.value is not None

    def attribute(number: int) -> int:
        value = c_int()
        found = driver.cuFuncGetAttribute(byref(value), number, function)
        check(found, f"asking for the resources of kernel {symbol}")
        return value.value

    threads = form.threads or min(_THREADS, attribute(_MAX_THREADS))
    elements, most = 0 if form.threads else threads * form.width, GRID
    # Each block fills and merges what its threads share, so there are few, which go on.
    if elements and attribute(_SHARED_BYTES):
        most = max(1, form.resident // threads)
    words = words_of(function.value, threads, elements, most)
    return Loaded(symbol, kept, words, len(code))


def _refused(why: str) -> KernelBuildError:
    return KernelBuildError(
        "loading a kernel",
        f"stored code can't be used: {why}",
        "remove the cached kernels; else report this as a bug of lumijit.",
    )
