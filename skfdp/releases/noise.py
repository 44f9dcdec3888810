"""Generators and integer Gaussian noise; the only source of private normals.

Without a seed every stream is AES-128 in counter mode, keyed from the operating
system inside ``fit`` and never stored. With a seed each private stream is keyed by a
hash of (seed, estimator, parameters, release, plan, data), as deterministic signatures
derive their nonces: two fits share noise only if they are the same fit. Parameters
enter by what they were resolved to, callables by their code and all that it holds.
"""

from __future__ import annotations

import copy
import hashlib
import numbers
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import randomgen
from scipy.sparse import issparse

from skfdp.privacy.events import PrivacyWarning
from skfdp.queries import MAX_STD
from skfdp.records.checks import shown
from skfdp.records.guards import warn_caller
from skfdp.releases.exact_draws import rounded_pair
from skfdp.releases.identity import identity
from skfdp.releases.rehearsal import current

# Noise is drawn in blocks that stay in the cache; the stream is that of one draw.
_BLOCK_ENTRIES = 2**13  # even: words come in pairs


def check_random_state(random_state: int | None) -> None:
    """Raise ValueError unless random_state is None or an int."""
    integral = isinstance(random_state, numbers.Integral)
    if random_state is not None and (not integral or isinstance(random_state, bool)):
        raise ValueError(
            f"random_state={shown(random_state)} must be None (cryptographic noise) or "
            "an int (reproducible, without guarantee): a generator object would repeat "
            "or share noise between fits."
        )


def warn_of_seed(random_state: int | None) -> None:
    """Warn, before anything is charged, that a seed gives no guarantee.

    The seed is not quoted: the warning may end up in a log.
    """
    if random_state is not None:
        warn_caller(
            "random_state is an int: whoever knows or guesses it can remove the noise, "
            "so this fit gives NO privacy guarantee, whatever epsilon says. Leave it "
            "out for anything that is released. For experiments: "
            "warnings.simplefilter('ignore', skfdp.PrivacyWarning).",
            PrivacyWarning,
        )


class Streams:
    """The random streams of one fit.

    Parameters
    ----------
    random_state : int or None
        None keys every stream from the operating system. An int is for reproducible
        experiments and voids the guarantee.
    owner : type, str or tuple of them
        Class of the estimator: it enters every key by its `identity`, so that a class
        of the user's own shares no stream with one of the same name.
    data : sequence of ndarray or csr_array
        What the fit sees. It enters the keys of seeded private streams, so that the
        same seed on other data draws other noise.
    parameters : mapping, default=None
        What else changes what is trained, as it was resolved: the mask of the public
        columns rather than how it was spelled. It enters the keys, too; what has no
        `identity` is refused, with a seed.
    coins : bytes, default=None
        Key of the public streams of a fit that may be stopped: they are the same when
        it goes on, and private ones never are. Anybody may know it. None: public
        streams are keyed like private ones.
    """

    def __init__(
        self,
        random_state: int | None,
        owner: type | str | tuple,
        data: Sequence[Any] = (),
        parameters: Mapping[str, object] | None = None,
        coins: bytes | None = None,
    ):
        check_random_state(random_state)
        self._coins = coins
        self.seeded = random_state is not None
        self._seed = b""
        if random_state is not None:
            told = identity("the class of the estimator", owner)
            self._seed = f"{int(random_state)}/".encode() + told
        self._parameters = _identified(parameters or {}) if self.seeded else b""
        self._data = data
        self._digest: bytes | None = None

    def add(self, name: str, value: object) -> None:
        """Let a fact that a fit resolves later enter the keys from here on."""
        if self.seeded:
            self._parameters += identity(name, value)

    def under(self, name: str) -> Streams:
        """Return other streams, for a method that is a part of this fit."""
        found = copy.copy(self)
        if self.seeded:
            found._seed = self._seed + identity("part", name)
        if self._coins is not None:
            found._coins = self._coins + identity("part", name)
        return found

    def public(self, label: str) -> np.random.Generator:
        """Return a stream for draws that may be disclosed; a function of the seed."""
        name = f"public/{label}"
        if self._coins is None or current() is not None:
            return self._generator(name, lambda: b"")
        digest = hashlib.blake2b(self._coins + name.encode(), digest_size=16).digest()
        return generator_of(int.from_bytes(digest, "little"))

    def private(self, label: str, *facts: object) -> np.random.Generator:
        """Return a stream for coins or noise; a function of seed, facts and data."""
        return self._generator(
            f"private/{label}/",
            lambda: identity(label, facts) + self._parameters + self._digest_of_data(),
        )

    def _generator(
        self, name: str, context: Callable[[], bytes]
    ) -> np.random.Generator:
        if (audit := current()) is not None:
            key = audit.key(name)  # of the name alone, whatever the data are
        elif self.seeded:
            digest = hashlib.blake2b(
                name.encode() + context(), key=hashlib.blake2b(self._seed).digest()
            )
            key = int.from_bytes(digest.digest()[:16], "little")
        else:
            key = secrets.randbits(128)
        return generator_of(key)

    def _digest_of_data(self) -> bytes:
        if self._digest is None:
            self._digest = digest_of(self._data)
        return self._digest


