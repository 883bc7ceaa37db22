"""The CPU engine: the processor, compiling, linking in both ways, warm starts."""

from __future__ import annotations

import ctypes
import gc
import math
import re
import struct
from pathlib import Path

import pytest

from lumijit.runtime import cache, cpu, errors, loader
from lumijit.runtime.settings import settings
from tests.runtime.support import SAXPY, run_script

# args[1] = f(args[0]) for doubles; calls a library function and reads constants
LIBRARY = """
@table = private constant [4 x double] [double 1.0, double 2.0, double 4.0, double 8.0]
declare double @fmod(double, double)
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
  %x = load double, ptr %args
  %r = call double @fmod(double %x, double 7.5)
  %i = fptosi double %r to i64
  %k = and i64 %i, 3
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 %k
  %c = load double, ptr %at
  %y = fmul double %r, %c
  %out = getelementptr double, ptr %args, i64 1
  store double %y, ptr %out
  ret void
}
"""

SWITCH = """
define i64 @pick(i64 %x) noinline {
  switch i64 %x, label %d [ i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %e
    i64 4, label %f ]
a:
  ret i64 10
b:
  ret i64 77
c:
  ret i64 -4
e:
  ret i64 1000
f:
  ret i64 5
d:
  ret i64 0
}
@pointers = internal constant [2 x ptr] [ptr @pick, ptr @kernel]
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
  %at = getelementptr [2 x ptr], ptr @pointers, i64 0, i64 %begin
  %f = load ptr, ptr %at
  %x = load i64, ptr %args
  %y = call i64 %f(i64 %x)
  %out = getelementptr i64, ptr %args, i64 1
  store i64 %y, ptr %out
  ret void
}
"""

UNKNOWN_FUNCTION = """
declare void @no_such_function_anywhere()
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
  call void @no_such_function_anywhere()
  ret void
}
"""

VARIABLE = """
@state = internal global i64 5
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
  %old = atomicrmw add ptr @state, i64 1 seq_cst
  store i64 %old, ptr %args
  ret void
}
"""


def call(kernel: cpu.Kernel, layout: str, *values: float) -> tuple[float, ...]:
    memory = ctypes.create_string_buffer(struct.pack(layout, *values))
    prototype = ctypes.CFUNCTYPE(
        None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
    )
    prototype(kernel.address)(0, 1, 0, ctypes.addressof(memory))
    return struct.unpack(layout, memory.raw[: struct.calcsize(layout)])


@pytest.fixture(params=["own loader", "LLVM"])
def _both_linkers(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "no_loader", request.param == "LLVM")


@pytest.mark.usefixtures("_both_linkers")
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_library_functions_and_constants(level: int) -> None:
    kernel = cpu.link(cpu.compile_ir(LIBRARY, level), "kernel", "h")
    for x in (0.5, 3.25, 29.0, 1e9 + 0.25):
        rest = math.fmod(x, 7.5)
        expected = rest * (1.0, 2.0, 4.0, 8.0)[int(rest) & 3]
        assert call(kernel, "2d", x, 0.0)[1] == expected


@pytest.mark.usefixtures("_both_linkers")
def test_jump_tables_and_tables_of_functions() -> None:
    kernel = cpu.link(cpu.compile_ir(SWITCH), "kernel", "h")
    found = [call(kernel, "2q", x, -1)[1] for x in range(6)]
    assert found == [10, 77, -4, 1000, 5, 0]


def test_what_needs_only_itself_is_flattened() -> None:
    calls_itself = LIBRARY.replace(
        "declare double @fmod(double, double)",
        """
define internal double @fmod(double %a, double %b) noinline {
  %s = fsub double %a, %b
  ret double %s
}""",
    )
    code = loader.flattened(cpu.compile_ir(calls_itself))
    assert loader.is_flat(code)
    kernel = cpu.link(code, "kernel", "h")
    assert call(kernel, "2d", 10.25, 0.0)[1] == 2.75 * 4
    for length in range(8, len(code), 97):
        with pytest.raises(loader.BrokenObject):
            loader.load(code[:length], ("kernel",))
    with pytest.raises(loader.BrokenObject, match="one function"):
        loader.load(code, ("kernel", "other"))
    with pytest.raises(loader.BrokenObject, match="truncated"):
        loader.load(code[:16] + b"\xff" * 8 + code[24:], ("kernel",))


