"""The CPU engine: LLVM IR to machine code, and machine code into memory.

Owns what is known of the processor, the settings of the code generator and the
linking of objects. LLVM (llvmlite) is loaded only when something must be
compiled, or linked in a way that `loader` does not know. What goes into the IR
is the compiler's business; running kernels is that of `workers`.
"""

from __future__ import annotations

import functools
import itertools
import platform
import re
import sys
import threading
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from lumijit.runtime import cache, collector, environment, loader
from lumijit.runtime.cached_properties import cached_property
from lumijit.runtime.digest import blake2b
from lumijit.runtime.errors import KernelBuildError
from lumijit.runtime.log import LogLevel, log
from lumijit.runtime.settings import settings

# LLVM guesses the processor by its features, and a virtual machine may hide
# some: the model number knows better. Only scheduling follows from the name, as
# the features are always given. (On gathers, 13 % of the time.)
_MODEL_NAMES: Final = {
    ("GenuineIntel", 6, 143): "sapphirerapids",
    ("GenuineIntel", 6, 207): "sapphirerapids",
    ("GenuineIntel", 6, 173): "graniterapids",
    ("GenuineIntel", 6, 174): "graniterapids",
}
# Those whose gathers and scatters take less time than accesses lane by lane: AMD's take
# these instructions apart, and so do Intel's older ones, since microcode mends a leak.
_FAST_GATHERS: Final = {
    "sapphirerapids",
    "emeraldrapids",
    "graniterapids",
    "graniterapids-d",
    "diamondrapids",
}


class _Facts(NamedTuple):
    name: str
    features: str
    triple: str
    llvm: str = ""


class HostInfo(_Facts):
    """The processor, as the code generator sees it."""

    def has(self, feature: str) -> bool:
        """Tell whether a feature (LLVM's name) is there."""
        return f"+{feature}" in self.features.split(",")

    @cached_property
    def has_avx512(self) -> bool:
        """Whether the AVX-512 subsets of every such server are there.

        LLVM drops them where AVX or AVX2 is missing.
        """
        subsets = [f"avx512{s}" for s in ("f", "vl", "bw", "dq")]
        return all(self.has(s) for s in ("avx", "avx2", *subsets))

    @cached_property
    def lanes_f32(self) -> int:
        """How many single-precision numbers one register holds."""
        return 16 if self.has_avx512 else 8 if self.has("avx") else 4


@functools.cache
def _llvm() -> Any:
    """Load LLVM and set it up for this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    collector.keep()
    return llvm


def _processor_id() -> str:
    """Return a text that tells processors apart, without asking LLVM."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(8192).split("\n\n", 1)[0]
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features")
    lines = (line.partition(":") for line in first.splitlines())
    return "\n".join(v.strip() for k, _, v in lines if k.strip() in wanted)


def _best_name(reported: str, processor_id: str) -> str:
    parts = processor_id.split("\n")
    try:
        model = (parts[0], int(parts[1]), int(parts[2]))
    except (IndexError, ValueError):
        return reported
    name = _MODEL_NAMES.get(model, reported)
    # Some hide the model, too. What comes with matrices came with this one.
    has_matrices = parts[0] == "GenuineIntel" and "amx_tile" in parts[-1].split()
    return "sapphirerapids" if has_matrices and name not in _FAST_GATHERS else name


def _ask_llvm(processor_id: str) -> HostInfo:
    llvm = _llvm()
    name = settings.cpu or _best_name(llvm.get_host_cpu_name(), processor_id)
    if settings.cpu and settings.cpu != llvm.get_host_cpu_name():
        # The features stay this machine's: code for others could not be run.
        log(LogLevel.Info, "code is scheduled for the processor '%s'", name)
    found = llvm.get_host_cpu_features().flatten()
    if name in _FAST_GATHERS:
        found += ",+fast-gather"
    features = _without(found, settings.cpu_without)
    if "+avx512f" in features.split(","):
        features += ",-prefer-256-bit"
    version = ".".join(map(str, llvm.llvm_version_info))
    return HostInfo(name, features, llvm.get_process_triple(), version)


def _without(features: str, unused: str) -> str:
    """Take features away, which are given by patterns between commas."""
    patterns = [word.strip() for word in unused.split(",") if word.strip()]
    kept, taken = [], []
    for feature in features.split(","):
        if any(fnmatchcase(feature[1:], pattern) for pattern in patterns):
            taken.append(f"-{feature[1:]}")
        else:
            kept.append(feature)
    for pattern in patterns:
        if not any(fnmatchcase(feature[1:], pattern) for feature in taken):
            log(LogLevel.Warn, "no processor feature is called '%s'", pattern)
    # Last, as LLVM reads in order: features that need one of these go, too.
    return ",".join(kept + taken)


