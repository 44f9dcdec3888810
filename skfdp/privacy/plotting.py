"""Figures of privacy curves; matplotlib loads when something is drawn."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from skfdp.privacy.accounting import curves
from skfdp.privacy.checks import shown
from skfdp.privacy.report_text import Report, epsilon_text


def _pyplot(caller: str) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            f"{caller} needs matplotlib: pip install 'skfdp[plot]'."
        ) from None
    return plt


def new_axes(ax: Any, caller: str) -> Any:
    """Return ax, or the axes of a new figure."""
    plt = _pyplot(caller)
    return plt.subplots()[1] if ax is None else _axes(ax)


def _axes(ax: Any) -> Any:
    """Return ax; TypeError unless it can be drawn into."""
    if not (hasattr(ax, "plot") and hasattr(ax, "figure")):
        raise TypeError(f"ax={shown(ax)} must be None or a matplotlib Axes.")
    return ax


def points(name: str, values: Any) -> np.ndarray:
    """Return numbers to draw at, at least one, as float64 ndarray of one dimension."""
    found = None
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    if found is None or found.ndim != 1 or not found.size or np.isnan(found).any():
        raise ValueError(f"{name}={shown(values)} must be a list of numbers.")
    return found


def plot_curve(report: Report, ax: Any, epsilons: Any) -> Any:
    """Draw delta against epsilon; see `PrivacyReport.plot_curve`."""
    if math.isinf(report.epsilon):
        raise ValueError(
            "epsilon=inf has no privacy curve: fit with a finite epsilon first."
        )
    ax = new_axes(ax, "PrivacyReport.plot_curve")
    if epsilons is None:
        epsilons = np.linspace(0.0, 2 * report.epsilon or 1.0, 101)
    epsilons = points("epsilons", epsilons)
    found = curves(report.events, report.parts)
    deltas = [max(one.delta(float(eps)) for one in found) for eps in epsilons]
    ax.plot(epsilons, deltas, label=report.subject)
    label = f"epsilon {epsilon_text(report, 4)} at delta {report.delta:g}"
    ax.plot([report.epsilon], [report.delta], "o", label=label)
    ax.set(xlabel="epsilon", ylabel="delta", yscale="log")
    ax.grid(True, alpha=0.3)
    ax.legend()
    return ax


def new_grid(n_panels: int, ax: Any, caller: str) -> list[Any]:
    """Return one axes for each panel: those given, or those of a new figure."""
    if not n_panels:
        raise ValueError("there is no effect to draw: choose at least one.")
    if ax is not None:
        given = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != n_panels:
            raise ValueError(
                f"ax has {len(given)} axes, but there are {n_panels} effects: pass one "
                "for each, or None for a new figure."
            )
        return [_axes(one) for one in given]
    n_columns = min(3, n_panels)
    n_rows = -(-n_panels // n_columns)
    _, axes = _pyplot(caller).subplots(
        n_rows,
        n_columns,
        squeeze=False,
        figsize=(1.0 + 3.6 * n_columns, 0.6 + 2.7 * n_rows),
        layout="constrained",
    )
    for unused in axes.ravel()[n_panels:]:
        unused.remove()
    return list(axes.ravel()[:n_panels])


def show_dates(ax: Any, low: Any, high: Any) -> None:
    """Label a horizontal axis of dates between two of them, each year once."""
    from matplotlib import dates

    locator = dates.AutoDateLocator(minticks=3, maxticks=7)
    low, high = dates.date2num([low, high])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of more ticks than wanted
        ticks = locator.tick_values(dates.num2date(low), dates.num2date(high))
    ticks = [tick for tick in ticks if low <= tick <= high]
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    ax.set_xticks(ticks)
