"""Metrics of private scores: the released table, and estimates from it."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, ndtr

from skfdp.data.arrays import (
    check_names,
    check_no_path,
    column_labels,
    is_frame,
    raw_column,
    shaped_target,
)
from skfdp.data.columns import column_names, name_facts, target_name
from skfdp.data.target import encode_any, number
from skfdp.data.units import Units
from skfdp.data.validation import is_missing, unmasked, without_traps
from skfdp.privacy.assumptions import FIT_IN_LEDGER, Assumption
from skfdp.privacy.checks import shown, spelling
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.pipelines import report
from skfdp.privacy.report import PrivacyReport
from skfdp.queries.statistics import SQUARES, ScoreTable
from skfdp.solvers.parameters import declared_by

# Confidence intervals of bounded numbers that are estimated with known variance.
#
# A noisy share may be outside [0, 1]. Clipping the usual interval would sometimes leave
# it empty, and clipping the estimate first would make it too wide. The intervals here
# invert tests of every value in [0, 1], with the variance under that value, as Wilson's
# intervals do. Acceptance regions are ordered by likelihood ratios (Feldman and Cousins
# 1998, https://doi.org/10.1103/PhysRevD.57.3873). The intervals are never empty, and
# have their nominal coverage for normal estimates.


# Candidate values per round of the search for an end of an interval, and number of
# rounds. Ends are exact to 65**-4, which is 6e-8.
_N_VALUES, _N_ROUNDS = 65, 4
# Replaces a variance of 0, with which a test would accept only the estimate itself.
_LEAST = 1e-200


def bounded_interval(
    estimate: float,
    variance: Callable[[np.ndarray], np.ndarray],
    confidence: float,
) -> tuple[float, float]:
    """Return a confidence interval of a number in [0, 1].

    The unclipped estimate is normal around the number. `variance` returns the variance
    of the estimate for an array of possible numbers.
    """
    nearest = min(max(estimate, 0.0), 1.0)

    def end(furthest: float) -> float:
        kept, rejected = nearest, furthest
        for _ in range(_N_ROUNDS):
            values = np.linspace(kept, rejected, _N_VALUES)
            inside = np.flatnonzero(_rarity(values, estimate, variance) <= confidence)
            last = int(inside[-1]) if len(inside) else 0
            kept, rejected = values[last], values[min(last + 1, _N_VALUES - 1)]
        return float(rejected)

    return end(0.0), end(1.0)


def _rarity(
    values: np.ndarray,
    estimate: float,
    variance: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    r"""Return, under each value, the probability of a better fit than `estimate`'s.

    The fit of an estimate to a value is measured by ``t**2 - d**2``; smaller is better.
    Here t is the distance of the estimate from the value, and d the distance of the
    estimate from [0, 1], both in standard errors. The measure is twice the
    log-likelihood ratio between the best value in [0, 1] and the given value.
    """
    std = np.sqrt(np.maximum(variance(values), _LEAST))
    low, high, moved = -values / std, (1 - values) / std, (estimate - values) / std
    beyond = np.maximum(np.maximum(moved - high, low - moved), 0.0)
    level = np.maximum(moved**2 - beyond**2, 0.0)
    root = np.sqrt(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond_low = np.where(low < 0, (level + low**2) / (2 * low), -np.inf)
        beyond_high = np.where(high > 0, (level + high**2) / (2 * high), np.inf)
    lower = np.where(-root >= low, -root, beyond_low)
    upper = np.where(root <= high, root, beyond_high)
    return ndtr(upper) - ndtr(lower)


# Estimates of metrics from a noisy table, with intervals for noise and sampling.
#
# Intervals are for the population: the metric on very many records like the scored
# ones. Everything is computed from released numbers and public facts.


#: Corrections for pairs in bins at distance 1 and 2; see `auc_kernel`.
_WITHIN = (7 / 60, -1 / 60)


class Estimate(NamedTuple):
    """An estimate of a metric, with an interval; NaN if undetermined."""

    value: float
    low: float
    high: float


#: The estimate of a metric that the release does not determine.
_UNDETERMINED = Estimate(math.nan, math.nan, math.nan)


@dataclasses.dataclass(frozen=True)
class NoisyTable:
    """The released table of one group of records.

    Attributes
    ----------
    cells : float64 ndarray of shape (n_cells,)
        Noisy counts.
    losses : float64 ndarray of shape (n_losses, 2)
        Noisy sums of losses, and of their squares times `SQUARES`.
    noise_std : float
        Standard deviation of the noise of each entry.
    n_records : float or None
        Number of records, or the sum of their shares for weighted rows; None if it is
        private.
    confidence : float
    spread : float, default=1.0
        Factor of the sampling variance relative to independent rows of equal weights;
        see `row_spread`.
    """

    cells: np.ndarray
    losses: np.ndarray
    noise_std: float
    n_records: float | None
    confidence: float
    spread: float = 1.0

    @property
    def noise(self) -> float:
        """Variance of the noise of each entry."""
        return self.noise_std**2

    @property
    def counts(self) -> np.ndarray:
        """The counts; if the number of records is public, corrected to sum to it."""
        if self.n_records is None:
            return self.cells
        excess = self.cells.sum() - self.n_records
        return self.cells - excess / len(self.cells)

    def estimate(self, found: float, variance, bound: float = 1.0) -> Estimate:
        """Return the `Estimate` of a number in [0, 1], multiplied by `bound`.

        `found` is the unclipped estimate. `variance` is as for `bounded_interval`.
        """
        low, high = bounded_interval(found, variance, self.confidence)
        return Estimate(bound * min(max(found, 0.0), 1.0), bound * low, bound * high)

    def _drawn(self, a: np.ndarray) -> np.ndarray:
        """Return n times the sampling variance of a share `a` of the n records."""
        return self.spread * a * (1 - a)

    def mean(self, weights: np.ndarray, among: np.ndarray | None = None) -> Estimate:
        """Return a share of the records: the mean of a number that is 0 or 1.

        `weights` holds this number, 0 or 1, for each cell. `among` is a mask of cells;
        the mean is then over the records in these cells. The number of these records is
        noisy, so the mean is a quotient of noisy numbers. The interval contains every a
        for which a test accepts that the sum of ``weights - a`` over the records is 0
        (Fieller 1954).
        """
        n = self.n_records if among is None else None
        among = np.ones(len(weights), dtype=bool) if among is None else among
        weights = weights[among]
        cells = (self.cells if n is None else self.counts)[among]
        total = float(cells.sum()) if n is None else n
        if not total > 0:
            return _UNDETERMINED

        def variance(a: np.ndarray) -> np.ndarray:
            # The noise of counts that are corrected to sum to n, or of a quotient.
            moved = weights - (a[:, None] if n is None else weights.mean())
            noise = self.noise * (moved**2).sum(axis=-1) / total**2
            return self._drawn(a) / total + noise

        return self.estimate(float(cells @ weights) / total, variance)

    def mean_loss(self, j: int, bound: float = 1.0) -> Estimate:
        """Return the mean of loss j, which the table stores divided by `bound`."""
        n = self.n_records
        total = float(self.cells.sum()) if n is None else n
        if not total > 0:
            return _UNDETERMINED
        noisy_cells = len(self.cells) if n is None else 0
        found, square = self.losses[j] / [total, SQUARES * total]
        # The square of a noisy mean is biased by the variance of the noise.
        own = square - found**2 + self.noise / total**2
        own = self.spread * max(own, 0.0) / max(1.0, 1 - 1 / total)

        def variance(a: np.ndarray) -> np.ndarray:
            noise = self.noise * (1 + noisy_cells * a**2) / total**2
            return np.minimum(own, self._drawn(a)) / total + noise

        return self.estimate(float(found), variance, bound)

    def r2(self, j: int, bound: float, k: int, width: float) -> Estimate:
        """Return the coefficient of determination R2.

        Loss j is the squared error, which is stored divided by `bound`. Loss k is the
        target, which is stored rescaled to [0, 1] from a range of this `width`.

        Notes
        -----
        Let M be the mean squared error and V the variance of the target, so that R2 is
        ``1 - M / V``. As in `mean`, ``M - a V = 0`` is tested for each a. The sampling
        variances of M and V are bounded and added, so the interval is conservative.
        """
        n = self.n_records
        total = float(self.cells.sum()) if n is None else n
        if not total > 0:
            return _UNDETERMINED
        (error, square), (mean, moment) = self.losses[[j, k]] / [total, SQUARES * total]
        noise, noisy_cells = self.noise / total**2, len(self.cells) if n is None else 0
        error, variance = max(error, 0.0), moment - mean**2 + noise
        furthest = max(mean, 1 - mean) ** 2
        drawn = square - error**2 + noise, variance * (furthest - variance)
        of_error, of_variance = np.sqrt(self.spread * np.maximum(drawn, 0.0) / total)
        z = NormalDist().inv_cdf((1 + self.confidence) / 2)
        # A quadratic inequality in a = M / V, in units of the bounds of M and V.
        own = noise * (SQUARES**-2 + 4 * mean**2 + noisy_cells * mean**4)
        a2 = variance**2 - z**2 * (of_variance**2 + own)
        if not (variance > 0 and a2 > 0):
            return _UNDETERMINED
        a1 = variance * error + z**2 * of_error * of_variance
        a0 = error**2 - z**2 * (of_error**2 + noise)
        root = math.sqrt(max(a1**2 - a2 * a0, 0.0))
        worst, best = (max((a1 + one) / a2, 0.0) for one in (root, -root))
        factor = bound / width**2
        return Estimate(*(1 - factor * a for a in (error / variance, worst, best)))

    def auc(self, negatives: np.ndarray, positives: np.ndarray) -> Estimate:
        """Return the area under the ROC curve.

        `negatives` and `positives` are the indices of the cells of each class, ordered
        by increasing score.

        Notes
        -----
        With counts p and q and the kernel A of `auc_kernel`, the area is
        ``p A q / (sum(p) sum(q))``. The interval has every a for which a test accepts
        ``p (A - a) q = 0``.

        The counts do not show whether scores in one bin are ties or ordered. The value
        assumes that they are ordered; the interval covers both cases.
        """
        p, q = self.cells[negatives], self.cells[positives]
        if not (p.sum() > 0 and q.sum() > 0):
            return _UNDETERMINED
        ordered, tied = (
            self._auc(p, q, auc_kernel(len(p), within)) for within in (_WITHIN, ())
        )
        low, high = min(ordered.low, tied.low), max(ordered.high, tied.high)
        return Estimate(ordered.value, low, high)

    def _auc(self, p: np.ndarray, q: np.ndarray, kernel: np.ndarray) -> Estimate:
        """Return the ROC area for one kernel, with an interval."""
        pairs, s2 = float(p.sum() * q.sum()), self.noise

        def parts(a: float) -> tuple[float, float, float]:
            """Return variances of ``p (A - a) q``; see the Notes of `auc`.

            These are an estimate of the variance from noise, a lower limit of this
            variance, and the variance from the sampling of the records.
            """
            moved = kernel - a
            squares, of_p, of_q = moved**2, moved @ q, p @ moved
            least = s2**2 * squares.sum()
            noise = s2 * (of_p @ of_p + of_q @ of_q) - least
            # DeLong, DeLong and Clarke-Pearson 1988, corrected for squared noise.
            sampling = p @ (of_p**2 - s2 * squares.sum(axis=1))
            sampling += q @ (of_q**2 - s2 * squares.sum(axis=0))
            return noise, least, sampling

        # Each part is a quadratic function of a, so three values determine it.
        places = np.array([0.0, 0.5, 1.0])
        curves = np.polyfit(places, np.array([*map(parts, places)]) / pairs**2, 2)

        def variance(a: np.ndarray) -> np.ndarray:
            noise, least, sampling = np.vander(a, 3).dot(curves).T
            drawn = self.spread * np.maximum(sampling, 0.0)
            return np.maximum(noise, least) + drawn

        return self.estimate(float(p @ kernel @ q / pairs), variance)


def row_spread(totals: np.ndarray) -> float:
    r"""Return a bound on the factor by which sampling persons increases a variance.

    `totals` has the sum T of the shares of each person's rows: public.

    Notes
    -----
    A person's contribution to an error is :math:`\sum_r s_r z_r` over rows with shares
    s and deviations z. By Cauchy and Schwarz :math:`(\sum_r s_r z_r)^2 \le T \sum_r s_r
    z_r^2`, with equality if all rows of a person deviate equally. If weights and
    deviations are independent, the sum of the right sides over all persons is
    :math:`\sum T^2 / \sum T` times that of independent rows.
    """
    whole = float(totals.sum())
    return float(totals @ totals) / whole if whole > 0 else 1.0


def auc_kernel(n_bins: int, within: tuple[float, ...] = _WITHIN) -> np.ndarray:
    r"""Return the weights of pairs (negative, positive) in the ROC area, by their bins.

    `within` has corrections for pairs in bins at distance 1, 2, ... They are added to 1
    if the order is right, and subtracted from 0 if it is wrong. () treats scores in one
    bin as ties.

    Notes
    -----
    The weight is 1 if the positive is in a later bin, and 1/2 in the same bin. Within a
    bin positives are later on average, because the densities change. The counts of the
    neighbouring bins show this change. Let the densities be waves of frequency
    :math:`\omega` (radians per bin). The average over a bin multiplies a wave by
    :math:`\sin(\omega/2) / (\omega/2)`. The area of all pairs divides the product of
    the two waves by :math:`i \omega`. Its kernel of counts has the Fourier transform
    :math:`\omega / (4 i \sin^2(\omega/2)) = (1/\omega + \omega/12 + \omega^3/240 +
    \dots) / i`. The kernel of ties has the transform :math:`\cot(\omega/2) / 2i =
    (1/\omega - \omega/12 - \omega^3/720 - \dots) / i`. The difference,
    :math:`(\omega/6 + \omega^3/180)/i`, is the transform of the corrections 7/60 at
    distance 1 and -1/60 at distance 2, up to :math:`\omega^5`.
    """
    kernel = np.triu(np.ones((n_bins, n_bins)), 1) + np.eye(n_bins) / 2
    for distance, weight in enumerate(within, start=1):
        ahead = np.eye(n_bins, k=distance)
        kernel += weight * (ahead - ahead.T)
    return kernel


TWO, SEVERAL, NUMBERS = "two classes", "several classes", "numbers"
#: Metrics that are shares of the records of a class, or of all records.
_RATES = ("recall", "false_positive_rate", "selection_rate")
_LOSSES = ("log_loss", "brier_score")
_ERRORS = ("mean_absolute_error", "mean_squared_error")
#: R2 is computed from the squared error, and the mean and variance of the target.
_R2 = "r2"
METRICS = {
    TWO: ("accuracy", "confusion_matrix", "roc_auc", *_RATES, *_LOSSES),
    SEVERAL: ("accuracy", "confusion_matrix", *_LOSSES),
    NUMBERS: (_R2, *_ERRORS),
}
DEFAULTS = {
    TWO: METRICS[TWO][:3],
    SEVERAL: METRICS[SEVERAL][:2],
    NUMBERS: METRICS[NUMBERS],
}
#: Metrics for which smaller values are better.
SMALLER = (*_LOSSES, *_ERRORS, "false_positive_rate")
#: Largest log odds of a bin edge. Edges are evenly spaced in log odds, because scores
#: of rare classes are near 0.
FURTHEST = 6.0
_FEWEST, _MOST = 24, 96


@dataclasses.dataclass(frozen=True)
class Layout:
    """The cells and losses of a score, from public facts alone.

    Attributes
    ----------
    task : str
        One of `METRICS`.
    metrics : tuple of str
    n_classes : int
    edges : tuple of float
        Scores that separate the bins, with two classes. A score that equals an edge is
        in the lower bin.
    threshold : float
        The edge above which a record is predicted positive, with two classes.
    bounds : mapping from str to float
        Bounds to which losses and errors are clipped, by metric and in its units.
    counts_are_public : bool
        Whether the number of records is public.
    """

    task: str
    metrics: tuple[str, ...]
    n_classes: int
    edges: tuple[float, ...]
    threshold: float
    bounds: dict[str, float]
    counts_are_public: bool

    @property
    def counts(self) -> str:
        """What the table counts.

        "bins": records by class and bin of scores. "pairs": records by class and
        predicted class. "right": right and other predictions. "records": all records.
        "nothing": nothing, because the number of records is public.
        """
        tabled = set(self.metrics) - {"accuracy", _R2, *_LOSSES, *_ERRORS}
        if tabled:
            return "bins" if self.task == TWO else "pairs"
        if "accuracy" in self.metrics:
            return "right"
        return "nothing" if self.counts_are_public else "records"

    @property
    def n_guesses(self) -> int:
        """Number of possible predictions: bins for two classes, otherwise classes."""
        return len(self.edges) + 1 if self.task == TWO else self.n_classes

    @property
    def n_cells(self) -> int:
        """Number of cells; the last one is for records that cannot be scored."""
        few = {"right": 2, "records": 1, "nothing": 0}
        return few.get(self.counts, self.n_classes * self.n_guesses + 1)

    @property
    def losses(self) -> tuple[str, ...]:
        """Losses with a sum in the table, including the target if R2 needs it."""
        return tuple(self.bounds)

    def planned(self, n_groups: int, capacity: int) -> ScoreTable:
        """Return an empty table, for planning.

        `capacity` is a public bound on the number of records.
        """
        table = ScoreTable.planned(self.n_cells, len(self.losses), n_groups)
        return dataclasses.replace(table, capacity=capacity)

    # -- private: the cell and the losses of a record, functions of that record -------
    def cells(self, codes: np.ndarray, said: np.ndarray) -> np.ndarray:
        """Return the cell of each record; private.

        `codes` are the classes of the records, or -1 without a class. `said` are the
        scores of two classes, otherwise the predicted classes. NaN: no prediction.
        """
        if self.counts in ("records", "nothing"):
            return np.zeros(len(codes), dtype=np.int64)
        known = (codes >= 0) & ~np.isnan(said)
        if self.task == TWO:
            guesses, place = said > self.threshold, np.searchsorted(self.edges, said)
        else:
            guesses = place = np.where(known, said, 0).astype(np.int64)
        if self.counts == "right":
            return np.where(known & (guesses == codes), 0, 1)
        last = self.n_classes * self.n_guesses
        return np.where(known, codes * self.n_guesses + place, last)

    def in_units(self, found: Mapping[str, np.ndarray], valid: np.ndarray):
        """Return the private losses divided by their bounds, clipped to [0, 1].

        Records that are not `valid` have the worst losses, 1.
        """
        columns = [found[name] / self.bounds[name] for name in self.losses]
        losses = np.array(columns).reshape(len(columns), len(valid)).T
        return np.where(valid[:, None], np.clip(losses, 0.0, 1.0), 1.0)

    # -- functions of released numbers ------------------------------------------------
    def estimates(self, table: NoisyTable) -> dict[str, Estimate]:
        """Return the estimate of every metric except the confusion matrix."""
        found = {}
        for name in self.metrics:
            if name in self.bounds:
                j = self.losses.index(name)
                found[name] = table.mean_loss(j, self.bounds[name])
            elif name == _R2:
                parts = "mean_squared_error", "target"
                of = [(self.losses.index(one), self.bounds[one]) for one in parts]
                found[name] = table.r2(*of[0], *of[1])
            elif name == "roc_auc":
                found[name] = table.auc(*np.arange(2 * self.n_guesses).reshape(2, -1))
            elif name != "confusion_matrix":
                found[name] = self._share(name, table)
        return found

    def _share(self, name: str, table: NoisyTable) -> Estimate:
        """Return a metric that is a share of records."""
        actual, guess = self._sides()
        if name == "accuracy":
            return table.mean(1.0 * ((actual == guess) & (actual >= 0)))
        if name == "selection_rate":
            return table.mean(1.0 * (guess == 1))
        side = actual == (name == "recall")
        return table.mean(1.0 * (guess == 1), side)

    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the true and predicted class of each cell (-1 if undefined).

        If the table counts only right and other predictions, both are 0 in the cell of
        the right predictions.
        """
        if self.counts == "right":  # cell 0: right, whatever the class
            return np.array([0, -1]), np.array([0, -1])
        guess = np.arange(self.n_guesses)
        if self.task == TWO:
            guess = (guess > self.edges.index(self.threshold)).astype(int)
        actual = np.repeat(np.arange(self.n_classes), self.n_guesses)
        return np.append(actual, -1), np.append(np.tile(guess, self.n_classes), -1)

    def confusion_matrix(self, table: NoisyTable) -> np.ndarray | None:
        """Return noisy counts by true and predicted class, or None if not requested."""
        if "confusion_matrix" not in self.metrics:
            return None
        found, sides = np.zeros((self.n_classes, self.n_classes)), self._sides()
        np.add.at(found, tuple(side[:-1] for side in sides), table.counts[:-1])
        return found


