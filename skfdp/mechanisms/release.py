"""The one place where private sums meet noise."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from skfdp.data.units import Units
from skfdp.mechanisms.noise import (
    Asked,
    Streams,
    add_integer_gaussian,
    current,
    exact_gap,
    random_words,
)
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.queries import Query
from skfdp.queries.weighted import weighted

# Batches: private coins, and the public batch.
#
# The members and the size of a private batch are secrets: they are not logged or
# returned to users, and averages divide by the expected size.


# Words are drawn in blocks that stay in the cache.
_BLOCK_WORDS = 2**13


class PoissonBatches:
    """Batches that each row enters independently with probability `rate`.

    The gaps between members are geometric, ``floor(E / -log(1 - rate))`` with E
    exponential: the cost of a batch is that of its members, not of all rows.

    Parameters
    ----------
    generator : Generator
        A private stream, which nothing public shares.
    n_rows : int
        Rows to draw from.
    rate : float
        Probability of each row, in (0, 1].

    Notes
    -----
    **Guarantees.** The gap before the next member exceeds g with probability
    ``(1 - rate)**(g + 1)``, whatever came before, so that the coins of all rows are
    independent. This is exact if the words are uniform and independent (where one word
    and float64 do not decide a gap, further words and longer integers do), but for the
    rate, which is lowered by less than one part in 2**48: never above the stated one.

    The memory of the members is allocated once. It is that of a batch eight standard
    deviations above the expected size; a larger one is drawn in several pieces, which
    are copied. The random words of a block are a new array, of 64 KiB at most.
    """

    def __init__(self, generator: np.random.Generator, n_rows: int, rate: float):
        # Imported here: `import skfdp` does not load numba.
        from skfdp.kernels.sampling import poisson_members

        self._write_members = poisson_members
        self._generator = generator
        self._n_rows = n_rows
        # A little less, so that rounding does not make it the pace of a higher rate.
        self._pace = -math.log1p(-rate) * (1 - 2.0**-49) if rate < 1 else math.inf
        spread = math.sqrt(n_rows * rate * (1 - rate))
        room = min(n_rows, math.ceil(n_rows * rate + 8 * spread)) + 1
        self._members = np.empty(room, dtype=np.int64)

    def draw(self) -> np.ndarray:
        """Return the next batch.

        Returns
        -------
        batch : int64 ndarray, increasing
            May be empty; an empty batch makes a noise-only step. Valid until the next
            `draw`.
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
        """Return the members after `last`, as many as there is room for."""
        room, count = len(self._members), 0
        while count < room:
            words = random_words(self._generator, min(room - count, _BLOCK_WORDS))
            while len(words):
                found, unsure = self._write_members(
                    words, self._pace, last, self._n_rows, self._members[count:]
                )
                if found:
                    count += found
                    last = int(self._members[count - 1])
                if unsure:
                    last += 1 + exact_gap(int(words[found]), self._pace, self._more)
                    if last < self._n_rows:
                        self._members[count] = last
                        count, found = count + 1, found + 1
                if found < len(words) and not (unsure and last < self._n_rows):
                    return self._members[:count]
                words = words[found:]
        return self._members[:count]

    def _more(self, n_words: int) -> list[int]:
        return random_words(self._generator, n_words).tolist()


def not_null(
    batch: np.ndarray | None, is_null: np.ndarray | None, n_rows: int
) -> np.ndarray | None:
    """Return what is left of a batch without null records.

    Parameters
    ----------
    batch : int64 ndarray or None
        Row numbers; None: every row.
    is_null : bool ndarray of shape (n_rows,) or None
        Records that add nothing to any release; None: there are none.
    n_rows : int
        Of the query.
    """
    if is_null is None:
        return batch
    if len(is_null) != n_rows:
        raise ValueError(
            "a query at this mechanism is over other records than its own."
        )
    if batch is None:
        return np.flatnonzero(~is_null)
    return batch[~is_null[batch]]


def uniform_batch(
    generator: np.random.Generator, n_rows: int, size: int | None
) -> np.ndarray:
    """Draw `size` rows without replacement; None means all of them."""
    if size is None or size >= n_rows:
        return np.arange(n_rows)
    return np.sort(generator.choice(n_rows, size=size, replace=False))


