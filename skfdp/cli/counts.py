"""Counts of labels and values that cannot be read: exact, so they are not protected.

Only what is said to be unprotected prints them: the comparison of a fit, and scores.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from skfdp.cli.observed import unread
from skfdp.encoding.blocks import OTHER
from skfdp.encoding.encoder import DeclaredEncoder
from skfdp.encoding.values import Column

_AS = {"number": "numbers", "date": "dates", "category": "declared categories"}


def counts(
    target: str,
    unknown: np.ndarray,
    rows: pd.DataFrame,
    encoder: DeclaredEncoder | None,
    parts: Mapping[str, np.ndarray],
    *,
    regression: bool,
) -> list[str]:
    """Return a line for the target and each column that has what cannot be read.

    Parameters
    ----------
    target : str
        Its name.
    unknown : bool ndarray of shape (n_rows,)
        True where the target is not declared, or is no number.
    rows : DataFrame
        As the encoder takes them.
    encoder : DeclaredEncoder or None
        The fitted encoder. None counts no column: the model has no encoder.
    parts : mapping of str to int ndarray
        The positions of the rows that are counted together, by what they are called.
    regression : bool
    """
    lines = []
    if unknown.any():
        lacking = "no number as target" if regression else "no declared label"
        told = _told(unknown, parts, "rows", f"have {lacking}")
        lines.append(f"Target {target!r}: {told}")
    for name, (what, lost) in ({} if encoder is None else _lost(rows, encoder)).items():
        if lost.any():
            told = _told(lost, parts, "values", f"cannot be read as {_AS[what]}")
            lines.append(f"Column {name!r}: {told}")
    return lines


def _told(
    lost: np.ndarray, parts: Mapping[str, np.ndarray], what: str, verb: str
) -> str:
    first, *others = (
        f"of {len(at)} {part}{what} {lost[at].sum()}" for part, at in parts.items()
    )
    return ", ".join([f"{first} {verb}", *others]) + "."


def _lost(
    rows: pd.DataFrame, encoder: DeclaredEncoder
) -> dict[str, tuple[str, np.ndarray]]:
    """Return how each column is read, and which of its values cannot be read so."""
    found: dict[str, tuple[str, np.ndarray]] = {}
    for block in encoder.blocks_:
        if block.reads not in _AS or len(block.parents) > 1:
            continue
        name = rows.columns[block.parents[0]]
        if block.reads != "category":
            lost = unread(rows[name], block.reads)
        elif OTHER in map(str, (encoder.categories or {}).get(name, ())):
            continue  # undeclared categories are what this one means
        else:
            places = block.entries(Column(rows[name]))[0][:, 0]
            lost = places == block.levels.index(OTHER)
        if name in found:  # a column of numbers and categories
            lost &= found[name][1]
        found[name] = block.reads, lost
    return found
