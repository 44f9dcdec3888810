"""The result of a private score."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from skfdp.addresses import public
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_text import epsilon_text


@public("skfdp.metrics")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """Private scores of a model, with intervals; `private_score` returns it.

    All attributes are released or public. They may be published with the report.

    Attributes
    ----------
    values : dict of str to float
        Each metric except the confusion matrix, clipped to its range. NaN if there are
        too few records for the noise.
    intervals : dict of str to (float, float)
        Confidence intervals of the metrics on the population. They cover the noise and
        the sampling of the records. NaN if undetermined.
    confidence : float
        Confidence of each single interval.
    confusion_matrix : ndarray of shape (n_classes, n_classes) or None
        Noisy counts by true class (rows) and predicted class (columns). They may be
        negative and are not integers. None if not requested.
    classes : ndarray of shape (n_classes,) or None
        Labels in the order of the matrix; the last of two classes is the positive one.
    n_records : int
        Number of records, or of persons if persons are protected. If this number is
        private, the nominal number.
    noise_std : float
        Standard deviation of the noise of each released entry, in records or persons.
    table : ndarray of shape (n_entries,)
        The release itself: counts of cells, then sums of losses and squares.
    edges : tuple of float
        Scores that separate the bins of the table, in increasing order; empty without
        bins. The table begins with the counts of the first class in each bin, followed
        by those of the last class.
    threshold : float
        The edge above which a record was predicted positive.
    by : str or None
        Name of the column whose values are scored separately.
    by_value : dict of str or number to PrivateScore
        Score of the records with each value, empty without `by`. These scores have the
        same `privacy_`, because one charge covers all of them.
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
    by: str | int | None = None
    by_value: Mapping[Any, PrivateScore] = dataclasses.field(default_factory=dict)
    privacy_: PrivacyReport

    def __repr__(self) -> str:
        report = self.privacy_
        lines = [
            f"<PrivateScore: epsilon={epsilon_text(report)}, "
            f"delta={report.delta:g}, {100 * self.confidence:g} % intervals"
        ]
        parts = {f"{self.by} = {name}: ": one for name, one in self.by_value.items()}
        for prefix, score in {"": self, **parts}.items():
            for name, (low, high) in score.intervals.items():
                text = f"{score.values[name]:.3f} [{low:.3f}, {high:.3f}]"
                if math.isnan(low):
                    text = "undetermined: too few records for this noise"
                lines.append(f"  {prefix}{name} {text}")
        if self.confusion_matrix is not None:
            lines.append("  confusion_matrix of noisy counts")
        return "\n".join(lines) + ">"
