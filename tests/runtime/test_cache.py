"""The disk cache: what it returns, what it refuses, writers side by side."""

from __future__ import annotations

import itertools
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lumijit.runtime import cache
from lumijit.runtime.settings import settings
from tests.runtime.support import run_script

KEY = "0123456789abcdef"
CODE = bytes(range(256)) * 10


def path_of(folder: Path, key: str = KEY) -> Path:
    return folder / f"{key}.kernel"


def test_what_is_stored_is_found(cache_folder: Path) -> None:
    assert cache.lookup(KEY) is None
    assert cache.store(KEY, CODE, {"operation_count": 7})
    assert cache.lookup(KEY) == (CODE, {"operation_count": 7})
    assert stat.S_IMODE(cache_folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(cache_folder).stat().st_mode) == 0o600
    assert [p.name for p in cache_folder.iterdir()] == [f"{KEY}.kernel"]


def test_an_entry_may_be_replaced(cache_folder: Path) -> None:
    cache.store(KEY, CODE, {})
    cache.store(KEY, b"new", {"a": 1})
    assert cache.lookup(KEY) == (b"new", {"a": 1})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: b"", "it is truncated"),
        (lambda data: data[:30], "it is truncated"),
        (lambda data: data[:-1], "it is truncated"),
        (lambda data: data + b"x", "it is truncated"),
        (lambda data: b"\x7fELF" + data[4:], "not written by this version"),
        (lambda data: data[:8] + b"\0" * 32 + data[40:], "checksum is wrong"),
        (lambda data: data[:-5] + b"\xff" + data[-4:], "checksum is wrong"),
    ],
)
def test_damaged_files_are_dropped(
    cache_folder: Path,
    capsys: pytest.CaptureFixture[str],
    change: object,
    complaint: str,
) -> None:
    cache.store(KEY, CODE, {"a": 1})
    file = path_of(cache_folder)
    file.write_bytes(change(file.read_bytes()))  # type: ignore[operator]
    assert cache.lookup(KEY) is None
    assert complaint in capsys.readouterr().err
    assert not file.exists()
    assert cache.store(KEY, CODE, {"a": 1})
    assert cache.lookup(KEY) == (CODE, {"a": 1})


@given(position=st.integers(0, 10**6), flip=st.integers(1, 255))
@hypothesis_settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_changed_byte_is_noticed(
    cache_folder: Path, position: int, flip: int
) -> None:
    cache.store(KEY, CODE, {"a": 1})
    file = path_of(cache_folder)
    data = bytearray(file.read_bytes())
    data[position % len(data)] ^= flip
    file.write_bytes(data)
    assert cache.lookup(KEY) is None


