"""Metrics of private scores: the released table, and estimates from it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from skfdp.data.arrays import (
    check_columns,
    check_names,
    check_no_path,
    column_labels,
    column_names,
    frame_or_rows,
    is_frame,
    name_facts,
    numeric_target,
    one_column,
    raw_column,
    readable,
    shaped_target,
    target_name,
)
from skfdp.data.cells import numbers, objects, type_kind
from skfdp.data.grid import as_dense
from skfdp.data.target import check_kind, check_target, encode_any, is_missing
from skfdp.data.units import Units, units_as_weighted, without_group_column
from skfdp.data.validation import without_traps
from skfdp.privacy.checks import shown, spelling
from skfdp.privacy.events import Relation
from skfdp.queries.statistics import SQUARES

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
_N_VALUES, _N_CUTS = 65, 4
# Replaces a variance of 0, with which a test would accept only the estimate itself.
_TINY = 1e-200


def declared_by(model: Any, name: str) -> Any:
    """Return a parameter of a model from `get_params`, or None if it does not exist."""
    shown_ones = getattr(model, "get_params", None)
    return shown_ones(deep=False).get(name) if callable(shown_ones) else None


def bounded_interval(
    estimate: float, variance: Callable[[np.ndarray], np.ndarray], confidence: float
) -> tuple[float, float]:
    """Return a confidence interval of a number in [0, 1].

    The unclipped estimate is normal around the number. `variance` returns the variance
    of the estimate for an array of possible numbers.
    """
    nearest = min(max(estimate, 0.0), 1.0)

    def end(furthest: float) -> float:
        kept, rejected = nearest, furthest
        for _ in range(_N_CUTS):
            values = np.linspace(kept, rejected, _N_VALUES)
            inside = np.flatnonzero(_rarity(values, estimate, variance) <= confidence)
            last = int(inside[-1]) if len(inside) else 0
            kept, rejected = values[last], values[min(last + 1, _N_VALUES - 1)]
        return float(rejected)

    return end(0.0), end(1.0)


def _rarity(
    values: np.ndarray, estimate: float, variance: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    r"""Return the probability, under each value, of a better fit than `estimate` has.

    The fit of an estimate to a value is measured by ``t**2 - d**2``; smaller is better.
    Here t is the distance of the estimate from the value, and d the distance of the
    estimate from [0, 1], both in standard errors. The measure is twice the
    log-likelihood ratio between the best value in [0, 1] and the given value.
    """
    std = np.sqrt(np.maximum(variance(values), _TINY))
    low, high, moved = -values / std, (1 - values) / std, (estimate - values) / std
    beyond = np.maximum(np.maximum(moved - high, low - moved), 0.0)
    level = np.maximum(moved**2 - beyond**2, 0.0)
    root = np.sqrt(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond_low = np.where(low < 0, (level + low**2) / (2 * low), -np.inf)
        beyond_high = np.where(high > 0, (level + high**2) / (2 * high), np.inf)
    lower = np.where(-root >= low, -root, beyond_low)
    return ndtr(np.where(root <= high, root, beyond_high)) - ndtr(lower)


# Estimates of metrics from a noisy table, with intervals for noise and sampling.
#
# Intervals are for the population: the metric on very many records like the scored
# ones. Everything is computed from released numbers and public facts.


#: Corrections for pairs in bins at distance 1 and 2; see `auc_kernel`.
_WITHIN = (7 / 60, -1 / 60)
#: A metric with the ends of its interval; NaN if the release does not determine it.
Estimate = tuple[float, float, float]
_NO_ESTIMATE: Estimate = (math.nan, math.nan, math.nan)


@dataclasses.dataclass(frozen=True)
class NoisyTable:
    """The released table of one group of records."""

    #: Noisy counts, float64 (n_cells,).
    cells: np.ndarray
    #: Noisy sums of losses, and of their squares times `SQUARES`, (n_losses, 2).
    losses: np.ndarray
    #: Standard deviation of the noise of each entry.
    noise_std: float
    #: Number of records, or sum of the shares of weighted rows; None if it is private.
    n_records: float | None
    confidence: float
    #: Factor of the sampling variance relative to independent rows; see `row_spread`.
    spread: float = 1.0

    @property
    def counts(self) -> np.ndarray:
        """The counts; if the number of records is public, corrected to sum to it."""
        if self.n_records is None:
            return self.cells
        return self.cells - (self.cells.sum() - self.n_records) / len(self.cells)

    @property
    def total(self) -> tuple[float, int]:
        """Number of records, and how many noisy counts it sums (0: it is public)."""
        if self.n_records is None:
            return float(self.cells.sum()), len(self.cells)
        return self.n_records, 0

    def estimate(self, found: float, variance, bound: float = 1.0) -> Estimate:
        """Return the estimate of a number in [0, 1], times `bound`."""
        low, high = bounded_interval(found, variance, self.confidence)
        return bound * min(max(found, 0.0), 1.0), bound * low, bound * high

    def share(self, chosen: np.ndarray) -> Estimate:
        """Return the share of the records that are in chosen cells.

        `chosen` is 1.0 for chosen cells, else 0.0. If the number of records is private,
        the share is a quotient of noisy numbers. The interval contains every a for
        which a test accepts that the sum of ``chosen - a`` over the records is 0
        (Fieller 1954).
        """
        n, (total, _) = self.n_records, self.total
        if not total > 0:
            return _NO_ESTIMATE

        def variance(a: np.ndarray) -> np.ndarray:
            # The noise of counts that are corrected to sum to n, or of a quotient.
            moved = chosen - (a[:, None] if n is None else chosen.mean())
            noise = self.noise_std**2 * (moved**2).sum(axis=-1) / total**2
            return self.spread * a * (1 - a) / total + noise

        return self.estimate(float(self.counts @ chosen) / total, variance)

    def mean_loss(self, j: int, bound: float = 1.0) -> Estimate:
        """Return the mean of loss j, which the table stores divided by `bound`."""
        total, noisy_cells = self.total
        if not total > 0:
            return _NO_ESTIMATE
        found, square = self.losses[j] / [total, SQUARES * total]
        # The square of a noisy mean is biased by the variance of the noise.
        noise = (self.noise_std / total) ** 2
        own = square - found**2 + noise
        own = self.spread * max(own, 0.0) / max(1.0, 1 - 1 / total)

        def variance(a: np.ndarray) -> np.ndarray:
            drawn = np.minimum(own, self.spread * a * (1 - a))
            return drawn / total + noise * (1 + noisy_cells * a**2)

        return self.estimate(float(found), variance, bound)

    def r2(self, j: int, bound: float, k: int, width: float) -> Estimate:
        """Return the coefficient of determination R2.

        Loss j is the squared error, which is stored divided by `bound`. Loss k is the
        target, which is stored rescaled to [0, 1] from a range of this `width`.

        Notes
        -----
        Let M be the mean squared error and V the variance of the target, so that R2 is
        ``1 - M / V``. As in `share`, ``M - a V = 0`` is tested for each a. The sampling
        variances of M and V are bounded and added, so the interval is conservative.
        """
        total, noisy_cells = self.total
        if not total > 0:
            return _NO_ESTIMATE
        (error, square), (mean, moment) = self.losses[[j, k]] / [total, SQUARES * total]
        noise = (self.noise_std / total) ** 2
        error, variance = max(error, 0.0), moment - mean**2 + noise
        furthest = max(mean, 1 - mean) ** 2
        drawn = square - error**2 + noise, variance * (furthest - variance)
        of_error, of_variance = np.sqrt(self.spread * np.maximum(drawn, 0.0) / total)
        z = NormalDist().inv_cdf((1 + self.confidence) / 2)
        # A quadratic inequality in a = M / V, in units of the bounds of M and V.
        own = noise * (SQUARES**-2 + 4 * mean**2 + noisy_cells * mean**4)
        a2 = variance**2 - z**2 * (of_variance**2 + own)
        if not (variance > 0 and a2 > 0):
            return _NO_ESTIMATE
        a1 = variance * error + z**2 * of_error * of_variance
        a0 = error**2 - z**2 * (of_error**2 + noise)
        root = math.sqrt(max(a1**2 - a2 * a0, 0.0))
        worst, best = (max((a1 + one) / a2, 0.0) for one in (root, -root))
        factor = bound / width**2
        return 1 - factor * (error / variance), 1 - factor * worst, 1 - factor * best

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
            return _NO_ESTIMATE
        pairs, s2 = float(p.sum() * q.sum()), self.noise_std**2

        def parts(a: float, kernel: np.ndarray) -> tuple[float, float, float]:
            """Return variances of ``p (A - a) q``: of noise, its limit, of sampling."""
            moved = kernel - a
            squares, of_p, of_q = moved**2, moved @ q, p @ moved
            least = s2**2 * squares.sum()
            noise = s2 * (of_p @ of_p + of_q @ of_q) - least
            # DeLong, DeLong and Clarke-Pearson 1988, corrected for squared noise.
            sampling = p @ (of_p**2 - s2 * squares.sum(axis=1))
            sampling += q @ (of_q**2 - s2 * squares.sum(axis=0))
            return noise, least, sampling

        def variance(a: np.ndarray, curves: np.ndarray) -> np.ndarray:
            noise, least, sampling = np.vander(a, 3).dot(curves).T
            return np.maximum(noise, least) + self.spread * np.maximum(sampling, 0.0)

        found, places = [], np.array([0.0, 0.5, 1.0])
        for within in (_WITHIN, ()):  # ordered, and tied
            kernel = auc_kernel(len(p), within)
            # Each part is a quadratic function of a, so three values determine it.
            values = np.array([parts(a, kernel) for a in places]) / pairs**2
            of_a = functools.partial(variance, curves=np.polyfit(places, values, 2))
            found.append(self.estimate(float(p @ kernel @ q / pairs), of_a))
        (value, *_), _ = found
        _, lows, highs = zip(*found, strict=True)
        return value, min(lows), max(highs)


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


# The metrics of a model: what is counted and summed, and what follows from it.


TWO, SEVERAL, NUMBERS = "two classes", "several classes", "numbers"
_LOSSES = ("log_loss", "brier_score")
_ERRORS = ("mean_absolute_error", "mean_squared_error")
#: R2 is computed from the squared error, and the mean and variance of the target.
_R2, _OF_R2 = "r2", ("mean_squared_error", "target")
METRICS = {
    TWO: ("accuracy", "confusion_matrix", "roc_auc", *_LOSSES),
    SEVERAL: ("accuracy", "confusion_matrix", *_LOSSES),
    NUMBERS: (_R2, *_ERRORS),
}
#: Metrics for which smaller values are better.
SMALLER = (*_LOSSES, *_ERRORS)
#: Largest log odds of a bin edge. Edges are evenly spaced in log odds, because scores
#: of rare classes are near 0.
MOST_LOG_ODDS = 6.0
_FEWEST, _MOST = 24, 96
_WITHHELD = (
    "the model failed on these records; its message is withheld because it may quote "
    "the data: call the model on made-up records of the same shape to see the message."
)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The cells and losses of a score of one model, from public facts alone."""

    model: Any
    classes: np.ndarray | None  # None for a regressor
    #: The method of the model that returns scores of two classes, or predictions.
    method: str
    metrics: tuple[str, ...]
    #: Bounds to which losses and errors are clipped, by metric and in its units. With
    #: R2 they include the squared error and the width of the target's range.
    bounds: dict[str, float]
    #: Lower end of the target's range; NaN if it is not declared.
    low: float
    #: Whether the number of records is public.
    counts_are_public: bool
    #: With two classes, the edge above which a record is predicted positive.
    threshold: float
    #: With two classes, scores that separate the bins. A score that equals an edge is
    #: in the lower bin.
    edges: tuple[float, ...]

    @classmethod
    def of(
        cls,
        model: Any,
        metrics: Any = None,
        *,
        counts_are_public: bool = True,
        threshold: float = 0.5,
        loss_bound: float = 4.0,
        error_bound: float | None = None,
    ) -> Layout:
        """Return the layout with the threshold as the only edge, or raise ValueError.

        The parameters are those of `private_score`.
        """
        if isinstance(model, type) or not hasattr(model, "predict"):
            raise ValueError(
                f"model={shown(model)} cannot predict: pass a fitted classifier or "
                "regressor, or a Pipeline that ends with one."
            )
        classes, task, method = getattr(model, "classes_", None), NUMBERS, "predict"
        if classes is not None:
            if isinstance(classes, list) or np.ndim(classes) != 1 or len(classes) < 2:
                raise ValueError(
                    "model has several targets or fewer than two classes: score a "
                    "model of one target."
                )
            classes = np.asarray(classes)
            task = TWO if len(classes) == 2 else SEVERAL
        if task == TWO:
            methods = "predict_proba", "decision_function", "predict"
            method = next(name for name in methods if hasattr(model, name))
        low = high = math.nan
        if task == NUMBERS and (declared := _declared_range(model)) is not None:
            low, high = map(float, declared)
        if metrics is None:  # r2 needs the range of the target
            unusual = *_LOSSES, *[_R2] * math.isnan(low)
            metrics = [name for name in METRICS[task] if name not in unusual]
        metrics = check_metrics(metrics, METRICS[task], f" for a model of {task}")
        lacking = dict.fromkeys(_LOSSES, "predict_proba")
        lacking = {} if hasattr(model, "predict_proba") else lacking
        if method == "predict":
            lacking["roc_auc"] = "predict_proba or decision_function"
        for name in metrics:
            if name in lacking:
                raise ValueError(
                    f"metrics={name!r} needs {lacking[name]}, which the model does not "
                    "have: choose another metric, such as accuracy."
                )
        largest = {"log_loss": loss_bound, "brier_score": 1.0 if task == TWO else 2.0}
        summed = metrics
        if task == NUMBERS:
            bound = high - low if error_bound is None else error_bound
            if math.isnan(bound):
                raise ValueError(
                    "error_bound=None: the model declares no target_bounds; give the "
                    "largest absolute error of one record, in the units of the target."
                )
            largest = dict(zip(_ERRORS, (bound, bound**2), strict=True))
            if _R2 in metrics:
                if math.isnan(low):
                    raise ValueError(
                        "metrics='r2' needs the range of the target, and the model "
                        "declares no target_bounds: choose mean_squared_error."
                    )
                largest["target"] = high - low
                summed = dict.fromkeys((*metrics, *_OF_R2))
        bounds = {name: float(largest[name]) for name in summed if name in largest}
        facts, edge = (low, counts_are_public), float(threshold)
        return cls(model, classes, method, metrics, bounds, *facts, edge, (edge,))

    @property
    def counts(self) -> str:
        """What the table counts.

        "bins": records by class and bin of scores. "pairs": records by class and
        predicted class. "right": right and other predictions. "records": all records.
        "nothing": nothing, because the number of records is public.
        """
        if set(self.metrics) - {"accuracy", _R2, *_LOSSES, *_ERRORS}:
            return "bins" if len(self.classes) == 2 else "pairs"
        if "accuracy" in self.metrics:
            return "right"
        return "nothing" if self.counts_are_public else "records"

    @functools.cached_property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The true and the predicted class of each cell; -1 if undefined.

        The last cell is for records that cannot be scored. If the table counts only
        right and other predictions, both classes are 0 in the cell of the right ones.
        """
        few = {"right": [0, -1], "records": [-1], "nothing": []}
        if self.counts in few:
            return (np.array(few[self.counts], dtype=np.int64),) * 2
        guess = np.arange(self.n_guesses)
        if self.counts == "bins":
            guess = (guess > self.edges.index(self.threshold)).astype(np.int64)
        actual = np.repeat(np.arange(len(self.classes)), self.n_guesses)
        guess = np.tile(guess, len(self.classes))
        return np.append(actual, -1), np.append(guess, -1)

    @property
    def n_guesses(self) -> int:
        """Number of possible predictions: bins for two classes, otherwise classes."""
        n_classes = len(self.classes)
        return len(self.edges) + 1 if n_classes == 2 else n_classes

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.sides[0])

    @without_traps()
    def table(self, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cell and the losses of each record; private.

        X is any table that `rows_of` accepts. The losses are divided by their bounds
        and clipped to [0, 1], shape (n_rows, n_losses).

        Notes
        -----
        **Guarantees.** If the model predicts each row independently, the cell and the
        losses of a record depend only on that record, its position and the number of
        records. If that number is private, they depend on the record alone. Exceptions
        and warnings of the model are suppressed. A row that the model refuses has no
        prediction. To predict the other rows, another row takes its place, so that the
        table keeps its shape. No bit of their predictions depends on the refused row.
        """
        n_rows, counted = len(y), self.counts not in ("records", "nothing")

        def output(name: str) -> np.ndarray:
            call = getattr(self.model, name)
            return predicted(call, X, n_rows, alone=not self.counts_are_public)

        def in_units(found: Mapping[str, np.ndarray], valid: np.ndarray) -> np.ndarray:
            """Return losses over their bounds; rows that are not `valid` get 1."""
            losses = [found[name] / bound for name, bound in self.bounds.items()]
            losses = np.array(losses).reshape(len(losses), n_rows).T
            return np.where(valid[:, None], np.clip(losses, 0.0, 1.0), 1.0)

        cells = np.zeros(n_rows, dtype=np.int64)
        if self.classes is None:
            target = numbers(y)  # NaN if it is not a finite number
            error = np.abs(_numbers(output("predict"), (n_rows,)) - target)
            found = dict(zip(_ERRORS, (error, error**2), strict=True))
            found["target"] = target - self.low
            return cells, in_units(found, np.isfinite(error))
        codes, n_classes = _codes(y, self.classes), len(self.classes)
        # Columns of probabilities follow `classes_`, codes follow the sorted labels.
        order = np.argsort(np.argsort(self.classes, kind="stable"), kind="stable")
        said, chances = np.zeros(n_rows), np.zeros((n_rows, n_classes))
        if self.bounds or (counted and self.method == "predict_proba"):
            chances[:, order] = _numbers(output("predict_proba"), chances.shape)
            said = chances[:, -1]
        if counted and self.method == "decision_function":
            margins = _numbers(output("decision_function"), (n_rows,))
            said = expit(margins if order[-1] == 1 else -margins)
        if counted and self.method == "predict":
            guesses = output("predict")
            if guesses.shape != (n_rows,):
                raise RuntimeError(_WITHHELD)
            said = _codes(guesses, self.classes).astype(np.float64)
            said[said < 0] = math.nan
        cells = self._cells(codes, said) if counted else cells
        # A record without class or probabilities has the worst loss.
        valid = (codes >= 0) & np.isfinite(chances).all(axis=1)
        chances, own = np.clip(chances, 0.0, 1.0), np.maximum(codes, 0)
        square = ((chances - np.eye(n_classes)[own]) ** 2).sum(axis=1)
        square = square / 2 if n_classes == 2 else square
        of_own = np.take_along_axis(chances, own[:, None], axis=1)[:, 0]
        found = {"log_loss": -np.log(of_own), "brier_score": square}
        return cells, in_units(found, valid)

    def _cells(self, codes: np.ndarray, said: np.ndarray) -> np.ndarray:
        """Return the cell of each record, from its class, or -1, and what was said.

        That is the score of two classes or the predicted class; NaN: no prediction.
        """
        known = (codes >= 0) & np.isfinite(said)
        if len(self.classes) == 2:
            guesses, place = said > self.threshold, np.searchsorted(self.edges, said)
        else:
            guesses = place = np.where(known, said, 0).astype(np.int64)
        if self.counts == "right":
            return np.where(known & (guesses == codes), 0, 1)
        return np.where(known, codes * self.n_guesses + place, self.n_cells - 1)

    def estimates(self, table: NoisyTable) -> dict[str, Estimate]:
        """Return the estimate of every metric except the confusion matrix."""
        actual, guess = self.sides
        losses, found = list(self.bounds), {}
        for name in self.metrics:
            if name == "accuracy":
                found[name] = table.share(1.0 * ((actual == guess) & (actual >= 0)))
            elif name in losses:
                found[name] = table.mean_loss(losses.index(name), self.bounds[name])
            elif name == _R2:
                error, target = ((losses.index(n), self.bounds[n]) for n in _OF_R2)
                found[name] = table.r2(*error, *target)
            elif name == "roc_auc":
                found[name] = table.auc(*np.arange(2 * self.n_guesses).reshape(2, -1))
        return found

    def confusion_matrix(self, table: NoisyTable) -> np.ndarray | None:
        """Return noisy counts by true and predicted class, or None if not requested."""
        if "confusion_matrix" not in self.metrics:
            return None
        found = np.zeros((len(self.classes), len(self.classes)))
        np.add.at(found, tuple(side[:-1] for side in self.sides), table.counts[:-1])
        return found


