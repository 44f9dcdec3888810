"""The audit of a mechanism: canaries that it releases as often as one likes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import stats

from skfdp.addresses import public
from skfdp.data.grid import sum_unit
from skfdp.data.validation import check_number
from skfdp.mechanisms.noise import Streams, check_random_state
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event, PrivacyPlan, Relation, gdp_epsilon
from skfdp.privacy.accounting import (
    check_delta,
    compose,
    cost,
)
from skfdp.privacy.entries import FitPlan
from skfdp.privacy.ledger import planned
from skfdp.privacy.report_text import number

# Bounds from counted errors and from samples: what two worlds apart show of privacy.


def largest_rates(
    without: np.ndarray, with_it: np.ndarray, threshold: Any, confidence: float
) -> tuple[Any, Any]:
    """Return upper bounds of the error rates of a threshold, or of each of several.

    Notes
    -----
    **Guarantees.** Given the statistics of tables without the record, and with it,
    where they are larger, and a threshold that others chose, the rates of false
    positives and of false negatives pass these bounds with a probability of at most
    ``(1 - confidence) / 2`` each: both hold with probability `confidence`. They are
    those of Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404, exact
    for every probability and every number of trials.
    """
    n_trials = len(without)
    above = n_trials - np.searchsorted(np.sort(without), threshold, side="right")
    below = np.searchsorted(np.sort(with_it), threshold, side="right")
    return largest_rate(above, n_trials, confidence), largest_rate(
        below, n_trials, confidence
    )


def largest_rate(count: Any, n_trials: int, confidence: float) -> Any:
    """Return Clopper and Pearson's upper bound of the rate of what was counted."""
    tail, left = (1 - confidence) / 2, n_trials - np.asarray(count)
    # Where all trials count a shape would be zero: any other gives a number to replace.
    bound = stats.beta.isf(tail, np.asarray(count) + 1, np.maximum(left, 1))
    return np.where(left == 0, 1.0, bound)[()]


def epsilon_lower_bound(false_positive: Any, false_negative: Any, delta: float) -> Any:
    """Return the epsilon that a test with so small rates shows to be spent at delta.

    Notes
    -----
    **Guarantees.** An (epsilon, delta)-private mechanism has ``FNR >= 1 - delta -
    exp(epsilon) FPR``, and the same with the two exchanged (Kairouz, Oh and Viswanath
    2017, https://arxiv.org/abs/1311.0776). Where both rates are at most those given no
    smaller epsilon is true. Nothing is assumed of the mechanism.
    """
    rates = np.array([false_positive, false_negative])
    bounds = np.log(np.maximum(1 - delta - rates, 1e-300)) - np.log(rates[::-1])
    return np.maximum(0.0, bounds.max(axis=0))


def mu_lower_bound(false_positive: Any, false_negative: Any) -> Any:
    """Return the Gaussian-DP parameter that a test with so small rates shows.

    Notes
    -----
    **Guarantees.** A mu-Gaussian-DP mechanism has ``FNR >= Phi(Phi^-1(1 - FPR) - mu)``
    (Dong, Roth and Su 2022, https://doi.org/10.1111/rssb.12454). Where both rates are
    at most those given it is mu-GDP for no smaller mu than this.
    """
    found = stats.norm.isf(false_positive) + stats.norm.isf(false_negative)
    return np.maximum(0.0, np.where(np.isfinite(found), found, 0.0))[()]


def refutes(
    false_positive: float, false_negative: float, events: tuple[Event, ...]
) -> bool:
    """Whether the privacy curve of events allows no test with so small rates.

    Notes
    -----
    **Guarantees.** The curve claims delta(epsilon) at each epsilon; a claim is refuted
    where the rates show a larger epsilon at its delta (`epsilon_lower_bound`).
    """
    curve = compose(events)
    return any(
        epsilon_lower_bound(false_positive, false_negative, curve.delta(claimed))
        > claimed
        for claimed in _EPSILONS
    )


class Separation(NamedTuple):
    """Distance of two samples in standard deviations: a Gaussian-DP parameter."""

    value: float  # the difference of the means over the pooled standard deviation
    low: float  # the interval of what it estimates
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

    At least three each; `gaussian` says that both are normal of one standard deviation.
    Otherwise the interval comes from sample moments.

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
    return Separation(d, float(low), float(high), float(error))


# Where a privacy curve is compared: no larger epsilon is shown by so few trials.
_EPSILONS = np.linspace(0.0, 15.0, 151).tolist()


