"""Plots of effects; they need matplotlib (``pip install 'skfdp[plot]'``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skfdp.data._basis import MISSING, OTHER, Block
from skfdp.data.cells import objects
from skfdp.data.validation import check_number
from skfdp.export import QUANTILE, names
from skfdp.privacy.accounting import is_listed
from skfdp.privacy.checks import shown
from skfdp.solvers.postprocessing import UPPER_BOUND, CoefficientNoise
from skfdp.solvers.public_model import warn_of_public_model

__all__ = ["EffectsDisplay"]

_GREY, _AIR = "0.45", 0.12


def _draw_curve(effect: Effect, ax: Any, display: EffectsDisplay) -> None:
    x = effect.places[0]
    for k, (value, std) in enumerate(zip(effect.values, effect.noise_std, strict=True)):
        ax.plot(x, value, color=f"C{k}", label=display.outputs[k])
        band = value - QUANTILE * std, value + QUANTILE * std
        ax.fill_between(x, *band, color=f"C{k}", alpha=0.2, linewidth=0)
    ax.axhline(0, color=_GREY, linewidth=0.8)
    # Missing values are drawn separately, at the right.
    width, apart = x[-1] - x[0], effect.apart
    place = x[-1] + width * _AIR
    ax.axvline(x[-1] + width * (_AIR / 2), color=_GREY, linewidth=0.8, linestyle=":")
    for k, std in enumerate(np.nan_to_num(apart.noise_std)):
        style = {"color": f"C{k}", "markersize": 4, "elinewidth": 4, "alpha": 0.5}
        ax.errorbar([place], apart.values[k], yerr=QUANTILE * std, fmt="o", **style)
    style = {"rotation": 90, "ha": "right", "fontsize": "x-small", "color": _GREY}
    text, where = f"{apart.places[0][0]}  ", ("data", "axes fraction")
    ax.annotate(text, (place, 0.02), xycoords=where, **style)
    ax.set_xlim(x[0], x[-1] + width * (1.6 * _AIR))
    if x.dtype.kind == "M":
        from matplotlib import dates

        locator = dates.AutoDateLocator(minticks=3, maxticks=7)
        low, high = dates.date2num([x[0], x[-1]])
        ticks = locator.tick_values(dates.num2date(low), dates.num2date(high))
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
        ax.set_xticks([tick for tick in ticks if low <= tick <= high])
    else:
        ax.set_xticks([tick for tick in ax.get_xticks() if x[0] <= tick <= x[-1]])


def _bars(effect: Effect, ax: Any, display: EffectsDisplay) -> None:
    """Draw horizontal bars, which leave space for names."""
    levels, size = [], 0.8 / len(effect.values)
    parts = [(effect, 0.7)] + [(effect.apart, 0.3)] * (effect.apart is not None)
    for part, alpha in parts:
        if part is effect.apart:
            ax.axhline(len(levels) - 0.5, color=_GREY, linewidth=0.8, linestyle=":")
        rows = len(levels) + np.arange(len(part.places[0]))
        for k, std in enumerate(np.nan_to_num(part.noise_std)):
            where = rows + (k - (len(effect.values) - 1) / 2) * size
            label = display.outputs[k] if part is effect else None
            options = {"color": f"C{k}", "alpha": alpha, "label": label}
            error = {"xerr": QUANTILE * std, "error_kw": {"capsize": 2}}
            ax.barh(where, part.values[k], size, **options, **error)
        levels += map(str, part.places[0])
    ax.axvline(0, color=_GREY, linewidth=0.8)
    ax.set_yticks(range(len(levels)), levels, fontsize="small")
    ax.invert_yaxis()


def _heat_map(effect: Effect, ax: Any, display: EffectsDisplay) -> None:
    """Draw an interaction, of the output for which it is largest."""
    k = int(np.ptp(effect.values, axis=(1, 2)).argmax())
    x, y = (at.astype(str) if at.dtype.kind == "O" else at for at in effect.places)
    most = np.abs(effect.values[k]).max()
    limits = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "shading": "nearest"}
    found = ax.pcolormesh(x, y, effect.values[k].T, **limits)
    ax.tick_params("x", rotation=90 * (x.dtype.kind == "U"))
    ax.figure.colorbar(found, ax=ax, label=display.outputs[k])


_DRAW = {"bars": _bars, "curve": _draw_curve, "heat map": _heat_map}


def _new_grid(n_panels: int, ax: Any) -> list[Any]:
    if not n_panels:
        raise ValueError("there is no effect to draw: choose at least one.")
    if ax is not None:
        given = list(np.ravel(np.asarray(ax, dtype=object)))
        are_axes = all(hasattr(one, "plot") and hasattr(one, "figure") for one in given)
        if not are_axes or len(given) != n_panels:
            raise ValueError(
                f"ax={shown(ax)} must be None or hold matplotlib Axes, one for each of "
                f"the {n_panels} effects."
            )
        return given
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            "EffectsDisplay needs matplotlib: pip install 'skfdp[plot]'."
        ) from None
    n_columns = min(3, n_panels)
    n_rows = -(-n_panels // n_columns)
    size = 1.0 + 3.6 * n_columns, 0.6 + 2.7 * n_rows
    _, axes = plt.subplots(
        n_rows, n_columns, squeeze=False, figsize=size, layout="constrained"
    )
    for unused in axes.ravel()[n_panels:]:
        unused.remove()
    return list(axes.ravel()[:n_panels])


@dataclasses.dataclass(frozen=True, eq=False)
class Effect:
    """The contribution of one raw column to the margin, minus its mean.

    The mean is that over the knots of a curve, or over the declared categories. The
    effect of an interaction is what it adds to the contributions of its two columns.

    Attributes
    ----------
    name : str
        Name of the column, or of a part of a date.
    kind : {"curve", "bars", "heat map"}
    places : tuple of ndarray
        The points at which a curve is computed, or the names of the bars; for a heat
        map, one such array for each of the two columns.
    values : ndarray of shape (n_outputs, n_places) or (n_outputs, n_first, n_second)
        The effect at each of the places.
    noise_std : ndarray of the shape of values
        Standard deviation of the noise in each value; NaN if unknown.
    apart : Effect or None
        Bars that are drawn separately: the bar of "missing" and, for categories, the
        bar of "other".
    at_most : ndarray of the shape of values
        Whether `noise_std` is an upper bound, because little is known of the noise.
    """

    name: str
    kind: str
    places: tuple[np.ndarray, ...]
    values: np.ndarray
    noise_std: np.ndarray
    apart: Effect | None = None
    at_most: np.ndarray | bool = False


class EffectsDisplay:
    """Plot of the effects of a linear model's columns, with the noise of the release.

    Create it by `from_estimator`. The plot uses released numbers only, so it has no
    privacy cost.

    Parameters
    ----------
    effects : dict of str to Effect
        The effects, by the name of the raw column or of the part of a date.
    unit : str
        Label of the axis with the values of the effects.
    outputs : list
        The class of each output; [None] for a single output.
    band : str or None
        Description of the bands of noise; None if the noise is unknown.

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
        cls,
        estimator,
        *,
        encoder=None,
        columns=None,
        max_panels=6,
        target=None,
        ax=None,
    ):
        """Draw the effects of a fitted model.

        Columns with knots are drawn as curves, columns of categories as bars, and
        interactions as heat maps, of the class for which they are largest; the first of
        the two columns is on the horizontal axis. The
        effects of "other" and "missing" are drawn separately. For a model without an
        encoder the coefficients are drawn as bars, each times the width of the bounds
        of its column (without bounds, times 1).

        Parameters
        ----------
        estimator : estimator
            A fitted linear model of skfdp, or a Pipeline of a `DeclaredEncoder` and
            such a model.
        encoder : DeclaredEncoder, default=None
            The fitted encoder of the training rows. None takes that of the estimator,
            if it has one.
        columns : list of str, default=None
            Names of the effects to draw, in this order. None draws the largest effects,
            by the difference of their highest and lowest value.
        max_panels : int or None, default=6
            Largest number of effects to draw if `columns` is None; None draws all.
        target : label, default=None
            The class whose margin is shown; None draws a line for each class.
        ax : array of matplotlib Axes, default=None
            One Axes for each effect; None makes a new figure.

        Returns
        -------
        display : EffectsDisplay

        Notes
        -----
        **Centring.** An effect is the contribution of a raw column to the margin, minus
        its mean over the knots or the declared categories. This mean does not depend on
        records.

        With ``normalize=True`` the model scales all rows to the same norm. The effects
        are those of the scaled rows.

        **Bands** are 1.96 standard deviations of the noise of the release on either
        side: the variation that other noise would cause for the same records. They do
        not include the sampling error of the records, nor the bias of a penalty or of
        shrinkage. For gradient descent, the curvature of the loss, which reduces the
        noise, is estimated from the released gradients. If a title says "at most", the
        noise is computed without this curvature. The intervals of
        `coefficients_table` also include the sampling error of the labels.

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
        effects, unit, outputs, noise = _effects(estimator, encoder, target)
        check_number("max_panels", max_panels, integral=True, also=(None,))
        if columns is None:
            size = {name: float(np.ptp(one.values)) for name, one in effects.items()}
            columns = sorted(effects, key=size.__getitem__, reverse=True)[:max_panels]
        known, listed = list(effects), is_listed(columns) and np.ndim(columns) < 2
        if not listed or not all(name in known for name in columns):
            raise ValueError(
                f"columns={shown(columns)} must be a list of names of effects: choose "
                f"from {known!r}."
            )
        effects = {name: effects[name] for name in columns}
        band = None if noise is None else "noise of the release, 95 %"
        return cls(effects=effects, unit=unit, outputs=outputs, band=band).plot(ax)

    def plot(self, ax=None):
        """Draw each effect into its own Axes.

        Parameters
        ----------
        ax : array of matplotlib Axes, default=None
            One Axes for each effect; None makes a new figure.

        Returns
        -------
        display : EffectsDisplay
        """
        self.axes_ = _new_grid(len(self.effects), ax)
        self.figure_ = self.axes_[0].figure
        panels = list(zip(self.effects.values(), self.axes_, strict=True))
        for effect, panel in panels:
            most = ", noise at most" if np.any(effect.at_most) else ""
            panel.set_title(effect.name + most, fontsize="medium")
            _DRAW[effect.kind](effect, panel, self)
        panels = [pair for pair in panels if pair[0].kind != "heat map"]
        # All other panels show the same range of values: curves on y, bars on x.
        ends = [
            end
            for effect, panel in panels
            for end in (panel.get_xlim() if effect.kind == "bars" else panel.get_ylim())
        ]
        limits = min(ends, default=None), max(ends, default=None)
        for effect, panel in panels:
            side = "x" if effect.kind == "bars" else "y"
            panel.set(**{f"{side}lim": limits, f"{side}label": self.unit})
            panel.grid(True, alpha=0.3)
        title = None if self.band is None else f"bands: {self.band}"
        if len(self.outputs) > 1:
            handles, labels = self.axes_[0].get_legend_handles_labels()
            options = {"loc": "outside lower center", "ncols": len(labels)}
            self.figure_.legend(handles, labels, title=title, **options)
        elif title:
            self.figure_.supxlabel(title, fontsize="small")
        return self


def _shown(model: Any, target: Any) -> tuple[np.ndarray, float, str, list]:
    """Return the rows of `coef_` to draw, their sign, the unit, and the outputs.

    The sign is -1 for the first of two classes, whose margin is minus the margin of the
    model.
    """
    n_rows, sign = len(np.atleast_2d(model.coef_)), 1.0
    rows, outputs, unit = np.arange(n_rows), [None], "effect on the target"
    classes = getattr(model, "classes_", None)
    if classes is not None:
        labels = classes.tolist()
        unit = "effect on the log odds"
        if target is not None:
            plain = target.item() if isinstance(target, np.generic) else target
            # A comparison with pandas.NA returns NA.
            equal = [one for one in labels if (one == plain) is True]
            if not equal:
                raise ValueError(f"target={shown(target)} must be one of {labels!r}.")
            target = equal[0]
        if n_rows == 1:
            of = labels[1] if target is None else target
            unit += f" of {of}"
            sign = -1.0 if of == labels[0] else 1.0
        elif target is None:
            outputs = labels
        else:
            rows, unit = np.array([labels.index(target)]), f"{unit} of {target}"
    elif target is not None:
        raise ValueError(f"target={shown(target)} is for classifiers: leave it out.")
    elif model.target_map_.log:
        unit = "effect on the log of the rate"
    if model.input_scaler_.normalize:
        unit += ", for rows scaled to one norm"
    return rows, sign, unit, outputs


def _axis(block: Block, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places of a block on an axis, and their encoded columns."""
    if block.draws == "bars":
        levels = [one for one in block.levels if one not in (OTHER, MISSING)]
        return objects(levels), np.eye(len(levels), len(block.levels))
    end = block.knots[-1] if block.end is None else block.end
    places = block.raw(np.linspace(block.knots[0], end, n_points))
    return places, block.encode(places)


