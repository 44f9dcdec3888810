"""The one-run audit: coins that a fit must not tell, guessed from its model.

`audit_estimator` fits an estimator of the package once, to records that coins chose,
and guesses the coins from the fitted model. docs/theory/one_run.rst has the proof.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom
from sklearn.base import clone, is_classifier, is_regressor

from skfdp.audit.mechanism import AuditResult
from skfdp.audit.replay import mask_of, prepared
from skfdp.data.validation import UtilityWarning
from skfdp.privacy import Event, Relation, compose, gdp_epsilon
from skfdp.privacy.accounting import PrivacyCurve, cost
from skfdp.privacy.report import PrivacyReport

# Trade-off curves, and the family of a claim.
#
# Somebody guesses from outputs whether a table held a record. The share of tables
# without it that are taken for tables with it is the false positive rate, the share of
# tables with it that are taken for tables without it the false negative rate. Privacy
# bounds both from below, so that few errors refute a claim.


#: Smallest share of wrong guesses that goes with a share of right ones: the trade-off
#: function at 1 less that share.
Least = Callable[[float], float]
# Points of a privacy curve that make a trade-off curve; no epsilon beyond the largest
# one, and no mu, is shown by as many guesses or trials as there is time for.
_POINTS, LARGEST_EPSILON, _LARGEST_MU = 150, 60.0, 20.0
_STEPS = 2**50
# By which noise of sampled releases is divided: each curve takes a moment. One is a
# little above 1, so that a claim that is refuted shows a larger epsilon.
_FACTORS = tuple(1.001 * 2 ** (k / 32) for k in range(-192, 65))


def gaussian_least(mu: float) -> Least:
    """Return the trade-off of mu-Gaussian-DP, ``ndtr(ndtri(y) - mu)``."""
    return lambda right: float(ndtr(ndtri(right) - mu))


def curve_least(curve: PrivacyCurve) -> Least:
    r"""Return the trade-off of a privacy curve that holds in both directions.

    :math:`y \le e^\varepsilon x + \delta(\varepsilon)` and
    :math:`1 - x \le e^\varepsilon (1 - y) + \delta(\varepsilon)` for each epsilon
    (Dong, Roth and Su 2022, Proposition 6); those of a grid are looked at, so that the
    claim is, if anything, weaker than its curve.
    """
    top = 1.0
    while top < LARGEST_EPSILON and curve.delta(top) > 1e-9:
        top *= 2
    grid = np.linspace(0.0, top, _POINTS)
    deltas = np.array([curve.delta(float(epsilon)) for epsilon in grid])
    growth = np.exp(grid)

    def least(right: float) -> float:
        small = (right - deltas) / growth
        large = 1 - deltas - growth * (1 - right)
        return max(0.0, float(small.max()), float(large.max()))

    return least


@functools.lru_cache(maxsize=256)
def least_of(events: tuple[Event, ...], n_steps: int = 1, factor: float = 1.0) -> Least:
    """Return the trade-off of events whose noise is divided by a factor.

    Notes
    -----
    **Guarantees.** Between two tables there are `n_steps` neighbouring steps, 1 or 2.
    Two of "replace_special" lead from one value to null and to another value: a sum
    with contributions of at most C moves by at most 2 C, in every batch that holds the
    record, which is what an event of "replace_one" with sensitivity 2 C says.
    """
    if (mu := mu_of(events)) is not None:
        return gaussian_least(n_steps * factor * mu)
    events = _scaled(events, factor)
    if n_steps == 2:
        events = tuple(
            dataclasses.replace(
                event,
                neighboring_relation="replace_one",
                sensitivity=2 * event.clip_norm,
            )
            for event in events
        )
    return curve_least(compose(events))


def mu_of(events: Sequence[Event]) -> float | None:
    """Return the Gaussian-DP parameter of one step, None where it is not Gaussian."""
    mus = [event.mu for event in events if event.mu is not None]
    return math.hypot(*mus) if len(mus) == len(events) else None


def _scaled(events: Sequence[Event], factor: float) -> tuple[Event, ...]:
    return tuple(
        dataclasses.replace(
            event, noise_std=tuple(std / factor for std in event.noise_std)
        )
        for event in events
    )


def epsilon_of_family(
    events: tuple[Event, ...],
    delta: float,
    refuted: Callable[[Least], bool],
    n_steps: int = 1,
) -> float:
    """Return the largest epsilon in the family of a claim that is refuted, or 0.

    Notes
    -----
    **Guarantees.** Others of the family have the noise of every release divided by one
    factor. Privacy losses grow with it, so that refuting one member refutes all below
    it. The result, the epsilon of one step (see `least_of`), is above that of the claim
    only if the trade-off of the claim's own accounting is refuted, and errs low.
    """
    if mu_of(events) is not None:
        mu = largest(lambda mu: refuted(gaussian_least(n_steps * mu)), _LARGEST_MU)
        return gdp_epsilon(delta, mu) if mu > 0 else 0.0

    def is_refuted(factor: float) -> bool:
        try:
            return refuted(least_of(events, n_steps, factor))
        except ValueError:  # so little noise that no distribution holds its losses
            return False

    place = bisect_left(_FACTORS, True, key=lambda factor: not is_refuted(factor)) - 1
    return 0.0 if place < 0 else cost(_scaled(events, _FACTORS[place]), delta).epsilon


def largest(refuted: Callable[[float], bool], top: float) -> float:
    """Return the largest number below `top` that is refuted, and all below it, or 0."""
    steps = range(_STEPS)
    found = bisect_left(steps, True, key=lambda step: not refuted(step / _STEPS * top))
    return max(found - 1, 0) / _STEPS * top


# Fits for audits: uncharged and unseeded, of which the last iterate is kept.


class _LastIterate:
    """A callback that keeps the model of the last step.

    Every iterate of a loop is released; the model that a fit returns may be scaled
    down to what its noise lets hope for, and shows less.
    """

    model: Any = None

    def _ignore(self, estimator, context, **_):
        pass

    setup = teardown = on_fit_task_begin = _ignore

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, **_):
        if context.task_name == "step":
            self.model = fitted_estimator
        return False


def fitted(own: Any, X: np.ndarray, y: np.ndarray | None) -> tuple[Any, Any]:
    """Return a fitted clone, and with its last iterate, where there are callbacks."""
    model, listener = clone(own), _LastIterate()
    if hasattr(model, "set_callbacks"):
        model.set_callbacks(listener)
    with warnings.catch_warnings(action="ignore", category=UtilityWarning):
        model.fit(X, y)
    return model, listener.model or model


# Canaries of a one-run audit: records with two values each, told in a table.


class Canaries(NamedTuple):
    """Records of a table with two values each."""

    rows: np.ndarray  # their positions in the table
    X_a: np.ndarray  # what heads puts into the table
    y_a: np.ndarray | None
    X_b: np.ndarray  # the other value, which scores compare with
    y_b: np.ndarray | None
    X_tails: np.ndarray  # what tails puts there: the other value, null, or nothing
    y_tails: np.ndarray | None
    tails: str  # "other", "null" or "out", as in `OneRunResult`
    n_steps: int  # neighbouring steps from heads to tails, 1 or 2

    def table(self, X: np.ndarray, y: np.ndarray | None, heads: np.ndarray) -> tuple:
        """Return the table that the coins choose."""
        chosen = np.arange(len(X))
        chosen[self.rows] = len(X) + np.arange(len(self.rows))
        chosen[self.rows[~heads]] += len(self.rows)
        if self.tails == "out":
            chosen = np.delete(chosen, self.rows[~heads])
        told = None
        if y is not None:
            told = np.concatenate([y, self.y_a, self.y_tails])[chosen]
        return np.concatenate([X, self.X_a, self.X_tails])[chosen], told


def make_canaries(
    own: Any,
    events: Sequence[Event],
    X: np.ndarray,
    y: np.ndarray | None,
    n_canaries: int,
    tails: str,
    rng: np.random.Generator,
) -> Canaries:
    """Return canaries among the records of a table; see `audit_estimator`."""
    rows = np.sort(rng.choice(len(X), n_canaries, replace=False))
    names = {name for event in events for name in event.public_features}
    columns = np.flatnonzero(~mask_of(names, X))
    learns = y is not None and (is_classifier(own) or is_regressor(own))
    private_target = learns and not any(event.public_target for event in events)
    X_a, X_b = X[rows], X[rows]
    y_a = y_b = None if y is None else y[rows]
    if len(columns):
        low, high = own.bounds or (X.min(), X.max())
        signs = rng.random((n_canaries, len(columns))) < 0.5
        X_a[:, columns] = np.where(signs, high, low)
        X_b[:, columns] = np.where(signs, low, high)
    if private_target:
        y_a, other = _flipped(own, y, n_canaries, rng)
        y_b = y_a if len(columns) else other
    relation, null = Relation.of(events[0].neighboring_relation), None
    if not relation.counts_are_public:
        return Canaries(rows, X_a, y_a, X_b, y_b, X_b, y_b, "out", 1)
    if not relation.replaces and tails != "other":
        null = _null(own, X_a, y_a, columns, private_target)
        rare = tails == "auto" and is_classifier(own) and private_target
        if null and rare and not _labels_suffice(own, events, y, rows, y_a):
            null = None
    if null:
        return Canaries(rows, X_a, y_a, X_b, y_b, *null, "null", 1)
    assert tails != "null" or relation.replaces, "this table cannot tell null"
    n_steps = 1 if relation.replaces else 2
    return Canaries(rows, X_a, y_a, X_b, y_b, X_b, y_b, "other", n_steps)


def _flipped(own: Any, y: np.ndarray, n: int, rng: np.random.Generator) -> tuple:
    """Return random labels, or ends of the target's bounds, and other ones."""
    if is_regressor(own):
        labels = np.array(own.target_bounds, dtype=float)
    else:
        labels = np.unique(y) if own.classes is None else np.asarray(own.classes)
    first = rng.integers(len(labels), size=n)
    second = (first + rng.integers(1, len(labels), size=n)) % len(labels)
    return labels[first], labels[second]