def generator_of(key: int) -> np.random.Generator:
    """Return the stream of a key of 128 bits: AES in counter mode."""
    return np.random.Generator(randomgen.AESCounter(key=key))


def digest_of(data: Sequence[Any]) -> bytes:
    """Return what tells the arrays of a fit from others; a secret, like the data."""
    digest = hashlib.blake2b()
    for array in data:
        digest.update(f"{array.shape}".encode())
        if issparse(array):
            stored = (array.data.astype(np.float64),)
            # SciPy chooses between int32 and int64.
            places = (array.indices, array.indptr)
            for part in (*stored, *(i.astype(np.int64) for i in places)):
                digest.update(np.ascontiguousarray(part).data)
            continue
        for start in range(0, len(array), 1024):
            # float64, so that equal data of another dtype draw equal noise
            block = array[start : start + 1024].astype(np.float64)
            digest.update(np.ascontiguousarray(block).data)
    return digest.digest()


#: They do not change what is trained.
_LEFT_OUT = frozenset(
    {"backend", "device", "ledger", "n_jobs", "names", "random_state", "target_name"}
)


def _identified(parameters: Mapping[str, object]) -> bytes:
    """Return what tells these parameters from others, the same in every process."""
    parts = [
        name.encode() + b"=" + identity(name, value)
        for name, value in sorted(parameters.items())
        if name not in _LEFT_OUT
    ]
    return hashlib.blake2b(b"/".join(parts)).digest()


def random_words(generator: np.random.Generator, size: int) -> np.ndarray:
    """Return `size` words of 64 random bits, uint64.

    They are a new array: neither NumPy nor randomgen writes integers into an old one.
    """
    bits = generator.bit_generator
    if isinstance(bits, randomgen.AESCounter):
        return bits.random_raw(size)
    # The raw words of other generators may be half empty.
    return generator.integers(2**64 - 1, size=size, dtype=np.uint64, endpoint=True)


def add_integer_gaussian(
    total: np.ndarray, std: float, generator: np.random.Generator
) -> np.ndarray:
    """Add ``floor(N(0, std**2) + 1/2)`` to every entry of an int64 array, in place.

    Notes
    -----
    **Guarantees.** For an integer z, ``z + floor(N + 1/2) = floor(z + N + 1/2)``: the
    result is a function of ``z + N`` alone, so the accounting of the continuous
    Gaussian holds by post-processing, and no floating-point sum can leak. If the words
    are uniform and independent, what is added has exactly the law of the rounded
    Gaussian: where two words and float64 do not decide an integer, further words and
    longer integers do (docs/theory/exact_release.rst, The theorem). `std` is in grid
    units; above 2**40 it is refused.

    Normals come in pairs, one random word each. Of the last pair of an array of odd
    size the second is dropped. The time depends on the size and on the number of
    second looks, which what the noise is added to does not change.
    """
    # Imported here: `import skfdp` does not load numba.
    from skfdp.kernels.sampling import add_rounded_normals

    if total.dtype != np.int64:
        raise TypeError(f"total must be int64, got {total.dtype}: sums must be exact.")
    if not 0 <= std <= MAX_STD:
        raise ValueError(
            f"std={std!r} grid units must lie in [0, 2**40]: coarsen the grid."
        )
    if not total.flags.c_contiguous:
        raise ValueError("total must be contiguous: noise is added in place.")
    flat, std = total.reshape(-1), float(std)
    unsure = np.empty(_BLOCK_ENTRIES // 2, dtype=np.int64)
    left_open: list[tuple[int, int, int]] = []
    for start in range(0, flat.size, _BLOCK_ENTRIES):
        part = flat[start : start + _BLOCK_ENTRIES]
        words = random_words(generator, part.size + part.size % 2)
        n_unsure = add_rounded_normals(part, std, words, unsure)
        for pair in unsure[:n_unsure].tolist():
            first, second = words[2 * pair : 2 * pair + 2].tolist()
            left_open.append((start + 2 * pair, first, second))
    # After all blocks, so that their words do not depend on what is left open.
    for entry, first, second in left_open:
        noise = rounded_pair(
            std, first, second, lambda n: random_words(generator, n).tolist()
        )
        part = flat[entry : entry + 2]
        part += np.array(noise[: part.size], dtype=np.int64)
    return total