def _effect_of(block: Block, made: Callable[..., Effect]) -> Effect:
    """Return the effect of a block of encoded columns; `made` returns an effect."""
    places, rows = _axis(block, 201)
    if block.draws == "bars":
        # Without declared categories there is no mean to subtract.
        centre = rows.mean(axis=0) if len(rows) else 0.0
    else:
        centre = block.encode(block.raw(block.knots)).mean(axis=0)
    each = dict(zip(block.levels, np.eye(len(block.levels)), strict=True))
    others = {one: each[one] for one in (OTHER, MISSING) if one in each}
    apart = np.array([*others.values()]) - centre
    apart = made(block.name, "bars", objects(others), apart, block.start)
    return made(block.name, block.draws, places, rows - centre, block.start, apart)


def _heat_maps(model: Any, encoder: Any) -> Iterator[tuple[str, tuple, np.ndarray]]:
    """Yield the name, the places and the values of each interaction of a model."""
    found, known = model.interactions_, encoder.blocks_
    for name, part in zip(found.names, found.products.parts, strict=True):
        blocks = [known[k] for k in found.products.columns[:, part.start]]
        places, axes = zip(*(_axis(block, 41) for block in blocks), strict=True)
        rows = np.zeros((*map(len, places), known[-1].stop))
        for side, (block, axis) in enumerate(zip(blocks, axes, strict=True)):
            rows[..., block.start : block.stop] = np.expand_dims(axis, 1 - side)
        values = found.products(rows.reshape(-1, rows.shape[2]))[:, part]
        values = found.weights[:, part] @ values.T
        yield name, places, values.reshape(-1, *rows.shape[:2])


def _effects(
    model: Any, encoder: Any, target: Any
) -> tuple[dict[str, Effect], str, list, CoefficientNoise | None]:
    """Return the effects by name, their unit, the outputs, and the noise."""
    if isinstance(model, Pipeline):
        before, model = model[:-1], model[-1]
        if encoder is None and len(before) == 1 and hasattr(before[0], "blocks_"):
            encoder = before[0]
    encoder = getattr(model, "encoder_", None) if encoder is None else encoder
    check_is_fitted(model)
    if not hasattr(model, "coef_"):
        raise TypeError(
            f"estimator={type(model).__name__} has no effects to draw: it must be "
            "a linear model of skfdp."
        )
    warn_of_public_model(model)
    drawn, sign, unit, outputs = _shown(model, target)
    coef, noise = np.atleast_2d(model.coef_), getattr(model, "coef_noise_", None)

    def made(name, kind, places, rows, start=0, apart=None) -> Effect:
        """Return an effect. Value i is ``sign * coef @ rows[i]``.

        `rows` are those of the encoded columns from `start` on.
        """
        wide = np.zeros((len(rows), coef.shape[1]))
        wide[:, start : start + rows.shape[1]] = rows
        values = sign * (coef @ wide.T)[drawn]
        std, most = np.full(values.shape, np.nan), False
        if noise is not None:
            std = noise.std_of(wide)[drawn]
            most = (noise.kinds()[drawn, :-1] == UPPER_BOUND) @ np.abs(wide).T > 0
        return Effect(name, kind, (places,), values, std, apart, most)

    if encoder is None:
        # One bar for each column: coefficient times the width of the bounds, if any.
        n_features = coef.shape[1]
        scale = np.diag(np.broadcast_to(model.input_scaler_.factor, n_features))
        places = objects(names(model, n_features))
        effects = {"coefficients": made("coefficients", "bars", places, scale)}
    else:
        check_is_fitted(encoder)
        effects = {one.name: _effect_of(one, made) for one in encoder.blocks_}
    if hasattr(model, "interactions_"):
        for name, places, values in _heat_maps(model, encoder):
            values, unknown = sign * values[drawn], np.full(values[drawn].shape, np.nan)
            effects[name] = Effect(name, "heat map", places, values, unknown)
    return effects, unit, outputs, noise