def check_metrics(metrics: Any, known: Iterable[str], of: str = "") -> tuple[str, ...]:
    """Return the requested metrics, each once; `of` is the end of the error message."""
    named = [metrics] if isinstance(metrics, str) else metrics
    try:
        found = tuple(dict.fromkeys(named))
    except TypeError:
        found = ()
    if not found or not all(isinstance(n, str) and n in known for n in found):
        raise ValueError(
            f"metrics={shown(metrics)} must be some of {', '.join(map(repr, known))}"
            f"{of}."
        )
    return found


def bin_edges(
    threshold: float, n_bins: int | None, noise_std: float, n_records: int
) -> tuple[float, ...]:
    """Return the edges of the bins of scores, including the threshold.

    `n_bins` is the number of bins before the threshold is added as an edge; 1: the
    threshold is the only edge. None: 24 to 96 bins, so that the noise variance of the
    number of right predictions stays below a sampling variance of n / 8.
    """
    if n_bins is None:
        wanted = n_records / max(4 * noise_std**2, 1e-300)
        n_bins = 2 * math.floor(min(max(wanted, _FEWEST), _MOST) / 2)
    steps = np.arange(1, n_bins) - n_bins / 2
    edges = {float(edge) for edge in expit(2 * FURTHEST / n_bins * steps)}
    return tuple(sorted(edges | {float(threshold)}))


