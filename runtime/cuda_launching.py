"""Launching kernels of NVIDIA's GPUs from native code, as many as there are.

A call of the driver by way of ctypes takes two microseconds in Python, and a launch is
two of them. So what there is to launch is laid down as words, and one native function
enters the context and starts them all; what comes again and again, as a graph.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from ctypes import byref, c_char_p, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any
from weakref import finalize

from lumijit.runtime import cpu, nvptx
from lumijit.runtime.libcuda import check

#: The most blocks of a grid: threads go on behind it.
GRID = 2**31 - 1
_SYMBOLS = "gpu_launch_all", "gpu_relaunch_all", "gpu_write"
# A kernel's own words: the function, threads of a block, how many elements these
# compute (0: what the launch says), and the most blocks. Those of a launch: where its
# slots begin, how many elements there are, and how many of them a block has.
_KERNEL, _LAUNCH = struct.Struct("<4Q"), struct.Struct("<3Q")
_WORDS_BYTES = _KERNEL.size + _LAUNCH.size
_FAILURE_BITS = 32
_Native = Callable[[bytes, int, bytes, int], int]
_TEXT = """\
%node = type { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr }
define internal i32 @lay_out(ptr %words, ptr %data, ptr %numbers, ptr %pointers) {
  %block.place = getelementptr i64, ptr %numbers, i64 1
  %second = getelementptr ptr, ptr %pointers, i64 1
  %third = getelementptr ptr, ptr %pointers, i64 2
  %elements.place = getelementptr i64, ptr %words, i64 2
  %elements = load i64, ptr %elements.place, align 1
  %most.place = getelementptr i64, ptr %words, i64 3
  %most = load i64, ptr %most.place, align 1
  %start.place = getelementptr i64, ptr %words, i64 4
  %start = load i64, ptr %start.place, align 1
  %size.place = getelementptr i64, ptr %words, i64 5
  %size = load i64, ptr %size.place, align 1
  %length.place = getelementptr i64, ptr %words, i64 6
  %length = load i64, ptr %length.place, align 1
  %slots = getelementptr i8, ptr %data, i64 %start
  store i64 %size, ptr %numbers, align 8
  store i64 %length, ptr %block.place, align 8
  %is.told = icmp eq i64 %elements, 0
  %next = select i1 %is.told, ptr %block.place, ptr %slots
  store ptr %numbers, ptr %pointers, align 8
  store ptr %next, ptr %second, align 8
  store ptr %slots, ptr %third, align 8
  %each = select i1 %is.told, i64 %length, i64 %elements
  %last = sub i64 %each, 1
  %upto = add i64 %size, %last
  %wanted = udiv i64 %upto, %each
  %is.few = icmp ult i64 %wanted, %most
  %blocks = select i1 %is.few, i64 %wanted, i64 %most
  %grid = trunc i64 %blocks to i32
  ret i32 %grid
}
define i64 @gpu_launch_all(ptr %jobs, i64 %count, ptr %data, ptr %fixed) {
entry:
  %numbers = alloca [2 x i64], align 8
  %pointers = alloca [3 x ptr], align 8
  %enter = load ptr, ptr %fixed, align 8
  %launch.place = getelementptr ptr, ptr %fixed, i64 1
  %launch = load ptr, ptr %launch.place, align 8
  %context.place = getelementptr ptr, ptr %fixed, i64 2
  %context = load ptr, ptr %context.place, align 8
  %stream.place = getelementptr ptr, ptr %fixed, i64 3
  %stream = load ptr, ptr %stream.place, align 8
  %entered = call i32 %enter(ptr %context)
  %is.there = icmp eq i32 %entered, 0
  br i1 %is.there, label %test, label %failed
test:
  %k = phi i64 [ 0, %entry ], [ %after, %job ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %job, label %done
job:
  %words = getelementptr [7 x i64], ptr %jobs, i64 %k
  %handle = load ptr, ptr %words, align 1
  %threads.place = getelementptr i64, ptr %words, i64 1
  %threads = load i32, ptr %threads.place, align 1
  %grid = call i32 @lay_out(ptr %words, ptr %data, ptr %numbers, ptr %pointers)
  %code = call i32 %launch(ptr %handle, i32 %grid, i32 1, i32 1, i32 %threads, i32 1, \
i32 1, i32 0, ptr %stream, ptr %pointers, ptr null)
  %after = add i64 %k, 1
  %is.started = icmp eq i32 %code, 0
  br i1 %is.started, label %test, label %failed
failed:
  %at = phi i64 [ %count, %entry ], [ %k, %job ]
  %why = phi i32 [ %entered, %entry ], [ %code, %job ]
  %high = shl i64 %at, 32
  %low = zext i32 %why to i64
  %both = or i64 %high, %low
  ret i64 %both
done:
  ret i64 0
}
define i64 @gpu_relaunch_all(ptr %jobs, i64 %count, ptr %data, ptr %fixed) {
entry:
  %numbers = alloca [2 x i64], align 8
  %pointers = alloca [3 x ptr], align 8
  %node = alloca %node, align 8
  store %node zeroinitializer, ptr %node, align 8
  %enter = load ptr, ptr %fixed, align 8
  %change.place = getelementptr ptr, ptr %fixed, i64 1
  %change = load ptr, ptr %change.place, align 8
  %context.place = getelementptr ptr, ptr %fixed, i64 2
  %context = load ptr, ptr %context.place, align 8
  %stream.place = getelementptr ptr, ptr %fixed, i64 3
  %stream = load ptr, ptr %stream.place, align 8
  %launch.place = getelementptr ptr, ptr %fixed, i64 4
  %launch = load ptr, ptr %launch.place, align 8
  %graph.place = getelementptr ptr, ptr %fixed, i64 5
  %graph = load ptr, ptr %graph.place, align 8
  %grid.place = getelementptr %node, ptr %node, i64 0, i32 1
  %y.place = getelementptr %node, ptr %node, i64 0, i32 2
  %z.place = getelementptr %node, ptr %node, i64 0, i32 3
  %threads.to = getelementptr %node, ptr %node, i64 0, i32 4
  %v.place = getelementptr %node, ptr %node, i64 0, i32 5
  %w.place = getelementptr %node, ptr %node, i64 0, i32 6
  %pointers.place = getelementptr %node, ptr %node, i64 0, i32 8
  store i32 1, ptr %y.place, align 4
  store i32 1, ptr %z.place, align 4
  store i32 1, ptr %v.place, align 4
  store i32 1, ptr %w.place, align 4
  store ptr %pointers, ptr %pointers.place, align 8
  %entered = call i32 %enter(ptr %context)
  %is.there = icmp eq i32 %entered, 0
  br i1 %is.there, label %test, label %failed
test:
  %k = phi i64 [ 0, %entry ], [ %after, %job ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %job, label %all
job:
  %words = getelementptr [7 x i64], ptr %jobs, i64 %k
  %handle = load ptr, ptr %words, align 1
  %threads.place = getelementptr i64, ptr %words, i64 1
  %threads = load i32, ptr %threads.place, align 1
  %grid = call i32 @lay_out(ptr %words, ptr %data, ptr %numbers, ptr %pointers)
  store ptr %handle, ptr %node, align 8
  store i32 %grid, ptr %grid.place, align 4
  store i32 %threads, ptr %threads.to, align 4
  %own = add i64 %k, 6
  %own.place = getelementptr ptr, ptr %fixed, i64 %own
  %which = load ptr, ptr %own.place, align 8
  %code = call i32 %change(ptr %graph, ptr %which, ptr %node)
  %after = add i64 %k, 1
  %is.changed = icmp eq i32 %code, 0
  br i1 %is.changed, label %test, label %failed
all:
  %last = call i32 %launch(ptr %graph, ptr %stream)
  %is.last = icmp eq i32 %last, 0
  br i1 %is.last, label %done, label %failed
failed:
  %why = phi i32 [ %entered, %entry ], [ %code, %job ], [ %last, %all ]
  %low = zext i32 %why to i64
  ret i64 %low
done:
  ret i64 0
}
define i64 @gpu_write(ptr %to, i64 %count, ptr %data, ptr %fixed) {
entry:
  %enter = load ptr, ptr %fixed, align 8
  %copy.place = getelementptr ptr, ptr %fixed, i64 1
  %copy = load ptr, ptr %copy.place, align 8
  %context.place = getelementptr ptr, ptr %fixed, i64 2
  %context = load ptr, ptr %context.place, align 8
  %stream.place = getelementptr ptr, ptr %fixed, i64 3
  %stream = load ptr, ptr %stream.place, align 8
  %address = load i64, ptr %to, align 1
  %entered = call i32 %enter(ptr %context)
  %is.there = icmp eq i32 %entered, 0
  br i1 %is.there, label %go, label %done
go:
  %code = call i32 %copy(i64 %address, ptr %data, i64 %count, ptr %stream)
  br label %done
done:
  %found = phi i32 [ %entered, %entry ], [ %code, %go ]
  %wide = zext i32 %found to i64
  ret i64 %wide
}
"""


def words_of(handle: int, threads: int, elements: int, most_blocks: int) -> bytes:
    """Return a kernel's own words."""
    return _KERNEL.pack(handle, threads, elements, most_blocks)


def _called(
    function: _Native, entry: int, jobs: bytes, count: int, data: bytes, place: int
) -> int:
    """Call a native function, which is at an address, too."""
    del entry
    return function(jobs, count, data, place)


# (In compiled modules, C.)
called = _called


class Launcher:
    """What starts kernels in a stream of a context."""

    def __init__(self, driver: Any, context: c_void_p, stream: c_void_p) -> None:
        self._driver, self._order = driver, (context, stream)
        found, self._code = cpu.link_text(b"launching", _TEXT, 1, _SYMBOLS)
        kind = ctypes.CFUNCTYPE(c_uint64, c_char_p, c_uint64, c_char_p, c_void_p)
        self._entries = [found[symbol] for symbol in _SYMBOLS]
        self._functions: list[_Native] = [kind(entry) for entry in self._entries]
        self._fixed = [
            self._words(name) for name in ("cuLaunchKernel", "cuMemcpyHtoDAsync_v2")
        ]
        self._places = [*map(ctypes.addressof, self._fixed)]

    def _words(self, name: str, *others: int | None) -> Any:
        """Return what native code needs besides jobs: how to enter, and a function."""
        functions = (getattr(self._driver, n) for n in ("cuCtxSetCurrent", name))
        # (They live as long as the library does, or who stands for it.)
        places = [ctypes.cast(f, c_void_p).value for f in functions]
        words = *places, *(handle.value for handle in self._order), *others
        return (c_void_p * len(words))(*words)

    def start(self, jobs: bytes, count: int, data: bytes) -> tuple[int, int] | None:
        """Start kernels one after the other.

        Args:
            jobs: for each, its kernel's words and those of `job`.
            count: how many these are.
            data: where their slots lie.

        Returns:
            None, or which one failed (`count`: none was begun) and how.
        """
        function, entry = self._functions[0], self._entries[0]
        done = called(function, entry, jobs, count, data, self._places[0])
        return divmod(done, 1 << _FAILURE_BITS) if done else None

    def start_again(self, graph: Graph, data: bytes) -> int:
        """Start the kernels of a graph with other slots; return how that failed, or 0.

        Then none has been started.
        """
        function, entry = self._functions[1], self._entries[1]
        return called(function, entry, graph.jobs, graph.count, data, graph.place)

    def write(self, address: int, data: bytes) -> int:
        """Copy bytes to the GPU, which the driver has then; return how that failed."""
        function, entry = self._functions[2], self._entries[2]
        to = address.to_bytes(8, "little")
        return called(function, entry, to, len(data), data, self._places[1])

    def graph(self, jobs: bytes) -> Graph:
        """Return what starts kernels again and again, as jobs say."""
        return Graph(self._driver, jobs, self._words)


class Graph:
    """Kernels that are started together, one after the other: a graph of the driver.

    The driver takes 3.3 µs to launch a kernel (H200), and 1.2 for a graph of any size
    and 0.14 for each kernel whose slots change.
    """

    def __init__(self, driver: Any, jobs: bytes, words: Callable[..., Any]) -> None:
        self.jobs, self.count = jobs, len(jobs) // _WORDS_BYTES
        drawn, made = c_void_p(), c_void_p()
        check(driver.cuGraphCreate(byref(drawn), 0), "making a graph")
        nodes: list[c_void_p] = []
        try:
            # What slots are is told when it is launched.
            room = (ctypes.c_uint64 * (nvptx.PARAMETER_BYTES // 8))()
            places = (c_void_p * 3)(*[ctypes.addressof(room)] * 3)
            for k in range(self.count):
                handle, threads, _, _ = _KERNEL.unpack_from(jobs, k * _WORDS_BYTES)
                how = KernelNode(handle, 1, 1, 1, threads, 1, 1, 0, places, None)
                before = (c_void_p * 1)(nodes[-1] if nodes else None)
                nodes.append(c_void_p())
                added = driver.cuGraphAddKernelNode(
                    *(byref(nodes[-1]), drawn, before, c_size_t(k > 0), byref(how))
                )
                check(added, "adding a kernel to a graph")
            done = driver.cuGraphInstantiateWithFlags(byref(made), drawn, c_uint64(0))
            check(done, "making a graph ready")
        finally:
            driver.cuGraphDestroy(drawn)
        # (If it is running, the driver lets it end first.)
        finalize(self, driver.cuGraphExecDestroy, made).atexit = False
        launch = ctypes.cast(driver.cuGraphLaunch, c_void_p).value
        self._fixed = words(
            "cuGraphExecKernelNodeSetParams",
            *(launch, made.value, *(node.value for node in nodes)),
        )
        self.place = ctypes.addressof(self._fixed)


class KernelNode(ctypes.Structure):
    """How a kernel is launched (cuda.h, CUDA_KERNEL_NODE_PARAMS_v1)."""

    _fields_ = (
        ("function", c_void_p),
        *((name, c_uint) for name in ("grid", "y", "z", "threads", "v", "w", "shared")),
        ("parameters", ctypes.POINTER(c_void_p)),
        ("extra", c_void_p),
    )


#: Returns a launch's words: where its slots begin, its elements, those of a block.
job: Callable[[int, int, int], bytes] = _LAUNCH.pack
