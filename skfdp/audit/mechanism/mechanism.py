"""The audit of a mechanism: canaries that the desk gives out as often as one likes."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from skfdp.addresses import public
from skfdp.audit.mechanism import bounds
from skfdp.audit.mechanism.canary import Score, statistics
from skfdp.audit.results import AuditResult
from skfdp.privacy import Event, PrivacyPlan, gdp_epsilon
from skfdp.privacy.composition import cost
from skfdp.privacy.curves import check_delta, check_events, compose
from skfdp.privacy.fit_plan import FitPlan
from skfdp.privacy.plotting import new_axes
from skfdp.privacy.values import shown
from skfdp.releases.noise import check_random_state

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
    `skfdp.audit.mechanism.bounds`. For the bounds a threshold is chosen on the first
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
    confidence = bounds.check_confidence(confidence)
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
        seen = bounds.separation(*sides, each, gaussian=event.mu is not None)
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
    seen = bounds.separation(*ratios.sum(axis=1), each, gaussian=mu is not None)
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
        threshold = bounds.best_threshold(*chosen, bound)
        false_positives, false_negatives = bounds.errors(*counted, threshold)
        return int(false_positives), int(false_negatives), counted.shape[1]

    def by_epsilon(*counts: Any) -> Any:
        return bounds.epsilon_lower_bound(*counts, delta, confidence)

    def by_mu(*counts: Any) -> Any:
        return bounds.mu_lower_bound(*counts, confidence)

    clopper_pearson = by_epsilon(*at_best(by_epsilon))
    counts = at_best(by_mu)
    if mu is not None:
        shown = by_mu(*counts)
        return (gdp_epsilon(delta, shown) if shown > 0 else 0.0), clopper_pearson
    rates = [bounds.clopper_pearson(n, counts[2], confidence)[1] for n in counts[:2]]
    return bounds.epsilon_of_family(events, *rates, delta), clopper_pearson