# Predictions of a fixed model, record by record, for any content of the records.


_WITHHELD = (
    "the model failed on these records; its message is withheld because it may quote "
    "the data: call the model on made-up records of the same shape to see the message."
)


@dataclasses.dataclass(frozen=True)
class Model:
    """The scored model and its prediction method, from public facts.

    `by` is the name of the method that returns scores of two classes, or predictions.
    """

    estimator: Any
    task: str
    classes: np.ndarray | None
    by: str


@without_traps()
def table_of(
    model: Model, layout: Layout, X: Any, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell and the losses of each record; private.

    X is any table that `rows_of` accepts. The losses have the shape (n_rows, n_losses).

    Notes
    -----
    **Guarantees.** If the model predicts each row independently, the cell and the
    losses of a record depend only on that record, its position and the number of
    records. If that number is private, they depend on the record alone. Exceptions and
    warnings of the model are suppressed. A row that the model refuses has no
    prediction. To predict the other rows, another row takes its place, so that the
    table keeps its shape. No bit of their predictions depends on the refused row.
    """
    needed = {"predict_proba"} if layout.losses else set()
    if model.task == NUMBERS:
        needed = {"predict"}
    elif layout.counts not in ("records", "nothing"):
        needed.add(model.by)
    alone = not layout.counts_are_public
    outputs = {
        name: predicted(getattr(model.estimator, name), X, len(y), alone=alone)
        for name in sorted(needed, reverse=True)  # probabilities first
    }
    if model.task == NUMBERS:
        error = np.abs(_numbers(outputs["predict"], (len(y),)) - _real(y))
        found = {"mean_absolute_error": error, "mean_squared_error": error**2}
        if "target" in layout.bounds:
            found["target"] = _real(y) - declared_range(model.estimator)[0]
        none = np.zeros(len(y), dtype=np.int64)
        return none, layout.in_units(found, np.isfinite(error))
    codes, shape = _codes(y, model.classes), (len(y), len(model.classes))
    # Columns of probabilities follow `classes_`, codes follow the sorted labels.
    order = np.argsort(np.argsort(model.classes, kind="stable"), kind="stable")
    said, chances = np.zeros(len(y)), np.zeros(shape)
    if "predict_proba" in outputs:
        chances[:, order] = _numbers(outputs["predict_proba"], shape)
        said = chances[:, -1]
    if "decision_function" in outputs:
        margins = _numbers(outputs["decision_function"], (len(y),))
        said = expit(margins if order[-1] == 1 else -margins)
    if "predict" in outputs:
        if outputs["predict"].shape != (len(y),):
            raise RuntimeError(_WITHHELD)
        guesses = _codes(outputs["predict"], model.classes)
        said = np.where(guesses < 0, math.nan, guesses)
    cells = layout.cells(codes, np.where(np.isfinite(said), said, math.nan))
    # A record without class or probabilities has the worst loss.
    valid = (codes >= 0) & np.isfinite(chances).all(axis=1)
    chances = np.clip(chances, 0.0, 1.0)
    own = np.eye(shape[1])[np.maximum(codes, 0)]
    square = ((chances - own) ** 2).sum(axis=1) / (2 if model.task == TWO else 1)
    of_own = np.take_along_axis(chances, np.maximum(codes, 0)[:, None], axis=1)
    found = {"log_loss": -np.log(of_own[:, 0]), "brier_score": square}
    return cells, layout.in_units(found, valid)


def _codes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the position of each label in the sorted classes, or -1."""
    found = encode_any(labels, classes)
    codes = found.codes.copy()
    if found.missing is not None:
        codes[found.missing] = -1
    return codes


def predicted(
    call: Callable[[Any], Any], X: Any, n_rows: int, *, alone: bool = False
) -> np.ndarray:
    """Return the predictions of a method, with None for rows that it refuses.

    With `alone`, for a private number of rows, each row is predicted in a separate
    table, because the rounding of matrix products depends on the number of rows. The
    result has dtype object with `alone` or if rows were refused.
    """
    everyone, result = np.arange(n_rows), np.full(n_rows, None, dtype=object)
    if alone or n_rows == 0:
        for row in everyone:
            found = _attempt(call, rows_of(X, everyone[row : row + 1]))
            result[row] = None if found is None else found[0]
        return result
    # `rows_of` copies the rows here, as in the second attempt below. So both attempts
    # have the same memory layout, on which the bits of predictions depend.
    found = _attempt(call, rows_of(X, everyone))
    if found is not None:
        return found
    passing = _passing(call, X, n_rows)
    if not passing.any():
        return result
    stand_in = np.flatnonzero(passing)[0]
    found = _attempt(call, rows_of(X, np.where(passing, everyone, stand_in)))
    if found is None:
        raise RuntimeError(_WITHHELD)
    for row in np.flatnonzero(passing).tolist():
        result[row] = found[row]
    return result


def _passing(call: Callable[[Any], Any], X: Any, n_rows: int) -> np.ndarray:
    """Return the mask of rows that the model accepts, found by bisection.

    Rows are repeated to the public size of the table, because a model may refuse short
    tables.
    """
    passing, left = np.ones(n_rows, dtype=bool), [np.arange(n_rows)]
    while left:
        rows = left.pop()
        if _attempt(call, rows_of(X, np.resize(rows, n_rows))) is not None:
            continue
        if len(rows) == 1:
            passing[rows] = False
            continue
        left += np.array_split(rows, 2)
    return passing


def _attempt(call: Callable[[Any], Any], X: Any) -> np.ndarray | None:
    """Return the predictions of rows, or None if the model fails on them.

    A model fails if it raises, or if it returns another number of predictions.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = np.asarray(call(X))
            fits = found.ndim > 0 and len(found) == X.shape[0]
        except Exception:  # a user's model may raise anything, and quote data
            return None
    return found if fits else None


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a table, in a new table."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if hasattr(X, "schema") and hasattr(X, "take") else X[rows]


def _numbers(found: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return predictions as floats, with NaN for rows without a prediction."""
    if found.dtype.kind in "biuf" and found.size == math.prod(shape):
        return found.astype(np.float64).reshape(shape)
    result = np.full(shape, math.nan)
    if found.dtype.kind == "O" and found.ndim == 1:
        for row, value in enumerate(found):
            numbers = np.asarray(math.nan if value is None else value)
            if numbers.dtype.kind in "biuf" and numbers.size == math.prod(shape[1:]):
                result[row] = numbers.reshape(shape[1:])
        return result
    raise RuntimeError(_WITHHELD)


def _real(y: np.ndarray) -> np.ndarray:
    """Return a target as floats, or NaN for entries that are not numbers."""
    if y.dtype.kind in "biuf":
        return y.astype(np.float64)
    real = (float, np.floating)  # floats do not change, even if they are infinite
    found = [float(one) if isinstance(one, real) else number(one) for one in y]
    return np.array(found, dtype=np.float64)


def model_of(estimator: Any) -> Model:
    """Return the `Model` of a fitted estimator, or raise ValueError."""
    if not hasattr(estimator, "predict"):
        raise ValueError(
            f"model={shown(estimator)} has no predict: pass a fitted classifier or "
            "regressor, or a Pipeline that ends with one."
        )
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return Model(estimator, NUMBERS, None, "predict")
    if isinstance(classes, list) or np.ndim(classes) != 1 or len(classes) < 2:
        raise ValueError(
            "model has several targets or fewer than two classes: score a model of one "
            "target."
        )
    classes = np.asarray(classes)
    if len(classes) > 2:
        return Model(estimator, "several classes", classes, "predict")
    for name in ("predict_proba", "decision_function"):
        if hasattr(estimator, name):
            return Model(estimator, TWO, classes, name)
    return Model(estimator, TWO, classes, "predict")


# The public facts of a table that is scored: its shape, its names, its groups.


@dataclasses.dataclass(frozen=True)
class Scored:
    """A table of records to be scored.

    Attributes
    ----------
    X : table
        Private.
    y : ndarray of shape (n_rows,)
        Private.
    columns : tuple of str or int
        Names of all columns, including that of the groups.
    facts : dict
        Names of columns and target, as fields of the event.
    group : int64 ndarray of shape (n_rows,)
        Position in `groups` of the group of each record; public.
    groups : tuple
        Values of the groups; empty without groups.
    by : str, int or None
        Name of the column of the groups, or its position if it has no name.
    units : Units or None
        Weights and persons of the rows; None: each row is a record with weight 1.
    """

    X: Any
    y: np.ndarray
    columns: tuple[str | int, ...]
    facts: dict[str, Any]
    group: np.ndarray
    groups: tuple
    by: str | int | None
    units: Units | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows; private under "add_or_remove_one"."""
        return len(self.y)

    @property
    def n_groups(self) -> int:
        """Number of rows of the released table: one for each group, at least one."""
        return max(1, len(self.groups))

    @property
    def sizes(self) -> list[int]:
        """Number of records, or of persons, in each of the `groups`.

        The sizes of groups are public. Without groups the list holds only the total,
        which may be private.
        """
        group, units = self.group, self.units
        if units is not None and units.persons is not None:
            pairs = np.unique(np.column_stack([group, units.persons]), axis=0)
            group = pairs[:, 0]
        return np.bincount(group, minlength=self.n_groups).tolist()

    def totals(self, group: int | None = None) -> np.ndarray:
        """Return the total share of each privacy unit, in one group or in all rows."""
        chosen = slice(None) if group is None else self.group == group
        shares, persons = self.units.shares[chosen], self.units.persons
        if persons is None:
            return shares
        return np.bincount(persons[chosen], shares, minlength=self.units.n_units)

    @classmethod
    def build(cls, X: Any, y: Any, by: Any, named: Any, model: Any):
        """Check the public facts of the user's table, and build the object.

        `named` is the declared name of the target or None, and `model` the fitted
        model. The other parameters are those of the user. A ValueError quotes no datum.
        """
        X = table_with_rows(X)
        n_rows, n_columns = map(int, X.shape)
        y_name = target_name(named, y)
        y = shaped_target(y, n_rows)
        own = column_labels(X) if is_frame(X) else []
        if not all(isinstance(label, str) for label in own):
            own = []
        _check_columns(model, n_columns, own)
        columns = column_names(own or None, n_columns)
        group, groups = np.zeros(n_rows, dtype=np.int64), ()
        mask, by_name = np.zeros(n_columns, dtype=bool), None
        if by is not None:
            group, groups, by_name = _groups(X, by, columns, own)
            if by_name not in columns:
                columns = (*columns, by_name)
            # All columns with this name count as one column.
            mask = np.array([name == by_name for name in columns])
        facts = name_facts(columns, mask, target=y_name)
        return cls(X, y, columns, facts, group, groups, by_name)


def table_with_rows(X: Any) -> Any:
    """Return X as a table whose rows can be selected."""
    check_no_path(X)
    check_names(X)
    if issparse(X):
        return X.tocsr()
    if not is_frame(X):
        X = unmasked(X)
        # The type of a list does not determine the types of its cells.
        listed = isinstance(X, (list, tuple))
        X = np.array(X, dtype=object) if listed else np.asarray(X)
    if len(getattr(X, "shape", ())) != 2:
        raise ValueError(
            f"X=<{type(X).__name__}> must be a table with rows and columns."
        )
    return X


def _check_columns(model: Any, n_columns: int, own: list[str]) -> None:
    """Raise ValueError if the columns are not those that the model was fitted to."""
    wanted = getattr(model, "n_features_in_", None)
    if wanted is not None and wanted != n_columns:
        raise ValueError(
            f"X has {n_columns} columns, the model was fitted to {wanted}: pass the "
            "columns that it was fitted to."
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None and own and list(names) != own:
        raise ValueError(
            "X has other column names, or another order, than the table that the model "
            "was fitted to: pass X[list(model.feature_names_in_)]."
        )


def _groups(
    X: Any, by: Any, columns: tuple, own: list[str]
) -> tuple[np.ndarray, tuple, str | int]:
    """Return the code of each record's group, the groups, and the column's name.

    All of them are public.
    """
    name = getattr(by, "name", None)
    if isinstance(name, str) and spelling(name) and hasattr(by, "__len__"):
        values, name = list(by), spelling(name)
    else:
        place = own.index(by) if isinstance(by, str) and by in own else by
        whole = isinstance(place, int) and not isinstance(place, bool)
        if not (whole and 0 <= place < len(columns)):
            raise ValueError(
                f"by={shown(by)} must be the name or the position of a public column "
                "of X, or a Series with a name."
            )
        values, name = column_of(X, place), columns[place]
    if len(values) != X.shape[0]:
        raise ValueError(
            f"by has {len(values)} entries, but X has {X.shape[0]} rows: give one "
            "entry for each row."
        )
    if any(map(is_missing, values)):
        raise ValueError(
            "by holds missing values: replace each by a value of its own group, such "
            "as 'unknown'."
        )
    found = dict.fromkeys(values)
    try:
        ordered = sorted(found)
    except TypeError:  # values of several types
        ordered = list(found)
    code = {value: number for number, value in enumerate(ordered)}
    group = np.array([code[value] for value in values], dtype=np.int64)
    return group, tuple(ordered), name


def column_of(X: Any, place: int) -> list:
    """Return one column of a table as a list."""
    column = X[:, [place]].toarray()[:, 0] if issparse(X) else raw_column(X, place)
    return column.to_list() if hasattr(column, "to_list") else column.tolist()


# The origin of a scored model: its report, and the ledger with its charges.


#: Assumption of a score whose model was declared public.
MODEL_IS_PUBLIC = Assumption(
    "model_public",
    "The model is public, as was declared: it does not depend on the scored records.",
)
#: Assumption of a score without the ledger of the fit, by privacy unit.
OTHERS = {
    "record": Assumption(
        "scored_records_new",
        "The scored records are not those that the model was fitted to. For a record "
        "in both tables, the fit and the score together may cost more than this report "
        "states, because they share no ledger.",
    ),
    "person": Assumption(
        "scored_persons_new",
        "The scored rows are not of the persons whose rows the model was fitted to. "
        "For a person in both tables, the fit and the score together may cost more "
        "than this report states, because they share no ledger.",
    ),
}
_AS_REPORTED = Assumption(
    "model_as_reported",
    "The model depends on its records through what its own report counts, and through "
    "nothing else.",
)


def fit_of(model: Any, is_public: bool) -> PrivacyReport | None:
    """Return the report of a model's private fit, or raise ValueError without one.

    A model that is declared public may have no report, or the report of a fit without
    privacy. Without a report, the result is None.
    """
    try:
        found, why = report(model), ""
    except ValueError as error:
        found, why = None, str(error)
    if found is not None and math.isinf(found.epsilon):
        why = "its fit was without privacy (epsilon=inf)"
    elif found is not None and found.leaks:
        leak = found.leaks[0]
        why = f"step {leak.step} learnt from private {leak.learns} without privacy"
    if why and not is_public:
        raise ValueError(
            f"model ({type(model).__name__}) is not the result of a private fit: "
            f"{why.rstrip('.')}; if it does not depend on the scored records, "
            "declare model_is_public=True."
        )
    return found


def assumptions_of(
    fit: PrivacyReport | None, is_public: bool, ledger: PrivacyLedger | None, unit: str
) -> tuple[Assumption, ...]:
    """Return the assumptions on the model of a score, for a privacy unit."""
    if is_public:
        return (MODEL_IS_PUBLIC,)
    if holds(ledger, fit):
        return FIT_IN_LEDGER, _AS_REPORTED
    return (OTHERS["person" if "person" in (unit, fit.unit) else "record"],)


def holds(ledger: PrivacyLedger | None, fit: PrivacyReport) -> bool:
    """Whether the receipts and events of a fit show that the ledger was charged."""
    if ledger is None or not fit.events:
        return False
    try:
        ledger.check_report(fit)
    except ValueError:
        return False
    return True


# Metrics that a model supports, and the bounds of their losses.


def loss_bounds(
    model: Model,
    metrics: tuple[str, ...],
    loss_bound: float,
    error_bound: float | None,
) -> dict[str, float]:
    """Return the bounds of the requested losses, by name and in their units.

    For R2 they include the squared error and the range of the target.
    """
    if model.task == NUMBERS:
        low, high = declared_range(model.estimator)
        bound = high - low if error_bound is None else error_bound
        if math.isnan(bound):
            raise ValueError(
                "error_bound=None: the model declares no target_bounds; give the "
                "largest absolute error of one record, in the units of the target."
            )
        found = {"mean_absolute_error": bound, "mean_squared_error": bound**2}
        if _R2 in metrics:
            if math.isnan(low):
                raise ValueError(
                    "metrics='r2' needs the range of the target, and the model "
                    "declares no target_bounds: choose mean_squared_error."
                )
            found["target"] = high - low
            metrics = tuple(dict.fromkeys((*metrics, "mean_squared_error", "target")))
    else:
        brier = 1.0 if model.task == TWO else 2.0
        found = {"log_loss": loss_bound, "brier_score": brier}
    return {name: float(found[name]) for name in metrics if name in found}


def declared_range(estimator: Any) -> tuple[float, float]:
    """Return the declared bounds of a regressor's target, or NaN without bounds."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    bounds, schema = (
        declared_by(estimator, name) for name in ("target_bounds", "schema")
    )
    if schema is not None:
        bounds = schema.columns[estimator.privacy_.target_name].bounds
    low, high = (math.nan, math.nan) if bounds is None else map(float, bounds)
    return low, high