def check_metrics(metrics: Any, known: Iterable[str], of: str = "") -> tuple[str, ...]:
    """Return the requested metrics, each once; `of` is the end of the error message."""
    found: tuple = ()
    with contextlib.suppress(TypeError):
        found = tuple(dict.fromkeys([metrics] if isinstance(metrics, str) else metrics))
    if not found or not all(isinstance(n, str) and n in known for n in found):
        raise ValueError(
            f"metrics={shown(metrics)} must be some of {', '.join(map(repr, known))}"
            f"{of}."
        )
    return found


def bin_edges(threshold: float, noise_std: float, n_records: int) -> tuple[float, ...]:
    """Return the edges of the bins of scores, including the threshold.

    There are 24 to 96 bins before the threshold is added as an edge, so that the noise
    variance of the number of right predictions stays below a sampling variance of
    n / 8.
    """
    wanted = n_records / max(4 * noise_std**2, 1e-300)
    n_bins = 2 * math.floor(min(max(wanted, _FEWEST), _MOST) / 2)
    steps = np.arange(1, n_bins) - n_bins / 2
    edges = {float(edge) for edge in expit(2 * MOST_LOG_ODDS / n_bins * steps)}
    return tuple(sorted(edges | {float(threshold)}))


def _declared_range(estimator: Any) -> tuple[float, float] | None:
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    if (schema := declared_by(estimator, "schema")) is not None:
        return schema.columns[estimator.privacy_.target_name].bounds
    return declared_by(estimator, "target_bounds")


# Predictions of a fixed model, record by record, for any content of the records.


def predicted(
    call: Callable[[Any], Any], X: Any, n_rows: int, *, alone: bool = False
) -> np.ndarray:
    """Return the predictions of a method, with None for rows that it refuses.

    With `alone`, for a private number of rows, each row is predicted in a separate
    table, because the rounding of matrix products depends on the number of rows. The
    result has dtype object with `alone` or if rows were refused.
    """
    everyone = np.arange(n_rows)
    if alone:
        apart = [_attempt(call, rows_of(X, row)) for row in everyone[:, None]]
        return objects(None if found is None else found[0] for found in apart)
    # `rows_of` copies the rows here, as in the second attempt below. So both attempts
    # have the same memory layout, on which the bits of predictions depend.
    found = _attempt(call, rows_of(X, everyone))
    if found is not None:
        return found
    refused = np.isin(everyone, _refused(call, X, everyone, n_rows))
    if refused.all():
        return np.full(n_rows, None)
    stand_in = np.flatnonzero(~refused)[0]
    found = _attempt(call, rows_of(X, np.where(refused, stand_in, everyone)))
    if found is None:
        raise RuntimeError(_WITHHELD)
    return objects(None if no else one for no, one in zip(refused, found, strict=True))


def _refused(call: Callable, X: Any, rows: np.ndarray, n_rows: int) -> list[int]:
    """Return the rows that the model refuses, by bisection.

    Rows are repeated to the public size, because a model may refuse short tables.
    """
    if _attempt(call, rows_of(X, np.resize(rows, n_rows))) is not None:
        return []
    if len(rows) == 1:
        return rows.tolist()
    first, second = np.array_split(rows, 2)
    return _refused(call, X, first, n_rows) + _refused(call, X, second, n_rows)