@pytest.mark.parametrize("ir", [LIBRARY, SWITCH, VARIABLE])
def test_what_needs_more_stays_an_object(ir: str) -> None:
    code = cpu.compile_ir(ir)
    assert loader.flattened(code) == code
    assert loader.flattened(code[:100]) == code[:100]


def test_variables_are_left_to_llvm() -> None:
    code = cpu.compile_ir(VARIABLE)
    with pytest.raises(loader.UnknownObject, match="variables of its own"):
        loader.load(code, ("kernel",))
    kernel = cpu.link(code, "kernel", "h")
    assert [call(kernel, "q", 0)[0] for _ in range(3)] == [5, 6, 7]


def test_kernel_facts() -> None:
    code = cpu.compile_ir(SAXPY)
    kernel = cpu.link(code, "kernel", "1234")
    assert kernel.hash == "1234"
    assert kernel.size_bytes == len(code)
    kernel.operation_count = 3
    assert repr(kernel) == "Kernel(1234, 3 operations)"


def executable_bytes() -> int:
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode, _, _, inode = line.split()[:5]
        if "x" in mode and inode == "0":
            start, end = (int(part, 16) for part in span.split("-"))
            total += end - start
    return total


def test_kernels_are_unmapped_with_the_last_reference() -> None:
    gc.collect()
    code = cpu.compile_ir(SAXPY)
    before = executable_bytes()
    kernels = [cpu.link(code, "kernel", "h") for _ in range(20)]
    assert executable_bytes() >= before + 20 * 4096
    del kernels
    gc.collect()
    assert executable_bytes() == before


def test_memory_is_never_writable_and_executable() -> None:
    kernel = cpu.link(cpu.compile_ir(SAXPY), "kernel", "h")
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode = line.split()[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= kernel.address < end:
            assert mode.startswith("r-x")


def test_bad_ir_names_the_line() -> None:
    bad = SAXPY.replace("fmul <32 x float> %x", "fmul <16 x float> %x")
    with pytest.raises(
        errors.KernelBuildError,
        match=r"LLVM refuses the generated code: line 17: .*: '%scaled = fmul <16",
    ):
        cpu.compile_ir(bad)


def test_ir_that_only_the_verifier_refuses() -> None:
    bad = SAXPY.replace("%next, %head ]", "%next, %exit ]")
    with pytest.raises(errors.KernelBuildError, match="PHI node entries do not match"):
        cpu.compile_ir(bad)


def test_a_missing_symbol_is_a_build_error() -> None:
    code = cpu.compile_ir(SAXPY)
    with pytest.raises(errors.KernelBuildError, match="LLVM can't link it"):
        cpu.link(code, "other", "h")


def test_a_missing_library_function_is_a_build_error() -> None:
    code = cpu.compile_ir(UNKNOWN_FUNCTION)
    with pytest.raises(errors.KernelBuildError, match="no_such_function_anywhere"):
        cpu.link(code, "kernel", "h")


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"x" * 1000])
def test_garbage_is_no_object(code: bytes) -> None:
    with pytest.raises((loader.UnknownObject, loader.BrokenObject)):
        loader.load(code, ("kernel",))


def test_truncated_objects_are_no_objects() -> None:
    code = cpu.compile_ir(LIBRARY)
    for length in range(0, len(code) - 64, 97):
        with pytest.raises((loader.UnknownObject, loader.BrokenObject)):
            loader.load(code[:length], ("kernel",))


def test_host() -> None:
    host = cpu.host()
    flags = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    known = flags[1].split() if flags else []
    assert host.lanes_f32 in (4, 8, 16)
    assert (host.lanes_f32 > 4) == ("avx" in known)
    assert host.has_avx512 == (host.lanes_f32 == 16)
    if host.has_avx512:
        assert host.features.endswith(",-prefer-256-bit")


@pytest.mark.parametrize(
    ("features", "lanes"),
    [
        ("+sse2,-avx,-avx512f", 4),
        ("+avx,-avx512f", 8),
        ("+avx,+avx512f,-avx512vl", 8),
        ("+avx,+avx2,+avx512f,+avx512vl,+avx512bw,+avx512dq", 16),
    ],
)
def test_lanes(features: str, lanes: int) -> None:
    assert cpu.HostInfo("name", features, "x86_64").lanes_f32 == lanes


