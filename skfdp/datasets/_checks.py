"""Checks of the parameters of loaders and generators."""

import os
from numbers import Integral, Number
from pathlib import Path

import numpy as np
from sklearn.utils import check_random_state


def check_count(name, value):
    """Raise ValueError unless a value is an integer of at least 2."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 2:
        raise ValueError(
            f"{name} must be an integer of at least 2, got {shown(value)}."
        )


def check_flag(name, value):
    """Raise ValueError unless a value is True or False, in any spelling."""
    if not isinstance(value, Number | np.bool_) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False, got {shown(value)}.")


def shown(value):
    """Return a value for a message: a number or a short text, else its type."""
    plain = value is None or isinstance(value, Number | str)
    text = repr(value) if plain else ""
    return text if 0 < len(text) < 80 else f"a {type(value).__name__}"


def path_of(name, value):
    """Return a path; TypeError or ValueError for what is none."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}={shown(value)} must be the path of a file or folder.")
    if "\0" in os.fspath(value):
        raise ValueError(f"{name} holds a null character: give another path.")
    return Path(value).expanduser()


def generator_of(random_state):
    """Return scikit-learn's generator of a seed."""
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    # A timedelta calls itself an integer.
    odd = isinstance(random_state, np.timedelta64)
    if odd or (whole and not 0 <= random_state < 2**32):
        raise ValueError(
            f"random_state={shown(random_state)} must be None, a RandomState or an "
            "integer from 0 on below 2**32."
        )
    return check_random_state(random_state)
