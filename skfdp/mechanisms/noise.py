"""Random generators and integer Gaussian noise, the only source of private noise.

Without a seed every stream is AES-128 in counter mode, with a key from the operating
system that is drawn inside ``fit``, and stored only by a `checkpoint`. With a seed the
key of a stream is a hash of (seed, class, release, shape), so that two seeded fits may
share noise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
import numbers
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
import randomgen

from skfdp.data.grid import MAX_STD
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Event
from skfdp.queries import Query

# Long integers compute the normals and gaps that float64 cannot round with certainty.
#
# If the noise is 2**27 grid units, this concerns about one normal in two million; at
# 2**34 it is one in 17,000. Numbers are fixed point: an integer n means
# ``n / 2**places``.


# Largest number of rounds, each of which draws further random words. The probability
# that 32 rounds are not enough is below 2**-1900.
_ROUNDS = 32
# Bound of the errors of the functions below, in units of the last place. A series has
# fewer than 700 terms, each with an error of at most two units. A logarithm contains
# the error of log(2) at most 2,200 times. The total is below 2**23.
_SLACK = 2**24


def rounded_pair(
    std: float, first: int, second: int, more_words: Callable[[int], list[int]]
) -> tuple[int, int]:
    """Return ``floor(std * x + 1/2)`` for two normals x, drawn from random words.

    `std` is in grid units, at least 0. The words `first` and `second`, as
    `kernels.sampling.add_rounded_normals` reads them, contain the first digits of the
    two uniform numbers of the Box-Muller method. Further digits are drawn until both
    integers are determined: ``more_words(n)`` returns n random words of 64 bits.
    """
    radius, angle = first << 11 | second & (2**11 - 1), second >> 11 & (2**50 - 1)
    std_ratio, std_denominator = std.as_integer_ratio()
    for extra in range(64, 64 * _ROUNDS + 1, 64):
        further = more_words(2)
        radius, angle = radius << 64 | further[0], angle << 64 | further[1]
        if radius == 0:
            continue  # -log(u) has no upper bound if all known digits of u are 0
        places = extra + 64
        bounds = _bounds(radius, 75 + extra, angle, 50 + extra, places)
        # floor(v + 1/2) for each bound v; all denominators are powers of two.
        bits = 2 * places + std_denominator.bit_length()
        ends = [(2 * std_ratio * end + (1 << bits - 1)) >> bits for end in bounds]
        if ends[0] == ends[1] and ends[2] == ends[3]:
            break
    else:
        raise RuntimeError(
            "4,096 random bits did not determine a normal number: the random generator "
            "returns constants."
        )
    # A negative normal is rounded like its absolute value. Only ties would have to be
    # rounded differently, and they have probability 0.
    one, other = (ends[2], ends[0]) if second >> 63 else (ends[0], ends[2])
    return -one if second >> 62 & 1 else one, -other if second >> 61 & 1 else other


def exact_gap(word: int, pace: float, more_words: Callable[[int], list[int]]) -> int:
    """Return ``floor(-log(u) / pace)`` for a uniform u whose first digits are given.

    `word` holds the first 64 binary digits of u. `pace` is above 0 and finite.
    ``more_words(n)`` returns n further random words of 64 bits.
    """
    pace_ratio, pace_denominator = pace.as_integer_ratio()
    for bits in range(128, 64 * _ROUNDS + 1, 64):
        word = word << 64 | more_words(1)[0]
        if word:
            bounds = _logarithm_bounds(word, bits, bits + 64)
            ends = [x * pace_denominator // (pace_ratio << bits + 64) for x in bounds]
            if ends[0] == ends[1]:
                return ends[0]
    raise RuntimeError(
        "2,048 random bits did not determine a gap between sampled rows: the random "
        "generator returns constants."
    )


def _logarithm_bounds(numerator: int, bits: int, places: int) -> tuple[int, int]:
    """Return bounds of -log(u) for every u whose first bits are the numerator.

    The bounds are integers in units of ``2**-places``.
    """
    # Over these u, -log(u) varies by log(1 + 1 / numerator) <= 1 / numerator.
    highest = _minus_logarithm(numerator, bits, places) + _SLACK
    return max(0, highest - (1 << places) // numerator - 2 * _SLACK), highest


def _bounds(
    radius: int, radius_bits: int, angle: int, angle_bits: int, places: int
) -> tuple[int, int, int, int]:
    """Return lower and upper bounds of ``r cos(a)`` and ``r sin(a)``.

    Here r is ``sqrt(-2 log(u))``. The bounds hold for every u whose digits start with
    `radius`, and every a (in eighths of the circle) whose digits start with `angle`.
    They are integers in units of ``2**-(2 * places)``.
    """
    lowest, highest = _logarithm_bounds(radius, radius_bits, places)
    long = math.isqrt(highest << places + 1) + 1
    short = math.isqrt(lowest << places + 1)
    start = angle * _eighth(places) >> angle_bits
    # Cosine and sine change by at most the width of the angle's interval.
    width = (1 << places >> angle_bits) + _SLACK
    cosine, sine = _cosine_and_sine(start, places)
    return (
        short * max(0, cosine - width),
        long * (cosine + width),
        short * max(0, sine - width),
        long * (sine + width),
    )


def _minus_logarithm(numerator: int, bits: int, places: int) -> int:
    """Return ``-log(numerator / 2**bits)`` in units of ``2**-places``."""
    length = numerator.bit_length()
    # The numerator is 2**length * near / 1024, up to one part in 512.
    near = 2 * (numerator << 9 >> length) + 1
    wide, close = numerator << 10, near << length
    rest = _logarithm_of_ratio(wide - close, wide + close, places)
    return (
        (length - bits) * _logarithm_of_thousandths(512, places)
        - _logarithm_of_thousandths(near, places)
        - rest
    )


@functools.lru_cache(2048)
def _logarithm_of_thousandths(numerator: int, places: int) -> int:
    """Return ``log(numerator / 1024)`` in units of ``2**-places``."""
    return _logarithm_of_ratio(numerator - 1024, numerator + 1024, places)


def _logarithm_of_ratio(numerator: int, denominator: int, places: int) -> int:
    """Return ``log((1 + s) / (1 - s))`` for s = numerator / denominator.

    The result is in units of ``2**-places``.
    """
    power = (numerator << places) // denominator
    square = power * power >> places
    total, k = 0, 1
    while power not in (0, -1):  # a negative number is rounded down to -1
        total += power // k
        power = power * square >> places
        k += 2
    return 2 * total


@functools.lru_cache(64)
def _eighth(places: int) -> int:
    """Return pi / 4 in units of ``2**-places``, by Machin's formula."""

    def arc_tangent(n: int) -> int:
        power, total, k = (1 << places) // n, 0, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= n * n
            k += 2
        return total

    return 4 * arc_tangent(5) - arc_tangent(239)


