"""Two tables that differ in one record, given out by the desk, and what tells them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from skfdp.privacy import Event, Relation
from skfdp.queries import sum_unit
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams

#: Rows of the table; one of them, with others before and behind it, is the canary.
N_ROWS, PLACE = 4, 1
# Two entries of opposite signs, which change from release to release: noise that two of
# them share cancels, and the canary stands out.
_DIRECTION = np.array([1.0, -1.0]) / math.sqrt(2)
# Grid unit over the noise, or over the contribution where that is smaller: rounding is
# nothing beside either.
_FINEST = 2.0**-30


@dataclasses.dataclass(frozen=True)
class Canary:
    """The sum of a table in which one record contributes, and all others nothing.

    Parameters
    ----------
    length : float
        The record contributes ``length * theta``, a vector of two entries, in integers:
        theta is a public unit vector.
    clip_norm : float
        L2 bound of a contribution, at least the absolute value of `length`.
    moved : float
        How far the sum of a neighbour is away, where the record is replaced.
    n_rows : int
    place : int or None
        Number of the record; None: it is not in the table.

    Notes
    -----
    **Guarantees.** The contract of `skfdp.queries`. An entry is truncated toward zero,
    so that two canaries lie apart what their lengths do, up to a unit an entry.
    """

    length: float
    clip_norm: float
    moved: float
    n_rows: int
    place: int | None

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum."""
        return _DIRECTION.shape

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum."""
        return relation.moves(self.clip_norm, self.moved)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        finest = min(noise_std, self.clip_norm) * _FINEST
        return sum_unit(noise_std, self.clip_norm, self.n_rows, finest)

    def exact_sum(
        self, theta: np.ndarray, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every row."""
        if self.place is None or (batch is not None and self.place not in batch):
            return np.zeros(self.shape, dtype=np.int64)
        return np.trunc(self.length / unit * theta).astype(np.int64)


def lengths(event: Event) -> tuple[float, float]:
    """Return the lengths of a canary, and of its neighbour in the same direction.

    They dominate all pairs of neighbours of an event, sampled or not (docs, theory,
    "The (C, Delta) curve"): C and C - Delta, or C and nothing.
    """
    if event.relation.replaces:
        return event.clip_norm, event.clip_norm - event.sensitivity
    return event.clip_norm, 0.0


def neighbours(event: Event) -> tuple[Canary, Canary]:
    """Return the canary without and with the record, as the relation means it."""
    full, other = lengths(event)
    bounds = event.clip_norm, event.sensitivity
    with_it = Canary(full, *bounds, N_ROWS, PLACE)
    if event.relation.counts_are_public:
        return dataclasses.replace(with_it, length=other), with_it
    return dataclasses.replace(with_it, n_rows=N_ROWS - 1, place=None), with_it


def statistics(
    events: Sequence[Event], n_trials: int, random_state: int | None
) -> np.ndarray:
    """Return the log-likelihood ratios of all that the desk gives out of two tables.

    Parameters
    ----------
    events : sequence of Event
        Each with a label of its own.
    n_trials : int
        How often each table is given out whole, at a desk of its own.
    random_state : int or None

    Returns
    -------
    ratios : float64 ndarray of shape (2, n_events, n_trials)
        Of the table without the record, then of that with it; larger with it.
    """
    tables = [neighbours(event) for event in events]
    ratios = np.empty((2, len(events), n_trials))
    scores = [Score(event) for event in events]
    for side in range(2):
        for trial in range(n_trials):
            owner = f"audit_mechanism/table {side}/trial {trial}"
            desk = Desk(events, Streams(random_state, owner))
            for place, event in enumerate(events):
                released = given_out(desk, event, tables[place][side])
                ratios[side, place, trial] = scores[place].ratio(released)
    return ratios


def given_out(desk: Desk, event: Event, table: Canary) -> np.ndarray:
    """Return every release of an event, along the canary, shape (n_steps,)."""
    found = np.empty(event.n_steps)
    for step in range(event.n_steps):
        theta = -_DIRECTION if step % 2 else _DIRECTION
        found[step] = desk.release(event.label, table, theta) @ theta
    return found


class Score:
    """The log-likelihood ratio of the releases of an event, as its claim has it.

    Parameters
    ----------
    event : Event

    Notes
    -----
    Of full batches it is the sum of what is released along the canary, each times
    ``sensitivity / std**2``, but for a constant: no test of these releases tells more.
    """

    def __init__(self, event: Event):
        self._event, self._lengths = event, lengths(event)
        self._stds = event.step_stds

    def ratio(self, released: np.ndarray) -> float:
        """Return the ratio of all releases, shape (n_steps,) each along the canary."""
        return float(self.of_step(released, self._stds).sum())

    def of_step(self, released: np.ndarray, std: np.ndarray | float) -> np.ndarray:
        """Return the ratio of each release."""
        full, other = self._lengths
        if self._event.sampling_rate == 1:
            return (released - (full + other) / 2) * (full - other) / np.square(std)
        return self._log_mixture(released, full, std) - self._log_mixture(
            released, other, std
        )

    def _log_mixture(self, x, centre, std) -> np.ndarray:
        """Return the log of a density, over that of noise alone."""
        rate = self._event.sampling_rate
        exponent = (2 * centre * x - centre * centre) / (2 * np.square(std))
        return np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)

    def moments(self) -> tuple[float, float]:
        """Return by how much the mean differs with the record, and the mean variance.

        Of the ratio of all releases, if the claim holds; by quadrature.
        """
        apart = variance = 0.0
        for std, count in zip(*np.unique(self._stds, return_counts=True), strict=True):
            one, other = self._moments_of_step(float(std))
            apart, variance = apart + count * one, variance + count * other
        return apart, variance

    def _moments_of_step(self, std: float) -> tuple[float, float]:
        full, other = self._lengths
        rate = self._event.sampling_rate
        # 0 is a centre too, where a record may be out of the batch.
        low, high = min(full, other, 0.0), max(full, other, 0.0)
        x = np.linspace(low - 12 * std, high + 12 * std, 40_001)
        ratio = self.of_step(x, std)
        means, variances = [], []
        for centre in (full, other):
            weights = rate * np.exp(-(((x - centre) / std) ** 2) / 2)
            weights += (1 - rate) * np.exp(-((x / std) ** 2) / 2)
            weights /= weights.sum()
            means.append(float(weights @ ratio))
            variances.append(float(weights @ (ratio - means[-1]) ** 2))
        return means[0] - means[1], sum(variances) / 2