def _attempt(call: Callable[[Any], Any], X: Any) -> np.ndarray | None:
    """Return the predictions of rows, or None if the model raises or loses some."""
    with warnings.catch_warnings(action="ignore"):
        try:
            found = np.asarray(call(X))
            return found if found.ndim > 0 and len(found) == X.shape[0] else None
        except Exception:  # a user's model may raise anything, and quote data
            return None


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


def _codes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the position of each label in the sorted classes, or -1."""
    found = encode_any(labels, classes)  # with code 0 for missing labels
    return found.codes - (0 if found.missing is None else found.missing)


@dataclasses.dataclass(frozen=True)
class Scored:
    """A table of records to be scored: private rows, and public facts."""

    X: Any  # private
    y: np.ndarray  # private
    #: Names of all columns, including `by`.
    columns: tuple[str | int, ...]
    #: Names of columns and target, as fields of the event.
    facts: dict[str, Any]
    #: Position in `groups` of the group of each record, int64.
    group: np.ndarray
    #: Values of `by`; empty without it.
    groups: tuple
    #: Name of the column of the groups, or its position if it has no name.
    by: str | int | None
    #: Weights and persons of the rows; None: each row is a record with weight 1.
    units: Units | None

    def part(self, group: int | None) -> tuple[int, float, float]:
        """Return the number of units in a group, their total share, and `row_spread`.

        They are public if the number of rows is. None stands for all rows.
        """
        rows = np.full(len(self.y), True) if group is None else self.group == group
        n_own, units = int(rows.sum()), self.units
        if units is None:
            return n_own, n_own, 1.0
        totals = units.shares[rows]
        if units.persons is not None:
            persons = units.persons[rows]
            n_own = len(np.unique(persons))
            totals = np.bincount(persons, totals, minlength=units.n_units)
        return n_own, float(totals.sum()), row_spread(totals)

    @classmethod
    def of(
        cls,
        layout: Layout,
        X: Any,
        y: Any,
        by: Any,
        groups: Any,
        sample_weight: Any,
        *,
        target: str | None,
        fitted_target: str | None,
        relation: Relation,
    ) -> Scored:
        """Check the public facts of the user's table; errors quote no datum.

        `fitted_target` is the name of the target in the model's report.
        """
        X, y, by, groups = map(readable, (X, y, by, groups))
        schema, beside = declared_by(layout.model, "schema"), {}
        if schema is None:
            X, groups = without_group_column(X, groups)
        else:
            name = schema.outcome(target or declared_by(layout.model, "target"), y)
            raw, X = X, schema.select(X)
            if isinstance(by, str) and by in raw.columns:
                by = raw[by]
            y, groups = schema.read_outcome(name, y), schema.groups(raw, groups)
            if schema.exposure is not None:  # no feature, but read by `predict`
                beside = {schema.exposure: schema.exposures(raw)}
        y = numeric_target(y) if layout.classes is None else y
        check_no_path(X)
        check_names(X)
        X = frame_or_rows(X)
        if len(getattr(X, "shape", ())) != 2:
            raise ValueError(
                f"X=<{type(X).__name__}> must be a table with rows and columns."
            )
        n_rows, n_columns = map(int, X.shape)
        y_name = target_name(fitted_target if target is None else target, y)
        kind, y = type_kind(one_column(y)), shaped_target(y, n_rows)
        # Refuse text instead of numbers, and numbers instead of text, by the type of y.
        if layout.classes is None:
            check_target(y[:0], "", bounded=True)
        else:
            check_kind(kind, layout.classes)
        own = column_labels(X) if is_frame(X) else []
        own = own * all(isinstance(label, str) for label in own)
        check_columns(layout.model, n_columns, own or None)
        columns = (*column_names(own or None, n_columns), *beside)
        X = X.assign(**beside) if beside else X
        group, found, by_name = _groups(X, by, columns, own)
        if by is not None and by_name not in columns:
            columns = (*columns, by_name)
        # All columns with the name of `by` count as one column.
        public = np.array([name == by_name for name in columns])
        facts = name_facts(columns, public, target=y_name)
        units = units_as_weighted(sample_weight, groups, n_rows, relation)
        return cls(X, y, columns, facts, group, found, by_name, units)


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a table, in a new table."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if hasattr(X, "schema") and hasattr(X, "take") else X[rows]


def _groups(
    X: Any, by: Any, columns: tuple, own: list[str]
) -> tuple[np.ndarray, tuple, str | int | None]:
    """Return the code of each record's group, the groups, and their column: public."""
    if by is None:
        return np.zeros(X.shape[0], dtype=np.int64), (), None
    name = getattr(by, "name", None)
    if isinstance(name, str) and spelling(name) and hasattr(by, "__len__"):
        values, name = list(by), spelling(name)
    else:
        place = own.index(by) if isinstance(by, str) and by in own else by
        if type(place) is not int or not 0 <= place < len(columns):
            raise ValueError(
                f"by={shown(by)} must be the name or the position of a public column "
                "of X, or a Series with a name."
            )
        cells = raw_column(X, place) if is_frame(X) else as_dense(X[:, [place]])[:, 0]
        name, framed = columns[place], hasattr(cells, "to_list")
        values = cells.to_list() if framed else cells.tolist()
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
    ordered = list(dict.fromkeys(values))
    with contextlib.suppress(TypeError):  # values of several types
        ordered = sorted(ordered)
    code = {value: number for number, value in enumerate(ordered)}
    group = np.array([code[value] for value in values], dtype=np.int64)
    return group, tuple(ordered), name
