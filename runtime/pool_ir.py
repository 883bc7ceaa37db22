"""The worker pool's native part, as LLVM IR text.

Owns the memory layout of the pool and the code that runs without Python: handing
out blocks of jobs, waiting and waking. `workers` owns the threads and the API.

How it works. Jobs have numbers (tickets) 1, 2, … and live in a ring of records;
`submitted` is the last one published, `completed` the last one before which all
are done. A job may start when all jobs below its barrier are done. Executors
claim blocks by compare-and-swap on a word that holds the ticket and the next
block, so that a stale view of a recycled record can claim nothing. At most
`limit` executors are active at once, be they workers or a thread that waits for
a result and helps. Idle workers spin shortly (few at a time), then sleep on the
event counter `wake`; waiting threads sleep on the counter `done`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
SPIN_NS: Final = 392  # i64
SYSCALL: Final = 400  # address of syscall(), 0 where there is no futex
CLOCK: Final = 408  # address of clock_gettime()

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


class Platform(NamedTuple):
    """What differs between the machines that the pool runs on."""

    pause: str
    futex_number: int
    monotonic_clock: int


def platform_for(system: str, machine: str) -> Platform:
    """Return the constants of an operating system and a processor."""
    machine = machine.lower()
    if machine in ("x86_64", "amd64"):
        pause, futex = "call void @llvm.x86.sse2.pause()", 202
    elif machine in ("aarch64", "arm64"):
        pause, futex = "call void @llvm.aarch64.hint(i32 1)", 98
    else:
        pause, futex = "", 0
    return Platform(pause, futex, 6 if system == "darwin" else 1)


SYMBOLS: Final = (
    "pool_worker",
    "pool_drain",
    "pool_submit",
    "pool_wait",
    "pool_invoke",
    "pool_poke",
    "pool_cancel",
)


_SYSTEM: Final = """
{pause_declaration}
define internal void @pause() {{
  {pause}
  ret void
}}

