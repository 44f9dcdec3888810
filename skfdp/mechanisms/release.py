"""The release function: the only code that adds noise to private sums."""

from __future__ import annotations

import copy
import functools
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from skfdp import kernels
from skfdp.data.units import Units
from skfdp.mechanisms.noise import (
    ACTIVE,
    Asked,
    Streams,
    add_integer_gaussian,
    current,
    exact_gap,
    generator_of,
    random_words,
)
from skfdp.privacy.events import ROUNDING, Event, PrivacyBudgetError
from skfdp.queries import Query
from skfdp.queries.weighted import weighted

# Private batches by Poisson sampling with secret randomness.
#
# The rows of a private batch and their number are secret. They are not logged or
# returned to users, and averages divide by the expected size.


# Random words are drawn in blocks that fit into the cache.
_BLOCK_WORDS = 2**13


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
            words = random_words(self._generator, min(capacity - count, _BLOCK_WORDS))
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
    if batch is None:
        return np.flatnonzero(~is_null)
    return batch[~is_null[batch]]


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


class _Asked(NamedTuple):
    """A query whose bounds are within those of a charged event."""

    event: Event
    stream: str
    given: Query  # as passed to `release`
    query: Query  # the same with weighted rows
    stds: np.ndarray  # of the noise of each release
    units: np.ndarray  # grid unit of each sum
    generator: Any  # of the noise; see `Mechanism._generator`


class Mechanism:
    """The release function of a fit: a sum is released only if its event was charged.

    The charged `events` have distinct labels. `streams` are the source of noise and
    sampling. A fit must have a single mechanism: two mechanisms with the same events
    and seeded streams would repeat the noise. The private `is_null` marks null records
    (None: there are none), and `units` are public weights and persons of the rows.

    Notes
    -----
    **Guarantees.** Every release was charged:

    * The k-th release of a label is ``sum of contributions + N(0, std**2 I)``, rounded
      to a public grid, with ``std = event.step_stds[k]``. It is post-processing of the
      Gaussian mechanism (see `noise.add_integer_gaussian`).
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
    that fit has no guarantee (`noise.ReplayContext`).

    The mechanism relies on the contract of `queries` for the bounds of a query. Whether
    it refuses a release depends on public facts only. Make it before the charge: noise
    that cannot be compiled is then found before anything is charged.
    """

    def __init__(
        self,
        events: Iterable[Event],
        streams: Streams,
        is_null: np.ndarray | None = None,
        units: Units | None = None,
    ):
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
        self.streams = streams
        # Numbers of releases by full label, shared with the mechanisms of `within`.
        self._released: Counter[str] = Counter()
        self._generators: dict[tuple[str, str], np.random.Generator] = {}
        self._batches: dict[tuple[str, int], Any] = {}
        # Queries by label, and then by stream. Mechanisms of `within` have their own
        # labels.
        self._asked: dict[str, dict[str, _Asked]] = {}

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

    def _checked(self, label: str, query: Query, stream: str) -> _Asked:
        """Check that the bounds of a query are at most those of the charged event."""
        event, given = self.event(label), query
        if stream == _SAMPLING:
            raise PrivacyBudgetError(
                f"stream={stream!r} is reserved for sampling: pass another name of a "
                f"stream for the noise of {label!r}."
            )
        if self._units is not None:
            query = weighted(query, self._units)
        moved = query.sensitivity(event.relation)
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
        generator = self._generator(event, stream, query)
        return _Asked(event, stream, given, query, stds, units, generator)

    def _released_now(
        self, asked: _Asked, theta: np.ndarray | None, count: int
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
                generator = self._generator(event, _SAMPLING, query)
                # A query over remote rows (Dask) provides its own sampler.
                sampler = getattr(query, "sampler", PoissonBatches)
                self._batches[key] = sampler(generator, key[1], rate)
            batch = self._batches[key].draw()
            batch = batch if units is None else units.rows_of(batch)
        return not_null(batch, self._is_null, query.n_rows)

    def _generator(self, event: Event, stream: str, query: Query) -> Any:
        """Return a private stream, which later calls continue.

        With a checkpoint, return the function from a sum to the stream of its noise.
        """
        if self.streams.key is not None and stream != _SAMPLING:
            name = f"{self.streams.path}/{event.label}/{stream}"
            return functools.partial(self.streams.key.noise, name)
        key = event.label, stream
        if key not in self._generators:
            shape = query.shape if stream != _SAMPLING else (query.n_rows,)
            self._generators[key] = self.streams.private(stream, event.label, shape)
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
