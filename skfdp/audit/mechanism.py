"""The audit of a mechanism: canaries that the desk gives out as often as one likes."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
import numbers
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from skfdp._version import __version__
from skfdp.addresses import public
from skfdp.mechanisms.noise import Streams, check_random_state
from skfdp.mechanisms.release import Desk
from skfdp.privacy import Event, PrivacyPlan, Relation, gdp_epsilon
from skfdp.privacy.accounting import (
    PrivacyCurve,
    check_delta,
    check_epsilon,
    check_events,
    compose,
    cost,
)
from skfdp.privacy.checks import shown
from skfdp.privacy.plotting import new_axes
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_facts import Finding
from skfdp.privacy.store import FitPlan
from skfdp.queries import sum_unit

# Bounds from counted errors and from samples: what two worlds apart show of privacy.
#
# Somebody guesses from outputs whether a table held a record. The share of tables
# without it that are taken for tables with it is the false positive rate, the share of
# tables with it that are taken for tables without it the false negative rate. Privacy
# bounds both from below, so that few errors refute a claim.


# Points of a privacy curve that make a trade-off curve.
_POINTS = 80
# The noise of a family of claims is known to this share, rounded so that epsilon errs
# low; it is not looked for beyond these factors.
_TOLERANCE, _FURTHEST = 0.01, 2.0**6


def check_confidence(confidence: float) -> float:
    """Return the confidence as a float; ValueError unless it is within (0, 1)."""
    real = isinstance(confidence, int | float | np.floating)
    if not real or isinstance(confidence, bool) or not 0 < confidence < 1:
        raise ValueError(
            f"confidence={confidence!r} must be a number strictly between 0 and 1: "
            "0.95 is a usual one."
        )
    return float(confidence)


def clopper_pearson_interval(
    count: Any, n_trials: int, confidence: float = 0.95
) -> tuple[Any, Any]:
    """Return the interval of a probability, from how often something happened.

    Parameters
    ----------
    count : int or int ndarray
        How often, of `n_trials` independent trials.
    n_trials : int
    confidence : float, default=0.95

    Returns
    -------
    low, high : float or float64 ndarray
        Each end is passed with a probability of at most ``(1 - confidence) / 2``.

    Notes
    -----
    **Guarantees.** Exact for every probability and every number of trials: the interval
    of Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404.

    Examples
    --------
    >>> from skfdp.audit.mechanism import clopper_pearson_interval
    >>> low, high = clopper_pearson_interval(0, 100)
    >>> print(f"{low:.3f} {high:.3f}")
    0.000 0.036
    """
    tail, count = (1 - check_confidence(confidence)) / 2, np.asarray(count)
    if n_trials < 1 or (count < 0).any() or (count > n_trials).any():
        raise ValueError(
            f"count must lie within 0 and n_trials={n_trials}, which must be at least "
            "1: count what happened, of all trials."
        )
    # At the ends a shape would be zero: any other one gives a number to replace.
    below = stats.beta.ppf(tail, np.maximum(count, 1), n_trials - count + 1)
    above = stats.beta.isf(tail, count + 1, np.maximum(n_trials - count, 1))
    low = np.where(count == 0, 0.0, below)
    high = np.where(count == n_trials, 1.0, above)
    return (float(low), float(high)) if count.ndim == 0 else (low, high)


def epsilon_lower_bound(
    false_positives: Any,
    false_negatives: Any,
    n_trials: int,
    delta: float,
    confidence: float = 0.95,
) -> Any:
    """Return the epsilon that a test of so few errors shows to be spent at delta.

    Parameters
    ----------
    false_positives, false_negatives : int or int ndarray
        Errors of a test that was fixed before: among `n_trials` tables without the
        record, and among as many with it.
    n_trials : int
    delta : float
    confidence : float, default=0.95

    Returns
    -------
    epsilon : float or float64 ndarray
        At least 0.

    Notes
    -----
    **Guarantees.** An (epsilon, delta)-private mechanism has ``FNR >= 1 - delta -
    exp(epsilon) FPR``, and the same with the two exchanged (Kairouz, Oh and Viswanath
    2017, https://arxiv.org/abs/1311.0776). Both rates are at most their Clopper-Pearson
    bounds with probability `confidence`, and then no smaller epsilon is true. Nothing
    is assumed of the mechanism.

    Examples
    --------
    >>> from skfdp.audit.mechanism import epsilon_lower_bound
    >>> print(f"{epsilon_lower_bound(10, 10, 1000, 1e-5):.2f}")
    3.98
    """
    delta = check_delta(delta)
    false_positive = clopper_pearson_interval(false_positives, n_trials, confidence)[1]
    false_negative = clopper_pearson_interval(false_negatives, n_trials, confidence)[1]
    bounds = [
        np.log(np.maximum(1 - delta - one, 1e-300)) - np.log(other)
        for one, other in (
            (false_positive, false_negative),
            (false_negative, false_positive),
        )
    ]
    found = np.maximum(0.0, np.maximum(*bounds))
    return float(found) if np.ndim(found) == 0 else found


def mu_lower_bound(
    false_positives: Any,
    false_negatives: Any,
    n_trials: int,
    confidence: float = 0.95,
) -> Any:
    """Return the Gaussian-DP parameter that a test of so few errors shows.

    Parameters
    ----------
    false_positives, false_negatives : int or int ndarray
        As in `epsilon_lower_bound`.
    n_trials : int
    confidence : float, default=0.95

    Returns
    -------
    mu : float or float64 ndarray
        At least 0.

    Notes
    -----
    **Guarantees.** A mu-Gaussian-DP mechanism has ``FNR >= Phi(Phi^-1(1 - FPR) - mu)``
    (Dong, Roth and Su 2022, https://doi.org/10.1111/rssb.12454). Both rates are at most
    their Clopper-Pearson bounds with probability `confidence`, and then it is mu-GDP
    for no smaller mu than this. An epsilon that is computed of it rests on a trade-off
    curve that is Gaussian; that is how Nasr et al. (2023),
    https://arxiv.org/abs/2302.07956, audit tightly with few trials.

    Examples
    --------
    >>> from skfdp.audit.mechanism import mu_lower_bound
    >>> print(f"{mu_lower_bound(100, 100, 1000):.2f}")
    2.35
    """
    false_positive = clopper_pearson_interval(false_positives, n_trials, confidence)[1]
    false_negative = clopper_pearson_interval(false_negatives, n_trials, confidence)[1]
    found = stats.norm.isf(false_positive) + stats.norm.isf(false_negative)
    found = np.maximum(0.0, np.where(np.isfinite(found), found, 0.0))
    return float(found) if np.ndim(found) == 0 else found


def trade_off(curve: PrivacyCurve, false_positive: float, top: float) -> float:
    r"""Return the least false negative rate that a privacy curve allows.

    Parameters
    ----------
    curve : PrivacyCurve
        Of both directions.
    false_positive : float
    top : float
        Largest epsilon that is looked at.

    Notes
    -----
    **Guarantees.** The largest over epsilon, from 0 to `top`, of
    :math:`1 - \delta(\epsilon) - e^\epsilon \alpha` and
    :math:`e^{-\epsilon} (1 - \delta(\epsilon) - \alpha)`: the dual of the curve (Dong,
    Roth and Su 2022, Proposition 6), or a little less, because not every epsilon is
    tried.
    """
    epsilons = np.linspace(0.0, check_epsilon(top), _POINTS)
    deltas = np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
    grown = np.exp(np.minimum(epsilons, 700.0))
    lines = (1 - deltas - grown * false_positive, (1 - deltas - false_positive) / grown)
    return float(max(0.0, *(line.max() for line in lines)))


def epsilon_of_family(
    events: Sequence[Event],
    false_positive: float,
    false_negative: float,
    delta: float,
) -> float:
    """Return epsilon of the noisiest multiple of a plan that allows such errors.

    Parameters
    ----------
    events : sequence of Event
        The plan.
    false_positive, false_negative : float
        Rates of a test, or upper bounds of them.
    delta : float

    Notes
    -----
    **Guarantees.** It is above the epsilon of the plan itself only if the trade-off
    curve of the plan's own accounting does not allow such errors, and errs low.
    """
    if false_positive + false_negative >= 1:
        return 0.0

    @functools.cache
    def curve(factor: float) -> PrivacyCurve:
        return compose(
            dataclasses.replace(
                event, noise_std=tuple(std * factor for std in event.noise_std)
            )
            for event in events
        )

    def allows(factor: float) -> bool:
        try:
            found = curve(factor)
            top = found.epsilon(max(delta, 1e-9))
        except ValueError:  # so little noise that no distribution holds its losses
            return True
        return trade_off(found, false_positive, top) <= false_negative

    # More noise allows less; the plan itself is the first that is asked.
    low, high = 1.0, 1.0
    while low > 1 / _FURTHEST and not allows(low):
        low, high = low / 2, low
    while high < _FURTHEST and allows(high):
        low, high = high, high * 2
    while high > low * (1 + _TOLERANCE) and low < _FURTHEST:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if allows(middle) else (low, middle)
    return curve(high).epsilon(delta)


def best_threshold(
    without: np.ndarray, with_it: np.ndarray, bound: Callable[[Any, Any, int], Any]
) -> float:
    """Return the threshold whose errors give the largest bound.

    Parameters
    ----------
    without, with_it : float64 ndarray of shape (n_trials,)
        Statistics of tables without the record, and with it: larger with it. They must
        not be counted again at the threshold that they chose.
    bound : callable
        ``bound(false_positives, false_negatives, n_trials)``.
    """
    candidates = np.unique(np.concatenate([without, with_it]))
    found = bound(*errors(without, with_it, candidates), len(without))
    # Of equals that in the middle: where nothing is told apart, any will do.
    best = np.flatnonzero(found == found.max())
    return float(candidates[best[len(best) // 2]])


def errors(
    without: np.ndarray, with_it: np.ndarray, threshold: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the false positives and false negatives of a threshold, or of each."""
    above = len(without) - np.searchsorted(np.sort(without), threshold, side="right")
    return above, np.searchsorted(np.sort(with_it), threshold, side="right")


@dataclasses.dataclass(frozen=True)
class Separation:
    """Distance of two samples in standard deviations: a Gaussian-DP parameter.

    Attributes
    ----------
    value : float
        Difference of the means over the pooled standard deviation.
    low, high : float
        Interval of what it estimates.
    standard_error : float
    """

    value: float
    low: float
    high: float
    standard_error: float


def separation(
    without: np.ndarray,
    with_it: np.ndarray,
    confidence: float = 0.95,
    *,
    gaussian: bool = True,
) -> Separation:
    r"""Return the distance of two samples of one size, with its interval.

    Parameters
    ----------
    without, with_it : float64 ndarray of shape (n_trials,)
        At least three each.
    confidence : float, default=0.95
    gaussian : bool, default=True
        Whether both are normal of one standard deviation; else the interval comes from
        sample moments.

    Notes
    -----
    With n in each sample, :math:`\nu = 2n - 2` and d the difference of the means over
    the pooled standard deviation, :math:`t = d \sqrt{n/2}` is noncentral t of
    :math:`\nu` degrees of freedom around :math:`\mu \sqrt{n/2}`, and the interval is

    .. math:: \Bigl( t \bigl(1 - \tfrac{1}{4\nu}\bigr)
              \pm z \sqrt{1 + \tfrac{t^2}{2\nu}} \Bigr) \sqrt{2/n}

    (Abramowitz and Stegun, 26.7.10), which covers mu as often as it says to about
    1 / n. Where the samples are not normal the standard error is that of the
    influence of each number on d, and the coverage asymptotic.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp.audit.mechanism import separation
    >>> normal = np.random.default_rng(0).normal(size=(2, 10_000))
    >>> found = separation(normal[0], normal[1] + 1.0)
    >>> found.low < 1 < found.high
    True
    """
    n, z = len(with_it), stats.norm.isf((1 - check_confidence(confidence)) / 2)
    centred = [sample - sample.mean() for sample in (without, with_it)]
    variance = sum(float(one @ one) for one in centred) / (2 * n - 2)
    spread = math.sqrt(variance) or math.ulp(0.0)
    d = float(with_it.mean() - without.mean()) / spread
    if gaussian:
        t, freedom = d * math.sqrt(n / 2), 2 * n - 2
        error = math.sqrt(2 / n) * math.sqrt(1 + t * t / (2 * freedom))
        middle = d * (1 - 1 / (4 * freedom))
    else:
        influences = [
            sign * one / spread - d / 4 * (one**2 / variance - 1)
            for sign, one in zip((-1, 1), centred, strict=True)
        ]
        error = math.sqrt(sum(float(np.var(one)) for one in influences) / n)
        middle = d
    low, high = middle - z * error, middle + z * error
    return Separation(d, float(low), float(high), float(error))


# Two tables that differ in one record, given out by the desk, and what tells them.


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
        finest = np.minimum(noise_std, self.clip_norm) * _FINEST
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


# Results of audits: a claim, and what was seen of it.


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditResult(abc.ABC):
    """Result of an audit: a claim, and a lower bound of what was spent.

    An audit can refute a claim and never prove one. Numbers in a result come from the
    records that were audited, without noise: audit made-up records, or treat the
    result as you would treat them.

    Attributes
    ----------
    subject : str
        What was audited.
    neighboring_relation : str
        Relation of the claim.
    claimed_epsilon : float
        What the accounting says, at `delta`.
    delta : float
    lower_bound : float
        Epsilon that the outputs show to be spent, at `delta`; 0 where they show
        nothing, infinite where two neighbours are told apart for sure.
    confidence : float
        Probability, in (0, 1], with which a lower bound of this kind holds; 1 where
        nothing is estimated.
    n_trials : int
        Replays, releases, or canaries, that it rests on.
    """

    #: Name of the kind of audit in findings.
    audit: ClassVar[str]

    subject: str
    neighboring_relation: str
    claimed_epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    n_trials: int

    @property
    def passed(self) -> bool:
        """Whether the claim was not refuted."""
        return self.lower_bound <= self.claimed_epsilon

    @property
    def finding(self) -> Finding:
        """What a report keeps of it."""
        return Finding(
            audit=self.audit,
            subject=self.subject,
            claimed_epsilon=self.claimed_epsilon,
            delta=self.delta,
            lower_bound=self.lower_bound,
            confidence=self.confidence,
            n_trials=self.n_trials,
            passed=self.passed,
            version=__version__,
        )

    def attach_to(self, report: PrivacyReport) -> PrivacyReport:
        """Return a report with this finding beside those that it has.

        Raises
        ------
        ValueError
            If the report has another subject or another relation.
        """
        if not isinstance(report, PrivacyReport):
            raise TypeError(
                f"report={shown(report)} must be a PrivacyReport: pass privacy_ of the "
                "fitted estimator."
            )
        about = {
            "subject": (self.subject, report.subject),
            "neighboring_relation": (
                self.neighboring_relation,
                report.neighboring_relation,
            ),
        }
        for name, (audited, reported) in about.items():
            if audited != reported:
                raise ValueError(
                    f"report has {name}={reported!r}, the audit was of {audited!r}: "
                    "attach it to a report of what was audited."
                )
        return dataclasses.replace(report, findings=(*report.findings, self.finding))

    @abc.abstractmethod
    def plot(self, ax: Any = None) -> Any:
        """Draw what was seen beside what was claimed; needs the extra ``plot``.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        ax : matplotlib Axes
        """

    def __str__(self) -> str:
        return str(self.finding)


# Of a plan that names none.
_DELTA = 1e-5
# Fewer releases of a table could not be halved and say anything.
_LEAST_TRIALS = 100
_MOST_TRIALS = 10_000_000
_ROUNDING = 1e-9


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True)
class ReleaseAudit:
    """The parameter that the releases of one event showed, beside its claim.

    Attributes
    ----------
    label : str
        Of the event; "whole" is the composition of all.
    n_releases : int
        Of one fit, each of which was audited `n_trials` times on each table.
    sampling_rate : float
        Of the event; of the whole the smallest one.
    claimed : float
        Gaussian-DP parameter of all releases of the event together, ``event.mu``. Where
        batches are sampled there is none, and it is what `seen` would be by the claim:
        the distance of the log-likelihood ratios of two neighbours.
    seen : float
        Difference of the means of the log-likelihood ratio with and without the canary,
        over its standard deviation.
    low, high : float
        Interval of what `seen` estimates; those of one result hold jointly.
    standard_error : float
    """

    label: str
    n_releases: int
    sampling_rate: float
    claimed: float
    seen: float
    low: float
    high: float
    standard_error: float

    @property
    def passed(self) -> bool:
        """Whether the claim was not refuted."""
        return self.low <= self.claimed * (1 + _ROUNDING)

    def __str__(self) -> str:
        return (
            f"{self.label} x {self.n_releases}: claimed {self.claimed:.4g}, seen "
            f"{self.seen:.4g} in [{self.low:.4g}, {self.high:.4g}]"
        )


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class MechanismResult(AuditResult):
    """Result of `audit_mechanism`; see there what the numbers rest on.

    Attributes
    ----------
    releases : tuple of ReleaseAudit
        One for each event.
    whole : ReleaseAudit
        Of all events together.
    clopper_pearson : float
        Lower bound of epsilon that assumes nothing of the trade-off curve; it holds
        with probability `confidence` like the other one, and is smaller as a rule: n
        trials cannot show more than about ``log(n / 8)``.
    """

    audit: ClassVar[str] = "mechanism"

    releases: tuple[ReleaseAudit, ...]
    whole: ReleaseAudit
    clopper_pearson: float

    @property
    def passed(self) -> bool:
        """Whether neither the claim nor that of any release was refuted."""
        return super().passed and all(one.passed for one in self._all)

    @property
    def _all(self) -> tuple[ReleaseAudit, ...]:
        return (*self.releases, self.whole)

    def table(self) -> str:
        """Return what was claimed and seen of each release, as text."""
        head = ("release", "times", "claimed", "seen", "from", "to", "seen/claimed")
        lines = [head]
        for one in self._all:
            found = (one.claimed, one.seen, one.low, one.high, one.seen / one.claimed)
            shown = (f"{number:.4f}" for number in found)
            lines.append((one.label, str(one.n_releases), *shown))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                [line[0].ljust(widths[0])]
                + [
                    part.rjust(width)
                    for part, width in zip(line[1:], widths[1:], strict=True)
                ]
            )
            for line in lines
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the interval of each release beside its claim; needs ``plot``.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        ax : matplotlib Axes
        """
        ax = new_axes(ax, "MechanismResult.plot")
        places = np.arange(len(self._all))
        seen = [one.seen for one in self._all]
        reach = [
            [one.seen - one.low for one in self._all],
            [one.high - one.seen for one in self._all],
        ]
        ax.errorbar(seen, places, xerr=reach, fmt="o", capsize=3, label="seen")
        claimed = [one.claimed for one in self._all]
        ax.plot(claimed, places, "|", markersize=16, color="black", label="claimed")
        ax.set_yticks(places, [one.label for one in self._all])
        ax.invert_yaxis()
        ax.set(xlabel="Gaussian-DP parameter", title=self.subject)
        ax.grid(True, axis="x", alpha=0.3)
        ax.legend()
        return ax


@public("skfdp.audit")
def audit_mechanism(
    plan: Event | PrivacyPlan | FitPlan | Sequence[Event],
    *,
    n_trials: int = 2000,
    confidence: float = 0.95,
    delta: float | None = None,
    random_state: int | None = None,
) -> MechanismResult:
    r"""Release canaries as a plan says, and compare what is seen with what it claims.

    A table whose one canary contributes a vector as long as the events allow, and a
    neighbour on which it is moved by their whole sensitivity (replaced, or gone), are
    released by the package's own desk, with its noise and its coins, `n_trials` times
    each. Somebody who knows everything but the canary tries to tell them apart.

    Parameters
    ----------
    plan : Event, PrivacyPlan, FitPlan or sequence of Event
        What would be charged. ``estimator.plan(X, y)`` returns one.
    n_trials : int, default=2000
        How often everything is released of each table; at least 100. The time is that
        of ``2 * n_trials`` times all releases, some 10 microseconds each.
    confidence : float, default=0.95
        Of the lower bound, and of all intervals jointly.
    delta : float, default=None
        At which epsilon is compared. None: that of the plan, or 1e-5.
    random_state : int, default=None
        None audits noise of the operating system, as fits have it. An int makes the
        result reproducible.

    Returns
    -------
    result : MechanismResult

    Raises
    ------
    ValueError
        If a parameter is out of range, or the plan holds a `Selection`, which is no
        release: audit its ``run_event(label, clip_norm)``.

    Notes
    -----
    **What the numbers rest on.** The log-likelihood ratio of all releases is the
    statistic; no test tells more. For full batches it is a weighted sum of Gaussians,
    and *seen* is the Gaussian-DP parameter, with the interval of `separation` in
    `skfdp.audit.mechanism`. For the bounds a threshold is chosen on the first
    half of the trials, and its errors are counted on the second. Their Clopper-Pearson
    bounds give `clopper_pearson` without any assumption; `lower_bound` is the epsilon
    of the noisiest plan, a multiple of this one's noise, whose trade-off curve allows
    so few errors (Nasr et al. 2023). It is above `claimed_epsilon` only if the claimed
    curve itself does not allow them. If every claim is true, `passed` is False with a
    probability of at most ``1 - confidence``.

    **What it cannot show.** The canary is moved by the sensitivity that the plan names.
    That no record of a user's table moves a sum further is what proofs and replays
    (`audit_replay`) are for.

    References
    ----------
    Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini and Terzis (2023), "Tight
    auditing of differentially private machine learning",
    https://arxiv.org/abs/2302.07956.

    Examples
    --------
    >>> from skfdp import calibrate
    >>> from skfdp.audit import audit_mechanism
    >>> plan = calibrate(4.0, 1e-5, n_steps=2)
    >>> result = audit_mechanism(plan, n_trials=1000, random_state=0)
    >>> result.passed, result.lower_bound < result.claimed_epsilon
    (True, True)
    >>> result.whole.low < plan.mu < result.whole.high
    True
    """
    n_trials = _check_trials(n_trials)
    confidence = check_confidence(confidence)
    check_random_state(random_state)
    subject, events, own_delta = _resolved(plan)
    delta = own_delta if delta is None else check_delta(delta)
    claim = cost(events, delta)
    ratios = statistics(events, n_trials, random_state)
    # Half of what may go wrong is left to the intervals, half to the bounds.
    half = (1 + confidence) / 2
    lower_bound, clopper_pearson = _lower_bounds(
        ratios.sum(axis=1), events, claim.mu, delta, half
    )
    releases = _release_audits(ratios, events, claim.mu, half)
    return MechanismResult(
        subject=subject,
        neighboring_relation=events[0].neighboring_relation,
        claimed_epsilon=claim.epsilon,
        delta=delta,
        lower_bound=lower_bound,
        confidence=confidence,
        n_trials=n_trials,
        releases=releases[:-1],
        whole=releases[-1],
        clopper_pearson=clopper_pearson,
    )


def _check_trials(n_trials: int) -> int:
    integral = isinstance(n_trials, numbers.Integral)
    integral = integral and not isinstance(n_trials, bool | np.timedelta64)
    if not integral or not _LEAST_TRIALS <= n_trials <= _MOST_TRIALS:
        raise ValueError(
            f"n_trials={shown(n_trials)} must be an integer of at least "
            f"{_LEAST_TRIALS}, and at most {_MOST_TRIALS}: thousands tell more."
        )
    return int(n_trials)


def _resolved(plan: Any) -> tuple[str, tuple[Event, ...], float]:
    """Return the subject, the events, each with a label of its own, and delta."""
    if isinstance(plan, FitPlan):
        subject, events, delta = plan.subject, plan.events, plan.delta
    elif isinstance(plan, PrivacyPlan):
        subject, events = "PrivacyPlan", (*plan.other_events, plan.event)
        delta = plan.target_delta
    else:
        given = (plan,) if isinstance(plan, Event) else plan
        events, delta = check_events(given, "plan"), _DELTA
        subject = ", ".join(dict.fromkeys(event.label for event in events))
    if not events:
        raise ValueError(
            f"plan={plan!r} has no events: without privacy there is nothing to audit."
        )
    for event in events:
        if type(event) is not Event:
            raise ValueError(
                f"plan has a {type(event).__name__}, label={event.label!r}, which is "
                "no release: audit one of its runs, its run_event(label, clip_norm)."
            )
    compose(events)  # refuses relations or public sets that do not go together
    return subject, _with_own_labels(events), delta


def _with_own_labels(events: Sequence[Event]) -> tuple[Event, ...]:
    seen: Counter[str] = Counter()
    found = []
    for event in events:
        seen[event.label] += 1
        if (count := seen[event.label]) > 1:
            event = dataclasses.replace(event, label=f"{event.label} ({count})")
        found.append(event)
    return tuple(found)


def _release_audits(
    ratios: np.ndarray,
    events: tuple[Event, ...],
    mu: float | None,
    confidence: float,
) -> tuple[ReleaseAudit, ...]:
    """Return an audit of each event and of all of them; the intervals hold jointly."""
    each = 1 - (1 - confidence) / (len(events) + 1)
    moments = [Score(event).moments() for event in events]
    found = []
    for event, (apart, variance), sides in zip(
        events, moments, ratios.swapaxes(0, 1), strict=True
    ):
        claimed = apart / math.sqrt(variance) if event.mu is None else event.mu
        seen = separation(*sides, each, gaussian=event.mu is not None)
        found.append(
            ReleaseAudit(
                event.label,
                event.n_steps,
                event.sampling_rate,
                claimed,
                *dataclasses.astuple(seen),
            )
        )
    claimed = mu
    if mu is None:
        apart, variance = np.sum(moments, axis=0)
        claimed = apart / math.sqrt(variance)
    seen = separation(*ratios.sum(axis=1), each, gaussian=mu is not None)
    whole = ReleaseAudit(
        "whole",
        sum(event.n_steps for event in events),
        min(event.sampling_rate for event in events),
        float(claimed),
        *dataclasses.astuple(seen),
    )
    return (*found, whole)


def _lower_bounds(
    ratios: np.ndarray,
    events: tuple[Event, ...],
    mu: float | None,
    delta: float,
    confidence: float,
) -> tuple[float, float]:
    """Return the lower bounds of epsilon by the claim's family, and without one."""
    middle = ratios.shape[1] // 2
    chosen, counted = ratios[:, :middle], ratios[:, middle:]

    def at_best(bound: Callable[..., Any]) -> tuple[int, int, int]:
        threshold = best_threshold(*chosen, bound)
        false_positives, false_negatives = errors(*counted, threshold)
        return int(false_positives), int(false_negatives), counted.shape[1]

    def by_epsilon(*counts: Any) -> Any:
        return epsilon_lower_bound(*counts, delta, confidence)

    def by_mu(*counts: Any) -> Any:
        return mu_lower_bound(*counts, confidence)

    clopper_pearson = by_epsilon(*at_best(by_epsilon))
    counts = at_best(by_mu)
    if mu is not None:
        shown = by_mu(*counts)
        return (gdp_epsilon(delta, shown) if shown > 0 else 0.0), clopper_pearson
    rates = [clopper_pearson_interval(n, counts[2], confidence)[1] for n in counts[:2]]
    return epsilon_of_family(events, *rates, delta), clopper_pearson