def _null(
    own: Any,
    X_a: np.ndarray,
    y_a: np.ndarray | None,
    columns: np.ndarray,
    private_target: bool,
) -> tuple | None:
    """Return records that count as null, None if a table cannot tell them."""
    if private_target and is_regressor(own):
        return X_a, np.full(len(X_a), np.nan)
    if private_target and own.classes is not None:
        return X_a, np.full(len(X_a), max(own.classes) + 1)
    if own.bounds is False and len(columns):
        X_null = X_a.copy()
        X_null[:, columns] = np.nan
        return X_null, y_a
    return None


def _labels_suffice(
    own: Any, events: Sequence[Event], y: np.ndarray, rows: np.ndarray, y_a: np.ndarray
) -> bool:
    """Whether no released count will look empty: it takes three standard deviations.

    If one does, a fit may take y for one with other labels than `classes`, and refuse
    it. Coins take half of the canaries of a class away. Beyond those three there are
    four of the count and its coins, which all fits but 1 of 30,000 keep to.
    """
    counts = [event for event in events if event.label.endswith("class counts")]
    std = max((event.noise_std[0] for event in counts), default=0.0)
    labels, others = np.asarray(own.classes)[:, None], np.delete(y, rows)
    n_left, n_coins = ((given == labels).sum(axis=1) for given in (others, y_a))
    spread = np.hypot(std, np.sqrt(n_coins) / 2)
    return bool((n_left + n_coins / 2 >= 3 * std + 4 * spread).all())


# Scores of canaries: where a model seems to have seen the first of two values.


#: ``score(model, X_a, y_a, X_b, y_b)``; large where the model saw the first value.
Score = Callable[[Any, Any, Any, Any, Any], np.ndarray]
# Noise over signal in the directions of the canaries, as far as they can be told.
_RATIOS = np.geomspace(1e-6, 1e6, 97)
_LEAST_PROBABILITY = 1e-6


def linear_score(model: Any, X_a: Any, y_a: Any, X_b: Any, y_b: Any) -> np.ndarray:
    r"""Return how far the coefficients of a linear model lean toward first values.

    The first gradient of a record is its residual at the start times its mapped row.
    Let d be the difference of those of the two values. The coefficients are roughly a
    sum of :math:`\pm d_i` and noise, and each inner product :math:`z_i` with them has
    the other canaries in it. With G the matrix of the inner products of all d, the
    score is :math:`(G + \lambda I)^{-1} z`, their best linear prediction, for the ratio
    of noise to signal under which z is most likely.
    """
    n, y = len(X_a), np.concatenate([y_a, y_b])
    rows = model.input_scaler_(np.concatenate([X_a, X_b]).astype(float))
    if not is_classifier(model):
        residuals = (y.astype(float) - np.median(y.astype(float)))[:, None]
    elif len(model.classes_) == 2:
        residuals = (y == model.classes_[1])[:, None] - 0.5
    else:
        residuals = (y[:, None] == model.classes_) - 1 / len(model.classes_)
    along = ((rows @ np.atleast_2d(model.coef_).T) * residuals).sum(axis=1)
    residuals[n:] *= -1
    whole = (rows @ rows.T) * (residuals @ residuals.T)
    gram = whole[:n, :n] + whole[:n, n:] + whole[n:, :n] + whole[n:, n:]
    return _separated(along[:n] - along[n:], gram)


