"""The pool's native code of workers and callers: spinning, sleeping, submitting.

See `pool_ir` for how the pool works as a whole. The text is a format string over
the names of `pool_layout`; `get` and `put` access such a word, in an order of memory.
"""

from __future__ import annotations

from typing import Final

WORKERS: Final = """
; Run blocks until none may run. 1 if jobs are still under way elsewhere, 2 if
; enough executors are active.
define i32 @pool_drain(ptr %pool, i32 %index) {{
entry:
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %got = call i1 @enter(ptr %pool)
  br i1 %got, label %work, label %denied
denied:
  ret i32 2
work:
  %ran = call i1 @run_block(ptr %pool, i32 %index, i1 0)
  %limit = get i32 %pool.LIMIT acquire
  %is_wanted = icmp sle i32 %index, %limit
  %again = and i1 %ran, %is_wanted
  br i1 %again, label %count, label %stop
count:
  %active = load atomic i32, ptr %active.at seq_cst, align 4
  %is_over = icmp sgt i32 %active, %limit
  br i1 %is_over, label %yield, label %work
yield:
  %fewer = sub i32 %active, 1
  %swap = cmpxchg ptr %active.at, i32 %active, i32 %fewer seq_cst seq_cst
  %won = extractvalue {{ i32, i1 }} %swap, 1
  br i1 %won, label %denied, label %count
stop:
  call void @leave(ptr %pool)
  %pending = call i1 @is_pending(ptr %pool)
  %result = zext i1 %pending to i32
  ret i32 %result
}}

; Take a token although all are taken, if there are blocks to run: one may be too many
; until a worker has run its block and gives up its own (`pool_drain`). This thread has
; a core; of the workers that were quicker, two may share one, while this core idles.
define internal i1 @insist(ptr %pool) {{
entry:
  %completed = get i64 %pool.COMPLETED seq_cst
  %ticket = add i64 %completed, 1
  %record = call ptr @record(ptr %pool, i64 %ticket)
  %is_left = call i1 @has_blocks(ptr %record)
  %helpable = get i32 %record.HELPABLE acquire
  %is_short = icmp ne i32 %helpable, 0
  %limit = get i32 %pool.LIMIT acquire
  %are_several = icmp sgt i32 %limit, 1
  %is_worth = and i1 %is_left, %is_short
  %may = and i1 %is_worth, %are_several
  br i1 %may, label %take, label %no
take:
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %more = add i32 %limit, 1
  %swap = cmpxchg ptr %active.at, i32 %limit, i32 %more seq_cst seq_cst
  %won = extractvalue {{ i32, i1 }} %swap, 1
  ret i1 %won
no:
  ret i1 0
}}

; Spin while nothing happens, for as long as that has paid.
define internal void @spin(ptr %pool, ptr %word, i32 %value) {{
entry:
  %spinners.at = getelementptr i8, ptr %pool, i64 {SPINNERS}
  %spinners = atomicrmw add ptr %spinners.at, i32 1 seq_cst
  %max = get i32 %pool.MAX_SPINNERS acquire
  %fits = icmp slt i32 %spinners, %max
  br i1 %fits, label %start, label %out
start:
  %spin_ns = get i64 %pool.PATIENCE_NS acquire
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

; After a worker has slept: spin longer from now on if the event came soon all the same.
; (Waking one takes the caller some 20 µs, and more on a busy machine.)
define internal void @learn(ptr %pool, i64 %since) {{
  %moment = call i64 @now(ptr %pool)
  %idle = sub i64 %moment, %since
  %long = get i64 %pool.LONG_SPIN_NS acquire
  %short = get i64 %pool.SPIN_NS acquire
  %is_soon = icmp slt i64 %idle, %long
  %chosen = select i1 %is_soon, i64 %long, i64 %short
  put i64 %chosen, %pool.PATIENCE_NS release
  ret void
}}

; A worker thread's whole life.
define void @pool_worker(ptr %pool, i32 %index) {{
entry:
  %wake = getelementptr i8, ptr %pool, i64 {WAKE}
  %sleepers.at = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  br label %round
round:
  %event = load atomic i32, ptr %wake seq_cst, align 4
  %limit = get i32 %pool.LIMIT acquire
  %is_dismissed = icmp sgt i32 %index, %limit
  br i1 %is_dismissed, label %out, label %work
work:
  %state = call i32 @pool_drain(ptr %pool, i32 %index)
  %since = call i64 @now(ptr %pool)
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
  ; Who was denied a token, or saw jobs under way, looks again by itself before
  ; long: those who are awake may be unable to go on (see `excluded`).
  %is_idle = icmp eq i32 %state, 0
  %seldom = select i1 %is_idle, i64 0, i64 50000000
  %pause = select i1 %is_denied, i64 2000000, i64 %seldom
  call void @sleep(ptr %pool, ptr %wake, i32 %event, i64 %pause)
  %less = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  call void @learn(ptr %pool, i64 %since)
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

CALLERS: Final = """
; Publish a job; its ticket, or 0 if the ring is full.
define i64 @pool_submit(ptr %pool, i64 %fn, i64 %args, i64 %size, i64 %length,
    i64 %barrier, i32 %slots, i32 %helpable) {{
entry:
  %submitted = get i64 %pool.SUBMITTED seq_cst
  %completed = get i64 %pool.COMPLETED seq_cst
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
  put i64 %closed, %record.CLAIM seq_cst
  put i64 %fn, %record.FN release
  put i64 %args, %record.ARGS release
  put i64 %size, %record.SIZE release
  put i64 %length, %record.BLOCK release
  %rounded = add i64 %size, %length
  %above = sub i64 %rounded, 1
  %blocks = udiv i64 %above, %length
  put i64 %blocks, %record.BLOCKS release
  put i64 %blocks, %record.REMAINING release
  put i32 %slots, %record.SLOTS release
  put i32 %helpable, %record.HELPABLE release
  ; A barrier of 0 means: after all jobs before. No job overlaps a cancelled one.
  %is_plain = icmp eq i64 %barrier, 0
  %high = icmp sgt i64 %barrier, %ticket
  %own = or i1 %is_plain, %high
  %chosen = select i1 %own, i64 %ticket, i64 %barrier
  %last = get i64 %pool.CANCEL_UP_TO seq_cst
  %after = add i64 %last, 1
  %is_later = icmp sgt i64 %after, %chosen
  %start = select i1 %is_later, i64 %after, i64 %chosen
  %below = sub i64 %start, 1
  put i64 %below, %record.BARRIER release
  put i64 %tag, %record.CLAIM seq_cst
  put i64 %ticket, %pool.SUBMITTED seq_cst
  ; If the job can't start yet, whoever completes the one before goes on with it.
  %completed.now = get i64 %pool.COMPLETED seq_cst
  %can_start = icmp sle i64 %below, %completed.now
  %limit = get i32 %pool.LIMIT acquire
  %limit.wide = zext i32 %limit to i64
  %is_small = icmp slt i64 %blocks, %limit.wide
  %useful.wide = select i1 %is_small, i64 %blocks, i64 %limit.wide
  %useful = trunc i64 %useful.wide to i32
  %spinners = get i32 %pool.SPINNERS seq_cst
  ; The calling thread may help; if not, a worker recruits more.
  %others = sub i32 %useful, %helpable
  %missing = sub i32 %others, %spinners
  %busy = get i32 %pool.ACTIVE seq_cst
  %present = or i32 %busy, %spinners
  %is_asleep = icmp eq i32 %present, 0
  %is_few = icmp slt i32 %missing, 1
  %alone = and i1 %is_asleep, %is_few
  %some = select i1 %alone, i32 1, i32 %missing
  %all = call i32 @excluded(ptr %pool, ptr %record)
  %is_restricted = icmp ne i32 %all, 0
  %needed = select i1 %is_restricted, i32 %all, i32 %some
  %count = select i1 %can_start, i32 %needed, i32 0
  call void @announce(ptr %pool, i32 %count)
  ret i64 %ticket
}}

