"""Settings, flags, log levels and the launch history."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from lumijit.runtime import config, errors, history, log, settings, workers
from lumijit.runtime.config import JitFlag, flag, flags, scoped_set_flag, set_flag
from lumijit.runtime.history import JitBackend, KernelType
from lumijit.runtime.log import LogLevel
from tests.runtime.support import Counter


def test_settings_come_from_the_environment() -> None:
    found = settings.read_settings(
        {
            "LUMIJIT_CACHE_DIR": "/some/where",
            "LUMIJIT_CACHE_SIZE_MB": " 12 ",
            "LUMIJIT_NO_DISK_CACHE": "Yes",
            "LUMIJIT_THREADS": "3",
            "LUMIJIT_LOG_LEVEL": "DEBUG",
            "OTHER": "1",
        }
    )
    assert vars(found) == {
        "cache_dir": "/some/where",
        "cache_size_mb": 12,
        "no_disk_cache": True,
        "threads": 3,
        "log_level": "debug",
    }
    assert vars(settings.read_settings({})) == {}
    assert settings.read_settings({"LUMIJIT_LOG_LEVEL": "3"}).log_level == "info"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("LUMIJIT_THREADS", "-1", "a whole number from 0 to"),
        ("LUMIJIT_THREADS", "many", "a whole number from 0 to"),
        ("LUMIJIT_SPIN_US", "9" * 20, "a whole number from 0 to"),
        ("LUMIJIT_SPIN_US", "9" * 5000, "a whole number from 0 to"),
        ("LUMIJIT_MEMORY_LIMIT_MB", str(2**31), "a whole number from 0 to"),
        ("LUMIJIT_NO_DISK_CACHE", "perhaps", "0 or 1"),
        ("LUMIJIT_LOG_LEVEL", "loud", "one of disable, error"),
        ("LUMIJIT_LOG_LEVEL", "9", "one of disable, error"),
    ],
)
def test_bad_settings_are_reported_and_ignored(
    name: str, value: str, expected: str
) -> None:
    with pytest.warns(RuntimeWarning, match=f"{name}={value!r} is ignored: expected"):
        found = settings.read_settings({name: value})
    for setting, kept in vars(found).items():
        assert kept == getattr(settings.Settings, setting)
    with pytest.warns(RuntimeWarning, match=expected):
        settings.read_settings({name: value})


def test_every_flag_has_an_attribute() -> None:
    members = {m for m in JitFlag.__members__.values() if m is not JitFlag.Default}
    assert {member for member, _ in config._ATTRIBUTES} == members
    for member, name in config._ATTRIBUTES:
        assert getattr(flags, name) == flag(member) == bool(member & JitFlag.Default)


def test_flags_are_set_and_cleared() -> None:
    assert not flag(JitFlag.Debug)
    set_flag(JitFlag.Debug, True)
    assert flags.debug
    assert flag(JitFlag.Debug)
    set_flag(JitFlag.Debug, False)
    assert not flags.debug


def test_scoped_flags_are_put_back() -> None:
    scope = scoped_set_flag(JitFlag.SymbolicLoops, False)
    with scope:
        assert not flags.symbolic_loops
        with scope:
            assert not flags.symbolic_loops
        assert not flags.symbolic_loops
    assert flags.symbolic_loops

    def fail() -> None:
        with scope:
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert flags.symbolic_loops
    with scoped_set_flag(JitFlag.Debug | JitFlag.ValueNumbering):
        assert flag(JitFlag.Debug | JitFlag.ValueNumbering)
    assert flags.value_numbering
    assert not flags.debug


def test_flags_belong_to_a_thread() -> None:
    seen = []
    with scoped_set_flag(JitFlag.Debug):
        thread = threading.Thread(target=lambda: seen.append(flag(JitFlag.Debug)))
        thread.start()
        thread.join()
    assert seen == [False]


@pytest.mark.parametrize("bad", [1, "Debug", None])
def test_what_is_no_flag_is_refused(bad: object) -> None:
    with pytest.raises(errors.ArrayTypeError, match=r"flag\(\): .* is no flag"):
        flag(bad)  # type: ignore[arg-type]
    with pytest.raises(errors.ArrayTypeError, match=r"set_flag\(\): .* is no flag"):
        set_flag(bad, True)  # type: ignore[arg-type]
    with pytest.raises(errors.ArrayTypeError, match="pass a member of JitFlag"):
        scoped_set_flag(bad)  # type: ignore[arg-type]


def test_log_levels(capsys: pytest.CaptureFixture[str]) -> None:
    before = log.log_level()
    try:
        log.set_log_level(LogLevel.Info)
        assert log.log_level() is LogLevel.Info
        log.log(LogLevel.Info, "launched %s in %.1f us", "k", 2.5)
        log.log(LogLevel.Warn, "100 %")
        log.log(LogLevel.Debug, "%s", "unseen")
        log.set_log_level(0)
        log.log(LogLevel.Error, "unseen")
    finally:
        log.set_log_level(before)
    text = capsys.readouterr().err
    assert text == "lumijit info: launched k in 2.5 us\nlumijit warning: 100 %\n"


@pytest.mark.parametrize("bad", [-1, 7])
def test_log_levels_out_of_range(bad: int) -> None:
    with pytest.raises(errors.ArrayValueError, match=f"there is no level {bad}"):
        log.set_log_level(bad)


@pytest.mark.parametrize("bad", ["info", 1.0, True])
def test_log_levels_of_another_type(bad: object) -> None:
    with pytest.raises(errors.ArrayTypeError, match="is no level"):
        log.set_log_level(bad)  # type: ignore[arg-type]


FIELDS = [
    "backend",
    "type",
    "hash",
    "ir",
    "operation_count",
    "cache_hit",
    "cache_disk",
    "codegen_time",
    "backend_time",
    "execution_time",
    "uses_optix",
    "size",
    "input_count",
    "output_count",
    "recompile_reason",
]


def test_history_times_jobs(counter: Counter) -> None:
    history.kernel_history_clear()
    ticket = counter.submit(200_000, 1)
    history.record({"hash": "ab", "ticket": ticket, "size": 200_000})
    history.record({"type": KernelType.Reduce, "execution_time": 1.5})
    first, second = history.kernel_history()
    assert sorted(first) == sorted(second) == sorted(FIELDS)
    assert first["hash"] == "ab"
    assert first["backend"] is JitBackend.LLVM
    assert first["type"] is KernelType.JIT
    assert 10 < first["execution_time"] < 10**7
    assert second["execution_time"] == 1.5
    assert history.kernel_history() == []


def test_history_times_more_jobs_than_the_ring_holds(counter: Counter) -> None:
    history.kernel_history_clear()
    for _ in range(3000):
        history.record({"ticket": counter.submit(1000, 100)})
    entries = history.kernel_history()
    assert len(entries) == 3000
    assert all(entry["execution_time"] > 0 for entry in entries)


def test_history_by_type() -> None:
    for kind in KernelType:
        history.record({"type": kind})
    found = history.kernel_history([KernelType.Other, KernelType.JIT])
    assert [entry["type"] for entry in found] == [KernelType.JIT, KernelType.Other]
    assert history.kernel_history() == []


def test_history_is_cleared() -> None:
    history.record({})
    history.kernel_history_clear()
    assert history.kernel_history() == []


def test_history_refuses_other_types() -> None:
    with pytest.raises(errors.ArrayTypeError, match="expected KernelType, got int"):
        history.kernel_history([0])  # type: ignore[list-item]


def test_tickets_start_at_zero_without_a_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "running", None)
    monkeypatch.setattr(workers.tickets, "words", workers._Tickets().words)
    assert workers.last_ticket() == workers.completed_ticket() == 0
    workers.sync()
    assert not workers.was_cancelled(0)


@pytest.mark.parametrize("bad", [KernelType.JIT, 0, None])
def test_a_history_of_no_list_of_types(bad: object) -> None:
    with pytest.raises(errors.ArrayTypeError, match=r"'types' is .* Fix: pass a list"):
        history.kernel_history(bad)  # type: ignore[arg-type]


class _FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_logging_without_a_usable_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed, _FullDisk()):
        monkeypatch.setattr(sys, "stderr", stream)
        log.log(LogLevel.Error, "a line that %s can see", "nobody")


def test_flags_print_by_name() -> None:
    both = JitFlag.Debug | JitFlag.PrintIR
    assert str(JitFlag.Debug) == repr(JitFlag.Debug) == "JitFlag.Debug"
    assert f"{both}" == "JitFlag.Debug|PrintIR"
    assert f"{JitFlag.PrintIR:d}" == str(int(JitFlag.PrintIR))
    assert str(JitFlag(0)) == "JitFlag.0"


def test_what_is_no_flag_is_named_once() -> None:
    with pytest.raises(errors.ArrayTypeError, match=r"flag\(\): 'Debug' is no flag"):
        flag("Debug")  # type: ignore[arg-type]
