"""The compilation of loops by numba, with a cache on disk that knows all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from numba import njit

#: Every file that compiled code comes from: those of this folder.
FILES = tuple(sorted(path.name for path in Path(__file__).parent.glob("*.py")))


def _fingerprint() -> str:
    digest = hashlib.blake2b(digest_size=8)
    for name in FILES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()


_SOURCES = _fingerprint()


def kernel(**options) -> Callable[[Callable], Callable]:
    """Return a decorator: `numba.njit` that releases the GIL and is cached on disk.

    numba takes a function from the disk as long as its own file is unchanged, even if
    it calls functions of other files that have changed: after an upgrade a loop might
    go on with the clip of yesterday. Here the name in the cache changes with any file.

    Parameters
    ----------
    **options
        Of `numba.njit`.
    """

    def compiled(function: Callable) -> Callable:
        function.__qualname__ += f"_{_SOURCES}"
        return njit(nogil=True, cache=True, **options)(function)

    return compiled
