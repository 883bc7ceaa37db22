"""The disk cache of kernels: machine code by key, shared between processes.

Owns the folder, the file format, the checks and the eviction. What a key covers
is the business of `environment` and the callers; kernels in memory are the
compiler's. Every failure is logged and means "not cached", never an
error: a program runs without its cache.

A file holds machine code that will be run, so a folder or file that belongs to
someone else, or that others may write to, is refused. Files are written under a
temporary name and renamed: readers see a whole file or none. What isn't there may be
among what was built as lumijit was installed (`setup.py`): that lies beside the
sources, and is trusted as they are.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from lumijit.runtime.digest import blake2b
from lumijit.runtime.errors import KernelBuildError
from lumijit.runtime.log import LogLevel, log
from lumijit.runtime.settings import settings

T = TypeVar("T")
Meta = dict[str, Any]

_MAGIC: Final = b"lumijit\x01"
_SUFFIX: Final = ".kernel"
_TEMPORARY: Final = ".tmp"
# magic, checksum of all that follows, length of the meta data, length of the code
_HEADER: Final = struct.Struct("<8s32sQQ")
# How often a process looks whether the folder is to be looked through again, and how
# long after the last time it is: a hundred thousand kernels take a second.
_EVICT_EVERY: Final = 64
_EVICT_AFTER_S: Final = 600.0
_EVICT_TO: Final = 0.8
# Its time is when the folder was last looked through.
_LOOKED_THROUGH: Final = "looked-through"
_TOUCH_AFTER_S: Final = 3600.0
_STALE_AFTER_S: Final = 3600.0
# (Tests have another one.)
_installed = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prebuilt")

_complaints: set[str] = set()
_stores = itertools.count()


def _complain(text: str, *args: object) -> None:
    """Log a warning, once per process."""
    line = text % args
    if line not in _complaints:
        _complaints.add(line)
        log(LogLevel.Warn, "%s", line)


def directory() -> str:
    """Return the folder of the cache, which need not exist; may raise OSError."""
    if settings.cache_dir:
        return os.path.abspath(_expanded(settings.cache_dir))
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or _expanded("~")
        return os.path.join(base, "Temp", "lumijit")
    return os.path.join(_expanded("~"), ".lumijit")


def _expanded(path: str) -> str:
    """Put the home folder in for `~`; not everybody has one."""
    found = os.path.expanduser(path)
    if found.startswith("~"):
        raise FileNotFoundError(
            f"there is no home folder '{path}'. Fix: set HOME, or LUMIJIT_CACHE_DIR "
            "to a folder of your own."
        )
    return found


def full_key(key: bytes | str, environment: str) -> str:
    """Join a structural key and the environment into the name of an entry."""
    if isinstance(key, str):
        key = key.encode()
    digest = blake2b(key, digest_size=20, key=b"lumijit")
    digest.update(b"\0")
    digest.update(environment.encode())
    return digest.hexdigest()


def fault_of(status: os.stat_result) -> str:
    """Say why a folder or file must not be trusted, or nothing."""
    if sys.platform == "win32":
        return ""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, not to you"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "may be written by other users"
    return ""


def _usable_directory(create: bool) -> str | None:
    """Return the folder if it may be used; log why not."""
    if settings.no_disk_cache:
        return None
    path, fault = _looked_at(create)
    if fault:
        _complain("kernels are not kept on disk: %s", fault)
        return None
    return path


def _looked_at(create: bool) -> tuple[str | None, str]:
    """Return the folder, None if there is none, and why it may not be used, if so."""
    try:
        path = directory()
        try:
            status = os.stat(path)
        except FileNotFoundError:
            if not create:
                return None, ""
            os.makedirs(path, mode=0o700, exist_ok=True)
            status = os.stat(path)
    except OSError as error:
        return None, str(error)
    if not stat.S_ISDIR(status.st_mode):
        return None, f"'{path}' is no folder"
    fault = fault_of(status)
    if fault:
        return None, (
            f"'{path}' {fault}. Fix: chmod go-w it, or set LUMIJIT_CACHE_DIR to a "
            "folder of your own."
        )
    return path, ""


def problem() -> str:
    """Say why kernels can't be kept on disk; nothing if they can."""
    return _looked_at(create=True)[1]


def contents() -> tuple[int, int]:
    """Return how many kernels there are on disk, and how many bytes they take."""
    path = _usable_directory(create=False)
    if path is None:
        return 0, 0
    with os.scandir(path) as entries:
        sizes = [_on_disk(e.stat()) for e in entries if e.name.endswith(_SUFFIX)]
    return len(sizes), sum(sizes)


def _on_disk(status: os.stat_result) -> int:
    """Return how many bytes a file takes: a small one takes a block."""
    return max(status.st_size, 512 * getattr(status, "st_blocks", 0))


def unpack(data: bytes, name: str) -> tuple[bytes, Meta]:
    """Check a file's contents, and take apart what `pack` joined; raises ValueError."""
    if len(data) < _HEADER.size:
        raise ValueError("it is truncated")
    magic, checksum, meta_bytes, code_bytes = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("it was not written by this version of lumijit")
    if len(data) != _HEADER.size + meta_bytes + code_bytes:
        raise ValueError("it is truncated")
    if blake2b(data[40:], digest_size=32).digest() != checksum:
        raise ValueError("its checksum is wrong")
    # (Here: a fiftieth of what importing lumijit takes.)
    import json

    middle = _HEADER.size + meta_bytes
    try:
        # (From bytes, it would find out the encoding.)
        meta = json.loads(data[_HEADER.size : middle].decode())
    except RecursionError as error:
        raise ValueError("its description is nested too deeply") from error
    if not isinstance(meta, dict) or meta.pop("key", None) != name:
        raise ValueError("it holds another kernel")
    return data[middle:], meta


