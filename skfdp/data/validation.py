"""Parameter checks: one clear sentence with name, value, expectation and remedy."""

from __future__ import annotations

import contextlib
import contextvars
import decimal
import functools
import inspect
import math
import numbers
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from scipy import special

from skfdp.privacy.checks import shown
from skfdp.privacy.events import PrivacyBudgetError

#: Between these a product of a few numbers, and its inverse, is a normal float64.
SMALLEST, LARGEST = 1e-30, 1e30
# Sides of intervals may be further out, because they are only subtracted and divided.
_FURTHEST = 1e100
# A share of the larger side that still has 4,000 floats in it.
_NARROWEST = 1e-12


def check_flag(name: str, value: Any) -> None:
    """Raise ValueError unless value is True or False, in any spelling."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not (isinstance(value, (numbers.Real, np.bool_)) and value in (0, 1)):
        raise ValueError(f"{name}={shown(value)} must be True or False.")


def is_auto(value: Any) -> bool:
    """Whether a parameter is "auto"; asks no array, which would answer by entry."""
    return isinstance(value, str) and value == "auto"


def check_number(
    name: str,
    value: Any,
    *,
    low: float = 0.0,
    high: float = math.inf,
    include_low: bool = False,
    integral: bool = False,
    also: Collection = (),
) -> None:
    """Raise ValueError unless value is in `also` or a number in (low, high)."""
    if any([value is other or (value == other) is True for other in also]):
        return
    kind = numbers.Integral if integral else numbers.Real
    # A timedelta64 calls itself an integer, and compares with none.
    fits = isinstance(value, kind) and not isinstance(value, (bool, np.timedelta64))
    if fits and (low < value < high or (include_low and value == low)):
        return
    noun = "an int" if integral else "a number"
    sign = ">=" if include_low else ">"
    limits = f"{sign} {low:g}" + (f" and < {high:g}" if math.isfinite(high) else "")
    others = "".join(f" or {other!r}" for other in also)
    raise ValueError(f"{name}={shown(value)} must be {noun} {limits}{others}.")


def check_size(
    name: str, value: Any, *, zero: bool = False, also: Collection = ()
) -> None:
    """Raise ValueError unless value is in `also` or a number whose square is usable.

    `zero` allows 0 too; `also` holds no numbers.
    """
    check_number(name, value, include_low=zero, also=also)
    if not isinstance(value, numbers.Real):
        return
    if not (SMALLEST <= value <= LARGEST or (zero and value == 0)):
        raise ValueError(
            f"{name}={value!r} must lie between {SMALLEST:g} and {LARGEST:g}: products "
            "of numbers beyond leave float64; choose a value of moderate size."
        )


def check_interval(name: str, value: Any, low: Any, high: Any) -> None:
    """Raise ValueError unless float64 can divide the intervals finely.

    `value` is what the user passed, for the message; `low` < `high` are finite sides.
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    largest = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(all="ignore"):  # the width of what is too far out may overflow
        width = high - low
        usable = (largest <= _FURTHEST) & (width >= 1 / _FURTHEST)
        usable &= width >= _NARROWEST * largest
    if not usable.all():
        raise ValueError(
            f"{name}={value!r} cannot be divided in float64: sides must be at most "
            f"{_FURTHEST:g} in size, and their distance at least {1 / _FURTHEST:g} and "
            f"{_NARROWEST:g} of the larger side; choose another unit or origin."
        )


def check_choice(name: str, value: Any, choices: Collection) -> None:
    """Raise ValueError unless value is one of the choices."""
    if not any([value is choice or (value == choice) is True for choice in choices]):
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name}={shown(value)} is unknown; choose one of {listed}.")


def unmasked(values: Any, *, as_objects: bool = False) -> Any:
    """Return an array or a list with missing values where it is masked.

    Anything but a masked array, an array of objects, a list or a list of rows is
    returned as it is. Missing is NaN, as in numbers, or (`as_objects`) None, as in
    labels.
    """
    if values is np.ma.masked:
        return None if as_objects else math.nan
    if isinstance(values, (list, tuple)):
        if not any(map(_may_be_masked, values)):
            return values
        return [unmasked(value, as_objects=as_objects) for value in values]
    masked_array = isinstance(values, np.ma.MaskedArray)
    kind = values.dtype.kind if isinstance(values, np.ndarray) else ""
    if not masked_array and kind != "O":
        return values
    if kind == "V":  # an entry with a masked field holds None there
        entries = values.ravel().tolist()
        found = np.fromiter(entries, dtype=object, count=len(entries))
        return found.reshape(values.shape)
    # Not `filled`, which takes None for the fill value of the array.
    data, mask = np.ma.getdata(values), np.ma.getmaskarray(values)
    kept, missing = np.dtype(object), None if as_objects else math.nan
    if kind == "O":
        mask = mask | np.asarray(_ARE_MASKED(data), dtype=bool)
    elif kind in "mM":  # nanoseconds would become whole numbers
        kept, missing = data.dtype, np.array("NaT", data.dtype)
    elif kind in "biuf" and not as_objects:
        kept = data.dtype if kind == "f" else np.dtype(np.float64)
    else:
        missing = None
    if kind == "O" and not mask.any():
        return data
    found = data.astype(kept)
    found[mask] = missing
    return found


