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
from skfdp.privacy.report import PrivacyReport

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
            **more,
        )

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Metrics of which the release says nothing: a noisy count is not positive."""
        return tuple(name for name, value in self.values.items() if math.isnan(value))

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
        seeded = "; SEEDED: no guarantee" * report.seeded
        lines = [
            f"<PrivateScore: epsilon={report.epsilon:.6g}, delta={report.delta:g}, "
            f"{100 * self.confidence:g} % intervals{seeded}",
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
