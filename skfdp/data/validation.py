"""Checks of parameters and missing values, and guards around every fit.

The message of a check names the parameter, its value, what is expected, and a remedy.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from scipy import special

from skfdp.privacy.checks import choice, flag, is_among, shown
from skfdp.privacy.checks import warn_caller as warn_caller
from skfdp.privacy.events import PrivacyBudgetError

#: Limits within which a product of a few numbers, and its inverse, is a normal float64.
SMALLEST, LARGEST = 1e-30, 1e30
# Largest absolute value of a bound. It exceeds `LARGEST`, because bounds are only
# subtracted and divided.
_BEYOND = 1e100
# Smallest width of an interval, relative to the absolute value of its larger bound.
# Such an interval contains about 4,000 floats.
_NARROWEST = 1e-12
check_choice, check_flag = choice, flag


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
    """Raise ValueError unless value is in `also` or a number in (low, high).

    `include_low` allows `low`, too.
    """
    if is_among(value, also):
        return
    kind = numbers.Integral if integral else numbers.Real
    # A timedelta64 is an instance of Integral, but cannot be compared with numbers.
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
    """Raise ValueError unless value is in `also` or between SMALLEST and LARGEST.

    `zero` allows 0, too; `also` must not contain numbers.
    """
    check_number(name, value, include_low=zero, also=also)
    fits = not isinstance(value, numbers.Real) or SMALLEST <= value <= LARGEST
    if not (fits or (zero and value == 0)):
        raise ValueError(
            f"{name}={value!r} must lie between {SMALLEST:g} and {LARGEST:g}, so that "
            "products stay within float64: choose a value within these limits."
        )


def check_interval(name: str, value: Any, low: Any, high: Any) -> None:
    """Raise ValueError if an interval is too wide or too narrow for float64.

    `low` and `high` are finite numbers or arrays, with low < high. The message quotes
    `value`, the parameter of the user.
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    largest = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(all="ignore"):  # the width may overflow
        width = high - low
        usable = (largest <= _BEYOND) & (width >= 1 / _BEYOND)
        usable &= width >= _NARROWEST * largest
    if not usable.all():
        raise ValueError(
            f"{name}={value!r} is too wide or too narrow for float64: bounds must be "
            f"between -{_BEYOND:g} and {_BEYOND:g}, and not nearly equal; choose "
            "another unit or origin."
        )


def unmasked(values: Any, *, as_objects: bool = False) -> Any:
    """Replace masked entries of an array or a list by missing values.

    Masked entries can be in a masked array, a list or a list of rows. Other values are
    returned unchanged; readers of cells know masked ones. The missing value is NaN for
    numbers. It is None for labels, for which callers set `as_objects`.
    """
    if isinstance(values, (list, tuple)) and any(map(_may_be_masked, values)):
        values = np.ma.array(values, dtype=object)
    if not isinstance(values, np.ma.MaskedArray):
        return values
    kind = values.dtype.kind
    if kind == "V":  # structured entries: `tolist` turns masked fields into None
        entries = values.ravel().tolist()
        found = np.fromiter(entries, dtype=object, count=len(entries))
        return found.reshape(values.shape)
    # Not `filled`, which replaces None by the fill value of the array.
    data, kept, missing = np.ma.getdata(values), np.dtype(object), None
    if kind in "mM":  # an array of objects would turn nanoseconds into integers
        kept, missing = data.dtype, np.array("NaT", data.dtype)
    elif kind in "biufO" and not as_objects:
        kept, missing = {"f": data.dtype, "O": kept}.get(kind, np.float64), math.nan
    found = data.astype(kept)
    found[np.ma.getmaskarray(values)] = missing
    return found


def _may_be_masked(value: Any) -> bool:
    """Whether an entry of a list is masked, or a row that may hold masked entries."""
    if isinstance(value, (list, tuple)):
        return any(one is np.ma.masked for one in value)
    return isinstance(value, np.ma.MaskedArray)


_FAILED = (
    "the table cannot be read because one of its files is missing, truncated, changed "
    "or damaged, or the disk fails: restore the file and fit again."
)


def read_safely(
    read: Callable[..., Any],
    *arguments: Any,
    message: str = _FAILED,
    kind: type[Exception] = OSError,
) -> Any:
    """Call a reader; any error becomes one of this kind, which quotes no value."""
    try:
        return read(*arguments)
    except MemoryError:
        raise
    except Exception:  # any error of a library may quote a value
        pass
    # Raised outside the handler: the original error may quote a value, and must not be
    # attached as context.
    raise kind(message)


# Guards around every fit: floating-point traps, sample weights, warnings.
#
# ``np.seterr(all="raise")`` turns an overflow or a denormal product into an exception.
# One private value could then stop a charged fit, and this would disclose the value.
# Fits and predictions, and estimators inside them, therefore run without such
# exceptions ("traps"). Callbacks and public losses of a user receive only releases and
# public facts, so they run with the user's own settings.


_WEIGHTS = (
    "{name}.fit takes no sample_weight, which only the linear estimators accept: leave "
    "it out, or use class_weight (a public weight for each label) if the estimator has "
    "this parameter."
)
_GROUPS = (
    "{name}.{verb} takes no groups: only the linear estimators (DPSGDFClassifier, "
    "FeatureDPLogisticRegression, DPSGDFRegressor, FeatureDPRegressor, and without a "
    "solver FeatureDPMLPClassifier) protect persons who have several rows; use one of "
    "them, or keep one row of each person."
)
# Floating-point settings of NumPy and SciPy when the outermost fit was called; None
# outside of fits.
_USERS: contextvars.ContextVar[tuple[dict, dict] | None] = contextvars.ContextVar(
    "skfdp_users_state", default=None
)


class UtilityWarning(UserWarning):
    """Warning that a result is private but probably not useful."""


@contextlib.contextmanager
def without_traps() -> Iterator[None]:
    """Compute without floating-point exceptions and warnings, in this thread.

    ``@without_traps()`` is also a decorator, for functions that read rows outside of
    fits.

    Notes
    -----
    The floating-point settings of NumPy and SciPy belong to a thread. A function that
    runs in another thread must open this context itself. Compiled kernels ignore these
    settings.
    """
    with np.errstate(all="ignore"), special.errstate(all="ignore"):
        yield


@contextlib.contextmanager
def users_state() -> Iterator[None]:
    """Restore the floating-point settings of the user's code; also a decorator."""
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
    **Guarantees.** The user's floating-point settings cannot turn a value of the rows
    into an exception or a warning. `sample_weight` and `groups` are refused before
    `fit` runs if its signature does not have them.
    """
    parameters = inspect.signature(fit).parameters
    takes_weights, takes_groups = "sample_weight" in parameters, "groups" in parameters

    @functools.wraps(fit)
    def guarded(self, *args: Any, **kwargs: Any) -> Any:
        if not takes_groups and "groups" in kwargs:
            names = {"name": type(self).__name__, "verb": fit.__name__}
            raise TypeError(_GROUPS.format(**names))
        # In scikit-learn, sample_weight is the third positional argument.
        if not takes_weights and ("sample_weight" in kwargs or len(args) > 2):
            raise TypeError(_WEIGHTS.format(name=type(self).__name__))
        outermost = _USERS.get() is None
        token = _USERS.set((np.geterr(), special.geterr())) if outermost else None
        try:
            with without_traps():
                return fit(self, *args, **kwargs)
        except PrivacyBudgetError as error:  # the message suffices without a traceback
            raise error.with_traceback(None) from None
        finally:
            if token is not None:
                _USERS.reset(token)

    return guarded
