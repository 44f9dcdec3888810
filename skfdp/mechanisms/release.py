"""Integer Gaussian noise, and the release function that adds it to private sums.

Only this file adds noise, and it is the only source of private noise. Without a seed
every stream is AES-128 in counter mode, with a key from the operating system that is
drawn inside ``fit``, and stored only by a `checkpoint`. With a seed the key of a stream
is a hash of (seed, class, release, shape), so that two seeded fits may share noise.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import math
import numbers
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import numpy as np
import randomgen

from skfdp import kernels
from skfdp.data.grid import MAX_STD
from skfdp.data.units import Units
from skfdp.privacy.checks import shown
from skfdp.privacy.events import ROUNDING, Event, PrivacyBudgetError, Relation
from skfdp.queries import Query, weighted

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

# Random words are drawn in blocks that fit into the cache. The block size does not
# change the noise.
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


# Private batches by Poisson sampling with secret randomness.
#
# The rows of a private batch and their number are secret. They are not logged or
# returned to users, and averages divide by the expected size.


class PoissonBatches:
    """Batches that each row enters independently with probability `rate`, in (0, 1].

    The gaps between the rows of a batch are ``floor(E / -log(1 - rate))`` with E
    exponential. So the time depends on the size of the batch and not on `n_rows`. The
    `generator` is a private stream, which is not used for public draws.

    Notes
    -----
    **Guarantees.** Rows are sampled independently, exactly so if the random words are
    uniform and independent (:ref:`sampler-theorem`). Only the rate is rounded,
    downwards, by less than one part in 2**48.

    The memory for the row numbers is allocated once, for a batch eight standard
    deviations above the expected size. A larger batch is drawn in several pieces.
    """

    def __init__(self, generator: np.random.Generator, n_rows: int, rate: float):
        # Imported here, because `import skfdp` must not load numba.
        from skfdp.kernels.sampling import poisson_members

        self._write_members = poisson_members
        self._generator = generator
        self._n_rows = n_rows
        # Slightly reduced, so that rounding cannot increase the rate.
        self._pace = -math.log1p(-rate) * (1 - 2.0**-49) if rate < 1 else math.inf
        spread = math.sqrt(n_rows * rate * (1 - rate))
        capacity = min(n_rows, math.ceil(n_rows * rate + 8 * spread)) + 1
        self._members = np.empty(capacity, dtype=np.int64)

    def draw(self) -> np.ndarray:
        """Return the row numbers of the next batch, valid until the next `draw`.

        They increase. An empty batch gives a release of noise only.
        """
        batch = self._piece(-1)
        if len(batch) < len(self._members):
            return batch
        pieces = [batch.copy()]
        while len(batch) == len(self._members):
            batch = self._piece(int(batch[-1]))
            pieces.append(batch.copy())
        return np.concatenate(pieces)

    def _piece(self, last: int) -> np.ndarray:
        """Return the next sampled rows after row `last`, as many as fit into memory."""
        capacity, count = len(self._members), 0

        while count < capacity:
            words = random_words(self._generator, min(capacity - count, _WORDS_AT_ONCE))
            while len(words):
                found, unsure = self._write_members(
                    words, self._pace, last, self._n_rows, self._members[count:]
                )
                if found:
                    count += found
                    last = int(self._members[count - 1])
                if unsure:
                    last += 1 + exact_gap(
                        int(words[found]),
                        self._pace,
                        lambda n: random_words(self._generator, n).tolist(),
                    )
                    if last < self._n_rows:
                        self._members[count] = last
                        count, found = count + 1, found + 1
                if found < len(words) and not (unsure and last < self._n_rows):
                    return self._members[:count]
                words = words[found:]
        return self._members[:count]


def not_null(
    batch: np.ndarray | None, is_null: np.ndarray | None, n_rows: int
) -> np.ndarray | None:
    """Return a batch without its null records, which contribute to no release.

    `batch` holds row numbers; None means every row. `is_null` says whether each of the
    `n_rows` records is null; None means that no record is null.
    """
    if is_null is None:
        return batch
    if len(is_null) != n_rows:
        raise ValueError(
            f"a query has {n_rows} rows, but the mechanism has {len(is_null)} records: "
            "pass a query over the records of the mechanism."
        )
    return np.flatnonzero(~is_null) if batch is None else batch[~is_null[batch]]


# Name of the sampling streams. It must not change: it enters the keys of seeded fits.
_SAMPLING = "coins"


@functools.cache
def compile_sampler(samples: bool, compiles: bool) -> None:
    """Draw noise, and a batch with `samples`; use neither.

    The first draws in a process load loops, or compile them if the table is large:
    `compiles` is `kernels.compiles`. Where that fails, so does a fit, before anything
    is charged.
    """
    generator = generator_of(0)
    add_integer_gaussian(np.zeros(1, dtype=np.int64), 1.0, generator)
    if samples:
        PoissonBatches(generator, 1, 0.5)._piece(-1)


class _Checked(NamedTuple):
    """A query whose bounds are within those of a charged event."""

    event: Event
    stream: str
    given: Query  # as passed to `release`
    query: Query  # the same with weighted rows
    stds: np.ndarray  # of the noise of each release
    units: np.ndarray  # grid unit of each sum
    generator: Any  # of the noise; see `Mechanism._stream`


class Mechanism(Streams):
    """The release function of a fit: a sum is released only if its event was charged.

    The charged `events` have distinct labels. Noise and sampling are drawn from the
    streams of this object. A fit must have a single mechanism: two mechanisms with the
    same events and the same seed would repeat the noise. The private `is_null` marks
    null records (None: there are none), and `units` are public weights and persons of
    the rows.

    Notes
    -----
    **Guarantees.** Every release was charged:

    * The k-th release of a label is ``sum of contributions + N(0, std**2 I)``, rounded
      to a public grid, with ``std = event.step_stds[k]``. It is post-processing of the
      Gaussian mechanism (see `add_integer_gaussian`).
    * The sum is over every row, or over a Poisson batch of rate `sampling_rate`, which
      the mechanism draws itself from its own stream.
    * With `units` the sum is that of `queries.weighted`, and a Poisson batch has all
      rows of each sampled person, and no other rows.
    * A null record contributes nothing to any sum. Null records are those of the
      relation "replace_special", and a query's bounds for nulled records hold for them.
    * A record contributes at most ``event.clip_norm``, and the sensitivity of the sum
      is at most ``event.sensitivity``, up to a relative 1e-9. A bound of NaN is
      refused.
    * There are at most ``event.n_steps`` releases. A release is counted before private
      rows are read, and stays counted if it fails.

    Only inside an audit, recorded or replayed numbers replace the noise; the report of
    that fit has no guarantee (`ReplayContext`).

    The mechanism relies on the contract of `queries` for the bounds of a query. Whether
    it refuses a release depends on public facts only. Make it before the charge: noise
    that cannot be compiled is then found before anything is charged.
    """

    def __init__(
        self,
        events: Iterable[Event],
        random_state: int | None,
        owner: type | str,
        *,
        key: Any = None,
        is_null: np.ndarray | None = None,
        units: Units | None = None,
    ):
        super().__init__(random_state, owner, key)
        self._is_null, self._units = is_null, units
        self._events: dict[str, Event] = {}
        samples = False
        for event in events:
            if event.label in self._events:
                raise PrivacyBudgetError(
                    f"label={event.label!r} was charged twice: give each event its own "
                    "label."
                )
            self._events[event.label] = event
            samples |= event.sampling_rate < 1
        compile_sampler(samples, kernels.compiles)
        # Numbers of releases by full label, shared with the mechanisms of `within`.
        self._released: Counter[str] = Counter()
        self._generators: dict[tuple[str, str], np.random.Generator] = {}
        self._batches: dict[tuple[str, int], Any] = {}
        # Queries by label, and then by stream. Mechanisms of `within` have their own
        # labels.
        self._asked: dict[str, dict[str, _Checked]] = {}

    def event(self, label: str) -> Event:
        """Return the charged event of a label, or raise PrivacyBudgetError."""
        if label not in self._events:
            raise PrivacyBudgetError(
                f"label={label!r} was not charged, only "
                f"{', '.join(map(repr, self._events)) or 'nothing'}: charge an event "
                "of this label first."
            )
        return self._events[label]

    def within(self, prefix: str) -> Mechanism:
        """Return a mechanism for the events labelled ``f"{prefix}: {label}"``.

        In the returned mechanism the label of these events is `label` alone. A release
        of one mechanism is counted in both.
        """
        start = f"{prefix}: "
        found = copy.copy(self)
        found._asked = {}
        found._events = {
            label.removeprefix(start): event
            for label, event in self._events.items()
            if label.startswith(start)
        }
        return found

    def release(
        self,
        label: str,
        query: Query,
        theta: np.ndarray | None = None,
        *,
        stream: str | None = None,
    ) -> np.ndarray:
        """Return the next release of a label: the noisy sum of the query, float64.

        `theta` are weights at which gradients are computed, a function of earlier
        releases and public facts. `stream` is the name of the noise stream (None: the
        label), if one event covers releases of several queries, which are counted
        together. Raise PrivacyBudgetError for a release that was not charged; nothing
        is then released, read or counted.
        """
        stream = label if stream is None else stream
        asked = self._asked.get(label, {}).get(stream)
        if asked is None or asked.given is not query:
            asked = self._checked(label, query, stream)
            self._asked.setdefault(label, {})[stream] = asked
        event, count = asked.event, self._released[asked.event.label]
        if count >= event.n_steps:
            raise PrivacyBudgetError(
                f"label={label!r} was charged for {event.n_steps} release(s), which "
                "were all made: charge an event with more steps."
            )
        self._released[event.label] = count + 1
        if count + 1 == event.n_steps:  # frees the rows of the queries
            del self._asked[label]
        return self._released_now(asked, theta, count)

    def _checked(self, label: str, query: Query, stream: str) -> _Checked:
        """Check that the bounds of a query are at most those of the charged event."""
        event, given = self.event(label), query
        if stream == _SAMPLING:
            raise PrivacyBudgetError(
                f"stream={stream!r} is reserved for sampling: pass another name of a "
                f"stream for the noise of {label!r}."
            )
        if self._units is not None:
            query = weighted(query, self._units)
        moved = query.sensitivity(Relation.of(event.neighboring_relation))
        for name, asked, charged in (
            ("clip_norm", query.clip_norm, event.clip_norm),
            ("sensitivity", moved, event.sensitivity),
        ):
            # With NaN the comparison is false, so that NaN is refused.
            if not 0 < asked <= charged * (1 + ROUNDING):
                raise PrivacyBudgetError(
                    f"{name}={asked!r} of a query for label={label!r} must be positive "
                    f"and at most {charged!r}, which was charged: charge the bounds of "
                    "the query."
                )
        stds = event.step_stds
        units = np.broadcast_to(query.unit(stds), stds.shape)
        generator = self._stream(event, stream, query)
        return _Checked(event, stream, given, query, stds, units, generator)

    def _released_now(
        self, asked: _Checked, theta: np.ndarray | None, count: int
    ) -> np.ndarray:
        """Return release number `count`: an integer sum with noise, times the unit."""
        query, std, batch = asked.query, float(asked.stds[count]), None
        if asked.event.sampling_rate < 1 or self._is_null is not None:
            batch = self._batch(asked.event, query)
        noisy_sum = functools.partial(
            _noisy_sum,
            query,
            theta,
            noise_std=std,
            unit=float(asked.units[count]),
            generator=asked.generator,
            batch=batch,
        )
        if ACTIVE.get() is None or (audit := current()) is None:
            return noisy_sum()
        about = asked.event, asked.stream, query, theta, std, batch, self._is_null
        return audit.release(Asked(*about), noisy_sum)

    def _batch(self, event: Event, query: Query) -> Any:
        batch, units, rate = None, self._units, event.sampling_rate
        if rate < 1:
            key = event.label, query.n_rows if units is None else units.n_units
            if key not in self._batches:
                generator = self._stream(event, _SAMPLING, query)
                # A query over remote rows (Dask) provides its own sampler.
                sampler = getattr(query, "sampler", PoissonBatches)
                self._batches[key] = sampler(generator, key[1], rate)
            batch = self._batches[key].draw()
            batch = batch if units is None else units.rows_of(batch)
        return not_null(batch, self._is_null, query.n_rows)

    def _stream(self, event: Event, stream: str, query: Query) -> Any:
        """Return a private stream, which later calls continue.

        With a checkpoint, return the function from a sum to the stream of its noise.
        """
        if self.key is not None and stream != _SAMPLING:
            name = f"{self.path}/{event.label}/{stream}"
            return functools.partial(self.key.noise, name)
        key = event.label, stream
        if key not in self._generators:
            shape = query.shape if stream != _SAMPLING else (query.n_rows,)
            self._generators[key] = self.private(stream, event.label, shape)
        return self._generators[key]


def _noisy_sum(
    query: Query,
    theta: np.ndarray | None,
    *,
    noise_std: float,
    unit: float,
    generator: Any,
    batch: np.ndarray | None,
) -> np.ndarray:
    """Return the noisy sum over a batch; sum and noise are integers in `unit`.

    `generator` may be a function of the sum and of the noise, both in `unit`.
    """
    total = query.exact_sum(theta, batch, unit)
    if callable(generator):
        generator = generator(total, noise_std / unit)
    return add_integer_gaussian(total, noise_std / unit, generator) * unit
