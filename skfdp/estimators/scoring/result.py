"""The result of a private score."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from skfdp.addresses import public
from skfdp.estimators.scoring.estimates import NoisyTable
from skfdp.estimators.scoring.layout import Layout
from skfdp.estimators.scoring.temperatures import (
    PrivateTemperature,
    fitted_temperature,
)
from skfdp.estimators.scoring.thresholds import (
    PrivateThreshold,
    best_edge,
    check_metric,
)
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.statement import epsilon_text

if TYPE_CHECKING:
    import pandas as pd


@public("skfdp")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """Private scores of a model, with intervals; `private_score` returns it.

    All of it was released: it may be published with the report.

    Attributes
    ----------
    values : dict of str to float
        Each metric but the confusion matrix, cut to its range. NaN where it is
        undetermined: too few records for the noise.
    intervals : dict of str to (float, float)
        Confidence intervals of the metrics on the population of the records: they
        cover the noise and the drawing of the records. NaN where undetermined.
    confidence : float
        Of each interval by itself.
    confusion_matrix : ndarray of shape (n_classes, n_classes) or None
        Counts of actual by predicted class with noise, hence neither whole numbers nor
        all positive; None if not asked for.
    classes : ndarray of shape (n_classes,) or None
        Labels in the order of the matrix; the last one of two is the positive one.
    n_records : int
        Number of records, of persons where these are protected; nominal where it is
        private.
    noise_std : float
        Standard deviation of the noise of each released entry, in records or persons.
    table : ndarray of shape (n_entries,)
        The release itself: counts of cells, then sums of losses and squares.
    edges : tuple of float
        Scores that part the bins of the table, in increasing order; empty where no bins
        were counted. The table begins with the counts of the first class in each bin,
        and goes on with those of the last class.
    threshold : float
        The one of the edges above which a record was predicted positive.
    spread : float
        How many times the variance by drawing is that of rows one by one: above 1 for
        persons with several rows.
    by : str or None
        Name of the column that parts the groups.
    groups : dict of str or number to PrivateScore
        Score of each group, empty without `by`. Their `privacy_` is that of the whole,
        because one charge covers all of them.
    privacy_ : PrivacyReport
    """

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    confidence: float
    confusion_matrix: np.ndarray | None
    classes: np.ndarray | None
    n_records: int
    noise_std: float
    table: np.ndarray
    edges: tuple[float, ...] = ()
    threshold: float = 0.5
    spread: float = 1.0
    by: str | int | None = None
    groups: Mapping[Any, PrivateScore] = dataclasses.field(default_factory=dict)
    privacy_: PrivacyReport

    @classmethod
    def of(
        cls,
        layout: Layout,
        table: np.ndarray,
        *,
        noise_std: float,
        n_records: int,
        confidence: float,
        shares: float | None = None,
        spread: float = 1.0,
        **more: Any,
    ) -> PrivateScore:
        """Return what follows from a released table; post-processing alone.

        Parameters
        ----------
        layout : Layout
        table : float64 ndarray of shape (n_entries,)
        noise_std : float
        n_records : int
        confidence : float
        shares : float, default=None
            Sum of the shares of all rows, where they have weights. None: `n_records`.
        spread : float, default=1.0
            See `NoisyTable`.
        **more : dict
            Further attributes.
        """
        total = n_records if shares is None else shares
        noisy = NoisyTable(
            cells=table[: layout.n_cells],
            losses=table[layout.n_cells :].reshape(-1, 2),
            noise_std=noise_std,
            n_records=total if layout.counts_are_public else None,
            confidence=confidence,
            spread=spread,
        )
        found = layout.estimates(noisy)
        return cls(
            values={name: one.value for name, one in found.items()},
            intervals={name: (one.low, one.high) for name, one in found.items()},
            confidence=confidence,
            confusion_matrix=layout.confusion_matrix(noisy),
            n_records=n_records,
            noise_std=noise_std,
            table=table,
            edges=layout.edges if layout.counts == "bins" else (),
            threshold=layout.threshold,
            spread=spread,
            **more,
        )

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Metrics of which the release says nothing: a noisy count is not positive."""
        return tuple(name for name, value in self.values.items() if math.isnan(value))

    def best_threshold(self, metric: Any = "balanced_accuracy") -> PrivateThreshold:
        """Return the best threshold among the edges of the bins; costs nothing more.

        Parameters
        ----------
        metric : str or dict, default="balanced_accuracy"
            Or "accuracy", "f1", or the costs of one wrong prediction of either kind,
            ``{"false_positive": 1.0, "false_negative": 5.0}``, whose mean is made
            small.

        Returns
        -------
        threshold : PrivateThreshold
            The scored threshold, if no other one is better by more than two standard
            errors, of noise and sampling, or if noise hides a class. ``apply`` makes a
            model that uses it.

        Raises
        ------
        ValueError
            For another metric, or without bins of scores.

        Notes
        -----
        **Guarantees.** A function of released numbers: post-processing.

        What this score says at the chosen threshold is optimistic, since the same noise
        has chosen it. `PrivateThreshold.interval` holds for all edges at once; or make
        another `private_score` with ``threshold=...``, of other records or of another
        part of the budget.
        """
        metric, counts = check_metric(metric), self._bins("best_threshold")
        edge, gain, interval = best_edge(
            counts,
            self.edges.index(self.threshold),
            self.noise_std,
            metric,
            self.confidence,
            self.spread,
        )
        return PrivateThreshold(
            threshold=self.edges[edge],
            metric=metric,
            is_default=self.edges[edge] == self.threshold,
            gain=gain,
            interval=interval,
            privacy_=self.privacy_,
        )

    def best_temperature(self) -> PrivateTemperature:
        """Return the temperature and the shift that calibrate the scores, for free.

        Returns
        -------
        temperature : PrivateTemperature
            1 and 0 where noise and sampling may explain what is seen. ``apply`` makes a
            model with these probabilities.

        Raises
        ------
        ValueError
            Without bins of scores.

        Notes
        -----
        **Guarantees.** A function of released numbers: post-processing.
        """
        counts = self._bins("best_temperature")
        temperature, shift = fitted_temperature(
            counts, self.edges, self.noise_std, self.spread
        )
        return PrivateTemperature(
            temperature=temperature, shift=shift, privacy_=self.privacy_
        )

    def _bins(self, name: str) -> np.ndarray:
        """Return the counts of both classes in each bin, or refuse."""
        n_bins = len(self.edges) + 1
        if n_bins < 4:
            raise ValueError(
                f"{name} needs at least four bins of scores of two classes, and this "
                f"score has {n_bins}: ask private_score for metrics with 'roc_auc'."
            )
        return self.table[: 2 * n_bins].reshape(2, n_bins)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values; what is undetermined is None."""
        matrix, classes = self.confusion_matrix, self.classes
        return {
            "values": {name: _plain(v) for name, v in self.values.items()},
            "intervals": {
                name: None if math.isnan(pair[0]) else list(pair)
                for name, pair in self.intervals.items()
            },
            "confidence": self.confidence,
            "confusion_matrix": None if matrix is None else matrix.tolist(),
            "classes": None if classes is None else classes.tolist(),
            "n_records": self.n_records,
            "noise_std": self.noise_std,
            "table": self.table.tolist(),
            "edges": list(self.edges),
            "threshold": self.threshold,
            "spread": self.spread,
            "by": self.by,
            "groups": [
                {"group": _group(name), "score": _without_report(one)}
                for name, one in self.groups.items()
            ],
            "privacy": self.privacy_.to_dict(),
        }

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each group and metric; needs pandas.

        Returns
        -------
        frame : DataFrame
            Columns ``group`` (None for all records), ``metric``, ``value``, ``low``,
            ``high`` and ``n_records``.
        """
        import pandas as pd

        rows = [
            (group, name, value, *one.intervals[name], one.n_records)
            for group, one in ((None, self), *self.groups.items())
            for name, value in one.values.items()
        ]
        columns = ["group", "metric", "value", "low", "high", "n_records"]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        report = self.privacy_
        lines = [
            f"<PrivateScore: epsilon={epsilon_text(report)}, delta={report.delta:g}, "
            f"{100 * self.confidence:g} % intervals",
            *self._lines(""),
        ]
        for name, one in self.groups.items():
            lines += one._lines(f"{self.by} = {name}: ")
        return "\n".join(lines) + ">"

    def _lines(self, prefix: str) -> list[str]:
        found = []
        for name, value in self.values.items():
            low, high = self.intervals[name]
            text = f"{value:.3f} [{low:.3f}, {high:.3f}]"
            if math.isnan(value):
                text = "undetermined: too few records for this noise"
            found.append(f"  {prefix}{name} {text}")
        if self.confusion_matrix is not None:
            size = len(self.confusion_matrix)
            found.append(f"  {prefix}confusion_matrix of {size} x {size} noisy counts")
        return found


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


def _group(name: Any) -> Any:
    return name if isinstance(name, str | int | float) else str(name)


def _without_report(score: PrivateScore) -> dict[str, Any]:
    """Return the dictionary of a group, without the report of the whole."""
    found = score.to_dict()
    for name in ("privacy", "groups", "by"):
        del found[name]
    return found