def test_a_file_under_a_foreign_name_is_dropped(
    cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.store(KEY, CODE, {})
    path_of(cache_folder).rename(path_of(cache_folder, "other"))
    assert cache.lookup("other") is None
    assert "it holds another kernel" in capsys.readouterr().err


@pytest.fixture
def installed(
    cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a folder that has an entry since lumijit was installed."""
    folder = tmp_path / "prebuilt"
    with monkeypatch.context() as change:
        change.setattr(settings, "cache_dir", str(folder))
        cache.store(KEY, CODE, {"a": 1})
    monkeypatch.setattr(cache, "_installed", str(folder))
    return folder


def test_what_is_installed_is_found_if_nothing_else_is(
    installed: Path, cache_folder: Path
) -> None:
    # Whose it is doesn't matter there, as with the sources.
    path_of(installed).chmod(0o666)
    assert cache.lookup(KEY) == (CODE, {"a": 1})
    assert not cache_folder.exists()
    cache.store(KEY, b"newer", {})
    assert cache.lookup(KEY) == (b"newer", {})


def test_what_is_installed_is_no_cache(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "no_disk_cache", True)
    assert cache.lookup(KEY) is None


def test_what_is_installed_may_be_of_no_use(
    installed: Path, cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path_of(installed).write_bytes(b"")
    assert cache.lookup(KEY) is None
    assert str(path_of(installed)) in capsys.readouterr().err
    cache.store(KEY, CODE, {})
    cache.drop(KEY, "it is not liked")
    assert not path_of(cache_folder).exists()


def test_what_is_installed_is_dropped_if_nothing_else_is_there(
    installed: Path, cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.drop(KEY, "it is not liked")
    assert str(path_of(installed)) in capsys.readouterr().err
    assert cache.lookup(KEY) is None


def test_keys_differ_by_structure_and_environment() -> None:
    keys = {cache.full_key(key, env) for key in (b"a", b"b") for env in ("x", "y")}
    assert len(keys) == 4
    assert cache.full_key("a", "x") == cache.full_key(b"a", "x")


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_can_write_is_refused(
    cache_folder: Path, capsys: pytest.CaptureFixture[str], mode: int
) -> None:
    cache.store(KEY, CODE, {})
    cache_folder.chmod(mode)
    assert cache.lookup(KEY) is None
    assert not cache.store(KEY, CODE, {})
    text = capsys.readouterr().err
    assert "may be written by other users. Fix: chmod go-w it" in text
    assert text.count("\n") == 1  # said once
    cache_folder.chmod(0o755)
    assert cache.lookup(KEY) == (CODE, {})


def test_a_file_that_others_can_write_is_refused(
    cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.store(KEY, CODE, {})
    path_of(cache_folder).chmod(0o666)
    assert cache.lookup(KEY) is None
    assert "may be written by other users: it is not used" in capsys.readouterr().err


def test_what_belongs_to_someone_else_is_refused(
    cache_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache.store(KEY, CODE, {})
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert cache.lookup(KEY) is None
    assert not cache.store(KEY, CODE, {})
    assert f"belongs to user {owner}, not to you" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_is_refused(cache_folder: Path, kind: str) -> None:
    cache.store("other", CODE, {})
    file = path_of(cache_folder)
    if kind == "link":
        file.symlink_to(path_of(cache_folder, "other"))
    elif kind == "fifo":
        os.mkfifo(file, 0o600)
    else:
        file.mkdir(mode=0o700)
    assert cache.lookup(KEY) is None


def test_a_folder_that_cannot_be_made(
    tmp_path: Path,
    cache_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/lumi")):
        monkeypatch.setattr(settings, "cache_dir", str(path))
        assert not cache.store(KEY, CODE, {})
        assert cache.lookup(KEY) is None
        assert "kernels are not kept on disk" in capsys.readouterr().err


def test_a_full_disk_is_no_error(
    cache_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*unused: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert not cache.store(KEY, CODE, {})
    assert "No space left on device" in capsys.readouterr().err
    assert list(cache_folder.iterdir()) == []


def test_the_cache_may_be_switched_off(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "no_disk_cache", True)
    assert not cache.store(KEY, CODE, {})
    assert cache.lookup(KEY) is None
    assert not cache_folder.exists()


def test_the_least_recently_used_go_first(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "cache_size_mb", 1)
    for age in range(10):
        key = f"{age:016x}"
        cache.store(key, bytes(200_000), {})
        moment = 2_000_000_000 - 10_000 * age
        os.utime(path_of(cache_folder, key), (moment - 10**9, moment - 10**9))
    assert cache.lookup(f"{9:016x}") is not None  # its use makes it the youngest
    cache.evict()
    left = sorted(int(p.stem, 16) for p in cache_folder.iterdir())
    assert left == [0, 1, 2, 9]


def test_small_files_count_with_their_blocks(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "cache_size_mb", 1)
    for k in range(300):
        cache.store(f"{k:016x}", b"small", {})
    used = sum(p.stat().st_blocks * 512 for p in cache_folder.iterdir())
    cache.evict()
    left = sum(p.stat().st_blocks * 512 for p in cache_folder.iterdir())
    assert left < 1 << 20 or left == used


def test_one_process_in_a_while_looks_through_the_folder(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[None] = []
    monkeypatch.setattr(cache, "evict", lambda: looked.append(None))

    def stored_first() -> int:
        monkeypatch.setattr(cache, "_stores", itertools.count())
        cache.store(KEY, CODE, {})
        return len(looked)

    assert [stored_first(), stored_first()] == [1, 1]
    (marker,) = (p for p in cache_folder.iterdir() if p.suffix != ".kernel")
    for moment, count in ((1e9, 2), (time.time() - 60, 2), (time.time() + 1e4, 3)):
        os.utime(marker, (moment, moment))
        assert stored_first() == count


def test_what_is_larger_than_the_cache_is_not_kept(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "cache_size_mb", 0)
    assert not cache.store(KEY, CODE, {})


def test_stale_temporary_files_are_removed(cache_folder: Path) -> None:
    cache.store(KEY, CODE, {})
    old, young = cache_folder / "a.kernel.1.2.tmp", cache_folder / "b.kernel.1.2.tmp"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    (cache_folder / "notes.txt").write_text("not ours")
    cache.evict()
    names = sorted(p.name for p in cache_folder.iterdir())
    assert names == [f"{KEY}.kernel", young.name, "notes.txt"]


def test_a_process_killed_while_writing(cache_folder: Path) -> None:
    result = run_script(
        f"""
        from lumijit.runtime import cache
        os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
        cache.store({KEY!r}, b"half", {{}})
        """,
        check=False,
        LUMIJIT_CACHE_DIR=str(cache_folder),
    )
    assert result.returncode == -signal.SIGKILL
    assert len(list(cache_folder.glob("*.tmp"))) == 1
    assert cache.lookup(KEY) is None
    assert cache.store(KEY, CODE, {})
    assert cache.lookup(KEY) == (CODE, {})


def test_two_processes_write_at_once(cache_folder: Path) -> None:
    code = """
import sys
import time
from lumijit.runtime import cache
body = sys.argv[1].encode() * 5000
for turn in range(150):
    cache.store("shared", body, {"by": sys.argv[1]})
    found = cache.lookup("shared")
    assert found and found[0] == found[1]["by"].encode() * 5000, turn
"""
    environment = {**os.environ, "LUMIJIT_CACHE_DIR": str(cache_folder)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, name],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("first", "second")
    ]
    for writer in writers:
        _, text = writer.communicate(timeout=60)
        assert (writer.returncode, text) == (0, "")
    assert [p.name for p in cache_folder.glob("*.*")] == ["shared.kernel"]


def test_the_default_folder_is_in_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(settings, "cache_dir", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.directory() == str(tmp_path / ".lumijit")


def test_old_entries_are_read_where_nothing_can_be_written(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(30, "Read-only file system", path)

    cache.store(KEY, CODE, {"a": 1})
    os.utime(path_of(cache_folder), (1e9, 1e9))
    monkeypatch.setattr(os, "utime", refuse)
    assert cache.lookup(KEY) == (CODE, {"a": 1})


def test_a_full_disk_is_reported_once(
    cache_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(source: str, target: str) -> int:
        raise OSError(28, "No space left on device", source)

    monkeypatch.setattr(os, "replace", refuse)
    assert not cache.store(KEY, CODE, {})
    assert not cache.store(KEY[::-1], CODE, {})
    monkeypatch.undo()
    assert list(cache_folder.iterdir()) == []
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_without_a_home_there_is_no_cache(
    cache_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "cache_dir", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(cache_folder.parent)
    assert not cache.store(KEY, CODE, {})
    assert cache.lookup(KEY) is None
    assert "there is no home folder '~'. Fix: set HOME" in capsys.readouterr().err
    assert not Path("~").exists()


def test_a_relative_folder_in_a_folder_that_is_gone(
    tmp_path: Path,
    cache_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(settings, "cache_dir", "kernels")
    assert cache.lookup(KEY) is None
    assert not cache.store(KEY, CODE, {})
    assert "kernels are not kept on disk" in capsys.readouterr().err
