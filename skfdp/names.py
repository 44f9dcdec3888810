"""What the columns and the target of a fit are called in the table they come from."""

from __future__ import annotations

import fnmatch
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def column_names(estimator) -> tuple[str | int, ...]:
    """Return the name of each column of X, or its position where it has none.

    Parameters
    ----------
    estimator : estimator
        With `n_features_in_`; its parameter `names` goes before the names in X.

    Returns
    -------
    names : tuple of str or int
        Columns that are computed from one column of the table share its name.
    """
    own: Any = getattr(estimator, "feature_names_in_", None)
    n_features = estimator.n_features_in_
    own = range(n_features) if own is None else [str(name) for name in own]
    given = getattr(estimator, "names", None)
    if given is None:
        return tuple(own)
    if isinstance(given, str):
        found: list[Any] = [given] * n_features
    elif isinstance(given, Mapping):
        found = _mapped(own, given)
    else:
        found = list(given) if isinstance(given, Sequence | np.ndarray) else []
    named = all(isinstance(n, str) and n for n in found if n not in own)
    if len(found) != n_features or not named:
        raise ValueError(
            f"names={given!r} must be one name for all columns, a list of "
            f"{n_features} names, or a mapping from column names, patterns or "
            "positions to names."
        )
    return tuple(name if isinstance(name, int) else str(name) for name in found)


def _mapped(own: Sequence[str | int], given: Mapping) -> list[Any]:
    """Return the columns' own names, replaced where a key of the mapping fits."""
    found: list[Any] = list(own)
    for key, name in given.items():
        if isinstance(key, numbers.Integral):
            places = [int(key)] if 0 <= key < len(own) else []
        else:
            places = _matching(own, str(key))
        if not places:
            raise ValueError(
                f"names maps {key!r}, which matches no column of X: give column names, "
                "patterns or positions."
            )
        for place in places:
            found[place] = name
    return found


def _matching(own: Sequence[str | int], key: str) -> list[int]:
    """Return where a name is; an exact one wins, even if it looks like a pattern."""
    columns = [(place, name) for place, name in enumerate(own) if isinstance(name, str)]
    exact = [place for place, name in columns if name == key]
    return exact or [p for p, name in columns if fnmatch.fnmatchcase(name, key)]


def target_name(declared: str | None, y: Any) -> str | None:
    """Return the declared name of the target, else that of y, None without one.

    Parameters
    ----------
    declared : str or None
        The parameter `target_name`.
    y : array-like
        As the user gave it: a Series, or a DataFrame of one column, has a name.
    """
    if declared is None:
        columns = getattr(y, "columns", None)
        found = getattr(y, "name", None)
        if columns is not None and len(columns) == 1:
            found = columns[0]
        return found if isinstance(found, str) and found else None
    if not isinstance(declared, str) or not declared:
        raise ValueError(
            f"target_name={declared!r} must be the name of the column that y is, or "
            "is computed from."
        )
    return declared


def name_facts(
    columns: Sequence[str | int],
    public: np.ndarray,
    *,
    target: str | None = None,
    has_target: bool = True,
    public_target: bool = False,
) -> dict[str, Any]:
    """Return what the events of a fit say of names.

    Parameters
    ----------
    columns : sequence of str or int
        Of `column_names`.
    public : bool ndarray of shape (n_features,)
    target : str or None
        Of `target_name`.
    has_target : bool, default=True
        Whether the fit has a target.
    public_target : bool, default=False

    Raises
    ------
    ValueError
        If one name is both public and private.
    """
    pairs = list(zip(columns, public, strict=True))
    shown = {name for name, is_public in pairs if is_public}
    hidden = {name for name, is_public in pairs if not is_public}
    disclosed, kept = set(shown), set(hidden)
    if target is not None:
        (disclosed if public_target else kept).add(target)
    both = sorted(name for name in disclosed & kept if isinstance(name, str))
    if both:
        raise ValueError(
            f"{both[0]!r} names something public and something private of this fit: "
            "what is computed from a public column is public too; treat all of it "
            "alike, or correct the names."
        )
    unnamed = ["columns"] * any(not isinstance(name, str) for name in columns)
    unnamed += ["target"] * (has_target and target is None)
    return {
        "public_features": tuple(
            name for name in dict.fromkeys(columns) if name in shown
        ),
        "public_target": public_target,
        "target_name": target,
        "unnamed": tuple(unnamed),
    }
