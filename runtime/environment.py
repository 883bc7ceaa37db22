"""What machine code depends on beyond a kernel's structure: our sources, LLVM, the
system and the processor.

Owns the text that is part of every key of the disk cache. Nobody has to count versions
of the code generator: the contents of all files of `compiler` and `runtime` are hashed.
Reading them takes 3 ms, so the hash is kept in the disk cache itself, under what the
system says of the files (0.4 ms); who changes a file changes that.
"""

from __future__ import annotations

import functools
import os
import struct
import sys
import time
from collections.abc import Iterator
from typing import Final

from lumijit.runtime import cache
from lumijit.runtime.digest import blake2b
from lumijit.runtime.log import LogLevel, log
from lumijit.runtime.version import VERSION

_HERE: Final = os.path.dirname(os.path.abspath(__file__))
# The layer above is named here only because it is where code is made.
_FOLDERS: Final = (_HERE, os.path.join(os.path.dirname(_HERE), "compiler"))
_SUFFIXES: Final = (".py", ".pyc", ".so", ".pyd")
_STARTED_NS: Final = time.time_ns()


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield our files in a folder and below it, in order."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name.endswith(_SUFFIXES):
                yield entry.path, entry.stat()
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Return what differs once a file is another one, or has been written to."""
    return (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_dev,
    )


def _contents(files: list[tuple[str, os.stat_result]]) -> str:
    digest = blake2b(digest_size=20)
    for path, _ in files:
        with open(path, "rb") as file:
            text = file.read()
        parts = path.split(os.sep)[-2:]
        digest.update(f"{parts} {len(text)} ".encode())
        digest.update(text)
    return digest.hexdigest()


@functools.cache
def sources_digest() -> str:
    """Return a hash of the sources that decide what machine code looks like.

    Where they can't be read, or have been changed since this process began (so that it
    may run others), it is one that no other process has.
    """
    unique = f"{os.getpid()} {time.time_ns()}"
    try:
        files = [found for folder in _FOLDERS for found in _files(folder)]
        if not files:
            raise FileNotFoundError(f"there are no files in {_FOLDERS}")
        newest = max(max(s.st_ctime_ns, s.st_mtime_ns) for _, s in files)
        if newest >= _STARTED_NS:
            log(LogLevel.Info, "kernels are not shared: lumijit was changed just now")
            return unique
        known = [(path, _identity(status)) for path, status in files]
        name = cache.full_key("sources", repr((VERSION, known)))
        found = cache.lookup(name)
        if found is not None and isinstance(found[1].get("digest"), str):
            return str(found[1]["digest"])
        digest = _contents(files)
    except OSError as error:
        log(LogLevel.Warn, "kernels are not shared: %s", error)
        return unique
    cache.store(name, b"", {"digest": digest})
    return digest


@functools.cache
def _llvm_library() -> tuple[str, tuple[int, ...]]:
    """Return the version of `llvmlite`, and what identifies LLVM's library in it."""
    import llvmlite

    # The bare `llvmlite` package is light: LLVM itself is not loaded by it.
    folder = os.path.join(os.path.dirname(llvmlite.__file__), "binding")
    for name in ("libllvmlite.so", "libllvmlite.dylib", "llvmlite.dll"):
        try:
            return llvmlite.__version__, _identity(os.stat(os.path.join(folder, name)))
        except OSError:
            continue
    return llvmlite.__version__, ()


def key(target: str = "") -> str:
    """Return a text that differs wherever machine code might not be shared.

    Args:
        target: the processor that code is generated for, with its features, and the
            version of LLVM.
    """
    version, library = _llvm_library()
    return "|".join(
        (
            VERSION,
            sources_digest(),
            f"llvmlite {version} of {library[:1]} bytes",
            sys.platform,
            str(struct.calcsize("P")),
            target,
        )
    )


def local_key(target: str = "") -> str:
    """Return a text that differs as soon as LLVM's library is another file.

    Args:
        target: the processor.
    """
    return f"{key(target)}|{_llvm_library()}"
