"""Guards around every fit: floating-point traps, sample weights, warnings.

``np.seterr(all="raise")`` turns an overflow, or a product that is a denormal number,
into an exception: one private value would stop a fit that was charged, and everybody
would see it. So fits and predictions compute with traps off, whatever the user has set,
and so do estimators inside ours. A user's callbacks and public loss see releases and
public facts alone, and run in the user's own state.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special

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
            told = {"name": type(self).__name__, "verb": fit.__name__}
            raise TypeError(_GROUPS.format(**told))
        # scikit-learn's third one
        if not takes_weights and ("sample_weight" in kwargs or len(args) > 2):
            raise TypeError(_WEIGHTS.format(name=type(self).__name__))
        outermost = _USERS.get() is None
        token = _USERS.set((np.geterr(), special.geterr())) if outermost else None
        try:
            with without_traps():
                return fit(self, *args, **kwargs)
        finally:
            if token is not None:
                _USERS.reset(token)

    return guarded


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line that called the fit, however many frames are between."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_between(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_between(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN
