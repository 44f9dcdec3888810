"""The display of effects: what each raw column does to a prediction."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skfdp.data._basis import MISSING, OTHER, Block
from skfdp.linear_model import QUANTILE, names
from skfdp.privacy.accounting import check_delta, worst
from skfdp.privacy.checks import shown
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.plotting import new_axes, new_grid, shade, show_dates
from skfdp.solvers.postprocessing import UPPER_BOUND, CoefficientNoise

# The panels of effects: curves, bars and maps.


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


#: Points of a curve, and along each side of a map.
POINTS, SIDE = 201, 41


@dataclasses.dataclass(frozen=True, eq=False)
class Effect:
    """Part of a margin: what one block adds to it, less its mean over the knots.

    Attributes
    ----------
    name : str
        "age"; of a pair "age:hours".
    kind : {"curve", "bars", "map"}
    places : tuple of ndarray
        Where it is told: points of a curve, levels of bars, both sides of a map.
    values : ndarray of shape (n_outputs, n_places) or (n_outputs, n_first, n_second)
    noise_std : ndarray of the shape of values
        Standard deviation of the noise of the release; NaN where it is not known.
    low, high : ndarray of the shape of values
        The 95 % interval from noise and the chance of the labels; NaN where it is not
        known.
    apart : Effect or None
        Bars of the levels that are set apart: "missing", and "other" of categories.
    """

    name: str
    kind: str
    places: tuple[np.ndarray, ...]
    values: np.ndarray
    noise_std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    apart: Effect | None = None


class EffectsDisplay:
    """The effects of a linear model's columns, with the noise of the release.

    Make it by `from_estimator`. It shows what is released, for free.

    Parameters
    ----------
    effects : dict of str to Effect
        By the names of blocks: raw columns, parts of dates, and pairs.
    unit : str
        What the values are of.
    outputs : list
        The classes whose margins there are; one output has the name None.
    band : str or None
        What the bands are; None: nothing is known of the noise.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : list of matplotlib Axes
        One for each effect.
    """

    def __init__(self, *, effects, unit, outputs=(None,), band=None):
        self.effects = effects
        self.unit = unit
        self.outputs = list(outputs)
        self.band = band

    @classmethod
    def from_estimator(
        cls, estimator, *, encoder=None, columns=None, target=None, ax=None
    ):
        """Draw the effects of a fitted model.

        A curve for each column with knots, bars for categories, with "other" and
        "missing" set apart, and a map for a pair. A model without an encoder has bars
        of its coefficients.

        Parameters
        ----------
        estimator : estimator
            A fitted linear model of skfdp, or a Pipeline of a `DeclaredEncoder` and
            such a model.
        encoder : DeclaredEncoder, default=None
            The fitted encoder of the rows that the model was fitted on; None: that of
            the estimator, if it has one.
        columns : list of str, default=None
            Names of the blocks to draw, in this order; None: all of them.
        target : label, default=None
            The class whose margin is shown; None: a line for each class.
        ax : array of matplotlib Axes, default=None
            One for each effect; None makes a new figure.

        Returns
        -------
        display : EffectsDisplay

        Notes
        -----
        **Centring.** An effect is what a block adds to the margin, less its mean over
        the knots or the declared categories: a rule that reads no record. The level is
        in the intercept.

        With ``normalize=True`` the rows are scaled to one norm first, and an
        effect is that of the column of such a row.

        **Bands** are 1.96 standard deviations of the noise of the release on either
        side: other noise would have moved the curve by so much, for these records. They
        hold no chance of the records, and no pull of a penalty or of shrinkage. "At
        most" means that the noise is known without the curvature of the loss, which
        only takes it away. Where the chance of the labels is known too, dotted
        lines show the 95 % interval of the curve without a penalty: see
        `coefficients_table`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from skfdp import FeatureDPLogisticRegression
        >>> from skfdp.inspection import EffectsDisplay
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> bounds = {"mean radius": (5, 30), "mean texture": (5, 40)}
        >>> model = FeatureDPLogisticRegression(
        ...     epsilon=3.0, public_features="all", bounds=bounds, classes=[0, 1]
        ... ).fit(X[list(bounds)], y)
        >>> display = EffectsDisplay.from_estimator(model)
        >>> display.effects["coefficients"].places[0].tolist()
        ['mean radius', 'mean texture']
        """
        model, encoder = _parts(estimator, encoder)
        check_is_fitted(model)
        if not hasattr(model, "coef_"):
            raise TypeError(
                f"estimator={type(model).__name__} has no effects to draw: it must be "
                "a linear model of skfdp."
            )
        told = _Told.of(model, target)
        if encoder is None:
            effects = {"coefficients": told.bars_of_coefficients(model)}
        else:
            check_is_fitted(encoder)
            effects = {one.name: told.effect(one) for one in encoder.blocks_}
        effects = _chosen(effects, columns)
        display = cls(
            effects=effects, unit=told.unit, outputs=told.outputs, band=told.band
        )
        return display.plot(ax)

    def plot(self, ax=None):
        """Draw it.

        Parameters
        ----------
        ax : array of matplotlib Axes, default=None
            One for each effect; None makes a new figure.

        Returns
        -------
        display : EffectsDisplay
        """
        if len(self.outputs) > 1 and any(
            e.kind == "map" for e in self.effects.values()
        ):
            raise ValueError(
                f"target=None: a map shows one class; choose one of {self.outputs!r}."
            )
        self.axes_ = new_grid(len(self.effects), ax, "EffectsDisplay.plot")
        self.figure_ = self.axes_[0].figure
        draw(self)
        return self


@dataclasses.dataclass(frozen=True)
class _Told:
    """Weights and noise of the outputs that are shown."""

    coef: np.ndarray
    noise: CoefficientNoise | None
    rows: np.ndarray
    unit: str
    outputs: list
    sign: float = 1.0

    @classmethod
    def of(cls, model: Any, target: Any) -> _Told:
        coef = np.atleast_2d(model.coef_)
        rows, outputs, unit = np.arange(len(coef)), [None], "effect on the target"
        sign = 1.0
        classes = getattr(model, "classes_", None)
        if classes is not None:
            labels = classes.tolist()
            unit = "effect on the log odds"
            target = _label(target, labels)
            if len(coef) == 1:
                of = labels[1] if target is None else target
                unit += f" of {of}"
                sign = -1.0 if of == labels[0] else 1.0
            elif target is None:
                outputs = labels
            else:
                rows, unit = np.array([labels.index(target)]), f"{unit} of {target}"
        elif target is not None:
            raise ValueError(
                f"target={shown(target)} is for classifiers: leave it out."
            )
        elif model.target_map_.log:
            unit = "effect on the log of the rate"
        if model.row_map_.normalize:
            unit += ", of rows of one norm"
        noise = getattr(model, "coef_noise_", None)
        return cls(coef, noise, rows, unit, outputs, sign)

    @property
    def band(self) -> str | None:
        """What the bands are."""
        if self.noise is None:
            return None
        most = ", at most" if self.noise.kind == UPPER_BOUND else ""
        return f"noise of the release, 95 %{most}"

    def effect(self, block: Block) -> Effect:
        """Return the effect of a block."""
        return {
            "hats": self._curve,
            "linear": self._curve,
            "categories": self._bars,
            "pair": self._map,
        }[block.kind](block)

    def bars_of_coefficients(self, model: Any) -> Effect:
        """Return one bar for each column: over the range of its bounds, if declared."""
        n_features = self.coef.shape[1]
        span = model.row_map_.span
        scale = np.ones(n_features)
        if span is not None:
            scale = np.where(np.isfinite(span), span, 1.0)
        found = np.array(names(model, n_features), dtype=object)
        return self._told("coefficients", "bars", (found,), np.diag(scale))

    def _curve(self, block: Block) -> Effect:
        end = block.knots[-1] if block.end is None else block.end
        points = np.linspace(block.knots[0], end, POINTS)
        knots = block.encode(_raw(block, block.knots))
        rows = block.encode(_raw(block, points)) - knots.mean(axis=0)
        apart = self._apart(block, (MISSING,), knots.mean(axis=0))
        return self._at(block, "curve", (_raw(block, points),), rows, apart)

    def _bars(self, block: Block) -> Effect:
        levels = [one for one in block.levels if one not in (OTHER, MISSING)]
        known = np.array([block.levels.index(one) for one in levels], dtype=int)
        each = np.eye(len(block.levels))
        # A column without a category but "other" has no mean to be apart from.
        centre = each[known].mean(axis=0) if levels else 0 * each[0]
        others = tuple(one for one in (OTHER, MISSING) if one in block.levels)
        apart = self._apart(block, others, centre)
        places = (np.array(levels, dtype=object),)
        return self._at(block, "bars", places, each[known] - centre, apart)

    def _map(self, block: Block) -> Effect:
        sides = [_side(one) for one in block.sides]
        at_knots = _product(block, *(knots for _, knots in sides)).mean(axis=0)
        rows = _product(block, *(points for points, _ in sides)) - at_knots
        effect = self._at(block, "map", tuple(points for points, _ in sides), rows)
        shape = (len(self.rows), *(len(points) for points, _ in sides))
        parts = {
            name: getattr(effect, name).reshape(shape)
            for name in ("values", "noise_std", "low", "high")
        }
        return dataclasses.replace(effect, **parts)

    def _apart(
        self, block: Block, levels: tuple[str, ...], centre: np.ndarray
    ) -> Effect:
        each = np.eye(len(block.levels))
        rows = np.stack([each[block.levels.index(one)] - centre for one in levels])
        return self._at(block, "bars", (np.array(levels, dtype=object),), rows)

    def _at(self, block: Block, kind, places, rows, apart=None) -> Effect:
        wide = np.zeros((len(rows), self.coef.shape[1]))
        wide[:, block.start : block.stop] = rows
        return self._told(block.name, kind, places, wide, apart)

    def _told(self, name, kind, places, rows, apart=None) -> Effect:
        """Return an effect, given the combinations of coefficients that it is."""
        values = self.sign * (self.coef @ rows.T)[self.rows]
        std = low = high = np.full(values.shape, np.nan)
        if self.noise is not None:
            std = self.noise.std_of(rows)[self.rows]
            estimate, error = (part[self.rows] for part in self.noise.error_of(rows))
            estimate = self.sign * estimate
            low, high = estimate - QUANTILE * error, estimate + QUANTILE * error
        return Effect(name, kind, places, values, std, low, high, apart)


def _label(target: Any, labels: list) -> Any:
    """Return the label that a target is, None where it is None."""
    if target is None:
        return None
    plain = target.item() if isinstance(target, np.generic) else target
    found = [one for one in labels if (one == plain) is True]  # NA is no answer
    if not found:
        raise ValueError(f"target={shown(target)} must be one of {labels!r}.")
    return found[0]


def _parts(estimator: Any, encoder: Any) -> tuple[Any, Any]:
    """Return the model and its encoder."""
    model = estimator
    if isinstance(estimator, Pipeline):
        model, before = estimator[-1], estimator[:-1]
        found = [one for one in before if hasattr(one, "blocks_")]
        if encoder is None and len(found) == len(before) == 1:
            encoder = found[0]
    if encoder is None:
        encoder = getattr(model, "encoder_", None)
    return model, encoder


def _chosen(effects: dict[str, Effect], columns: Any) -> dict[str, Effect]:
    if columns is None:
        return effects
    listed = isinstance(columns, Iterable) and not isinstance(columns, str)
    # Text has no dimensions, and neither has a masked constant.
    if not listed or np.ndim(columns) > 1 or getattr(columns, "shape", None) == ():
        raise ValueError(
            f"columns={shown(columns)} must be a list of names: choose from "
            f"{list(effects)!r}."
        )
    columns = list(columns)
    known = list(effects)
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise ValueError(
            f"columns={list(columns)!r} names no effect by {unknown[0]!r}: choose from "
            f"{list(effects)!r}."
        )
    return {name: effects[name] for name in columns}


def _raw(block: Block, points: np.ndarray) -> np.ndarray:
    """Return what the block reads: days since 1970-01-01 as dates."""
    if block.reads != "date":
        return points
    return np.datetime64("1970-01-01", "m") + np.rint(points * 1440).astype("m8[m]")


def _side(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a map along one side, and its knots."""
    if block.kind == "categories":
        levels = [one for one in block.levels if one not in (OTHER, MISSING)]
        levels = np.array(levels or [OTHER], dtype=object)
        return levels, levels
    end = block.knots[-1] if block.end is None else block.end
    points = np.linspace(block.knots[0], end, SIDE)
    return _raw(block, points), _raw(block, block.knots)