@functools.cache
def host() -> HostInfo:
    """Return what the processor can do; LLVM is asked once per machine."""
    processor = _processor_id()
    chosen = f"{processor}|{settings.cpu}|{settings.cpu_without}"
    key = cache.full_key("host", environment.local_key(chosen))
    found = cache.lookup(key)
    if found is not None:
        meta = found[1]
        if meta.keys() == {*HostInfo._fields} and all(
            isinstance(text, str) for text in meta.values()
        ):
            return HostInfo(**meta)
        cache.drop(key, "it describes no processor")
    info = _ask_llvm(processor)
    cache.store(key, b"", info._asdict())
    return info


@functools.cache
def environment_key() -> str:
    """Return the environment of the cache keys of all kernels for this host."""
    info = host()
    target = f"{info.triple}|{info.name}|{info.features}|LLVM {info.llvm}"
    return environment.key(target)


@functools.cache
def _target_machine(opt_level: int, unused: str = "") -> Any:
    llvm = _llvm()
    info = host()
    # The small code model: llvmlite's default for JIT code (large) costs up to
    # 37 % of the run time, as constants are addressed through registers.
    return llvm.Target.from_triple(info.triple).create_target_machine(
        cpu=info.name,
        features=info.features + unused,
        opt=opt_level,
        reloc="pic",
        codemodel="small",
    )


_LOCATION: Final = re.compile(r"<string>:(\d+):(\d+): error: (.*)")


def _refusal(ir: str, error: Exception) -> KernelBuildError:
    """Word LLVM's complaint, with the line that it is about."""
    text = str(error).strip()
    found = _LOCATION.search(text)
    if found:
        number = int(found[1])
        line = ir.split("\n")[number - 1].strip()
        text = f"line {number}: {found[3]}: '{line}'"
    return KernelBuildError(
        "kernel compilation",
        f"LLVM refuses the generated code: {text}",
        "this is an error of lumijit: please report it with the code that "
        "set_flag(JitFlag.PrintIR, True) prints.",
    )


# LLVM is busy while it is held: no time for a fork (`workers`).
build_lock: Final = threading.RLock()

# A context that knows types and constants saves a twentieth of a small build. It
# never forgets any, so it is renewed now and then.
_BUILDS_PER_CONTEXT: Final = 256
_builds = itertools.count()


@functools.lru_cache(maxsize=1)
def _context(generation: int) -> Any:
    """Return LLVM's context for some builds; `generation` counts contexts."""
    return _llvm().create_context()


# Longer texts take LLVM more than some 0.1 s, during which Ctrl-C must be answered.
_LONG_IR: Final = 64 << 10


def compile_ir(ir: str, opt_level: int = 2) -> bytes:
    """Compile LLVM IR for this processor and return the object file's contents.

    No passes run over the IR, as the trace has been simplified already, but for the
    one that orders sums of integers where there are many. Python can't interrupt LLVM:
    a long build goes on after Ctrl-C, and serves whoever asks again.

    Args:
        ir: the text of one module.
        opt_level: effort of the code generator, 0 to 3; below 2 only for what runs
            once, or does little.
    """
    global _left_alone
    is_main = threading.current_thread() is threading.main_thread()
    if len(ir) < _LONG_IR or not is_main:
        return _emit(ir, opt_level)
    build, _left_alone = _left_alone, None
    if build is None or build.request != (ir, opt_level):
        build = _Build(ir, opt_level)
    try:
        return build.result()
    except Exception:
        raise
    except BaseException:
        _left_alone = build
        raise


# Unrolled hashes have some eight in a round, look-ups and address computations less.
_MANY_SUMS: Final = 100


def order_sums(module: Any, machine: Any) -> None:
    """Add integers in the order in which they are known, by LLVM's pass for that.

    Where each round needs the one before, its last term should wait for one sum only.
    """
    llvm = _llvm()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    manager = llvm.create_new_module_pass_manager()
    manager.add_reassociate_pass()
    manager.run(module, builder)


# What AVX-512BW is better at: narrow types, masks as numbers (but for tests whether any
# lane is set), and masks of 64 lanes that eight vectors belong to.
_NEEDS_BW: Final = re.compile(
    r" x (?:i8|i16|half)>|<64 x (?:i64|double)>"
    r"|x i1> %\S+ to i(?:32|64)\n(?! *%\S+ = icmp)"
)


def unused_features(ir: str) -> str:
    """Return which features of the processor a module is better off without.

    With AVX-512BW, LLVM keeps masks of 32 and 64 lanes in one mask register, though
    each of the vectors that they belong to needs one of its own: they are packed and
    unpacked all the time.
    """
    is_packed = "<32 x i1>" in ir or "<64 x i1>" in ir
    return ",-avx512bw" if is_packed and not _NEEDS_BW.search(ir) else ""


