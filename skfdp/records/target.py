"""The units of a regression target: bounds, centre and scale, and the way back."""

from __future__ import annotations

import dataclasses
import decimal
import math
import numbers
from typing import Any

import numpy as np

from skfdp.records.checks import check_interval, shown, within_floats
from skfdp.records.spelling import number

# A target that is a straight line away from zero needs no logarithm of zero.
_SMALLEST = 1e-12
# Of targets without bounds.
_FURTHEST = 1e100


@dataclasses.dataclass(frozen=True)
class TargetMap:
    """``target of the loop = (target - centre) / scale``.

    Attributes
    ----------
    centre, scale : float
        Released, or functions of a public target. The centre of a log link is 0.
    log : bool
        Log link: rates are ``scale * exp(margin)``.
    low, high : float
        Declared bounds of the target; infinite where there are none.
    """

    centre: float = 0.0
    scale: float = 1.0
    log: bool = False
    low: float = -math.inf
    high: float = math.inf

    def __call__(self, y: np.ndarray) -> np.ndarray:
        """Return the target in the loop's units, float64."""
        return (np.clip(y, self.low, self.high) - self.centre) / self.scale

    def coefficients(
        self, coef: np.ndarray, intercept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients whose margins are in the target's units, or its log."""
        if self.log:
            return coef, intercept + math.log(self.scale)
        return coef * self.scale, intercept * self.scale + self.centre

    def margins(self, margins: np.ndarray | None) -> np.ndarray | None:
        """Return margins in the target's units, or its log, in the loop's units."""
        if margins is None:
            return None
        if self.log:
            return margins - math.log(self.scale)
        return (margins - self.centre) / self.scale

    def offset(self) -> float:
        """Return the margin, in the target's units or its log, of 0 in the loop's."""
        return math.log(self.scale) if self.log else self.centre


def check_target_bounds(bounds: Any, loss: str, required: bool) -> tuple[float, float]:
    """Return the declared bounds as floats, infinite where there are none.

    Raises
    ------
    ValueError
        If they are missing where required, no pair of finite numbers ``low < high``
        that float64 can tell apart, or negative for counts.
    """
    if bounds is None:
        if required:
            raise ValueError(
                "target_bounds=None: a private target needs declared public bounds, "
                "target_bounds=(low, high) in the target's units; values outside are "
                "clipped."
            )
        return -math.inf, math.inf
    try:
        # A frame would be read by the labels of its columns, a mapping by its keys.
        low, high = map(
            float,
            None if hasattr(bounds, "columns") or isinstance(bounds, dict) else bounds,
        )
    except (TypeError, ValueError, OverflowError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"target_bounds={shown(bounds)} must be a pair (low, high) of finite "
            "numbers with low < high."
        )
    check_interval("target_bounds", bounds, low, high)
    if loss == "poisson" and low < 0:
        raise ValueError(
            f"target_bounds={shown(bounds)} must not be negative for loss='poisson': "
            "counts start at 0."
        )
    return low, high


def check_target(
    y: np.ndarray, loss: str, bounded: bool, finite: bool = True
) -> np.ndarray:
    """Return y as float64 numbers; quotes no value.

    Counts must not be negative, but where declared bounds clip them: an error would
    tell of a private target. `finite=False` lets NaN and infinity pass.
    """
    y = np.asarray(y)
    if y.dtype.kind == "O":
        plain = np.empty(y.shape, dtype=object)
        for place, value in enumerate(y):
            found = number(value)
            if math.isnan(found):
                # Infinity is refused as such. Other values are missing where the target
                # is private, because they must not stop a fit.
                real = isinstance(value, (numbers.Real, decimal.Decimal))
                kept = (finite or real) and not isinstance(value, np.timedelta64)
                found = within_floats(value) if kept else math.nan
            plain[place] = found
        y = plain
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    # Outside the handler, so that no error that quotes a value is kept as a context.
    if values is None or y.dtype.kind in "USMm":
        raise ValueError(
            "y holds values that are not numbers: a regressor needs a numeric target."
        )
    if finite and not np.isfinite(values).all():
        raise ValueError(
            "y contains NaN or infinity: replace such targets by a constant that is "
            "chosen without looking at the data."
        )
    if loss == "poisson" and not bounded and (values < 0).any():
        raise ValueError(
            "y holds negative values: loss='poisson' is for counts and rates."
        )
    return values


def check_unbounded(y: np.ndarray) -> None:
    """Raise ValueError where a target without declared bounds has no float64 mean."""
    if np.abs(y).max(initial=0.0) > _FURTHEST:
        raise ValueError(
            f"y holds numbers beyond {_FURTHEST:g}, whose squares leave float64: "
            "rescale the target, or declare target_bounds."
        )


def exact_map(
    y: np.ndarray,
    start: TargetMap,
    centred: bool,
    margins: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> TargetMap:
    """Return the map of a public target, from its own mean and spread.

    Parameters
    ----------
    y : float64 ndarray of shape (n_rows,)
    start : TargetMap
        Gives the bounds and the link.
    centred : bool
        Whether the model has an intercept.
    margins : ndarray of shape (n_rows, 1), default=None
        Of a public model: the spread is that around them. A log link has its scale
        from the mean all the same, because margins do not scale.
    shares : float64 ndarray of shape (n_rows,), default=None
        How often each row counts in the means; None: once.
    """

    def mean_of(values: np.ndarray) -> float:
        return float(np.average(values, weights=shares))

    y = np.clip(y, start.low, start.high)
    mean = mean_of(y) if centred else 0.0
    if start.log:  # only with an intercept
        return dataclasses.replace(start, scale=mean if mean > 0 else 1.0)
    if margins is None:
        spread = mean_of(np.abs(y - mean)) * SPREAD
    else:
        spread = math.sqrt(mean_of((y - margins[:, 0]) ** 2))
    scale = spread if spread > _SMALLEST * (1 + abs(mean)) else 1.0
    return dataclasses.replace(start, centre=mean, scale=scale)


#: Standard deviation over mean absolute deviation, for normals.
SPREAD = math.sqrt(math.pi / 2)
