"""The panels of effects: curves, bars and maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from skfdp.estimators.linear_model.coefficients import QUANTILE
from skfdp.privacy.plotting import shade, show_dates

_GREY, _ROOM = "0.45", 0.12
_COLOURS = [f"C{j}" for j in range(10)]
#: Bars with longer names, or more of them, lie on their side.
_LONG, _MANY = 6, 8
_INTERVAL = "95 % interval: noise and chance of the labels"


def draw(display: Any) -> None:
    """Draw the effects of a display into its axes."""
    for effect, ax in zip(display.effects.values(), display.axes_, strict=True):
        {"curve": _curve, "bars": _bars, "map": _map}[effect.kind](effect, ax, display)
    _share_range(display)
    _legend(display)


def _curve(effect: Any, ax: Any, display: Any) -> None:
    x = effect.places[0]
    for k, colour in zip(range(len(effect.values)), _cycle(), strict=False):
        value, std = effect.values[k], effect.noise_std[k]
        ax.plot(x, value, color=colour, label=display.outputs[k])
        ax.fill_between(
            x,
            value - QUANTILE * std,
            value + QUANTILE * std,
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
        for bound in (effect.low[k], effect.high[k]):
            ax.plot(x, bound, color=colour, linewidth=0.8, linestyle=":")
    ax.axhline(0, color=_GREY, linewidth=0.8)
    ax.set_title(effect.name, fontsize="medium")
    width = x[-1] - x[0]
    low, high = x[0], x[-1]
    if effect.apart is not None:
        ax.axvline(
            high + width * (_ROOM / 2), color=_GREY, linewidth=0.8, linestyle=":"
        )
        _points(effect.apart, ax, [high + width * _ROOM])
        high = high + width * (1.6 * _ROOM)
    ax.set_xlim(low, high)
    if x.dtype.kind == "M":
        show_dates(ax, x[0], x[-1])
        return
    ticks = [tick for tick in ax.get_xticks() if x[0] <= tick <= x[-1]]
    ax.set_xticks(ticks)


def _points(apart: Any, ax: Any, places: list) -> None:
    """Draw levels that are set apart as points beside a curve."""
    for k, colour in zip(range(len(apart.values)), _cycle(), strict=False):
        ax.errorbar(
            places,
            apart.values[k],
            yerr=QUANTILE * np.nan_to_num(apart.noise_std[k]),
            fmt="o",
            markersize=4,
            color=colour,
            ecolor=colour,
            elinewidth=4,
            alpha=0.5,
        )
    for place, level in zip(places, apart.places[0], strict=True):
        ax.text(
            place,
            0.02,
            f"{level}  ",
            rotation=90,
            transform=ax.get_xaxis_transform(),
            ha="right",
            va="bottom",
            fontsize="x-small",
            color=_GREY,
        )


def _bars(effect: Any, ax: Any, display: Any) -> None:
    levels = [str(one) for one in effect.places[0]]
    values, stds = effect.values, effect.noise_std
    low, high, positions = effect.low, effect.high, np.arange(float(len(levels)))
    if effect.apart is not None:
        levels += [str(one) for one in effect.apart.places[0]]
        values = np.hstack([values, effect.apart.values])
        stds = np.hstack([stds, effect.apart.noise_std])
        low = np.hstack([low, effect.apart.low])
        high = np.hstack([high, effect.apart.high])
        more = len(positions) + 0.5 + np.arange(effect.apart.values.shape[1])
        positions = np.r_[positions, more]
        ax_line = len(effect.places[0]) - 0.25
    n_outputs, n_known = len(values), len(effect.places[0])
    lying = max(map(len, levels)) > _LONG or len(levels) > _MANY
    line = ax.axhline if lying else ax.axvline
    (ax.axvline if lying else ax.axhline)(0, color=_GREY, linewidth=0.8)
    if effect.apart is not None and n_known:
        line(ax_line, color=_GREY, linewidth=0.8, linestyle=":")
    size = 0.8 / n_outputs
    for k, colour in zip(range(n_outputs), _cycle(), strict=False):
        where = positions + (k - (n_outputs - 1) / 2) * size
        error = QUANTILE * np.nan_to_num(stds[k])
        fills = [shade(colour, 0.7 if j < n_known else 0.3) for j in range(len(levels))]
        options = {"color": fills, "label": display.outputs[k]}
        style = {"ecolor": "black", "elinewidth": 1.2, "capsize": 2}
        if lying:
            ax.barh(where, values[k], size, xerr=error, error_kw=style, **options)
        else:
            ax.bar(where, values[k], size, yerr=error, error_kw=style, **options)
        ends = np.vstack([low[k], high[k]])
        for end in ends:
            ax.plot(*((end, where) if lying else (where, end)), ".", color=colour, ms=3)
    if lying:
        ax.set_yticks(positions, levels, fontsize="small")
        ax.invert_yaxis()
    else:
        ax.set_xticks(positions, levels, fontsize="small")
    ax.set_title(effect.name, fontsize="medium")
    ax.lying_ = lying


def _map(effect: Any, ax: Any, display: Any) -> None:
    names = effect.name.split(":")
    sides, ticks = [], []
    for place in effect.places:
        is_text = place.dtype.kind == "O"
        ticks.append(list(map(str, place)) if is_text else None)
        sides.append(np.arange(float(len(place))) if is_text else place)
    values = effect.values[0].T
    most = float(np.nanmax(np.abs(values))) or 1.0
    drawn = ax.pcolormesh(*sides, values, cmap="RdBu_r", vmin=-most, vmax=most)
    ax.figure.colorbar(drawn, ax=ax)
    if ticks[0] is not None:
        long = sum(map(len, ticks[0])) > 24
        turned = {"rotation": 30, "ha": "right"} if long else {}
        ax.set_xticks(range(len(ticks[0])), ticks[0], fontsize="small", **turned)
    elif sides[0].dtype.kind == "M":
        show_dates(ax, sides[0][0], sides[0][-1])
    if ticks[1] is not None:
        ax.set_yticks(range(len(ticks[1])), ticks[1], fontsize="small")
    ax.set(xlabel=names[0], ylabel=names[-1])
    std = effect.noise_std[0]
    noise = (
        f" (noise ±{QUANTILE * np.median(std):.2g})" if np.isfinite(std).all() else ""
    )
    ax.set_title(effect.name + noise, fontsize="medium")


def _share_range(display: Any) -> None:
    """Give curves and bars one range, and name the unit at the left."""
    panels = [
        (ax, getattr(ax, "lying_", False))
        for effect, ax in zip(display.effects.values(), display.axes_, strict=True)
        if effect.kind != "map"
    ]
    ranges = [ax.get_xlim() if lying else ax.get_ylim() for ax, lying in panels]
    for ax, lying in panels:
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        (ax.set_xlim if lying else ax.set_ylim)(low, high)
        first = ax.get_subplotspec() is None or ax.get_subplotspec().is_first_col()
        if lying:
            ax.set_xlabel(display.unit, fontsize="small")
        elif first:
            ax.set_ylabel(display.unit, fontsize="small")
        ax.grid(True, alpha=0.3)


def _legend(display: Any) -> None:
    """Say once what bands and colours are."""
    handles, labels = [], []
    for effect, ax in zip(display.effects.values(), display.axes_, strict=True):
        if effect.kind == "map":
            continue
        if len(display.outputs) > 1:
            handles, labels = ax.get_legend_handles_labels()
            break
    told = display.band
    if told is not None and any(
        np.isfinite(e.low).any() for e in display.effects.values()
    ):
        told += f"; dotted: {_INTERVAL}"
    title = f"bands: {told}" if told else None
    if handles:
        display.figure_.legend(
            handles, labels, loc="outside lower center", ncols=len(labels), title=title
        )
    elif title:
        display.figure_.supxlabel(title, fontsize="small")


def _cycle():
    while True:
        yield from _COLOURS
