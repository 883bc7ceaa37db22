"""Launching kernels of NVIDIA's GPUs from native code, as many as there are.

A call of the driver by way of ctypes takes two microseconds in Python, and a launch is
two of them. So what there is to launch is laid down as words, and one native function
enters the context and starts them all.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from ctypes import c_char_p, c_uint64, c_void_p
from typing import Any

from lumijit.runtime import cache, cpu
from lumijit.runtime.digest import blake2b

#: The most blocks of a grid: threads go on behind it.
GRID = 2**31 - 1
_SYMBOL = "gpu_launch_all"
# A kernel's own words: the function, threads of a block, how many elements these
# compute (0: what the launch says), and the most blocks. Those of a launch: where its
# slots begin, how many elements there are, and how many of them a block has.
_KERNEL, _LAUNCH = struct.Struct("<4Q"), struct.Struct("<3Q")
_FAILURE_BITS = 32
_TEXT = """\
define i64 @gpu_launch_all(ptr %jobs, i64 %count, ptr %data, ptr %fixed) {
entry:
  %numbers = alloca [2 x i64], align 8
  %pointers = alloca [3 x ptr], align 8
  %block.place = getelementptr i64, ptr %numbers, i64 1
  %second = getelementptr ptr, ptr %pointers, i64 1
  %third = getelementptr ptr, ptr %pointers, i64 2
  %enter = load ptr, ptr %fixed, align 8
  %launch.place = getelementptr ptr, ptr %fixed, i64 1
  %launch = load ptr, ptr %launch.place, align 8
  %context.place = getelementptr ptr, ptr %fixed, i64 2
  %context = load ptr, ptr %context.place, align 8
  %stream.place = getelementptr ptr, ptr %fixed, i64 3
  %stream = load ptr, ptr %stream.place, align 8
  store ptr %numbers, ptr %pointers, align 8
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
  store ptr %next, ptr %second, align 8
  store ptr %slots, ptr %third, align 8
  %each = select i1 %is.told, i64 %length, i64 %elements
  %last = sub i64 %each, 1
  %upto = add i64 %size, %last
  %wanted = udiv i64 %upto, %each
  %is.few = icmp ult i64 %wanted, %most
  %blocks = select i1 %is.few, i64 %wanted, i64 %most
  %grid = trunc i64 %blocks to i32
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
"""


def words_of(handle: int, threads: int, elements: int, most_blocks: int) -> bytes:
    """Return a kernel's own words."""
    return _KERNEL.pack(handle, threads, elements, most_blocks)


class Launcher:
    """What starts kernels in a stream of a context."""

    def __init__(self, driver: Any, context: c_void_p, stream: c_void_p) -> None:
        functions = driver.cuCtxSetCurrent, driver.cuLaunchKernel
        # (They live as long as the library does, or who stands for it.)
        places = [ctypes.cast(f, c_void_p).value for f in functions]
        self._kept = functions
        self._fixed = (c_void_p * 4)(*places, context, stream)
        digest = blake2b(_TEXT.encode(), digest_size=20).digest()
        key = cache.full_key(b"launching" + digest, cpu.environment_key())
        found, self._code = cpu.link_stored(
            key, lambda: cpu.compile_ir(_TEXT, opt_level=0), (_SYMBOL,)
        )
        kinds = c_char_p, c_uint64, c_char_p, c_void_p
        start = ctypes.CFUNCTYPE(c_uint64, *kinds)(found[_SYMBOL])
        self._start: Callable[..., int] = start

    def start(self, jobs: bytes, count: int, data: bytes) -> tuple[int, int] | None:
        """Start kernels one after the other.

        Args:
            jobs: for each, its kernel's words and those of `job`.
            count: how many these are.
            data: where their slots lie.

        Returns:
            None, or which one failed (`count`: none was begun) and how.
        """
        done = self._start(jobs, count, data, self._fixed)
        return divmod(done, 1 << _FAILURE_BITS) if done else None


#: Returns a launch's words: where its slots begin, its elements, those of a block.
job: Callable[[int, int, int], bytes] = _LAUNCH.pack
