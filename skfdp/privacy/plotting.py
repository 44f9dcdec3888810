"""Figures of privacy curves; matplotlib loads when something is drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skfdp.privacy.composition import curves
from skfdp.privacy.report_facts import ReportFacts


def new_axes(ax: Any, caller: str) -> Any:
    """Return ax, or the axes of a new figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            f"{caller} needs matplotlib: pip install 'skfdp[plot]'."
        ) from None
    return plt.subplots()[1] if ax is None else ax


def plot_curve(report: ReportFacts, ax: Any, epsilons: Any) -> Any:
    """Draw delta against epsilon; see `PrivacyReport.plot_curve`."""
    if math.isinf(report.epsilon):
        raise ValueError(
            "epsilon=inf has no privacy curve: fit with a finite epsilon first."
        )
    ax = new_axes(ax, "PrivacyReport.plot_curve")
    if epsilons is None:
        epsilons = np.linspace(0.0, 2 * report.epsilon or 1.0, 101)
    epsilons = np.asarray(epsilons, dtype=np.float64)
    found = curves(report.events, report.parts or (None,) * len(report.events))
    deltas = [max(one.delta(float(eps)) for one in found) for eps in epsilons]
    ax.plot(epsilons, deltas, label=report.subject)
    ax.plot(
        [report.epsilon],
        [report.delta],
        "o",
        label=f"epsilon {report.epsilon:.4g} at delta {report.delta:g}",
    )
    ax.set(xlabel="epsilon", ylabel="delta", yscale="log")
    ax.grid(True, alpha=0.3)
    ax.legend()
    return ax