def pack(name: str, object_code: bytes, meta: Meta) -> bytes:
    """Join bytes and what is told of them, with a checksum and a name."""
    import json

    text = json.dumps({**meta, "key": name}).encode()
    lengths = struct.pack("<QQ", len(text), len(object_code))
    checksum = blake2b(lengths, digest_size=32)
    checksum.update(text)
    checksum.update(object_code)
    return b"".join((_MAGIC, checksum.digest(), lengths, text, object_code))


def _read(path: str, is_installed: bool) -> bytes | None:
    """Read a file if it may be trusted; log why not."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(handle)
        fault = "" if is_installed else fault_of(status)
        if not stat.S_ISREG(status.st_mode):
            fault = "is no regular file"
        if fault:
            _complain("the cached kernel '%s' %s: it is not used.", path, fault)
            return None
        if not is_installed and time.time() - status.st_mtime > _TOUCH_AFTER_S:
            # When it was used last is of no use where nothing can be written.
            with contextlib.suppress(OSError):
                os.utime(path)
        # (File objects ask much before they read.)
        return _contents(handle, status.st_size)
    finally:
        os.close(handle)


def _contents(handle: int, size_bytes: int) -> bytes:
    """Read a file to its end."""
    parts = []
    while part := os.read(handle, size_bytes + 1):
        parts.append(part)
        if len(part) == size_bytes:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def lookup(key: str) -> tuple[bytes, Meta] | None:
    """Return the machine code and meta data stored under a key, if it is whole.

    Args:
        key: the entry's name, made by `full_key`.
    """
    folder = _usable_directory(create=False)
    found = None if folder is None else _found(folder, key)
    if found is None and not settings.no_disk_cache:
        found = _found(_installed, key)
    return found


def _found(folder: str, key: str) -> tuple[bytes, Meta] | None:
    """Return what a folder has under a key, if it is whole."""
    path = os.path.join(folder, key + _SUFFIX)
    try:
        data = _read(path, folder is _installed)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _complain("a cached kernel can't be read: %s", error)
        return None
    if data is None:
        return None
    try:
        return unpack(data, key)
    except ValueError as error:
        _drop(path, str(error))
        return None


def drop(key: str, problem: str) -> None:
    """Remove an entry that is of no use, and log why."""
    folder = _usable_directory(create=False)
    path = os.path.join(folder or _installed, key + _SUFFIX)
    if not os.path.exists(path):
        path = os.path.join(_installed, key + _SUFFIX)
    _drop(path, problem)


def _drop(path: str, problem: str) -> None:
    log(LogLevel.Warn, "the cached kernel '%s' is dropped: %s.", path, problem)
    _remove(path)


def store(key: str, object_code: bytes, meta: Meta) -> bool:
    """Keep machine code under a key; tell whether that worked.

    Args:
        key: the entry's name, made by `full_key`.
        object_code: what `lookup` will return.
        meta: JSON-serialisable facts about it.
    """
    folder = _usable_directory(create=True)
    if folder is None:
        return False
    data = pack(key, object_code, meta)
    if len(data) > settings.cache_size_mb << 20:
        return False
    path = os.path.join(folder, key + _SUFFIX)
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}{_TEMPORARY}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(temporary, flags, 0o600)
        try:
            _write(handle, data)
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise
    except OSError as error:
        _complain("kernels can't be kept in '%s': %s", folder, error.strerror)
        return False
    if next(_stores) % _EVICT_EVERY == 0 and _is_due(folder):
        evict()
    return True


def _is_due(folder: str) -> bool:
    """Tell whether to look through the folder, and that this process does it now."""
    path = os.path.join(folder, _LOOKED_THROUGH)
    with contextlib.suppress(OSError):
        if 0 <= time.time() - os.stat(path).st_mtime < _EVICT_AFTER_S:
            return False
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.utime(path)
    return True


def stored(key: str, build: Callable[[], bytes], use: Callable[[bytes], T]) -> T:
    """Use what there is under a key; build and store it if that is of no use.

    Args:
        key: what `full_key` returned.
        build: returns the code.
        use: what is made of it; raises KernelBuildError if it is of no use.
    """
    found = lookup(key)
    if found is not None:
        try:
            return use(found[0])
        except KernelBuildError as error:
            drop(key, str(error))
    code = build()
    store(key, code, {})
    return use(code)


def _write(handle: int, data: bytes) -> None:
    """Write all of a file, and close it. (File objects ask much before they write.)"""
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]
    finally:
        os.close(handle)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        log(LogLevel.Debug, "'%s' can't be removed: %s", path, error)


def evict() -> None:
    """Remove the least recently used kernels if the cache exceeds its size."""
    folder = _usable_directory(create=False)
    if folder is None:
        return
    found: list[tuple[float, int, str]] = []
    now = time.time()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.endswith((_SUFFIX, _TEMPORARY)):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if entry.name.endswith(_SUFFIX):
                    found.append((status.st_mtime, _on_disk(status), entry.path))
                elif now - status.st_mtime > _STALE_AFTER_S:
                    # Left behind by a process that was killed while writing.
                    _remove(entry.path)
    except OSError as error:
        _complain("the kernel cache can't be listed: %s", error)
        return
    limit = settings.cache_size_mb << 20
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    for _, size, path in sorted(found):
        _remove(path)
        total -= size
        if total <= limit * _EVICT_TO:
            break
