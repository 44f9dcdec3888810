"""The compilation of loops by numba, with a cache on disk that knows all of them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

from numba import njit
from numba.core.caching import FunctionCache

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


class _Cache(FunctionCache):
    """numba's cache of a function; without room for it the process keeps the code."""

    def save_overload(self, sig, data):
        """Write compiled code, if that can be done."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def kernel(**options) -> Callable[[Callable], Callable]:
    """Return a decorator: `numba.njit` that releases the GIL and is cached on disk.

    numba takes a function from the disk as long as its own file is unchanged, even if
    it calls functions of other files that have changed: after an upgrade a loop might
    go on with the clip of yesterday. Here the name in the cache changes with any file.

    Where no cache can be written (a package that is read-only and a user without a home
    folder, a disk that is full), numba would refuse. Here the code is compiled in each
    process and works; `kept` says which of both it is. ``NUMBA_CACHE_DIR`` may name
    another folder.

    Parameters
    ----------
    **options
        Of `numba.njit`.
    """

    def compiled(function: Callable) -> Callable:
        function.__qualname__ += f"_{_SOURCES}"
        found = njit(nogil=True, **options)(function)
        with contextlib.suppress(RuntimeError):  # there is no folder for it
            found._cache = _Cache(function)
        return found

    return compiled


def kept(function: Callable) -> bool:
    """Return whether there is a folder in which a kernel is kept once compiled."""
    return function.stats.cache_path is not None


def known(function: Callable) -> bool:
    """Return whether a kernel of this version was compiled before, for any types."""
    names = f"*.{function.__qualname__}-*.nbi"
    return kept(function) and any(Path(function.stats.cache_path).glob(names))


def part(function: Callable) -> Callable:
    """Return a function that becomes part of the kernels that call it.

    numba writes it out in each of them before anything is compiled, so that it takes no
    compilation of its own. There their options hold.
    """
    return kernel(error_model="numpy", inline="always")(function)