def _product(block: Block, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the block's rows at every pair of values."""
    return block.encode(np.repeat(first, len(second)), np.tile(second, len(first)))


# The display of a ledger: the budget of a data set, charge by charge.


class LedgerDisplay:
    """Epsilon spent after each charge, against the ceiling.

    Make it by `from_ledger`.

    Parameters
    ----------
    times : ndarray of datetime64[D], shape (n_charges,)
        The day of each charge, UTC; ledgers tell no finer times.
    epsilons : ndarray of shape (n_charges,)
        What was spent afterwards, by the most exposed record; infinite from the first
        fit without privacy on.
    delta : float
        The delta that epsilons are for.
    ceiling : float or None
        The epsilon of the ledger's :term:`ceiling`.
    dataset : str
        Name of the data set.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        What was spent.
    ceiling_line_ : matplotlib Line2D or None
    """

    def __init__(self, *, times, epsilons, delta, ceiling=None, dataset="default"):
        self.times = times
        self.epsilons = epsilons
        self.delta = delta
        self.ceiling = ceiling
        self.dataset = dataset

    @classmethod
    def from_ledger(cls, ledger, *, delta=None, against="charge", ax=None, **kwargs):
        """Draw what was spent on a ledger's data set.

        Parameters
        ----------
        ledger : PrivacyLedger, str or PathLike
        delta : float, default=None
            None takes the ceiling's.
        against : {"charge", "time"}, default="charge"
            What the horizontal axis shows. Charges are in the order of the record,
            whatever the clock said; those of one day are above one another in time.
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **kwargs : dict
            For `matplotlib.pyplot.plot`.

        Returns
        -------
        display : LedgerDisplay

        Examples
        --------
        >>> from skfdp import PrivacyLedger, calibrate
        >>> from skfdp.inspection import LedgerDisplay
        >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
        >>> for _ in range(3):
        ...     receipt = ledger.charge([calibrate(0.3, 1e-5, n_steps=1).event])
        >>> LedgerDisplay.from_ledger(ledger).epsilons.round(2)
        array([0.3 , 0.44, 0.55])
        """
        if not isinstance(ledger, PrivacyLedger):
            ledger = PrivacyLedger.resolve(ledger)
        if ledger is None:
            raise TypeError("ledger=None must be a path or a PrivacyLedger.")
        delta = ledger.delta if delta is None else delta
        if delta is None:
            raise ValueError(
                "delta=None needs a ledger with a ceiling: pass delta=1e-5, say."
            )
        delta = check_delta(delta)
        entries = ledger.entries
        charges = [entry.charge for entry in entries]
        # Positions after the last event of each charge.
        ends = np.flatnonzero(np.diff(charges, append=0)) + 1
        events = [entry.event for entry in entries]
        parts = [entry.part for entry in entries]
        spent = [worst(events[:end], parts[:end], float(delta)).epsilon for end in ends]
        display = cls(
            times=np.array([entries[e - 1].time for e in ends], "datetime64[D]"),
            epsilons=np.array(spent),
            delta=float(delta),
            ceiling=ledger.epsilon,
            dataset=ledger.dataset,
        )
        return display.plot(ax, against=against, **kwargs)

    def plot(self, ax=None, *, against="charge", **kwargs):
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        against : {"charge", "time"}, default="charge"
        **kwargs : dict
            For `matplotlib.pyplot.plot`.

        Returns
        -------
        display : LedgerDisplay
        """
        if not isinstance(against, str) or against not in ("time", "charge"):
            raise ValueError(f"against={shown(against)} must be 'time' or 'charge'.")
        ax = new_axes(ax, "LedgerDisplay.plot")
        charges = np.arange(1, len(self.epsilons) + 1)
        where = self.times if against == "time" else charges
        finite = np.isfinite(self.epsilons)
        style = {"drawstyle": "steps-post", "marker": "o", "label": "spent"} | kwargs
        (self.line_,) = ax.plot(where[finite], self.epsilons[finite], **style)
        if not finite.all():
            ax.axvline(
                where[~finite][0],
                color="tab:red",
                linestyle=":",
                label="fit without privacy: nothing is protected",
            )
        self.ceiling_line_ = None
        if self.ceiling is not None and math.isfinite(self.ceiling):
            self.ceiling_line_ = ax.axhline(
                self.ceiling,
                color="black",
                linestyle="--",
                label=f"ceiling {self.ceiling:g}",
            )
        ax.set(
            xlabel="day (UTC)" if against == "time" else "charge",
            ylabel=f"epsilon at delta {self.delta:g}",
            title=f"Data set {self.dataset}",
        )
        ax.set_ylim(bottom=0)
        ax.grid(True, alpha=0.3)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        if against == "time":
            self.figure_.autofmt_xdate()
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
        return self
