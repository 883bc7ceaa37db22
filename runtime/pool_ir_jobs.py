"""The pool's native code that runs jobs: claiming blocks, completing jobs.

See `pool_ir` for how the pool works as a whole. The text is a format string over
the names of `pool_layout`; `get` and `put` access such a word, in an order of memory.
"""

from __future__ import annotations

from typing import Final

JOBS: Final = """
; The last block of a job has been run: advance `completed`, tell who waits.
define internal void @finish(ptr %pool, ptr %record, i64 %ticket) {{
entry:
  %end = call i64 @now(ptr %pool)
  put i64 %end, %record.END_NS release
  put i64 %ticket, %record.FINISHED seq_cst
  %completed.at = getelementptr i8, ptr %pool, i64 {COMPLETED}
  br label %advance
advance:
  %completed = load atomic i64, ptr %completed.at seq_cst, align 8
  %submitted = get i64 %pool.SUBMITTED seq_cst
  %more = icmp slt i64 %completed, %submitted
  br i1 %more, label %look, label %tell
look:
  %next = add i64 %completed, 1
  %other = call ptr @record(ptr %pool, i64 %next)
  %mark = get i64 %other.FINISHED seq_cst
  %is_done = icmp eq i64 %mark, %next
  br i1 %is_done, label %step, label %tell
step:
  %swap = cmpxchg ptr %completed.at, i64 %completed, i64 %next seq_cst seq_cst
  br label %advance
tell:
  %waiters = get i32 %pool.WAITERS seq_cst
  %someone = icmp sgt i32 %waiters, 0
  br i1 %someone, label %notify, label %onward
notify:
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %event = atomicrmw add ptr %done, i32 1 seq_cst
  call void @rouse(ptr %pool, ptr %done, i32 2147483647)
  br label %onward
onward:
  ; This thread goes on with the next job, and spinning ones see the event;
  ; sleeping ones are recruited when that job proves to have work for them.
  br i1 %more, label %call, label %out
call:
  %head = add i64 %completed, 1
  %head.record = call ptr @record(ptr %pool, i64 %head)
  %count = call i32 @excluded(ptr %pool, ptr %head.record)
  call void @announce(ptr %pool, i32 %count)
  br label %out
out:
  ret void
}}

; How many workers to wake because some must not take part in a job: all or none.
; (It was prepared for fewer threads: who is awake may be one that must not.)
define internal i32 @excluded(ptr %pool, ptr %record) {{
  %slots = get i32 %record.SLOTS acquire
  %limit = get i32 %pool.LIMIT acquire
  %is_restricted = icmp sle i32 %slots, %limit
  %count = select i1 %is_restricted, i32 2147483647, i32 0
  ret i32 %count
}}

; Whether blocks of a job are left that nobody has begun.
define internal i1 @has_blocks(ptr %record) {{
  %claim = get i64 %record.CLAIM seq_cst
  %block = and i64 %claim, 4294967295
  %blocks = get i64 %record.BLOCKS acquire
  %is_left = icmp ult i64 %block, %blocks
  ret i1 %is_left
}}

; After a block: wake a sleeping worker if there is another block to run and fewer
; executors are active than may be. (Waking all at submission would let workers
; compete for the cores with the thread that is about to wait and to help.)
define internal void @recruit(ptr %pool, i64 %ticket, ptr %record) {{
entry:
  %sleepers = get i32 %pool.SLEEPERS seq_cst
  %some = icmp sgt i32 %sleepers, 0
  %active = get i32 %pool.ACTIVE seq_cst
  %limit = get i32 %pool.LIMIT acquire
  %room = icmp slt i32 %active, %limit
  %both = and i1 %some, %room
  br i1 %both, label %look, label %out
look:
  %is_left = call i1 @has_blocks(ptr %record)
  br i1 %is_left, label %call, label %next
next:
  %submitted = get i64 %pool.SUBMITTED seq_cst
  %more = icmp slt i64 %ticket, %submitted
  br i1 %more, label %other, label %out
other:
  %after = add i64 %ticket, 1
  %other.record = call ptr @record(ptr %pool, i64 %after)
  %barrier = get i64 %other.record.BARRIER acquire
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
  %completed = get i64 %pool.COMPLETED seq_cst
  %submitted = get i64 %pool.SUBMITTED seq_cst
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
  %barrier = get i64 %record.BARRIER acquire
  %is_early = icmp sgt i64 %barrier, %completed
  br i1 %is_early, label %none, label %allowed
allowed:
  %slots = get i32 %record.SLOTS acquire
  %is_outside = icmp uge i32 %index, %slots
  %helpable = get i32 %record.HELPABLE acquire
  %is_long = icmp eq i32 %helpable, 0
  %unhelpable = and i1 %is_long, %helping
  %unfit = or i1 %is_outside, %unhelpable
  br i1 %unfit, label %skip, label %available
available:
  %block = and i64 %claim.old, 4294967295
  %blocks = get i64 %record.BLOCKS acquire
  %is_left = icmp ult i64 %block, %blocks
  br i1 %is_left, label %check, label %skip
skip:
  br label %scan
check:
  ; Before the claim: a block that has been claimed is run, always, and what a cancel
  ; drops are the blocks from some number on. So a kernel may wait for an earlier block.
  %cancel.at = getelementptr i8, ptr %pool, i64 {CANCEL}
  %cancel = load atomic i32, ptr %cancel.at seq_cst, align 4
  %is_cancelled = icmp ne i32 %cancel, 0
  br i1 %is_cancelled, label %judge, label %take
judge:
  %last = get i64 %pool.CANCEL_UP_TO seq_cst
  %is_dropped = icmp sle i64 %ticket, %last
  ; All that are left at once, so that a long queue is emptied quickly.
  %rest = sub i64 %blocks, %block
  br i1 %is_dropped, label %take, label %clear
clear:
  ; A later job may start, so all the cancelled ones have ended. (Another cancel in
  ; between has written another number.)
  %cleared = cmpxchg ptr %cancel.at, i32 %cancel, i32 0 seq_cst seq_cst
  br label %take
take:
  %count = phi i64 [ 1, %check ], [ %rest, %judge ], [ 1, %clear ]
  %dropping = phi i1 [ 0, %check ], [ 1, %judge ], [ 0, %clear ]
  %fn.word = get i64 %record.FN acquire
  %fn = inttoptr i64 %fn.word to ptr
  %args.word = get i64 %record.ARGS acquire
  %args = inttoptr i64 %args.word to ptr
  %size = get i64 %record.SIZE acquire
  %length = get i64 %record.BLOCK acquire
  %claim.new = add i64 %claim.old, %count
  %swap = cmpxchg ptr %claim.at, i64 %claim.old, i64 %claim.new seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %won, label %own, label %claim
own:
  %is_first = icmp eq i64 %block, 0
  br i1 %is_first, label %stamp, label %started.block
stamp:
  %start = call i64 @now(ptr %pool)
  put i64 %start, %record.START_NS release
  br label %started.block
started.block:
  br i1 %dropping, label %ran, label %run
run:
  %begin = mul i64 %block, %length
  %end.full = add i64 %begin, %length
  %is_short = icmp ult i64 %size, %end.full
  %end = select i1 %is_short, i64 %size, i64 %end.full
  call void @pool_run(ptr %fn, i64 %begin, i64 %end, i32 %index, ptr %args)
  br label %ran
ran:
  call void @recruit(ptr %pool, i64 %ticket, ptr %record)
  %remaining.at = getelementptr i8, ptr %record, i64 {REMAINING}
  %remaining = atomicrmw sub ptr %remaining.at, i64 %count seq_cst
  %is_last = icmp eq i64 %remaining, %count
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
  %active = atomicrmw add ptr %active.at, i32 1 seq_cst
  %limit = get i32 %pool.LIMIT acquire
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