def _cosine_and_sine(angle: int, places: int) -> tuple[int, int]:
    """Return cosine and sine of an angle between 0 and pi / 4.

    The angle and the results are in units of ``2**-places``.
    """
    square = angle * angle >> places
    sine, term, k = 0, angle, 1
    while term:
        sine += term if k % 4 == 1 else -term
        term = (term * square >> places) // ((k + 1) * (k + 2))
        k += 2
    # The error of the root is the error of the sine times the tangent. The tangent is
    # at most 1.
    return math.isqrt((1 << 2 * places) - sine * sine), sine


# Replays: fits inside an audit. The audit fixes the sampling and provides the releases.
#
# Replays exist only inside an audit (`skfdp.audit.replay`). The results of these fits
# are not private: anybody can compute the keys of sampling and noise, and a release may
# have been computed from another table. The events and reports of these fits are marked
# as seeded.


@dataclasses.dataclass(frozen=True)
class Asked:
    """One requested release."""

    event: Event  # charged
    stream: str  # name of the noise stream
    query: Query
    theta: np.ndarray | None  # weights at which the query computes its sum
    noise_std: float
    #: Numbers of the rows that are summed, without null records; None means every row.
    #: Private, and valid until the next release.
    batch: np.ndarray | None
    is_null: np.ndarray | None  # whether each record is null; private