def _may_be_masked(value: Any) -> bool:
    """Whether an entry of a list is masked, or a row with a mask."""
    if isinstance(value, (list, tuple)):
        return any(one is np.ma.masked for one in value)
    return isinstance(value, np.ma.MaskedArray)


_ARE_MASKED = np.frompyfunc(lambda value: value is np.ma.masked, 1, 1)


def is_missing(value: Any) -> bool:
    """Whether an entry of an array is None, NaN, NaT, NA or masked."""
    if value is None or value is np.ma.masked:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 -- NaN and NaT
    except ArithmeticError:
        return isinstance(value, decimal.Decimal)  # a signalling NaN
    except Exception:  # whatever the comparison of a user's object raises
        return type(value).__name__ == "NAType"


def within_floats(value: Any) -> Any:
    """Return a number that has no float as infinity, or NaN; anything else as it is.

    NumPy refuses the whole array for one whole number beyond the floats, or one
    signalling NaN: a private number would stop a fit by its size.
    """
    if not isinstance(value, (numbers.Real, decimal.Decimal)):
        return value
    try:
        float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (ValueError, ArithmeticError):
        return math.nan
    return value


# Guards around every fit: floating-point traps, sample weights, warnings.
#
# ``np.seterr(all="raise")`` turns an overflow, or a product that is a denormal number,
# into an exception: one private value would stop a fit that was charged, and everybody
# would see it. So fits and predictions compute with traps off, whatever the user has
# set, and so do estimators inside ours. A user's callbacks and public loss see releases
# and public facts alone, and run in the user's own state.


_WEIGHTS = (
    "{name}.fit takes no sample_weight, as the linear estimators do: leave it out, or "
    "use class_weight (public factors of the labels) where there is one."
)
_GROUPS = (
    "{name}.{verb} takes no groups: only the linear estimators (DPSGDFClassifier, "
    "FeatureDPLogisticRegression, DPSGDFRegressor, FeatureDPRegressor) protect "
    "persons who have several rows; use one of them, or keep one row of each person."
)
# Whose frames may stand between a fit and the line that asked for it.
_BETWEEN = ("skfdp", "sklearn", "joblib", "contextlib", "functools")
# The (NumPy, SciPy) state in which the outermost fit was called; None outside of fits.
_USERS: contextvars.ContextVar[tuple[dict, dict] | None] = contextvars.ContextVar(
    "skfdp_users_state", default=None
)


class UtilityWarning(UserWarning):
    """The result will be private, but probably not of much use."""


@contextlib.contextmanager
def without_traps() -> Iterator[None]:
    """Compute without floating-point exceptions and warnings, in this thread.

    Also a decorator, for what reads rows outside of fits: ``@without_traps()``.

    Notes
    -----
    NumPy's and SciPy's states belong to a thread: a function that runs in another one
    opens this context for itself. Compiled kernels do not look at it.
    """
    with np.errstate(all="ignore"), special.errstate(all="ignore"):
        yield


@contextlib.contextmanager
def users_state() -> Iterator[None]:
    """Compute as the user's code outside of the fit does; also a decorator."""
    state = _USERS.get()
    if state is None:
        yield
        return
    with np.errstate(**state[0]), special.errstate(**state[1]):
        yield


def guarded_fit(fit: Callable) -> Callable:
    """Decorate a `fit` that reads private rows.

    Notes
    -----
    **Guarantees.** No floating-point state that the user has set turns a value of the
    rows into an exception or a warning. A `sample_weight`, and `groups`, are refused
    before anything else happens where they are not in the signature.
    """
    parameters = inspect.signature(fit).parameters
    takes_weights, takes_groups = "sample_weight" in parameters, "groups" in parameters

    @functools.wraps(fit)
    def guarded(self, *args: Any, **kwargs: Any) -> Any:
        if not takes_groups and "groups" in kwargs:
            names = {"name": type(self).__name__, "verb": fit.__name__}
            raise TypeError(_GROUPS.format(**names))
        # scikit-learn's third one
        if not takes_weights and ("sample_weight" in kwargs or len(args) > 2):
            raise TypeError(_WEIGHTS.format(name=type(self).__name__))
        outermost = _USERS.get() is None
        token = _USERS.set((np.geterr(), special.geterr())) if outermost else None
        try:
            with without_traps():
                return fit(self, *args, **kwargs)
        except PrivacyBudgetError as error:  # its message says all, its frames nothing
            raise error.with_traceback(None) from None
        finally:
            if token is not None:
                _USERS.reset(token)

    return guarded


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line that called the fit, however many frames are between."""
    level, frame = 2, sys._getframe(1)
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
