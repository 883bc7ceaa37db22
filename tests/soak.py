"""A soak: random programs of all kinds for minutes, with all that disturbs them.

`python -m tests.soak --minutes 30` runs programs in several Python threads, checks
their results against NumPy, raises in the middle of them, interrupts them, forks; and
watches memory and stalls. It prints its figures and ends with 1 if anything is wrong.
Run it under `MALLOC_CHECK_=3 MALLOC_PERTURB_=165`, too. Newer C libraries want
`LD_PRELOAD=libc_malloc_debug.so.0` with the first, and `--no-forks`: that library's
lock stays held in a child. A test runs it for some seconds.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
from typing import Any

import lumijit as dr
from lumijit.runtime.errors import CancelledError
from tests.soak_programs import PROGRAMS, Expected

STALL_S = 90.0
# So much may memory grow between the middle and the end: shares and bytes.
GROWTH = 1.1
GROWTH_BYTES = 24 << 20


class Soak:
    """What was run so far, and what went wrong."""

    def __init__(self, seed: int, until: float) -> None:
        self.seed = seed
        self.until = until
        self.counts: collections.Counter[str] = collections.Counter()
        self.longest = 0.0
        self.failures: list[str] = []
        self.beats: dict[str, float] = {}
        self.memory: list[tuple[float, int]] = []
        self.is_armed = False

    def run(self, rng: random.Random, can_wait: bool = True) -> None:
        """Run one program and compare."""
        name = rng.choice(list(PROGRAMS))
        started = time.monotonic()
        self.beats[threading.current_thread().name] = started
        state = rng.getstate()
        try:
            PROGRAMS[name](rng)
            self.counts[name] += 1
        except Expected:
            self.counts["raised on purpose"] += 1
        except CancelledError:
            self.counts["cancelled by another thread's Ctrl-C"] += 1
        except Exception:
            self.fail(f"{name} (state {hash(state)}):\n{traceback.format_exc()}")
        self.longest = max(self.longest, time.monotonic() - started)

    def fail(self, text: str) -> None:
        """Note a failure."""
        self.counts["FAILED"] += 1
        if len(self.failures) < 10:
            self.failures.append(text)
            print(text, file=sys.stderr, flush=True)

    def work(self, number: int) -> None:
        """Run programs in a thread until time is over."""
        rng = random.Random(f"{self.seed} {number}")
        while time.monotonic() < self.until:
            self.run(rng)
        self.beats.pop(threading.current_thread().name, None)

    def interrupted(self, rng: random.Random) -> None:
        """Run a program, and stop it at a random moment."""
        try:
            self.is_armed = True
            signal.setitimer(signal.ITIMER_REAL, 10 ** rng.uniform(-5, -1.5))
            self.run(rng)
            self.is_armed = False
        except KeyboardInterrupt:
            self.is_armed = False
            self.counts["interrupted"] += 1

    def on_alarm(self, *unused: object) -> None:
        """Do what Ctrl-C does."""
        if self.is_armed:
            self.is_armed = False
            raise KeyboardInterrupt

    def forked(self, rng: random.Random) -> None:
        """Run programs in a child, while other threads run theirs here."""
        seed = rng.random()
        self.beats[threading.current_thread().name] = time.monotonic()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                # Before its parent is taken for the one that hangs.
                faulthandler.dump_traceback_later(STALL_S / 2, exit=True)
                child = Soak(0, 0.0)
                inner = random.Random(seed)
                for _ in range(5):
                    child.run(inner)
                status = 2 if child.failures else 0
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        self.counts["forks"] += 1
        if status:
            self.fail(f"a child ended with {os.waitstatus_to_exitcode(status)}")

    def watch(self) -> None:
        """Look at memory, and for threads that hang."""
        while time.monotonic() < self.until:
            time.sleep(0.5)
            with open("/proc/self/statm", encoding="ascii") as file:
                pages = int(file.read().split()[1])
            self.memory.append((time.monotonic(), pages * os.sysconf("SC_PAGE_SIZE")))
            now = time.monotonic()
            for name, beat in list(self.beats.items()):
                if now - beat > STALL_S:
                    print(f"{name} hangs for {now - beat:.0f} s", file=sys.stderr)
                    faulthandler.dump_traceback(all_threads=True)
                    os._exit(3)

    def report(self, is_checked: bool) -> int:
        """Print the figures; return the process's status."""
        for name, count in sorted(self.counts.items()):
            print(f"{count:8d} {name}")
        print(f"{self.longest:8.2f} s for the longest program")
        third = len(self.memory) // 3
        if third:
            middle = max(size for _, size in self.memory[third : 2 * third])
            end = max(size for _, size in self.memory[2 * third :])
            print(f"{middle >> 20:8d} MiB resident at most in the second third")
            print(f"{end >> 20:8d} MiB resident at most in the last third")
            if is_checked and end > GROWTH * middle + GROWTH_BYTES:
                self.fail(f"memory grows: {middle} to {end} bytes")
        return 1 if self.failures else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the soak as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-forks", action="store_true")
    parser.add_argument("--no-interrupts", action="store_true")
    chosen: Any = parser.parse_args(arguments)
    faulthandler.enable()
    soak = Soak(chosen.seed, time.monotonic() + 60 * chosen.minutes)
    signal.signal(signal.SIGALRM, soak.on_alarm)
    threads = [
        threading.Thread(target=soak.work, args=(k,), name=f"worker {k}", daemon=True)
        for k in range(chosen.threads)
    ]
    watcher = threading.Thread(target=soak.watch, name="watcher", daemon=True)
    for thread in (*threads, watcher):
        thread.start()
    rng = random.Random(chosen.seed)
    while time.monotonic() < soak.until:
        kind = rng.random()
        if kind < 0.4 and not chosen.no_interrupts:
            soak.interrupted(rng)
        elif kind < 0.42 and not chosen.no_forks:
            soak.forked(rng)
        elif kind < 0.45:
            dr.set_thread_count(rng.randint(1, 5))
        elif kind < 0.46:
            dr.flush_malloc_cache()
        elif kind < 0.47:
            gc.collect()
        else:
            soak.run(rng)
    soak.beats.clear()
    for thread in (*threads, watcher):
        thread.join(STALL_S)
        if thread.is_alive():
            soak.fail(f"{thread.name} does not end")
            faulthandler.dump_traceback(all_threads=True)
    return soak.report(chosen.minutes >= 1)


if __name__ == "__main__":
    sys.exit(main())
