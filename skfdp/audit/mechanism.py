"""Audit of a mechanism by repeated releases of a canary.

A canary is a record that changes the sum by as much as the events allow. It is the only
record that contributes to the sum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from skfdp.addresses import public
from skfdp.data.grid import sum_unit
from skfdp.data.validation import check_number
from skfdp.mechanisms.release import Mechanism, check_random_state
from skfdp.privacy import Event, PrivacyPlan, Relation, gdp_epsilon
from skfdp.privacy.accounting import check_delta, compose, cost
from skfdp.privacy.entries import FitPlan
from skfdp.privacy.ledger import planned
from skfdp.privacy.report_text import as_text

# Lower bounds on epsilon from outputs on two neighbouring inputs.


def largest_rates(
    without: np.ndarray, with_it: np.ndarray, threshold: Any, confidence: float
) -> np.ndarray:
    """Return upper bounds of the false-positive and false-negative rates of a test.

    The test decides that the record is in the table if a statistic is above the
    threshold. `without` and `with_it` hold the statistics of releases of the table
    without and with the record. The result has shape (2,), or (2, n) for n thresholds.

    Notes
    -----
    **Guarantees.** Let the threshold be chosen on other samples. Then each of the two
    rates exceeds its bound with a probability of at most ``(1 - confidence) / 2``. So
    both bounds hold with probability `confidence`. The bounds of Clopper and Pearson
    (1934), https://doi.org/10.1093/biomet/26.4.404, are valid for every rate and number
    of trials.
    """
    n_trials = len(without)
    above = n_trials - np.searchsorted(np.sort(without), threshold, side="right")
    below = np.searchsorted(np.sort(with_it), threshold, side="right")
    counts, tail = np.array([above, below]), (1 - confidence) / 2
    # If a count equals `n_trials`, its bound is 1: the second parameter would be zero.
    left = n_trials - counts
    bounds = stats.beta.isf(tail, counts + 1, np.maximum(left, 1))
    return np.where(left == 0, 1.0, bounds)


def epsilon_lower_bound(false_positive: Any, false_negative: Any, delta: float) -> Any:
    """Return a lower bound of epsilon at delta, from bounds of the two error rates.

    Notes
    -----
    **Guarantees.** Let FPR and FNR be the rates of false positives and false negatives
    of a test. Under (epsilon, delta)-DP, ``FNR >= 1 - delta - exp(epsilon) FPR``, and
    the same with the two rates exchanged (Kairouz, Oh and Viswanath 2017,
    https://arxiv.org/abs/1311.0776). If both rates are at most the given bounds,
    epsilon is at least the result. There is no assumption about the mechanism.
    """
    rates = np.array([false_positive, false_negative])
    bounds = np.log(np.maximum(1 - delta - rates, 1e-300)) - np.log(rates[::-1])
    return np.maximum(0.0, bounds.max(axis=0))


def refutes(
    false_positive: float, false_negative: float, events: tuple[Event, ...]
) -> bool:
    """Whether bounds of a test's error rates refute the privacy curve of the events.

    Notes
    -----
    **Guarantees.** The curve claims a delta for each epsilon. The claim is refuted if
    the error rates imply a larger epsilon at this delta (see `epsilon_lower_bound`).
    """
    curve = compose(events)
    # A feasible number of trials cannot show a larger epsilon than 15.
    return any(
        epsilon_lower_bound(false_positive, false_negative, curve.delta(claimed))
        > claimed
        for claimed in np.linspace(0.0, 15.0, 151).tolist()
    )


def separation(
    without: np.ndarray,
    with_it: np.ndarray,
    confidence: float = 0.95,
    *,
    gaussian: bool = True,
) -> tuple[float, float, float, float]:
    r"""Return the distance of two samples of equal size, with a confidence interval.

    These are the last four fields of `ReleaseAudit`: the distance, the ends of the
    interval, and the standard error. The distance is the difference of the means,
    divided by the pooled standard deviation. Each sample has at least three numbers.
    `gaussian` states that both samples are normal with the same standard deviation.
    Otherwise the interval is computed from sample moments.

    Notes
    -----
    Let n be the size of a sample, :math:`\nu = 2n - 2`, d the distance of the samples
    and :math:`\mu` the true distance. For normal samples :math:`t = d \sqrt{n/2}` has a
    noncentral t distribution with :math:`\nu` degrees of freedom and noncentrality
    :math:`\mu \sqrt{n/2}`. Let z be the two-sided normal quantile for `confidence`. The
    interval for :math:`\mu` is

    .. math:: \Bigl( t \bigl(1 - \tfrac{1}{4\nu}\bigr)
              \pm z \sqrt{1 + \tfrac{t^2}{2\nu}} \Bigr) \sqrt{2/n}

    (Abramowitz and Stegun, 26.7.10). Its coverage is right up to about 1 / n. For
    samples that are not normal, the standard error is computed from the influence of
    each number on d, and the coverage is asymptotic.
    """
    n, z = len(with_it), stats.norm.isf((1 - confidence) / 2)
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
    return d, float(low), float(high), float(error)


# Release two tables that differ in one record, and compute a test statistic.


#: Number of rows of the table, and position of the canary among them.
N_ROWS, PLACE = 4, 1
# Direction of the canary's contribution: two entries of opposite signs, which alternate
# between releases. If by mistake entries or releases shared their noise, this noise
# would cancel along the direction and reveal the canary.
_DIRECTION = np.array([1.0, -1.0]) / math.sqrt(2)
# Grid unit, relative to the standard deviation of the noise or the clip norm, whichever
# is smaller. With this ratio rounding is negligible.
_FINEST_UNIT = 2.0**-30


@dataclasses.dataclass(frozen=True)
class Canary:
    """Query over a table in which only one record, the canary, contributes to the sum.

    Notes
    -----
    **Guarantees.** Canary satisfies the contract of queries in `skfdp.queries`. Entries
    of the sum are truncated toward zero, in grid units. So the sums of two canaries
    differ by the difference of their lengths, up to one grid unit per entry.
    """

    length: float  # the canary contributes ``length * theta``, theta a unit vector
    clip_norm: float
    moved: float  # sensitivity if a record is replaced
    n_rows: int
    place: int | None  # position of the canary; None if it is not in the table

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum."""
        return _DIRECTION.shape

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum."""
        return relation.sensitivity(self.clip_norm, self.moved)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        finest = np.minimum(noise_std, self.clip_norm) * _FINEST_UNIT
        return sum_unit(noise_std, self.clip_norm, self.n_rows, finest)

    def exact_sum(
        self, theta: np.ndarray, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every row."""
        if self.place is None or (batch is not None and self.place not in batch):
            return np.zeros(self.shape, dtype=np.int64)
        return np.trunc(self.length / unit * theta).astype(np.int64)


def lengths_of_canary(event: Event) -> tuple[float, float]:
    """Return the lengths of the canary's contributions to two neighbouring tables.

    Both contributions have the same direction. Under "replace_one" the lengths are C
    and C - Delta, where C is the clip norm and Delta the sensitivity. Under the other
    relations they are C and 0. No other pair of neighbours is easier to distinguish,
    with full batches or Poisson batches (docs, theory, "The (C, Delta) curve").
    """
    if event.relation.replaces:
        return event.clip_norm, event.clip_norm - event.sensitivity
    return event.clip_norm, 0.0


def neighbours(event: Event) -> tuple[Canary, Canary]:
    """Return the queries of the tables without and with the canary.

    Without the canary, the relation decides what is in its place: another contribution,
    a null record, or no row.
    """
    full, other = lengths_of_canary(event)
    with_it = Canary(full, event.clip_norm, event.sensitivity, N_ROWS, PLACE)
    if event.relation.counts_are_public:
        return dataclasses.replace(with_it, length=other), with_it
    return dataclasses.replace(with_it, n_rows=N_ROWS - 1, place=None), with_it


def log_ratios(
    events: Sequence[Event], n_trials: int, random_state: int | None
) -> np.ndarray:
    """Release two tables, and return the log-likelihood ratios of the releases.

    The result has shape (2, n_events, n_trials), with one ratio for all releases of an
    event. First are the ratios of the table without the canary, then those of the table
    with it, which tend to be larger. Each trial has its own mechanism. Each event must
    have its own label.
    """
    ratios = np.empty((2, len(events), n_trials))
    parts = [(event, neighbours(event)) for event in events]
    for side in range(2):
        for trial in range(n_trials):
            owner = f"audit_mechanism/table {side}/trial {trial}"
            mechanism = Mechanism(events, random_state, owner)
            for place, (event, tables) in enumerate(parts):
                along = np.empty(event.n_steps)
                for step in range(event.n_steps):
                    theta = -_DIRECTION if step % 2 else _DIRECTION
                    released = mechanism.release(event.label, tables[side], theta)
                    along[step] = released @ theta
                ratio = log_ratio(event, along, event.step_stds)
                ratios[side, place, trial] = ratio.sum()
    return ratios


def log_ratio(
    event: Event, released: np.ndarray, std: np.ndarray | float
) -> np.ndarray:
    """Return the log-likelihood ratio of releases, with versus without the canary.

    `released` holds the components of the releases along the canary's direction. Both
    likelihoods are those that the event claims.

    Notes
    -----
    For full batches the ratio is, up to a constant, a weighted sum of the releases'
    components along the canary's direction. The weights are ``sensitivity / std**2``.
    No test of these releases is more powerful than a test by the likelihood ratio.
    """
    (full, other), rate = lengths_of_canary(event), event.sampling_rate
    if rate == 1:
        return (released - (full + other) / 2) * (full - other) / np.square(std)

    def log_mixture(centre: float) -> np.ndarray:
        """Return log(density of a release / density of the noise alone).

        `centre` is what the canary adds to the sum if it is in the batch.
        """
        exponent = (2 * centre * released - centre**2) / (2 * np.square(std))
        return np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)

    return log_mixture(full) - log_mixture(other)