; Wait for a ticket for at most some time, helping if told so. 1 if it is reached.
define i32 @pool_wait(ptr %pool, i64 %ticket, i64 %timeout, i32 %help) {{
entry:
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %waiters.at = getelementptr i8, ptr %pool, i64 {WAITERS}
  %since = call i64 @now(ptr %pool)
  %deadline = add i64 %since, %timeout
  %may_help = icmp ne i32 %help, 0
  br label %round
round:
  %event = load atomic i32, ptr %done seq_cst, align 4
  %completed = get i64 %pool.COMPLETED seq_cst
  %is_reached = icmp sge i64 %completed, %ticket
  br i1 %is_reached, label %reached, label %assist
assist:
  br i1 %may_help, label %token, label %rest
token:
  %got = call i1 @enter(ptr %pool)
  br i1 %got, label %work, label %all.taken
all.taken:
  %forced = call i1 @insist(ptr %pool)
  br i1 %forced, label %work, label %rest
work:
  %ran = call i1 @run_block(ptr %pool, i32 0, i1 1)
  %progress = get i64 %pool.COMPLETED seq_cst
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
  %active = get i32 %pool.ACTIVE seq_cst
  %max = get i32 %pool.MAX_SPINNERS acquire
  %is_below = icmp sle i32 %active, %max
  %has_cores = icmp sgt i32 %max, 0
  %is_free = and i1 %is_below, %has_cores
  %spin_ns = get i64 %pool.SPIN_NS acquire
  %spin.start = call i64 @now(ptr %pool)
  %spin.end = add i64 %spin.start, %spin_ns
  br i1 %is_free, label %spin, label %doze
spin:
  %count = phi i32 [ 0, %rest ], [ 0, %spin.time ], [ %count.next, %turn ]
  %completed.spin = get i64 %pool.COMPLETED acquire
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
  %completed.doze = get i64 %pool.COMPLETED seq_cst
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
  %completed.end = get i64 %pool.COMPLETED seq_cst
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
; What it is given begins with the addresses of the pool and of the function, and the
; number of elements.
define i32 @pool_invoke(ptr %call) {{
entry:
  %pool = load ptr, ptr %call
  %fn.at = getelementptr i8, ptr %call, i64 {CALL_FN}
  %fn = load ptr, ptr %fn.at
  %size.at = getelementptr i8, ptr %call, i64 {CALL_SIZE}
  %size = load i64, ptr %size.at
  %args = getelementptr i8, ptr %call, i64 {CALL_ARGS}
  %pending = call i1 @is_pending(ptr %pool)
  br i1 %pending, label %refuse, label %run
run:
  put i32 0, %pool.CANCEL release
  call void @pool_run(ptr %fn, i64 0, i64 %size, i32 0, ptr %args)
  ret i32 1
refuse:
  ret i32 0
}}

; Run jobs one after the other on the calling thread if nothing is pending; 1 if that
; was done. What it is given begins with the address of the pool and the number of jobs;
; each has the number of bytes up to the next, and then what an inline call has.
define i32 @pool_invoke_all(ptr %calls) {{
entry:
  %pool = load ptr, ptr %calls
  %count.at = getelementptr i8, ptr %calls, i64 8
  %count = load i64, ptr %count.at
  %first = getelementptr i8, ptr %calls, i64 16
  %pending = call i1 @is_pending(ptr %pool)
  br i1 %pending, label %refuse, label %run
run:
  put i32 0, %pool.CANCEL release
  br label %next
next:
  %k = phi i64 [ 0, %run ], [ %k.n, %next ]
  %call = phi ptr [ %first, %run ], [ %call.n, %next ]
  %length = load i64, ptr %call
  %fn.at = getelementptr i8, ptr %call, i64 {CALL_FN}
  %fn = load ptr, ptr %fn.at
  %size.at = getelementptr i8, ptr %call, i64 {CALL_SIZE}
  %size = load i64, ptr %size.at
  %args = getelementptr i8, ptr %call, i64 {CALL_ARGS}
  call void @pool_run(ptr %fn, i64 0, i64 %size, i32 0, ptr %args)
  %call.n = getelementptr i8, ptr %call, i64 %length
  %k.n = add i64 %k, 1
  %more = icmp ult i64 %k.n, %count
  br i1 %more, label %next, label %done
done:
  ret i32 1
refuse:
  ret i32 0
}}

; Let all workers look at the limit again.
define void @pool_poke(ptr %pool) {{
  call void @announce(ptr %pool, i32 2147483647)
  ret void
}}

; Cancel all jobs submitted so far; the last of them, or 0 if none is pending. The
; word that kernels poll is not zero, and another number for each cancel.
define i64 @pool_cancel(ptr %pool) {{
entry:
  %pending = call i1 @is_pending(ptr %pool)
  br i1 %pending, label %set, label %out
set:
  %submitted = get i64 %pool.SUBMITTED seq_cst
  put i64 %submitted, %pool.CANCEL_UP_TO seq_cst
  %low = trunc i64 %submitted to i32
  %number = or i32 %low, -2147483648
  put i32 %number, %pool.CANCEL seq_cst
  ret i64 %submitted
out:
  ret i64 0
}}
"""
