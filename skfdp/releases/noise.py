"""Generators and integer Gaussian noise; the only source of private normals.

Without a seed every stream is AES-128 in counter mode, keyed from the operating
system inside ``fit`` and never stored. With a seed each stream is keyed by a hash of
(seed, class, release, shape): two seeded fits may share noise.
"""

from __future__ import annotations

import copy
import hashlib
import numbers
import secrets

import numpy as np
import randomgen

from skfdp.privacy.events import PrivacyWarning
from skfdp.queries import MAX_STD
from skfdp.records.checks import shown
from skfdp.records.guards import warn_caller
from skfdp.releases.exact_draws import rounded_pair
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
    owner : type or str
        Class of the estimator; its name enters the keys of seeded streams.
    coins : bytes, default=None
        Key of the public streams of a fit with a checkpoint: they are the same when it
        is resumed, and private ones never are. Anybody may know it. None: public
        streams are keyed like private ones.
    """

    def __init__(
        self,
        random_state: int | None,
        owner: type | str,
        coins: bytes | None = None,
    ):
        check_random_state(random_state)
        self._coins = coins
        self.seeded = random_state is not None
        name = owner if isinstance(owner, str) else owner.__qualname__
        seed = int(random_state) if random_state is not None else None
        self._path = f"{seed}/{name}"

    def under(self, name: str) -> Streams:
        """Return other streams, for a method that is a part of this fit."""
        found = copy.copy(self)
        found._path = f"{self._path}/{name}"
        return found

    def public(self, label: str) -> np.random.Generator:
        """Return a stream for draws that may be disclosed; a function of the seed."""
        name = f"public/{label}"
        if self._coins is None or current() is not None:
            return self._generator(name)
        path = self._path.encode() + name.encode()
        return generator_of(_key_of(self._coins + path))

    def private(self, label: str, *details: int | str | tuple) -> np.random.Generator:
        """Return a stream for sampling or noise.

        With a seed it is a function of the seed, the class, the label and the details,
        such as the shape of what is drawn.
        """
        return self._generator(f"private/{label}/", details)

    def _generator(self, name: str, details: tuple = ()) -> np.random.Generator:
        if (audit := current()) is not None:
            key = audit.key(name)  # of the name alone, whatever the data are
        elif self.seeded:
            key = _key_of(f"{self._path}/{name}{details}".encode())
        else:
            key = secrets.randbits(128)
        return generator_of(key)


def _key_of(text: bytes) -> int:
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest, "little")


def generator_of(key: int) -> np.random.Generator:
    """Return the stream of a key of 128 bits: AES in counter mode."""
    return np.random.Generator(randomgen.AESCounter(key=key))


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