def moments_of_ratio(event: Event) -> tuple[float, float]:
    """Return the difference of the ratio's two means, and the ratio's variance.

    The two means are those with and without the canary. The variance is the mean of the
    variances with and without the canary. They are computed for the ratio of all
    releases of the event, by numerical integration, under the event's claim.
    """
    apart = variance = 0.0
    (full, other), rate = lengths_of_canary(event), event.sampling_rate
    for std, count in event.grouped_stds:
        # 0 is also a centre, because the canary may not be in the batch.
        ends = min(full, other, 0.0) - 12 * std, max(full, other, 0.0) + 12 * std
        x = np.linspace(*ends, 40_001)
        ratio, means = log_ratio(event, x, std), []
        for centre in (full, other):
            weights = rate * np.exp(-(((x - centre) / std) ** 2) / 2)
            weights += (1 - rate) * np.exp(-((x / std) ** 2) / 2)
            weights /= weights.sum()
            means.append(float(weights @ ratio))
            variance += count * float(weights @ (ratio - means[-1]) ** 2) / 2
        apart += count * (means[0] - means[1])
    return apart, variance


# Results of audits.


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Result of an audit: a privacy claim, and a lower bound of the true epsilon.

    An audit can refute a claim, but cannot prove it. The numbers are computed from the
    audited records without noise: audit synthetic records, or treat the result as
    confidential.

    Attributes
    ----------
    subject : str
        What was audited.
    neighboring_relation : str
        Neighbouring relation of the claim.
    claimed_epsilon : float
        The epsilon of the accounting, at `delta`.
    delta : float
        The delta of both epsilons.
    lower_bound : float
        Lower bound of epsilon at `delta` that follows from the outputs. It is infinite
        if two neighbours can be distinguished with certainty.
    confidence : float
        Probability, in (0, 1], with which the lower bound holds; 1 if the bound is not
        an estimate.
    n_trials : int
        Number of replays, releases or canaries.
    """

    #: Name of the kind of audit.
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

    def __str__(self) -> str:
        """Return the result as a sentence."""
        sure = "" if self.confidence == 1 else f" at confidence {self.confidence:.6g}"
        outcome = "did not refute" if self.passed else "REFUTED"
        return (
            f"Audit by {self.audit} of {self.subject}: {self.n_trials} trial(s) "
            f"{outcome} epsilon = {as_text(self.claimed_epsilon, 4)} at delta = "
            f"{self.delta:g}; lower bound {as_text(self.lower_bound, 4)}{sure}."
        )


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True)
class ReleaseAudit:
    """Claimed and estimated privacy parameter of the releases of one event.

    Attributes
    ----------
    label : str
        Label of the event; "whole" is the composition of all events.
    n_releases : int
        Number of releases in one fit. Each was made `n_trials` times on each table.
    sampling_rate : float
        Sampling rate of the event; for "whole" the smallest one.
    claimed : float
        Gaussian-DP parameter of all releases of the event, ``event.mu``. Releases of
        sampled batches do not have such a parameter. For them `claimed` is the expected
        value of `observed` if the claim is true.
    observed : float
        Difference of the means of the log-likelihood ratio with and without the canary,
        divided by the standard deviation of the ratio.
    low, high : float
        Confidence interval of the parameter that `observed` estimates. The intervals
        of one result hold jointly.
    standard_error : float
        Standard error of `observed`.
    """

    label: str
    n_releases: int
    sampling_rate: float
    claimed: float
    observed: float
    low: float
    high: float
    standard_error: float

    @property
    def passed(self) -> bool:
        """Whether the claim was not refuted."""
        return self.low <= self.claimed * (1 + 1e-9)  # up to rounding

    def __str__(self) -> str:
        return (
            f"{self.label} x {self.n_releases}: claimed {self.claimed:.4g}, observed "
            f"{self.observed:.4g} in [{self.low:.4g}, {self.high:.4g}]"
        )


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class MechanismResult(AuditResult):
    """Result of `audit_mechanism`, whose notes explain the numbers.

    Attributes
    ----------
    releases : tuple of ReleaseAudit
        One for each event.
    whole : ReleaseAudit
        Audit of all events together.
    clopper_pearson : float
        Lower bound of epsilon without assumptions about the outputs. Like
        `lower_bound`, it holds with probability `confidence`. It is usually smaller,
        because n trials cannot show more than about ``log(n / 8)``.
    curve_refuted : bool
        Whether the attacker makes fewer errors than the claimed privacy curve allows.
    """

    audit: ClassVar[str] = "mechanism"

    releases: tuple[ReleaseAudit, ...]
    whole: ReleaseAudit
    clopper_pearson: float
    curve_refuted: bool

    @property
    def passed(self) -> bool:
        """Whether no claim was refuted, of any event or of all events together."""
        held = super().passed and not self.curve_refuted
        return held and all(one.passed for one in self._all)

    @property
    def _all(self) -> tuple[ReleaseAudit, ...]:
        return (*self.releases, self.whole)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self._all)])


@public("skfdp.audit")
def audit_mechanism(
    plan: Event | PrivacyPlan | FitPlan | Sequence[Event],
    *,
    n_trials: int = 2000,
    confidence: float = 0.95,
    delta: float | None = None,
    random_state: int | None = None,
) -> MechanismResult:
    r"""Release canaries by a plan, and compare the observed privacy with the claim.

    One table has a single canary, which contributes the longest vector that the events
    allow. In a neighbouring table the canary is replaced or removed, so that the sum
    changes by the whole sensitivity. The package's own mechanism, with its noise and
    sampling, releases each table `n_trials` times. An attacker who knows everything
    except the canary tries to distinguish the tables.

    Parameters
    ----------
    plan : Event, PrivacyPlan, FitPlan or sequence of Event
        The events to audit, such as the result of ``estimator.plan(X, y)``.
    n_trials : int, default=2000
        How often each table is released; at least 100. All releases are made
        ``2 * n_trials`` times, and take about 10 microseconds each.
    confidence : float, default=0.95
        Confidence of the lower bound, and of all intervals jointly.
    delta : float, default=None
        Delta at which epsilon is compared. None takes the delta of the plan, or 1e-5 if
        the plan has none.
    random_state : int, default=None
        None audits noise from the operating system, as in fits. An int makes the
        result reproducible.

    Returns
    -------
    result : MechanismResult

    Raises
    ------
    ValueError
        If a parameter is invalid.

    Notes
    -----
    **Method.** The test statistic is the log-likelihood ratio of all releases, because
    no other test is more powerful. For full batches the ratio is a weighted sum of
    Gaussians. Then `observed` estimates the Gaussian-DP parameter, with the interval of
    `separation` in `skfdp.audit.mechanism`.

    A threshold is chosen on the first half of the trials, and its errors are counted on
    the second half. The Clopper-Pearson bounds of the error rates need no assumptions.
    They give `clopper_pearson` and `curve_refuted`. For sampled batches `lower_bound`
    equals `clopper_pearson`. For full batches `lower_bound` is the larger one of
    `clopper_pearson` and the epsilon of the Gaussian-DP parameter at the lower end of
    the interval of `observed` (Nasr et al. 2023).
    If every claim is true, `passed` is False with a probability of at most ``1 -
    confidence``.

    **Limits.** The canary changes the sum by the sensitivity that the plan states. This
    audit does not test whether records of a user's table change a sum by more. Proofs
    and `audit_replay` cover that.

    References
    ----------
    Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini and Terzis (2023), "Tight
    auditing of differentially private machine learning",
    https://arxiv.org/abs/2302.07956.

    Examples
    --------
    >>> from skfdp.privacy import calibrate
    >>> from skfdp.audit import audit_mechanism
    >>> plan = calibrate(4.0, 1e-5, n_steps=2)
    >>> result = audit_mechanism(plan, n_trials=1000, random_state=0)
    >>> result.passed, result.lower_bound < result.claimed_epsilon
    (True, True)
    >>> result.whole.low < plan.mu < result.whole.high
    True
    """
    # Half of the trials choose the threshold: bounds from fewer would be useless.
    many = {"low": 100, "high": 10_000_001, "include_low": True}
    check_number("n_trials", n_trials, integral=True, **many)
    check_number("confidence", confidence, high=1)
    check_random_state(random_state)
    subject, events, own_delta = _resolved(plan)
    delta = own_delta if delta is None else check_delta(delta)
    claim = cost(events, delta)
    ratios = log_ratios(events, int(n_trials), random_state)
    # Half of the error probability is for the intervals, and half for the bounds.
    half = (1 + float(confidence)) / 2
    # The threshold with the largest bound is chosen on half of the trials. Its error
    # rates are counted on the other half.
    of_all, middle = ratios.sum(axis=1), int(n_trials) // 2
    chosen, counted = of_all[:, :middle], of_all[:, middle:]
    candidates = np.unique(chosen)
    # The Gaussian-DP parameter that bounds of the two rates imply: mu-Gaussian-DP has
    # FNR >= Phi(Phi^-1(1 - FPR) - mu) (Dong, Roth and Su 2022).
    found = sum(map(stats.norm.isf, largest_rates(*chosen, candidates, half)))
    found = np.where(np.isfinite(found), np.maximum(found, 0.0), 0.0)
    # Among equally good thresholds take the middle one.
    best = np.flatnonzero(found == found.max())
    rates = largest_rates(*counted, candidates[best[len(best) // 2]], half).tolist()
    clopper_pearson = float(epsilon_lower_bound(*rates, delta))
    *releases, whole = _release_audits(ratios, events, claim.mu, half)
    lower_bound = clopper_pearson
    if claim.mu is not None:
        lower_bound = max(lower_bound, gdp_epsilon(delta, max(whole.low, 0.0)))
    return MechanismResult(
        subject=subject,
        neighboring_relation=events[0].neighboring_relation,
        claimed_epsilon=claim.epsilon,
        delta=delta,
        lower_bound=lower_bound,
        confidence=float(confidence),
        n_trials=int(n_trials),
        releases=tuple(releases),
        whole=whole,
        clopper_pearson=clopper_pearson,
        curve_refuted=refutes(*rates, events),
    )


def _resolved(plan: Any) -> tuple[str, tuple[Event, ...], float]:
    """Return a description of the plan, its events with distinct labels, and delta."""
    events = planned(plan)
    if any(event is None or event.pure_epsilon for event in events):
        raise ValueError(
            f"plan={plan!r} has other than Gaussian releases: pass the plan of a fit "
            "with finite epsilon. The chances of pure releases are checked by fits."
        )
    labels = [event.label for event in events]
    subject = getattr(plan, "subject", ", ".join(dict.fromkeys(labels)))
    delta = getattr(plan, "delta", getattr(plan, "target_delta", 1e-5))
    compose(events)  # refuses events that do not compose
    before = [labels[:place].count(label) for place, label in enumerate(labels)]
    distinct = tuple(
        dataclasses.replace(event, label=f"{event.label} ({n + 1})") if n else event
        for event, n in zip(events, before, strict=True)
    )
    return subject, distinct, delta


def _release_audits(
    ratios: np.ndarray, events: tuple[Event, ...], mu: float | None, confidence: float
) -> list[ReleaseAudit]:
    """Return an audit of each event, and one of all events together.

    The confidence intervals hold jointly.
    """
    claimed = np.array([*map(moments_of_ratio, events)])
    found = [
        (event.label, event.n_steps, event.sampling_rate, event.mu, *of_event)
        for event, *of_event in zip(events, claimed, ratios.swapaxes(0, 1), strict=True)
    ]
    n_steps = sum(event.n_steps for event in events)
    rate = min(event.sampling_rate for event in events)
    found += [("whole", n_steps, rate, mu, claimed.sum(axis=0), ratios.sum(axis=1))]
    each = 1 - (1 - confidence) / len(found)
    return [
        ReleaseAudit(
            *facts,
            float(apart / math.sqrt(variance)) if mu is None else mu,
            *separation(*sides, each, gaussian=mu is not None),
        )
        for *facts, mu, (apart, variance), sides in found
    ]