# Two tables that differ in one record, released by the mechanism, and what tells them.


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

    Notes
    -----
    **Guarantees.** The contract of `skfdp.queries`. An entry is truncated toward zero,
    so that two canaries lie apart what their lengths do, up to a unit an entry.
    """

    length: float  # it contributes ``length * theta``, theta being a unit vector
    clip_norm: float
    moved: float  # how far the sum of a neighbour is away, where it is replaced
    n_rows: int
    place: int | None  # of the record; None: it is not in the table

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
    with_it = Canary(full, event.clip_norm, event.sensitivity, N_ROWS, PLACE)
    if event.relation.counts_are_public:
        return dataclasses.replace(with_it, length=other), with_it
    return dataclasses.replace(with_it, n_rows=N_ROWS - 1, place=None), with_it


def log_ratios(
    events: Sequence[Event], n_trials: int, random_state: int | None
) -> np.ndarray:
    """Return the log-likelihood ratios of all releases of two tables.

    In an array of shape (2, n_events, n_trials), of the table without the record, then
    of that with it; larger with it. Each table is released whole at mechanisms of its
    own, and each event has a label of its own.
    """
    ratios = np.empty((2, len(events), n_trials))
    parts = [(event, Score(event), neighbours(event)) for event in events]
    for side in range(2):
        for trial in range(n_trials):
            owner = f"audit_mechanism/table {side}/trial {trial}"
            mechanism = Mechanism(events, Streams(random_state, owner))
            for place, (event, score, tables) in enumerate(parts):
                along = np.empty(event.n_steps)
                for step in range(event.n_steps):
                    theta = -_DIRECTION if step % 2 else _DIRECTION
                    released = mechanism.release(event.label, tables[side], theta)
                    along[step] = released @ theta
                ratio = score.of_step(along, event.step_stds).sum()
                ratios[side, place, trial] = ratio
    return ratios


class Score:
    """The log-likelihood ratio of the releases of an event, as its claim has it.

    Notes
    -----
    Of full batches it is the sum of what is released along the canary, each times
    ``sensitivity / std**2``, but for a constant: no test of these releases tells more.
    """

    def __init__(self, event: Event):
        self._event, self._lengths = event, lengths(event)

    def of_step(self, released: np.ndarray, std: np.ndarray | float) -> np.ndarray:
        """Return the ratio of each release, each along the canary."""
        (full, other), rate = self._lengths, self._event.sampling_rate
        if rate == 1:
            return (released - (full + other) / 2) * (full - other) / np.square(std)

        def log_mixture(centre: float) -> np.ndarray:
            """Return the log of a density, over that of noise alone."""
            exponent = (2 * centre * released - centre**2) / (2 * np.square(std))
            return np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)

        return log_mixture(full) - log_mixture(other)

    def moments(self) -> tuple[float, float]:
        """Return by how much the mean differs with the record, and the mean variance.

        Of the ratio of all releases, if the claim holds; by quadrature.
        """
        apart = variance = 0.0
        (full, other), rate = self._lengths, self._event.sampling_rate
        stds, counts = np.unique(self._event.step_stds, return_counts=True)
        for std, count in zip(stds.tolist(), counts.tolist(), strict=True):
            # 0 is a centre too, where a record may be out of the batch.
            ends = min(full, other, 0.0) - 12 * std, max(full, other, 0.0) + 12 * std
            x = np.linspace(*ends, 40_001)
            ratio, means = self.of_step(x, std), []
            for centre in (full, other):
                weights = rate * np.exp(-(((x - centre) / std) ** 2) / 2)
                weights += (1 - rate) * np.exp(-((x / std) ** 2) / 2)
                weights /= weights.sum()
                means.append(float(weights @ ratio))
                variance += count * float(weights @ (ratio - means[-1]) ** 2) / 2
            apart += count * (means[0] - means[1])
        return apart, variance


# Results of audits: a claim, and what was seen of it.


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditResult:
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
        """Return it as a sentence."""
        sure = "" if self.confidence == 1 else f" at confidence {self.confidence:.6g}"
        verdict = "did not refute" if self.passed else "REFUTED"
        return (
            f"Audit by {self.audit} of {self.subject}: {self.n_trials} trial(s) "
            f"{verdict} epsilon = {number(self.claimed_epsilon, 4)} at delta = "
            f"{self.delta:g}; lower bound {number(self.lower_bound, 4)}{sure}."
        )


# Of a plan that names none.
_DELTA = 1e-5
# Fewer releases of a table could not be halved and say anything.
_LEAST_TRIALS, _MOST_TRIALS = 100, 10_000_001
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
        Lower bound of epsilon that assumes nothing of the outputs; it holds with
        probability `confidence` like `lower_bound`, and is smaller as a rule: n trials
        cannot show more than about ``log(n / 8)``.
    curve_refuted : bool
        Whether the counted errors are fewer than the claimed privacy curve allows.
    """

    audit: ClassVar[str] = "mechanism"

    releases: tuple[ReleaseAudit, ...]
    whole: ReleaseAudit
    clopper_pearson: float
    curve_refuted: bool

    @property
    def passed(self) -> bool:
        """Whether neither the claim nor that of any release was refuted."""
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
    r"""Release canaries as a plan says, and compare what is seen with what it claims.

    A table whose one canary contributes a vector as long as the events allow, and a
    neighbour on which it is moved by their whole sensitivity (replaced, or gone), are
    released by the package's own mechanism, with its noise and its coins, `n_trials`
    times each. Somebody who knows everything but the canary tries to tell them apart.

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
        Also for a `Selection`: audit its ``run_event(label, clip_norm)``.

    Notes
    -----
    **What the numbers rest on.** The log-likelihood ratio of all releases is the
    statistic; no test tells more. For full batches it is a weighted sum of Gaussians,
    and *seen* is the Gaussian-DP parameter, with the interval of `separation` in
    `skfdp.audit.mechanism`. A threshold is chosen on the first half of the trials, and
    its errors are counted on the second; their Clopper-Pearson bounds, which assume
    nothing, give `clopper_pearson` and `curve_refuted`. `lower_bound` is the first of
    these for sampled batches; for full ones it is the epsilon of the lower end of the
    interval of *seen*, if that is larger (Nasr et al. 2023). If every claim is true,
    `passed` is False with a probability of at most ``1 - confidence``.

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
    >>> from skfdp.privacy import calibrate
    >>> from skfdp.audit import audit_mechanism
    >>> plan = calibrate(4.0, 1e-5, n_steps=2)
    >>> result = audit_mechanism(plan, n_trials=1000, random_state=0)
    >>> result.passed, result.lower_bound < result.claimed_epsilon
    (True, True)
    >>> result.whole.low < plan.mu < result.whole.high
    True
    """
    check_number(
        "n_trials",
        n_trials,
        low=_LEAST_TRIALS,
        high=_MOST_TRIALS,
        include_low=True,
        integral=True,
    )
    check_number("confidence", confidence, high=1)
    check_random_state(random_state)
    subject, events, own_delta = _resolved(plan)
    delta = own_delta if delta is None else check_delta(delta)
    claim = cost(events, delta)
    ratios = log_ratios(events, int(n_trials), random_state)
    # Half of what may go wrong is left to the intervals, half to the bounds.
    half = (1 + float(confidence)) / 2
    # A threshold is chosen on half of the trials: that of the largest bound. Its error
    # rates are counted on the other half.
    of_all, middle = ratios.sum(axis=1), int(n_trials) // 2
    chosen, counted = of_all[:, :middle], of_all[:, middle:]
    candidates = np.unique(chosen)
    found = mu_lower_bound(*largest_rates(*chosen, candidates, half))
    # Of equals that in the middle: where nothing is told apart, any will do.
    best = np.flatnonzero(found == found.max())
    threshold = candidates[best[len(best) // 2]]
    rates = tuple(map(float, largest_rates(*counted, threshold, half)))
    assumed_nothing = float(epsilon_lower_bound(*rates, delta))
    *releases, whole = _release_audits(ratios, events, claim.mu, half)
    lower_bound = assumed_nothing
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
        clopper_pearson=assumed_nothing,
        curve_refuted=refutes(*rates, events),
    )


def _resolved(plan: Any) -> tuple[str, tuple[Event, ...], float]:
    """Return the subject, the events, each with a label of its own, and delta."""
    events, _ = planned(plan)
    if None in events:
        raise ValueError(
            f"plan={plan!r} has no events: without privacy there is nothing to audit."
        )
    labels = ", ".join(dict.fromkeys(event.label for event in events))
    subject = getattr(plan, "subject", labels)
    delta = getattr(plan, "delta", getattr(plan, "target_delta", _DELTA))
    for event in events:
        if type(event) is not Event:
            raise ValueError(
                f"plan has a {type(event).__name__}, label={event.label!r}, which is "
                "no release: audit one of its runs, its run_event(label, clip_norm)."
            )
    compose(events)  # refuses relations or public sets that do not go together
    labels = [event.label for event in events]
    found = []
    for place, event in enumerate(events):
        if before := labels[:place].count(event.label):
            event = dataclasses.replace(event, label=f"{event.label} ({before + 1})")
        found.append(event)
    return subject, tuple(found), delta


def _release_audits(
    ratios: np.ndarray,
    events: tuple[Event, ...],
    mu: float | None,
    confidence: float,
) -> list[ReleaseAudit]:
    """Return an audit of each event and of all of them; the intervals hold jointly."""
    moments = np.array([Score(event).moments() for event in events])
    found = [
        (event.label, event.n_steps, event.sampling_rate, event.mu, *of_event)
        for event, *of_event in zip(events, moments, ratios.swapaxes(0, 1), strict=True)
    ]
    n_steps = sum(event.n_steps for event in events)
    rate = min(event.sampling_rate for event in events)
    found += [("whole", n_steps, rate, mu, moments.sum(axis=0), ratios.sum(axis=1))]
    each = 1 - (1 - confidence) / len(found)
    return [
        ReleaseAudit(
            *facts,
            float(apart / math.sqrt(variance)) if mu is None else mu,
            *separation(*sides, each, gaussian=mu is not None),
        )
        for *facts, mu, (apart, variance), sides in found
    ]