def _separated(z: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """Return the best linear prediction of coins from inner products."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    values, vectors = values[kept], vectors[:, kept]
    seen = vectors.T @ z
    if not seen.any():
        return np.zeros_like(z)
    usual = values.mean()

    def likelihood(ratio: float) -> float:
        variances = values * (values + ratio * usual)
        scale = np.mean(seen**2 / variances)
        return -len(seen) * np.log(scale) - np.log(variances).sum()

    ratio = max(_RATIOS, key=likelihood)
    return vectors @ (seen / (values + ratio * usual))


def margin_score(model: Any, X_a: Any, y_a: Any, X_b: Any, y_b: Any) -> np.ndarray:
    """Return how much more the first value is on the side of its label."""
    return _sides(model, X_a, y_a) - _sides(model, X_b, y_b)


def _sides(model: Any, X: Any, y: Any) -> np.ndarray:
    """Return the margin of the label of each record beside the other labels."""
    # Bounded, since some models are sure of what they say.
    margins = np.log(np.maximum(model.predict_proba(X), _LEAST_PROBABILITY))
    codes = np.argmax(y[:, None] == model.classes_, axis=1)
    own = margins[np.arange(len(codes)), codes]
    return own - (margins.sum(axis=1) - own) / (margins.shape[1] - 1)


# Bounds on right guesses of coins: what one run of a mechanism can tell of many.
#
# C of n guesses of m coins are right. The bounds are proved in docs/theory/one_run.rst:
# by the exchange lemma, for approximate DP (`steinke_p_value`) and f-DP (`refutes`).


def steinke_p_value(
    n_canaries: int, n_guesses: int, n_correct: int, epsilon: float, delta: float
) -> float:
    """Return a bound on the probability of so many right guesses under a claim.

    The epsilon and the delta are those of a claim for one changed coin, and
    ``0 <= n_correct <= n_guesses <= n_canaries``.
    """
    if n_correct == 0:
        return 1.0
    chance = float(expit(epsilon))
    tail = float(binom.sf(n_correct - 1, n_guesses, chance))
    mass = float(binom.pmf(n_correct, n_guesses, chance))
    if mass == 0:  # below the floats: far out, or far in
        return 0.0 if tail == 0 else 1.0
    lost = n_canaries * delta * tail / mass * (1 - tail) / n_correct
    return min(1.0, tail + lost)


def steinke_bound(
    n_canaries: int,
    n_guesses: int,
    n_correct: int,
    *,
    delta: float,
    significance: float,
    n_steps: int = 1,
) -> float:
    r"""Return the epsilon that so many right guesses refute at delta, or 0.

    It is that of one neighbouring step, where there are two from one value of a canary
    to the other: by group privacy these are
    :math:`(2\varepsilon, (1 + e^\varepsilon)\delta)`-DP.
    """

    def refuted(epsilon: float) -> bool:
        claim = (epsilon, delta)
        if n_steps == 2:
            claim = 2 * epsilon, min(1.0, (1 + math.exp(epsilon)) * delta)
        p = steinke_p_value(n_canaries, n_guesses, n_correct, *claim)
        return p <= significance

    return largest(refuted, LARGEST_EPSILON)


def refutes(
    n_canaries: int, n_guesses: int, n_correct: int, least: Least, significance: float
) -> bool:
    """Whether a trade-off, the inverse of G, makes so many right guesses too rare."""
    if n_correct == 0:
        return False
    right = significance * n_correct / n_canaries
    wrong = significance * (n_guesses - n_correct) / n_canaries
    most = n_guesses / n_canaries * (1 + 1e-12)
    for k in range(n_correct, 0, -1):
        needed = least(min(1.0, right))
        if needed <= wrong:  # and so it stays
            return False
        right += (needed - wrong) * (k - 1) / (n_guesses - k + 1)
        wrong = needed
        if right + wrong > most:
            return True
    return False


#: Of the canaries guessed; each number costs its part of the confidence.
SHARES = (1.0, 0.5, 0.25, 0.125)
_METHODS, _CONFIDENCE = 2, 0.95
#: Numbers of guesses, and how many of them are right.
Counts = list[tuple[int, int]]
_MOST_CANARIES = 1_000
_ROUNDS = 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneRunResult(AuditResult):
    """Result of `audit_estimator`.

    `n_correct` of `n_guesses` were right where that gave the lower bound; `counts` has
    all numbers that were looked at. `steinke` holds for any mechanism, `f_dp` among
    claims with the same releases and other noise. `reach` is the lower bound if every
    guess had been right. `tails` says what a coin puts in the place of a canary:
    "other", "null" or "out".
    """

    audit: ClassVar[str] = "one run"

    n_canaries: int
    n_guesses: int
    n_correct: int
    counts: tuple[tuple[int, int], ...]
    steinke: float
    f_dp: float
    reach: float
    tails: str


def audit_estimator(
    estimator: Any,
    X: np.ndarray,
    y: np.ndarray | None,
    *,
    n_canaries: int | None = None,
    tails: str = "auto",
    score: Score | None = None,
    random_state: int | None = None,
) -> OneRunResult:
    r"""Fit once on records that coins chose, and guess the coins from the model.

    The private part of each canary has two values, the public part one: a random corner
    of the box of the private columns and the corner opposite, both with one random
    label if that is private; where all columns are public a random label and another
    one, of regressors the two ends of the target. The box is that of `bounds`, a pair
    of numbers, or of the table. A fair coin chooses for each canary. A clone of the
    estimator is fitted to that table, once, without its ledger and without a seed.
    `random_state` is that of canaries and coins. Each canary gets a score from the
    model, and the coins of those with the most decided scores are guessed. A claim
    bounds how many guesses can be right; if more are, it is refuted.

    Under "replace_special", `tails` says what a coin puts in the place of a canary: its
    "other" value, or "null". "auto" is null if the table can tell it, and leaves each
    class so many labels that its noisy count does not look empty.

    ``score(model, X_a, y_a, X_b, y_b)`` returns a number for each canary, the larger
    the more the fitted model seems to have seen the first value. It must not know the
    coins. None looks at coefficients or margins, at the last iterate of the loop where
    scikit-learn has callbacks (1.9), since every iterate is released; other estimators
    need a score.

    Notes
    -----
    **Guarantees.** `lower_bound` exceeds the epsilon that the releases cost with
    probability at most .05, whatever the score is: each number of guesses and each
    method (`steinke`, `f_dp`) has its share of the error (Bonferroni), by the exchange
    lemma of docs/theory/one_run.rst.

    The relations: under "replace_one" heads and tails are neighbours. Under
    "replace_special" a value and null are: a private label that is none of the declared
    `classes`, a target of a regressor that is NaN, or NaN in a column without bounds.
    Where no table can tell null (NaN counts as the middle of its bounds, which is a
    value) two values are two steps: `steinke` then asks for
    :math:`(2\varepsilon, (1 + e^\varepsilon) \delta)`, `f_dp` for twice the
    sensitivity, and both return the epsilon of one step. Under "add_or_remove_one" the
    record is in the table or left out of it.

    `steinke` holds for whatever the mechanism does; its test is that of the paper, with
    a last term that is proved anew. `f_dp` is
    the epsilon of the smallest noise, in proportion to the claimed one, that is
    refuted: it supposes that what may be wrong is the scale of noise or sensitivity. As
    a refutation of the claim it supposes nothing. Records with `groups` are not
    audited.
    """
    n_canaries = min(len(X), n_canaries or _MOST_CANARIES)
    own, rng = prepared(estimator, None), np.random.default_rng(random_state)
    with warnings.catch_warnings(action="ignore", category=UtilityWarning):
        events = own.plan(X, y).events
    canary = make_canaries(own, events, X, y, n_canaries, tails, rng)
    heads = rng.random(n_canaries) < 0.5
    model, iterate = fitted(own, *canary.table(X, y, heads))
    scores = _scores(model if score else iterate, canary, score)
    return _result(model.privacy_, canary, right_guesses(scores, heads))


def _result(found: PrivacyReport, made: Canaries, counts: Counts) -> OneRunResult:
    """Return what the numbers of right guesses say of a report."""
    n, delta, n_steps = len(made.rows), found.delta, made.n_steps
    level = (1 - _CONFIDENCE) / (_METHODS * len(counts))

    def bounds(n_guesses: int, n_correct: int) -> tuple[float, float]:
        """Return the lower bound for any mechanism, and that of the family."""
        return steinke_bound(
            n, n_guesses, n_correct, delta=delta, significance=level, n_steps=n_steps
        ), epsilon_of_family(
            found.events,
            delta,
            lambda least: refutes(n, n_guesses, n_correct, least, level),
            n_steps,
        )

    shown_by = [bounds(*one) for one in counts]
    best = int(np.argmax(np.max(shown_by, axis=1)))
    steinke, f_dp = np.max(shown_by, axis=0).tolist()
    return OneRunResult(
        subject=found.subject,
        neighboring_relation=found.neighboring_relation,
        claimed_epsilon=found.epsilon,
        delta=delta,
        lower_bound=max(steinke, f_dp),
        confidence=_CONFIDENCE,
        n_trials=n,
        n_canaries=n,
        n_guesses=counts[best][0],
        n_correct=counts[best][1],
        counts=tuple(counts),
        steinke=steinke,
        f_dp=f_dp,
        reach=max(max(bounds(guesses, guesses)) for guesses, _ in counts),
        tails=made.tails,
    )


def right_guesses(scores: np.ndarray, heads: np.ndarray) -> Counts:
    """Return numbers of guesses, and how many of them are right."""
    decided = scores - _middle(scores)
    order = np.argsort(-np.abs(decided), kind="stable")
    right = np.cumsum(((decided > 0) == heads)[order])
    sizes = {max(1, int(share * len(scores))) for share in SHARES}
    return [(size, int(right[size - 1])) for size in sorted(sizes, reverse=True)]


def _middle(scores: np.ndarray) -> float:
    """Return the middle between two clusters of scores: two means, from the median.

    A model may like the first values better than the others whatever it saw; and where
    clusters lie apart, the median would cut into the larger one.
    """
    middle = float(np.median(scores))
    for _ in range(_ROUNDS):
        above = scores > middle
        if above.all() or not above.any():
            break
        middle = float(scores[above].mean() + scores[~above].mean()) / 2
    return middle


def _scores(model: Any, made: Canaries, score: Score | None) -> np.ndarray:
    if score is None:
        score = linear_score if hasattr(model, "coef_") else margin_score
    found = score(model, made.X_a, made.y_a, made.X_b, made.y_b)
    assert found.shape == made.rows.shape and np.isfinite(found).all()
    return found
