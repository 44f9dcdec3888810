"""The compilation of loops by numba, with a cache on disk that knows all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from numba import njit

_FOLDER = Path(__file__).parent
#: Every file that compiled code comes from: those of this folder and of those in it.
FILES = tuple(
    sorted(path.relative_to(_FOLDER).as_posix() for path in _FOLDER.rglob("*.py"))
)


def _fingerprint() -> str:
    digest = hashlib.blake2b(digest_size=8)
    for name in FILES:
        digest.update((_FOLDER / name).read_bytes())
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


def part(function: Callable) -> Callable:
    """Compile what kernels alone call: it is kept with them, and not by itself.

    For functions that are made at run time, whose names numba's cache cannot tell
    apart. What they are made of must come from the files above.
    """
    return njit(nogil=True)(function)
