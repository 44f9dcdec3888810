"""How loops are compiled: by numba, with a cache on disk that knows all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from numba import njit

#: Every file of this package that compiled code comes from.
FILES = (
    "losses/residuals.py",
    "queries/contributions.py",
    "queries/linear_kernels.py",
    "queries/mlp_kernels.py",
    "queries/short_kernels.py",
    "queries/sparse_kernels.py",
    "queries/vectors.py",
    "row_kernels.py",
    "sampling_kernels.py",
    "step_kernels.py",
)


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
