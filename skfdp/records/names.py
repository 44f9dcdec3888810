"""The names of columns and target in the table they come from."""

from __future__ import annotations

import fnmatch
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skfdp.privacy.facts import items, spelling
from skfdp.records.checks import shown


def column_names(
    given: Any, own: Sequence[str] | None, n_features: int
) -> tuple[str | int, ...]:
    """Return the name of each column of X, or its position where it has none.

    Parameters
    ----------
    given : str, list, dict or None
        The parameter `names`, which goes before the names in X.
    own : sequence of str or None
        The names in X.
    n_features : int

    Returns
    -------
    names : tuple of str or int
        Columns that are computed from one column of the table share its name.
    """
    before = range(n_features) if own is None else [spelling(str(n)) for n in own]
    if given is None:
        return tuple(before)
    expected = (
        f"one name for all columns, {n_features} names in order, or a mapping from "
        "column names, patterns or positions to names"
    )
    if isinstance(given, str):
        found: list[Any] = [given] * n_features
    elif isinstance(given, Mapping):
        found = _mapped(before, given)
    else:
        found = list(items("names", given, expected))
    unchanged = isinstance(given, Mapping)
    if len(found) != n_features or not all(
        (isinstance(name, str) and spelling(name)) or (unchanged and name == old)
        for name, old in zip(found, before, strict=False)
    ):
        raise ValueError(f"names={shown(given)} must be {expected}.")
    names = [spelling(n) if isinstance(n, str) else int(n) for n in found]
    _check_not_swapped(before, names)
    return tuple(names)


def _check_not_swapped(own: Sequence[str | int], names: Sequence[str | int]) -> None:
    """Refuse a name that X gives to another column, which is called otherwise now."""
    for name, before in zip(names, own, strict=True):
        if isinstance(name, str) and name != before and name in own:
            place = list(own).index(name)
            if names[place] != name:
                raise ValueError(
                    f"names calls column {before!r} of X {name!r}, which is another "
                    f"column of X: give that one its own name too."
                )


def _mapped(own: Sequence[str | int], given: Mapping) -> list[Any]:
    """Return the columns' own names, replaced where a key of the mapping fits.

    Wide patterns come first, so that an exact name or a position has the last word.
    """
    found: list[Any] = list(own)
    places = {key: _places(own, key) for key in given}
    for key in sorted(given, key=lambda key: len(places[key]), reverse=True):
        for place in places[key]:
            found[place] = given[key]
    return found


def _places(own: Sequence[str | int], key: Any) -> list[int]:
    if isinstance(key, numbers.Integral):
        found = [int(key)] if 0 <= key < len(own) else []
    else:
        found = _matching(own, str(key))
    if not found:
        raise ValueError(
            f"names maps {shown(key)}, which matches no column of X: give column "
            "names, patterns or positions."
        )
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
        return (spelling(found) or None) if isinstance(found, str) else None
    if not isinstance(declared, str) or not spelling(declared):
        raise ValueError(
            f"target_name={shown(declared)} must be the name of the column that y is, "
            "or is computed from."
        )
    return spelling(declared)


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