class ReplayContext(Protocol):
    """Interface of an audit that provides the keys of streams and the releases."""

    def key(self, stream: str) -> int:
        """Return the key (128 bits) of the next stream of this name."""

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the values of a release.

        ``noisy_sum()`` returns the release that a fit without an audit would make.
        """


@dataclasses.dataclass
class _ActiveReplay:
    """A replay, or None after its end, and the process and thread that opened it."""

    replay: ReplayContext | None
    place: tuple[int, int]


#: What `current` checks; None if no audit is open in this context.
ACTIVE: ContextVar[_ActiveReplay | None] = ContextVar("skfdp_replay", default=None)


def current() -> ReplayContext | None:
    """Return the replay of the audit around this call, None outside an audit.

    Notes
    -----
    **Guarantees.** The result is None outside `opened`, in every other thread and
    process, and after the replay was closed, even if a copy of its context still
    exists. So threads, forks, and tasks that outlive the audit draw real noise.
    """
    active = ACTIVE.get()
    return active.replay if active is not None and active.place == _here() else None


def _here() -> tuple[int, int]:
    """Return the process and the thread of this call."""
    return os.getpid(), threading.get_ident()


@contextlib.contextmanager
def opened(replay: ReplayContext) -> Iterator[None]:
    """Let a replay provide the releases of this thread; for `skfdp.audit` only.

    Raises
    ------
    RuntimeError
        If a replay is open already. An audit inside another audit would get the
        releases of the outer audit.
    """
    if current() is not None:
        raise RuntimeError("an audit runs inside another one: run one audit at a time.")
    active = _ActiveReplay(replay, _here())
    token = ACTIVE.set(active)
    try:
        yield
    finally:
        active.replay = None
        ACTIVE.reset(token)


#: What keeps the keys of the streams of the next fit, and charges it; see `checkpoint`.
KEEPER: ContextVar[Any] = ContextVar("skfdp_keeper", default=None)

# Noise is drawn in blocks that fit into the cache. The block size does not change the
# noise.
_WORDS_AT_ONCE = 2**13  # even, because words are used in pairs


def check_random_state(random_state: int | None) -> None:
    """Raise ValueError unless random_state is None or an int."""
    seeds = numbers.Integral, type(None)
    if not isinstance(random_state, seeds) or isinstance(random_state, bool):
        raise ValueError(
            f"random_state={shown(random_state)} must be None (cryptographic noise) or "
            "an int (reproducible, without guarantee), because a generator object "
            "would repeat or share noise between fits: pass None."
        )


class Streams:
    """The random streams of one fit.

    Without a `random_state` the key of every stream is from the operating system. An
    int is for reproducible experiments and voids the guarantee. The name of the
    `owner`, the class of the estimator, enters the keys of seeded streams. `key` is the
    source of all keys of a fit with a checkpoint; a seed takes precedence.
    """

    def __init__(self, random_state: int | None, owner: type | str, key: Any = None):
        check_random_state(random_state)
        self.key = key if random_state is None else None
        self.seeded = random_state is not None
        name = owner if isinstance(owner, str) else owner.__qualname__
        seed = int(random_state) if random_state is not None else None
        self.path = f"{seed}/{name}"

    def public(self, label: str) -> np.random.Generator:
        """Return a stream for draws that may be disclosed.

        With a seed the stream is a function of the seed, the `owner` and the label.
        """
        return self._generator(f"public/{label}")

    def private(self, label: str, *details: int | str | tuple) -> np.random.Generator:
        """Return a stream for sampling or noise.

        With a seed the stream is a function of the seed, the `owner`, the label and the
        details, such as the shape of the noise.
        """
        return self._generator(f"private/{label}/", details)

    def _generator(self, name: str, details: tuple = ()) -> np.random.Generator:
        if (audit := current()) is not None:
            key = audit.key(name)  # depends on names, not on data
        elif self.seeded or self.key is not None:
            text = f"{self.path}/{name}{details}".encode()
            text = text if self.key is None else self.key.hashed(text)
            digest = hashlib.blake2b(text, digest_size=16).digest()
            key = int.from_bytes(digest, "little")
        else:
            key = secrets.randbits(128)
        return generator_of(key)


def generator_of(key: int) -> np.random.Generator:
    """Return an AES stream in counter mode with a key of 128 bits."""
    return np.random.Generator(randomgen.AESCounter(key=key))


def random_words(generator: np.random.Generator, size: int) -> np.ndarray:
    """Return `size` words of 64 random bits, uint64.

    The array is new: NumPy and randomgen cannot write integers into an existing one.
    """
    bits = generator.bit_generator
    if isinstance(bits, randomgen.AESCounter):
        return bits.random_raw(size)
    # Raw words would have fewer random bits in some generators.
    return generator.integers(2**64 - 1, size=size, dtype=np.uint64, endpoint=True)


def add_integer_gaussian(
    total: np.ndarray, std: float, generator: np.random.Generator
) -> np.ndarray:
    """Add ``floor(N(0, std**2) + 1/2)`` to every entry of an int64 array, in place.

    Notes
    -----
    **Guarantees.** The result is ``floor(total + N + 1/2)``, a function of ``total +
    N`` only, so the accounting of the continuous Gaussian holds by post-processing. If
    the random words are uniform and independent, the noise has exactly the distribution
    of the rounded Gaussian (:ref:`sampler-theorem`). `std` is in grid units; above
    2**40 it is refused. The time does not depend on `total`.

    Normals are drawn in pairs, with one random word each. For an array of odd size the
    last normal is dropped.
    """
    # Imported here, because `import skfdp` must not load numba.
    from skfdp.kernels.sampling import add_rounded_normals

    if total.dtype != np.int64:
        raise TypeError(f"total must be int64, got {total.dtype}: sums must be exact.")
    if not 0 <= std <= MAX_STD:
        raise ValueError(
            f"std={std!r} grid units must be between 0 and 2**40: for more noise use a "
            "coarser grid."
        )
    if not total.flags.c_contiguous:
        raise ValueError("total must be contiguous: noise is added in place.")
    flat, std = total.reshape(-1), float(std)
    unsure = np.empty(_WORDS_AT_ONCE // 2, dtype=np.int64)
    left_open: list[tuple[int, int, int]] = []
    for start in range(0, flat.size, _WORDS_AT_ONCE):
        part = flat[start : start + _WORDS_AT_ONCE]
        words = random_words(generator, part.size + part.size % 2)
        n_unsure = add_rounded_normals(part, std, words, unsure)
        for pair in unsure[:n_unsure].tolist():
            first, second = words[2 * pair : 2 * pair + 2].tolist()
            left_open.append((start + 2 * pair, first, second))
    # These pairs draw their words after all blocks, so the words of the blocks do not
    # depend on these pairs.
    for entry, first, second in left_open:
        noise = rounded_pair(
            std, first, second, lambda n: random_words(generator, n).tolist()
        )
        part = flat[entry : entry + 2]
        part += np.array(noise[: part.size], dtype=np.int64)
    return total