def _emit(ir: str, opt_level: int) -> bytes:
    llvm = _llvm()
    try:
        with build_lock:
            context = _context(next(_builds) // _BUILDS_PER_CONTEXT)
            with llvm.parse_assembly(ir, context) as module:
                module.verify()
                unused = unused_features(ir) if host().has_avx512 else ""
                machine = _target_machine(opt_level, unused)
                if ir.count(" = add <") >= _MANY_SUMS:
                    order_sums(module, machine)
                code: bytes = machine.emit_object(module)
                return code
    except RuntimeError as error:
        raise _refusal(ir, error) from error


class _Build:
    """A build in a thread of its own, so that the main thread answers signals."""

    def __init__(self, ir: str, opt_level: int) -> None:
        self.request = (ir, opt_level)
        self._code = b""
        self._error: BaseException | None = None
        self._is_done = threading.Event()
        name = "lumijit-build"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._code = _emit(*self.request)
        except BaseException as error:
            self._error = error
        self._is_done.set()

    def result(self) -> bytes:
        """Wait for the code."""
        while not self._is_done.wait(0.1):
            pass
        if self._error is not None:
            raise self._error
        return self._code


# The build that a Ctrl-C took the main thread away from.
_left_alone: _Build | None = None


class Kernel:
    """Machine code in memory. It is unmapped when the last reference goes."""

    __slots__ = ("address", "hash", "operation_count", "size_bytes", "tracker")

    def __init__(
        self, address: int, hash: str, size_bytes: int, tracker: object
    ) -> None:
        self.address = address
        self.hash = hash
        self.size_bytes = size_bytes
        self.tracker = tracker
        self.operation_count = 0

    def __repr__(self) -> str:
        return f"Kernel({self.hash}, {self.operation_count} operations)"


@functools.cache
def _linker() -> Any:
    return _llvm().create_lljit_compiler(_target_machine(2), suppress_errors=True)


_library_numbers = itertools.count()


def _link_with_llvm(object_code: bytes, symbols: tuple[str, ...], hint: str) -> Any:
    """Link an object with LLVM's ORC; its result maps symbols to addresses.

    LLVM does not say what it misses: `hint` is what our own loader said.
    """
    llvm = _llvm()
    builder = llvm.JITLibraryBuilder()
    builder.add_object_img(object_code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    try:
        # A name can't be used twice, even after its library has gone.
        with build_lock:
            return builder.link(_linker(), f"kernel{next(_library_numbers)}")
    except RuntimeError as error:
        why = f"LLVM can't link it: {str(error).strip()} {hint}".rstrip()
        raise _unlinkable(why) from error


def _unlinkable(why: str) -> KernelBuildError:
    return KernelBuildError(
        "kernel linking",
        why,
        "remove the cached kernels; if that does not help, this is an "
        "error of lumijit: please report it.",
    )


def can_load() -> bool:
    """Tell whether our own loader puts objects into memory."""
    return loader.is_available() and not settings.no_loader


def link_symbols(
    object_code: bytes, symbols: tuple[str, ...]
) -> tuple[dict[str, int], object]:
    """Put an object into memory: addresses of its symbols, and what keeps it there."""
    hint = ""
    if loader.is_flat(object_code) or can_load():
        try:
            image = loader.load(object_code, symbols)
        except loader.BrokenObject as error:
            raise _unlinkable(f"its object is broken: {error}") from error
        except loader.UnknownObject as error:
            hint = f"({error})"
            log(LogLevel.Debug, "LLVM links a kernel: %s", error)
        else:
            return image.addresses, image
    tracker = _link_with_llvm(object_code, symbols, hint)
    return {symbol: tracker[symbol] for symbol in symbols}, tracker


def link_text(
    name: bytes, ir: str, opt_level: int, symbols: tuple[str, ...]
) -> tuple[dict[str, int], object]:
    """Put functions of ours into memory, from the disk cache if they are there."""
    digest = blake2b(ir.encode(), digest_size=20).digest()
    return cache.stored(
        cache.full_key(name + digest, environment_key()),
        lambda: compile_ir(ir, opt_level),
        lambda code: link_symbols(code, symbols),
    )


def link(object_code: bytes, symbol: str, hash: str) -> Kernel:
    """Put a kernel's object into memory.

    Args:
        object_code: what `compile_ir` returned, now or in an earlier process.
        symbol: the name of the kernel's function.
        hash: what identifies the kernel in messages and in the history.
    """
    addresses, tracker = link_symbols(object_code, (symbol,))
    return Kernel(addresses[symbol], hash, len(object_code), tracker)


def flushes_denormals() -> bool:
    """Tell whether results of kernels below the normal numbers become zero."""
    return machine_is_x86()


def machine_is_x86() -> bool:
    """Tell whether x86's instructions may be named in generated code."""
    return platform.machine().lower() in ("x86_64", "amd64") and sys.maxsize > 2**32
