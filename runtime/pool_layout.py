"""Where the worker pool's words lie in memory.

Owns the layout that Python (`workers`, `pool`) and the native code (`pool_ir`)
agree on: a header, then a ring of job records. Offsets are in bytes.
"""

from __future__ import annotations

from typing import Final

RING: Final = 1024
RECORD_BYTES: Final = 128
HEADER_BYTES: Final = 512
POOL_BYTES: Final = HEADER_BYTES + RING * RECORD_BYTES

# Header: words that are written by different threads lie on lines of their own.
SUBMITTED: Final = 0
COMPLETED: Final = 64
WAKE: Final = 128  # i32, event counter
SLEEPERS: Final = 132  # i32
SPINNERS: Final = 136  # i32
ACTIVE: Final = 192  # i32, executors that hold a token
DONE: Final = 256  # i32, event counter
WAITERS: Final = 260  # i32
CANCEL: Final = 320  # i32, what kernels may poll
CANCEL_UP_TO: Final = 328  # i64, the last ticket of the cancelled jobs
LIMIT: Final = 384  # i32, executors at once; workers of a higher index leave
MAX_SPINNERS: Final = 388  # i32
SPIN_NS: Final = 392  # i64, how long who is idle spins
SYSCALL: Final = 400  # address of syscall(), 0 where there is no futex
CLOCK: Final = 408  # address of clock_gettime()
LONG_SPIN_NS: Final = 416  # i64, how long if jobs come soon after each other
PATIENCE_NS: Final = 424  # i64, which of the two it is now

# What comes before the arguments of a job that is run at once.
CALL: Final = "<2Qq"
CALL_FN: Final = 8
CALL_SIZE: Final = 16
CALL_ARGS: Final = 24

# Record
FN: Final = 0
ARGS: Final = 8
SIZE: Final = 16
BLOCK: Final = 24
BLOCKS: Final = 32
BARRIER: Final = 40
SLOTS: Final = 48  # i32: executors of this index and above must not take part
HELPABLE: Final = 52  # i32
START_NS: Final = 56
CLAIM: Final = 64  # ticket << 32 | next block
REMAINING: Final = 72
FINISHED: Final = 80  # the ticket, once done
END_NS: Final = 88