# Bounds are products of float64 factors; a relative excess of this size is rounding, as
# an event has it.
_ROUNDING = 1e-9
_COINS = "coins"


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A query that may be summed under an event: its bounds are those of the charge.

    Attributes
    ----------
    event : Event
    stream : str
    given, query : Query
        As it was given, and with the weights of the rows.
    stds, units : ndarray of shape (n_steps,)
        Standard deviation of the noise of each release, and grid unit of its sum.
    """

    event: Event
    stream: str
    given: Query
    query: Query
    stds: np.ndarray
    units: np.ndarray


class Mechanism:
    """The release function of a fit: it releases what was charged, and nothing else.

    Parameters
    ----------
    events : iterable of Event
        What was charged, each with a label of its own. A `Selection` is no release: a
        search opens a mechanism for each run, with its `Selection.run_event`.
    streams : Streams
        The source of noise and of sampling. Two mechanisms over the same events and
        seeded streams would repeat each other's noise: a fit has one.
    is_null : bool ndarray of shape (n_rows,), default=None
        Records that are null: private. None: no record is.
    units : Units, default=None
        Weights of the rows, and the persons to whom they belong: public. None: each row
        is a record, and counts as one.

    Raises
    ------
    PrivacyBudgetError
        If two events have one label, or one is not a plain Event.

    Notes
    -----
    **Guarantees.** Whatever leaves the mechanism was charged:

    * the k-th release of a label is ``sum of contributions + N(0, std**2 I)``, rounded
      to a public grid, with ``std = event.step_stds[k]``: the Gaussian mechanism on
      integers, by post-processing (see `noise.add_integer_gaussian`);
    * its sum is over every row, or over a Poisson batch of rate `sampling_rate` that
      the mechanism draws itself, from a stream of its own;
    * with `units` the sum is that of `queries.weighted`, and a Poisson batch has all
      rows of each person who was drawn, and none of the others;
    * a record that is null adds nothing to any sum: it is the null of
      "replace_special", and what a query says of nulled records holds for it;
    * its query contributes no more than ``event.clip_norm`` a record, and moves no
      further between neighbours than ``event.sensitivity``, up to a relative 1e-9; NaN
      is refused;
    * there are at most ``event.n_steps`` of them; fewer are fine. One is counted before
      the private rows are read, and stays counted if it fails.

    Inside of an audit, and nowhere else, recorded or replayed numbers take the place
    of the noise, and the report of the fit has no guarantee (`noise.ReplayContext`).

    That the query tells the truth about its bounds is the contract of `queries`. What
    the mechanism refuses depends on public facts alone.
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
        for event in events:
            if type(event) is not Event:  # other kinds promise other things
                raise PrivacyBudgetError(
                    f"a {type(event).__name__} is no release: use the run_event of one "
                    "run."
                )
            if event.label in self._events:
                raise PrivacyBudgetError(
                    f"label={event.label!r} was charged twice: give each event a label "
                    "of its own."
                )
            self._events[event.label] = event
        self.streams = streams
        # By the whole label of the event, hence common to this mechanism and those
        # within.
        self._released: Counter[str] = Counter()
        self._generators: dict[tuple[str, str], np.random.Generator] = {}
        self._batches: dict[tuple[str, int], Any] = {}
        self._asked: dict[tuple[str, str], _Asked] = {}

    def event(self, label: str) -> Event:
        """Return what was charged under a label, or raise PrivacyBudgetError."""
        if label not in self._events:
            raise PrivacyBudgetError(
                f"label={label!r} was not charged, only "
                f"{', '.join(map(repr, self._events)) or 'nothing'}: charge an event "
                "of this label first."
            )
        return self._events[label]

    def within(self, prefix: str, streams: Streams) -> Mechanism:
        """Return a mechanism for the releases labelled ``f"{prefix}: {label}"``.

        It knows them by `label`. What it releases counts here as well.

        Parameters
        ----------
        prefix : str
        streams : Streams
            Of these releases alone.
        """
        start = f"{prefix}: "
        found = copy.copy(self)
        found.streams = streams
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
        """Return the next release of a label: the query's sum with noise, float64.

        Parameters
        ----------
        label : str
            Of a charged event.
        query : Query
        theta : ndarray, default=None
            Where to take the gradients; a function of earlier releases and public
            facts.
        stream : str, default=None
            Name of the noise, where one event covers releases of different things;
            they are counted together. None: the label.

        Raises
        ------
        PrivacyBudgetError
            If this was not charged; nothing is released, read or counted.
        """
        event, stream = self.event(label), label if stream is None else stream
        asked = self._asked.get((event.label, stream))
        if asked is None or asked.given is not query:
            asked = self._checked(label, query, stream)
            self._asked[event.label, stream] = asked
        count = self._released[event.label]
        if count >= event.n_steps:
            raise PrivacyBudgetError(
                f"label={label!r} was charged for {event.n_steps} release(s), which "
                "were all released: charge one more."
            )
        self._released[event.label] = count + 1
        return self._released_now(asked, theta, count)

    def _checked(self, label: str, query: Query, stream: str) -> _Asked:
        """Return a query whose bounds were compared with what was charged."""
        if stream == _COINS:
            raise PrivacyBudgetError(
                f"stream={stream!r} is the one of the batches: give the noise of "
                f"{label!r} another name."
            )
        event, given = self.event(label), query
        if self._units is not None:
            query = weighted(query, self._units)
        moved = query.sensitivity(event.relation)
        for name, asked, charged in (
            ("clip_norm", query.clip_norm, event.clip_norm),
            ("sensitivity", moved, event.sensitivity),
        ):
            # Written so that NaN is refused.
            if not 0 < asked <= charged * (1 + _ROUNDING):
                raise PrivacyBudgetError(
                    f"{name}={asked!r} of a query for label={label!r} must be positive "
                    f"and at most {charged!r}, which was charged: charge what the "
                    "query says."
                )
        stds = event.step_stds
        units = np.broadcast_to(query.unit(stds), stds.shape)
        return _Asked(event, stream, given, query, stds, units)

    def _released_now(
        self, asked: _Asked, theta: np.ndarray | None, count: int
    ) -> np.ndarray:
        """Return release number `count`: integers with integer noise, times a unit."""
        query, std = asked.query, float(asked.stds[count])
        batch = self._batch(asked.event, query)
        noisy_sum = functools.partial(
            _noisy_sum,
            query,
            theta,
            noise_std=std,
            unit=float(asked.units[count]),
            generator=self._generator(asked.event, asked.stream, query),
            batch=batch,
        )
        if (audit := current()) is None:
            return noisy_sum()
        about = asked.event, asked.stream, query, theta, std, batch, self._is_null
        return audit.release(Asked(*about), noisy_sum)

    def _batch(self, event: Event, query: Query) -> Any:
        """Return the rows of a release, None for all of them."""
        batch, units = None, self._units
        if event.sampling_rate < 1:
            batch = self._coins(event, query).draw()
            batch = batch if units is None else units.rows_of(batch)
        return not_null(batch, self._is_null, query.n_rows)

    def _coins(self, event: Event, query: Query) -> Any:
        """Return what draws the batches of an event."""
        n_rows = query.n_rows if self._units is None else self._units.n_units
        key = event.label, n_rows
        if key not in self._batches:
            coins = self._generator(event, _COINS, query)
            # Where the rows are elsewhere, so are the batches.
            sampler = getattr(query, "sampler", PoissonBatches)
            self._batches[key] = sampler(coins, n_rows, event.sampling_rate)
        return self._batches[key]

    def _generator(
        self, event: Event, stream: str, query: Query
    ) -> np.random.Generator:
        """Return a private stream, which goes on where it was left."""
        key = event.label, stream
        if key not in self._generators:
            shape = query.shape if stream != _COINS else (query.n_rows,)
            self._generators[key] = self.streams.private(stream, event.label, shape)
        return self._generators[key]


def _noisy_sum(
    query: Query,
    theta: np.ndarray | None,
    *,
    noise_std: float,
    unit: float,
    generator: np.random.Generator,
    batch: np.ndarray | None,
) -> np.ndarray:
    """Return the sum over a batch with noise: integers both, in a public unit."""
    total = query.exact_sum(theta, batch, unit)
    return add_integer_gaussian(total, noise_std / unit, generator) * unit