def test_model_numbers_name_the_processor() -> None:
    known = cpu._best_name("rocketlake", "GenuineIntel\n6\n143\n8\nfpu")
    assert known == "sapphirerapids"
    # A virtual machine may tell of another model than there is.
    masked = "GenuineIntel\n6\n167\n1\nfpu avx512f amx_tile amx_int8"
    assert cpu._best_name("rocketlake", masked) == "sapphirerapids"
    assert cpu._best_name("graniterapids", masked) == "graniterapids"
    for processor in ("GenuineIntel\n6\n1\n1\n", "arm64", "", "a\nb\nc"):
        assert cpu._best_name("reported", processor) == "reported"


def test_a_warm_start_needs_no_llvm() -> None:
    code = """
        key = cache.full_key("saxpy", cpu.environment_key())
        found = cache.lookup(key)
        code = found[0] if found else cpu.compile_ir(SAXPY)
        if not found:
            cache.store(key, code, {})
        kernel = cpu.link(code, "kernel", "h")
        counts = struct.pack("3Q", *[buffers.allocate(64).address] * 3)
        assert workers.run_inline(kernel.address, counts, 1)
        workers.wait(workers.submit(kernel.address, counts, 1, 1))
        print("llvmlite.binding" in sys.modules)
    """
    code = "        from lumijit.runtime import cache\n" + code
    assert run_script(code).stdout in ("True\n", "False\n")
    assert run_script(code).stdout == "False\n"


def test_a_foreign_description_of_the_processor_is_replaced(
    cache_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cache, "lookup", lambda key: (b"", {"nonsense": 1}))
    cpu.host.cache_clear()
    assert cpu.host().name
    assert "it describes no processor" in capsys.readouterr().err


def test_another_processor_may_be_chosen() -> None:
    result = run_script(
        """
        print(cpu.host().name)
        kernel = build(SAXPY)
        """,
        LUMIJIT_CPU="x86-64-v2",
    )
    assert result.stdout == "x86-64-v2\n"


def test_features_may_be_left_unused() -> None:
    script = """
        host = cpu.host()
        print(host.lanes_f32, host.has_avx512)
        kernel = build(SAXPY)
    """
    result = run_script(script, LUMIJIT_CPU_WITHOUT="avx*")
    assert result.stdout == "4 False\n"


@pytest.mark.parametrize(
    ("name", "without", "is_fast"),
    [
        ("sapphirerapids", "", True),
        ("sapphirerapids", "fast-gather", False),
        ("znver4", "", False),
        ("skylake-avx512", "", False),
    ],
)
def test_gathers_are_fast_by_the_processors_name(
    name: str, without: str, is_fast: bool
) -> None:
    script = """
        print(cpu.host().has("fast-gather"))
        kernel = build(SAXPY)
    """
    result = run_script(script, LUMIJIT_CPU=name, LUMIJIT_CPU_WITHOUT=without)
    assert result.stdout == f"{is_fast}\n"


def test_left_features_take_along_what_needs_them() -> None:
    features = "+sse2,+avx,+avx2,+fma,+avx512f,-avx512er,+f16c"
    left = cpu._without(features, "avx, avx512*")
    assert left == "+sse2,+avx2,+fma,+f16c,-avx,-avx512f,-avx512er"
    host = cpu.HostInfo("name", left, "x86_64")
    assert host.lanes_f32 == 4
    most = "+avx2,+avx512f,+avx512vl,+avx512bw,+avx512dq"
    assert not cpu.HostInfo("name", most, "x86_64").has_avx512
    assert cpu.HostInfo("name", f"{most},+avx", "x86_64").has_avx512


def test_unknown_features_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cpu._without("+sse2,-avx", "avx7,avx,") == "+sse2,-avx"
    assert "no processor feature is called 'avx7'" in capsys.readouterr().err


def test_features_are_part_of_the_key() -> None:
    script = "print(cpu.environment_key())"
    keys = [run_script(script, LUMIJIT_CPU_WITHOUT=w).stdout for w in ("", "sse4*")]
    assert keys[0] != keys[1]


