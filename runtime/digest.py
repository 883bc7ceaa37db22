"""BLAKE2b, without all else that `hashlib` is: it would load OpenSSL, for 4 ms."""

from __future__ import annotations

try:
    from _blake2 import blake2b as blake2b
except ImportError:
    from hashlib import blake2b as blake2b