; Nanoseconds of the monotonic clock; 0 where there is none.
define internal i64 @now(ptr %pool) {{
  %at = getelementptr i8, ptr %pool, i64 {CLOCK}
  %clock = load ptr, ptr %at
  %missing = icmp eq ptr %clock, null
  br i1 %missing, label %none, label %read
read:
  %time = alloca {{ i64, i64 }}
  %status = call i32 %clock(i32 {monotonic_clock}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %scaled = mul i64 %seconds, 1000000000
  %ns = add i64 %scaled, %rest
  ret i64 %ns
none:
  ret i64 0
}}

; Sleep while the word has this value; a timeout of 0 means for ever.
define internal void @sleep(ptr %pool, ptr %word, i32 %value, i64 %timeout) {{
entry:
  %at = getelementptr i8, ptr %pool, i64 {SYSCALL}
  %syscall = load ptr, ptr %at
  %missing = icmp eq ptr %syscall, null
  br i1 %missing, label %out, label %enter
enter:
  %time = alloca {{ i64, i64 }}
  %seconds = udiv i64 %timeout, 1000000000
  %rest = urem i64 %timeout, 1000000000
  store i64 %seconds, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  store i64 %rest, ptr %rest.at
  %forever = icmp eq i64 %timeout, 0
  %limit = select i1 %forever, ptr null, ptr %time
  %status = call i64 (i64, ...) %syscall(i64 {futex_number}, ptr %word, i32 128,
    i32 %value, ptr %limit, ptr null, i32 0)
  br label %out
out:
  ret void
}}

define internal void @rouse(ptr %pool, ptr %word, i32 %count) {{
entry:
  %at = getelementptr i8, ptr %pool, i64 {SYSCALL}
  %syscall = load ptr, ptr %at
  %missing = icmp eq ptr %syscall, null
  br i1 %missing, label %out, label %enter
enter:
  %status = call i64 (i64, ...) %syscall(i64 {futex_number}, ptr %word, i32 129,
    i32 %count, ptr null, ptr null, i32 0)
  br label %out
out:
  ret void
}}

define internal ptr @record(ptr %pool, i64 %ticket) {{
  %slot = and i64 %ticket, {ring_mask}
  %scaled = mul i64 %slot, {RECORD_BYTES}
  %offset = add i64 %scaled, {HEADER_BYTES}
  %at = getelementptr i8, ptr %pool, i64 %offset
  ret ptr %at
}}

; Announce an event to the workers and wake up to `count` that sleep.
define internal void @announce(ptr %pool, i32 %count) {{
entry:
  %wake = getelementptr i8, ptr %pool, i64 {WAKE}
  %old = atomicrmw add ptr %wake, i32 1 seq_cst
  %sleepers.at = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %some = icmp sgt i32 %sleepers, 0
  %wanted = icmp sgt i32 %count, 0
  %both = and i1 %some, %wanted
  br i1 %both, label %call, label %out
call:
  call void @rouse(ptr %pool, ptr %wake, i32 %count)
  br label %out
out:
  ret void
}}

define internal i1 @is_pending(ptr %pool) {{
  %completed.at = getelementptr i8, ptr %pool, i64 {COMPLETED}
  %completed = load atomic i64, ptr %completed.at seq_cst, align 8
  %submitted = load atomic i64, ptr %pool seq_cst, align 8
  %more = icmp slt i64 %completed, %submitted
  ret i1 %more
}}
"""

_EXECUTE: Final = """
; The last block of a job has been run: advance `completed`, tell who waits.
define internal void @finish(ptr %pool, ptr %record, i64 %ticket) {{
entry:
  %end = call i64 @now(ptr %pool)
  %end.at = getelementptr i8, ptr %record, i64 {END_NS}
  store atomic i64 %end, ptr %end.at release, align 8
  %finished.at = getelementptr i8, ptr %record, i64 {FINISHED}
  store atomic i64 %ticket, ptr %finished.at seq_cst, align 8
  %completed.at = getelementptr i8, ptr %pool, i64 {COMPLETED}
  br label %advance
advance:
  %completed = load atomic i64, ptr %completed.at seq_cst, align 8
  %submitted = load atomic i64, ptr %pool seq_cst, align 8
  %more = icmp slt i64 %completed, %submitted
  br i1 %more, label %look, label %tell
look:
  %next = add i64 %completed, 1
  %other = call ptr @record(ptr %pool, i64 %next)
  %other.at = getelementptr i8, ptr %other, i64 {FINISHED}
  %mark = load atomic i64, ptr %other.at seq_cst, align 8
  %is_done = icmp eq i64 %mark, %next
  br i1 %is_done, label %step, label %tell
step:
  %swap = cmpxchg ptr %completed.at, i64 %completed, i64 %next seq_cst seq_cst
  br label %advance
tell:
  %waiters.at = getelementptr i8, ptr %pool, i64 {WAITERS}
  %waiters = load atomic i32, ptr %waiters.at seq_cst, align 4
  %someone = icmp sgt i32 %waiters, 0
  br i1 %someone, label %notify, label %onward
notify:
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %count = atomicrmw add ptr %done, i32 1 seq_cst
  call void @rouse(ptr %pool, ptr %done, i32 2147483647)
  br label %onward
onward:
  ; This thread goes on with the next job, and spinning ones see the event;
  ; sleeping ones are recruited when that job proves to have work for them.
  br i1 %more, label %call, label %out
call:
  call void @announce(ptr %pool, i32 0)
  br label %out
out:
  ret void
}}

; After a block: wake a sleeping worker if there is another block to run and fewer
; executors are active than may be. (Waking all at submission would let workers
; compete for the cores with the thread that is about to wait and to help.)
define internal void @recruit(ptr %pool, i64 %ticket, ptr %record) {{
entry:
  %sleepers.at = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %some = icmp sgt i32 %sleepers, 0
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %active = load atomic i32, ptr %active.at seq_cst, align 4
  %limit.at = getelementptr i8, ptr %pool, i64 {LIMIT}
  %limit = load atomic i32, ptr %limit.at acquire, align 4
  %room = icmp slt i32 %active, %limit
  %both = and i1 %some, %room
  br i1 %both, label %look, label %out
look:
  %claim.at = getelementptr i8, ptr %record, i64 {CLAIM}
  %claim = load atomic i64, ptr %claim.at seq_cst, align 8
  %block = and i64 %claim, 4294967295
  %blocks.at = getelementptr i8, ptr %record, i64 {BLOCKS}
  %blocks = load atomic i64, ptr %blocks.at acquire, align 8
  %is_left = icmp ult i64 %block, %blocks
  br i1 %is_left, label %call, label %next
next:
  %submitted = load atomic i64, ptr %pool seq_cst, align 8
  %more = icmp slt i64 %ticket, %submitted
  br i1 %more, label %other, label %out
other:
  %after = add i64 %ticket, 1
  %other.record = call ptr @record(ptr %pool, i64 %after)
  %barrier.at = getelementptr i8, ptr %other.record, i64 {BARRIER}
  %barrier = load atomic i64, ptr %barrier.at acquire, align 8
  %is_parallel = icmp slt i64 %barrier, %ticket
  br i1 %is_parallel, label %call, label %out
call:
  call void @announce(ptr %pool, i32 1)
  br label %out
out:
  ret void
}}

; Run one block of any job that may run; 0 if there is none.
define internal i1 @run_block(ptr %pool, i32 %index, i1 %helping) {{
entry:
  %completed.at = getelementptr i8, ptr %pool, i64 {COMPLETED}
  %completed = load atomic i64, ptr %completed.at seq_cst, align 8
  %submitted = load atomic i64, ptr %pool seq_cst, align 8
  br label %scan
scan:
  %before = phi i64 [ %completed, %entry ], [ %ticket, %skip ]
  %ticket = add i64 %before, 1
  %exists = icmp sle i64 %ticket, %submitted
  br i1 %exists, label %look, label %none
look:
  %record = call ptr @record(ptr %pool, i64 %ticket)
  %claim.at = getelementptr i8, ptr %record, i64 {CLAIM}
  br label %claim
claim:
  %claim.old = load atomic i64, ptr %claim.at seq_cst, align 8
  %tag = lshr i64 %claim.old, 32
  %tag.wanted = and i64 %ticket, 4294967295
  %is_current = icmp eq i64 %tag, %tag.wanted
  br i1 %is_current, label %started, label %none
started:
  %barrier.at = getelementptr i8, ptr %record, i64 {BARRIER}
  %barrier = load atomic i64, ptr %barrier.at acquire, align 8
  %is_early = icmp sgt i64 %barrier, %completed
  br i1 %is_early, label %none, label %allowed
allowed:
  %slots.at = getelementptr i8, ptr %record, i64 {SLOTS}
  %slots = load atomic i32, ptr %slots.at acquire, align 4
  %is_outside = icmp uge i32 %index, %slots
  %helpable.at = getelementptr i8, ptr %record, i64 {HELPABLE}
  %helpable = load atomic i32, ptr %helpable.at acquire, align 4
  %is_long = icmp eq i32 %helpable, 0
  %unhelpable = and i1 %is_long, %helping
  %unfit = or i1 %is_outside, %unhelpable
  br i1 %unfit, label %skip, label %available
available:
  %block = and i64 %claim.old, 4294967295
  %blocks.at = getelementptr i8, ptr %record, i64 {BLOCKS}
  %blocks = load atomic i64, ptr %blocks.at acquire, align 8
  %is_left = icmp ult i64 %block, %blocks
  br i1 %is_left, label %take, label %skip
skip:
  br label %scan
take:
  %fn.at = getelementptr i8, ptr %record, i64 {FN}
  %fn.word = load atomic i64, ptr %fn.at acquire, align 8
  %fn = inttoptr i64 %fn.word to ptr
  %args.at = getelementptr i8, ptr %record, i64 {ARGS}
  %args.word = load atomic i64, ptr %args.at acquire, align 8
  %args = inttoptr i64 %args.word to ptr
  %size.at = getelementptr i8, ptr %record, i64 {SIZE}
  %size = load atomic i64, ptr %size.at acquire, align 8
  %length.at = getelementptr i8, ptr %record, i64 {BLOCK}
  %length = load atomic i64, ptr %length.at acquire, align 8
  %claim.new = add i64 %claim.old, 1
  %swap = cmpxchg ptr %claim.at, i64 %claim.old, i64 %claim.new seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %won, label %own, label %claim
own:
  %is_first = icmp eq i64 %block, 0
  br i1 %is_first, label %stamp, label %check
stamp:
  %start = call i64 @now(ptr %pool)
  %start.at = getelementptr i8, ptr %record, i64 {START_NS}
  store atomic i64 %start, ptr %start.at release, align 8
  br label %check
check:
  %cancel.at = getelementptr i8, ptr %pool, i64 {CANCEL}
  %cancel = load atomic i32, ptr %cancel.at seq_cst, align 4
  %is_cancelled = icmp ne i32 %cancel, 0
  br i1 %is_cancelled, label %judge, label %run
judge:
  %last.at = getelementptr i8, ptr %pool, i64 {CANCEL_UP_TO}
  %last = load atomic i64, ptr %last.at seq_cst, align 8
  %is_meant = icmp sle i64 %ticket, %last
  br i1 %is_meant, label %ran, label %clear
clear:
  ; A later job has started, so all the cancelled ones have ended.
  store atomic i32 0, ptr %cancel.at seq_cst, align 4
  br label %run
run:
  %begin = mul i64 %block, %length
  %end.full = add i64 %begin, %length
  %is_short = icmp ult i64 %size, %end.full
  %end = select i1 %is_short, i64 %size, i64 %end.full
  call void %fn(i64 %begin, i64 %end, i32 %index, ptr %args)
  br label %ran
ran:
  call void @recruit(ptr %pool, i64 %ticket, ptr %record)
  %remaining.at = getelementptr i8, ptr %record, i64 {REMAINING}
  %remaining = atomicrmw sub ptr %remaining.at, i64 1 seq_cst
  %is_last = icmp eq i64 %remaining, 1
  br i1 %is_last, label %finish, label %done
finish:
  call void @finish(ptr %pool, ptr %record, i64 %ticket)
  br label %done
done:
  ret i1 1
none:
  ret i1 0
}}

; Take one of the tokens that limit how many executors are active.
define internal i1 @enter(ptr %pool) {{
entry:
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %limit.at = getelementptr i8, ptr %pool, i64 {LIMIT}
  %active = atomicrmw add ptr %active.at, i32 1 seq_cst
  %limit = load atomic i32, ptr %limit.at acquire, align 4
  %fits = icmp slt i32 %active, %limit
  br i1 %fits, label %yes, label %no
yes:
  ret i1 1
no:
  call void @leave(ptr %pool)
  ret i1 0
}}

define internal void @leave(ptr %pool) {{
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %active = atomicrmw sub ptr %active.at, i32 1 seq_cst
  ret void
}}
"""

_WORKER: Final = """
; Run blocks until none may run. 1 if jobs are still under way elsewhere, 2 if
; enough executors are active.
define i32 @pool_drain(ptr %pool, i32 %index) {{
entry:
  %limit.at = getelementptr i8, ptr %pool, i64 {LIMIT}
  %got = call i1 @enter(ptr %pool)
  br i1 %got, label %work, label %denied
denied:
  ret i32 2
work:
  %ran = call i1 @run_block(ptr %pool, i32 %index, i1 0)
  %limit = load atomic i32, ptr %limit.at acquire, align 4
  %is_wanted = icmp sle i32 %index, %limit
  %again = and i1 %ran, %is_wanted
  br i1 %again, label %work, label %stop
stop:
  call void @leave(ptr %pool)
  %pending = call i1 @is_pending(ptr %pool)
  %result = zext i1 %pending to i32
  ret i32 %result
}}

; Spin while nothing happens, for as long as the settings say.
define internal void @spin(ptr %pool, ptr %word, i32 %value) {{
entry:
  %spinners.at = getelementptr i8, ptr %pool, i64 {SPINNERS}
  %max.at = getelementptr i8, ptr %pool, i64 {MAX_SPINNERS}
  %spin_ns.at = getelementptr i8, ptr %pool, i64 {SPIN_NS}
  %spinners = atomicrmw add ptr %spinners.at, i32 1 seq_cst
  %max = load atomic i32, ptr %max.at acquire, align 4
  %fits = icmp slt i32 %spinners, %max
  br i1 %fits, label %start, label %out
start:
  %spin_ns = load atomic i64, ptr %spin_ns.at acquire, align 8
  %since = call i64 @now(ptr %pool)
  %until = add i64 %since, %spin_ns
  br label %round
round:
  %count = phi i32 [ 0, %start ], [ 0, %time ], [ %count.next, %turn ]
  %current = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %current, %value
  br i1 %changed, label %out, label %turn
turn:
  call void @pause()
  %count.next = add i32 %count, 1
  %is_due = icmp eq i32 %count.next, 8
  br i1 %is_due, label %time, label %round
time:
  %moment = call i64 @now(ptr %pool)
  %is_over = icmp sge i64 %moment, %until
  br i1 %is_over, label %out, label %round
out:
  %after = atomicrmw sub ptr %spinners.at, i32 1 seq_cst
  ret void
}}

; A worker thread's whole life.
define void @pool_worker(ptr %pool, i32 %index) {{
entry:
  %wake = getelementptr i8, ptr %pool, i64 {WAKE}
  %sleepers.at = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %limit.at = getelementptr i8, ptr %pool, i64 {LIMIT}
  br label %round
round:
  %event = load atomic i32, ptr %wake seq_cst, align 4
  %limit = load atomic i32, ptr %limit.at acquire, align 4
  %is_dismissed = icmp sgt i32 %index, %limit
  br i1 %is_dismissed, label %out, label %work
work:
  %state = call i32 @pool_drain(ptr %pool, i32 %index)
  %is_denied = icmp eq i32 %state, 2
  br i1 %is_denied, label %look, label %spin
spin:
  call void @spin(ptr %pool, ptr %wake, i32 %event)
  br label %look
look:
  %current = load atomic i32, ptr %wake seq_cst, align 4
  %changed = icmp ne i32 %current, %event
  br i1 %changed, label %round, label %rest
rest:
  %more = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  call void @sleep(ptr %pool, ptr %wake, i32 %event, i64 0)
  %less = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %round
out:
  %pending = call i1 @is_pending(ptr %pool)
  br i1 %pending, label %hand_over, label %end
hand_over:
  call void @announce(ptr %pool, i32 1)
  br label %end
end:
  ret void
}}
"""

_CONTROL: Final = """
; Publish a job; its ticket, or 0 if the ring is full.
define i64 @pool_submit(ptr %pool, i64 %fn, i64 %args, i64 %size, i64 %length,
    i64 %barrier, i32 %slots, i32 %helpable) {{
entry:
  %submitted = load atomic i64, ptr %pool seq_cst, align 8
  %completed.at = getelementptr i8, ptr %pool, i64 {COMPLETED}
  %completed = load atomic i64, ptr %completed.at seq_cst, align 8
  %ticket = add i64 %submitted, 1
  %distance = sub i64 %ticket, %completed
  %is_full = icmp sgt i64 %distance, {RING}
  br i1 %is_full, label %refuse, label %fill
refuse:
  ret i64 0
fill:
  %record = call ptr @record(ptr %pool, i64 %ticket)
  %tag = shl i64 %ticket, 32
  %closed = or i64 %tag, 4294967295
  %claim.at = getelementptr i8, ptr %record, i64 {CLAIM}
  store atomic i64 %closed, ptr %claim.at seq_cst, align 8
  %fn.at = getelementptr i8, ptr %record, i64 {FN}
  store atomic i64 %fn, ptr %fn.at release, align 8
  %args.at = getelementptr i8, ptr %record, i64 {ARGS}
  store atomic i64 %args, ptr %args.at release, align 8
  %size.at = getelementptr i8, ptr %record, i64 {SIZE}
  store atomic i64 %size, ptr %size.at release, align 8
  %length.at = getelementptr i8, ptr %record, i64 {BLOCK}
  store atomic i64 %length, ptr %length.at release, align 8
  %rounded = add i64 %size, %length
  %above = sub i64 %rounded, 1
  %blocks = udiv i64 %above, %length
  %blocks.at = getelementptr i8, ptr %record, i64 {BLOCKS}
  store atomic i64 %blocks, ptr %blocks.at release, align 8
  %remaining.at = getelementptr i8, ptr %record, i64 {REMAINING}
  store atomic i64 %blocks, ptr %remaining.at release, align 8
  %slots.at = getelementptr i8, ptr %record, i64 {SLOTS}
  store atomic i32 %slots, ptr %slots.at release, align 4
  %helpable.at = getelementptr i8, ptr %record, i64 {HELPABLE}
  store atomic i32 %helpable, ptr %helpable.at release, align 4
  ; A barrier of 0 means: after all jobs before. No job overlaps a cancelled one.
  %is_plain = icmp eq i64 %barrier, 0
  %high = icmp sgt i64 %barrier, %ticket
  %own = or i1 %is_plain, %high
  %chosen = select i1 %own, i64 %ticket, i64 %barrier
  %last.at = getelementptr i8, ptr %pool, i64 {CANCEL_UP_TO}
  %last = load atomic i64, ptr %last.at seq_cst, align 8
  %after = add i64 %last, 1
  %is_later = icmp sgt i64 %after, %chosen
  %start = select i1 %is_later, i64 %after, i64 %chosen
  %below = sub i64 %start, 1
  %barrier.at = getelementptr i8, ptr %record, i64 {BARRIER}
  store atomic i64 %below, ptr %barrier.at release, align 8
  store atomic i64 %tag, ptr %claim.at seq_cst, align 8
  store atomic i64 %ticket, ptr %pool seq_cst, align 8
  ; If the job can't start yet, whoever completes the one before goes on with it.
  %completed.now = load atomic i64, ptr %completed.at seq_cst, align 8
  %can_start = icmp sle i64 %below, %completed.now
  %limit.at = getelementptr i8, ptr %pool, i64 {LIMIT}
  %limit = load atomic i32, ptr %limit.at acquire, align 4
  %limit.wide = zext i32 %limit to i64
  %is_small = icmp slt i64 %blocks, %limit.wide
  %useful.wide = select i1 %is_small, i64 %blocks, i64 %limit.wide
  %useful = trunc i64 %useful.wide to i32
  %spinners.at = getelementptr i8, ptr %pool, i64 {SPINNERS}
  %spinners = load atomic i32, ptr %spinners.at seq_cst, align 4
  ; The calling thread may help; if not, a worker recruits more.
  %others = sub i32 %useful, %helpable
  %missing = sub i32 %others, %spinners
  %busy.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %busy = load atomic i32, ptr %busy.at seq_cst, align 4
  %present = or i32 %busy, %spinners
  %is_asleep = icmp eq i32 %present, 0
  %is_few = icmp slt i32 %missing, 1
  %alone = and i1 %is_asleep, %is_few
  %needed = select i1 %alone, i32 1, i32 %missing
  %count = select i1 %can_start, i32 %needed, i32 0
  call void @announce(ptr %pool, i32 %count)
  ret i64 %ticket
}}

; Wait for a ticket for at most some time, helping if told so. 1 if it is reached.
define i32 @pool_wait(ptr %pool, i64 %ticket, i64 %timeout, i32 %help) {{
entry:
  %completed.at = getelementptr i8, ptr %pool, i64 {COMPLETED}
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %waiters.at = getelementptr i8, ptr %pool, i64 {WAITERS}
  %since = call i64 @now(ptr %pool)
  %deadline = add i64 %since, %timeout
  %may_help = icmp ne i32 %help, 0
  br label %round
round:
  %event = load atomic i32, ptr %done seq_cst, align 4
  %completed = load atomic i64, ptr %completed.at seq_cst, align 8
  %is_reached = icmp sge i64 %completed, %ticket
  br i1 %is_reached, label %reached, label %assist
assist:
  br i1 %may_help, label %token, label %rest
token:
  %got = call i1 @enter(ptr %pool)
  br i1 %got, label %work, label %rest
work:
  %ran = call i1 @run_block(ptr %pool, i32 0, i1 1)
  %progress = load atomic i64, ptr %completed.at seq_cst, align 8
  %behind = icmp slt i64 %progress, %ticket
  %worth = and i1 %ran, %behind
  br i1 %worth, label %time, label %stop
time:
  %moment = call i64 @now(ptr %pool)
  %is_early = icmp slt i64 %moment, %deadline
  br i1 %is_early, label %work, label %stop
stop:
  call void @leave(ptr %pool)
  ; A worker may have gone to sleep for lack of the token that is now free.
  %pending = call i1 @is_pending(ptr %pool)
  br i1 %pending, label %hand_over, label %check
hand_over:
  call void @announce(ptr %pool, i32 1)
  br label %check
check:
  br i1 %worth, label %expired, label %helped
helped:
  br i1 %ran, label %round, label %rest
rest:
  ; Spin only while a core is free.
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %active = load atomic i32, ptr %active.at seq_cst, align 4
  %max.at = getelementptr i8, ptr %pool, i64 {MAX_SPINNERS}
  %max = load atomic i32, ptr %max.at acquire, align 4
  %is_below = icmp sle i32 %active, %max
  %has_cores = icmp sgt i32 %max, 0
  %is_free = and i1 %is_below, %has_cores
  %spin_ns.at = getelementptr i8, ptr %pool, i64 {SPIN_NS}
  %spin_ns = load atomic i64, ptr %spin_ns.at acquire, align 8
  %spin.start = call i64 @now(ptr %pool)
  %spin.end = add i64 %spin.start, %spin_ns
  br i1 %is_free, label %spin, label %doze
spin:
  %count = phi i32 [ 0, %rest ], [ 0, %spin.time ], [ %count.next, %turn ]
  %completed.spin = load atomic i64, ptr %completed.at acquire, align 8
  %is_news = icmp ne i64 %completed.spin, %completed
  br i1 %is_news, label %expired, label %turn
turn:
  call void @pause()
  %count.next = add i32 %count, 1
  %is_due = icmp eq i32 %count.next, 8
  br i1 %is_due, label %spin.time, label %spin
spin.time:
  %spin.moment = call i64 @now(ptr %pool)
  %is_spun = icmp sge i64 %spin.moment, %spin.end
  br i1 %is_spun, label %doze, label %spin
doze:
  %more = atomicrmw add ptr %waiters.at, i32 1 seq_cst
  %completed.doze = load atomic i64, ptr %completed.at seq_cst, align 8
  %is_same = icmp eq i64 %completed.doze, %completed
  %doze.moment = call i64 @now(ptr %pool)
  %left = sub i64 %deadline, %doze.moment
  %is_time = icmp sgt i64 %left, 0
  %sleepy = and i1 %is_same, %is_time
  br i1 %sleepy, label %sleep, label %awake
sleep:
  call void @sleep(ptr %pool, ptr %done, i32 %event, i64 %left)
  br label %awake
awake:
  %less = atomicrmw sub ptr %waiters.at, i32 1 seq_cst
  br label %expired
expired:
  %completed.end = load atomic i64, ptr %completed.at seq_cst, align 8
  %is_reached.end = icmp sge i64 %completed.end, %ticket
  br i1 %is_reached.end, label %reached, label %deadline.check
deadline.check:
  %final = call i64 @now(ptr %pool)
  %in_time = icmp slt i64 %final, %deadline
  br i1 %in_time, label %round, label %timeout.over
timeout.over:
  ret i32 0
reached:
  ret i32 1
}}

; Run a whole job on the calling thread if nothing is pending; 1 if that was done.
define i32 @pool_invoke(ptr %pool, ptr %fn, ptr %args, i64 %size) {{
entry:
  %pending = call i1 @is_pending(ptr %pool)
  br i1 %pending, label %refuse, label %run
run:
  %cancel.at = getelementptr i8, ptr %pool, i64 {CANCEL}
  store atomic i32 0, ptr %cancel.at release, align 4
  call void %fn(i64 0, i64 %size, i32 0, ptr %args)
  ret i32 1
refuse:
  ret i32 0
}}

; Let all workers look at the limit again.
define void @pool_poke(ptr %pool) {{
  call void @announce(ptr %pool, i32 2147483647)
  ret void
}}

; Cancel all jobs submitted so far; the last of them, or 0 if none is pending.
define i64 @pool_cancel(ptr %pool) {{
entry:
  %pending = call i1 @is_pending(ptr %pool)
  br i1 %pending, label %set, label %out
set:
  %submitted = load atomic i64, ptr %pool seq_cst, align 8
  %last.at = getelementptr i8, ptr %pool, i64 {CANCEL_UP_TO}
  store atomic i64 %submitted, ptr %last.at seq_cst, align 8
  %cancel.at = getelementptr i8, ptr %pool, i64 {CANCEL}
  store atomic i32 1, ptr %cancel.at seq_cst, align 4
  ret i64 %submitted
out:
  ret i64 0
}}
"""


def pool_ir(platform: Platform) -> str:
    """Write the pool's native functions for a platform."""
    name = platform.pause.partition("@")[2].partition("(")[0]
    arguments = "i32" if "i32" in platform.pause else ""
    values = {k: v for k, v in globals().items() if k.isupper() and isinstance(v, int)}
    return (_SYSTEM + _EXECUTE + _WORKER + _CONTROL).format(
        pause=platform.pause,
        pause_declaration=f"declare void @{name}({arguments})" if name else "",
        futex_number=platform.futex_number,
        monotonic_clock=platform.monotonic_clock,
        ring_mask=RING - 1,
        **values,
    )