def test_ctrl_c_is_answered_while_llvm_is_busy(tmp_path: Path) -> None:
    (tmp_path / "fibonacci.py").write_text(
        "import lumijit as dr\n"
        "@dr.syntax\n"
        "def fib(n, depth):\n"
        "    result = n\n"
        "    if depth > 0:\n"
        "        if n >= 2:\n"
        "            result = fib(n - 1, depth - 1) + fib(n - 2, depth - 1)\n"
        "    return result\n"
    )
    script = """
        import sys
        sys.path.insert(0, FOLDER)
        import lumijit as dr
        from fibonacci import fib
        from lumijit.llvm import UInt32

        def interrupt():
            # Only long texts are built in a thread of their own.
            while not any(t.name == "lumijit-build" for t in threading.enumerate()):
                time.sleep(0.001)
            while cpu.build_lock.acquire(blocking=False):
                cpu.build_lock.release()
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        found = fib(UInt32(0, 1, 2, 6), 11)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            dr.eval(found)
        except KeyboardInterrupt:
            assert not cpu.build_lock.acquire(blocking=False), "LLVM isn't at work"
        else:
            raise SystemExit("not interrupted")
        print(found)
        assert cpu.build_lock.acquire(blocking=False)
    """
    script = script.replace("FOLDER", repr(str(tmp_path)))
    result = run_script(script, LUMIJIT_CACHE_DIR=str(tmp_path))
    assert result.stdout == "[0, 1, 1, 8]\n"


def test_many_sums_wait_for_their_last_term_once() -> None:
    """In each round, what the rounds before computed is added last."""
    ty = "<8 x i32>"
    lines = []
    for k in range(40):
        last = f"%s{k}"
        lines += [
            f"  %a{k} = add {ty} {last}, %x",
            f"  %b{k} = add {ty} %a{k}, %y",
            f"  %c{k} = add {ty} %b{k}, splat (i32 {k + 3})",
            f"  %s{k + 1} = mul {ty} %c{k}, %c{k}",
        ]
    head = f"define {ty} @rounds({ty} %s0, {ty} %x, {ty} %y) {{"
    ir = "\n".join([head, *lines, f"  ret {ty} %s40", "}"])

    machine = cpu._target_machine(2)
    with cpu._llvm().parse_assembly(ir) as module:
        cpu.order_sums(module, machine)
        ordered = str(module)
        found = machine.emit_object(module)
        assert cpu.compile_ir(ir) == found
    sums = [line for line in ordered.splitlines() if " = add " in line]
    waiting = [line for line in sums if re.search(r"%s\d+", line)]
    assert len(waiting) == 40
    # The result is squared next, so nothing else is added to it.
    results = [line.split()[0] for line in waiting]
    assert not any(re.search(rf"{r}\b", s.split("=")[1]) for r in results for s in sums)


def masked(lanes: int, mask: str = "") -> str:
    """Return code that computes with masks of so many lanes."""
    ty, bits = f"<{lanes} x float>", f"<{lanes} x i1>"
    return "\n".join(
        [
            f"define {ty} @masked({ty} %x, {ty} %y, ptr %p) {{",
            f"  %a = fcmp olt {ty} %x, %y",
            f"  %b = fcmp ogt {ty} %x, zeroinitializer",
            f"  %c = and {bits} %a, %b",
            f"  %d = xor {bits} %c, splat (i1 true)",
            f"  %e = select {bits} %c, {ty} %x, {ty} %y",
            f"  %f = fadd {ty} %e, %y",
            mask,
            f"  %g = select {bits} %d, {ty} %f, {ty} %x",
            f"  ret {ty} %g",
            "}",
        ]
    )


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_masks_of_several_registers_are_not_packed(lanes: int) -> None:
    if not cpu.host().has_avx512:
        pytest.skip("the processor has no mask registers")
    machine = cpu._target_machine(2, cpu.unused_features(masked(lanes)))
    with cpu._llvm().parse_assembly(masked(lanes)) as module:
        code = machine.emit_assembly(module)
        assert cpu.compile_ir(masked(lanes)) == machine.emit_object(module)
    assert not re.search("kunpck|kshift", code)


@pytest.mark.parametrize(
    "line",
    [
        "%n = bitcast <32 x i1> %d to i32",
        "%n = zext <32 x i1> %d to <32 x i8>",
        "%n = fptrunc <32 x float> %f to <32 x half>",
    ],
)
def test_narrow_numbers_keep_their_instructions(line: str) -> None:
    assert cpu.unused_features(masked(32)) == ",-avx512bw"
    assert cpu.unused_features(masked(32, f"  {line}")) == ""
    assert cpu.unused_features(masked(16)) == ""


def test_whether_any_lane_is_set_needs_no_packed_mask() -> None:
    test = "  %n = bitcast <32 x i1> %d to i32\n  %any = icmp ne i32 %n, 0"
    assert cpu.unused_features(masked(32, test)) == ",-avx512bw"
