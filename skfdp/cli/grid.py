"""``skfdp grid``: a table written once as integers on the grid, for many fits."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from skfdp.cli.output import CommandError, say, writing
from skfdp.cli.progress import stage
from skfdp.estimators.parameters import resolve_row_map
from skfdp.records.large import LargeTable
from skfdp.records.sources import open_table
from skfdp.records.stored_grid import write_grid


def run(arguments: argparse.Namespace) -> None:
    """Write the folder."""
    out = arguments.out
    if out.exists():
        raise CommandError(f"{out} exists: name a new folder.")
    if not out.resolve().parent.is_dir():
        raise CommandError(f"there is no folder {str(out.parent)!r} for {out}.")
    table = _columns(_opened(arguments.file), arguments.drop or ())
    bounds = parsed_bounds(arguments.bounds, table.columns)
    try:
        row_map = resolve_row_map(
            bounds,
            "auto",
            False,
            table.shape[1],
            table.columns,
            public=np.ones(table.shape[1], dtype=bool),
            shortens=False,
        )
    except ValueError as error:  # of bounds, which are public
        raise CommandError(str(error)) from None
    _check_bounded(row_map.span, table)
    size, n_rows = 2 * math.prod(table.shape), len(table)

    def progress(done: int) -> None:
        stage(f"writing {out}: {done / max(1, n_rows):.0%}")

    stage(f"writing {out}", slow=True)
    with writing(out):
        write_grid(table, row_map, out, progress)
    say(
        f"{n_rows} rows of {table.shape[1]} columns written to {out}, "
        f"{size / 1e6:.0f} MB.\nIt is as private as the table: only you may open it, "
        "and copies of it are copies of the table.\n"
        f"In Python: X = skfdp.open_table({str(out)!r}); leave out bounds in the fit."
    )


def _opened(path: str) -> LargeTable:
    """Return the table of a file; says what is wrong, and quotes none of it."""
    try:
        return open_table(path)
    except ImportError as error:
        raise CommandError(f"{path!r} needs {error.name}: install it.") from None
    except OSError as error:
        reason = error.strerror or "it is damaged"
        raise CommandError(f"cannot read {path!r}: {reason}.") from None
    except ValueError:
        pass
    # Outside the handler: libraries quote what they choke on.
    raise CommandError(
        f"{path!r} is no table of .npy, .parquet, .arrow or .zarr, nor a folder of "
        "such files: write a CSV file as .parquet first."
    )


def _columns(table: LargeTable, dropped: Sequence[str]) -> LargeTable:
    """Return the table without some columns; the rest has to be numbers."""
    try:
        table = table.drop(*dropped)
    except KeyError as error:
        raise CommandError(f"--drop: {error.args[0]}") from None
    if table.dtype.kind in "biuf":
        return table
    names = getattr(table.source, "no_numbers", ())
    listed = ", ".join(map(repr, names[:5])) + ", ..." * (len(names) > 5)
    raise CommandError(
        f"{len(names) or 'some'} column(s) are no numbers{': ' * bool(names)}{listed}; "
        "leave them out (--drop), or write numbers."
    )


def parsed_bounds(given: Sequence[str], names: Sequence[str] | None) -> Any:
    """Return the bounds that --bounds asks for: a pair, or one for each column named.

    A pair without a name is for all columns that are not named.
    """
    every, by_name = None, {}
    for text in given:
        name, _, sides = text.rpartition("=")
        try:
            low, high = map(float, sides.split(":"))
        except ValueError:
            raise CommandError(
                f"--bounds {text!r} must have the form LOW:HIGH or COLUMN=LOW:HIGH, "
                "two numbers."
            ) from None
        if name:
            by_name[name] = (low, high)
        elif every is not None:
            raise CommandError("--bounds LOW:HIGH is given twice: name the columns.")
        else:
            every = (low, high)
    if not by_name:
        return every
    if every is not None and names is not None:
        by_name = {name: every for name in names} | by_name
    return by_name


def _check_bounded(span: np.ndarray, table: LargeTable) -> None:
    """Refuse columns without bounds, which the grid cannot hold."""
    left = np.flatnonzero(~np.isfinite(span))
    if len(left):
        names = table.columns or [str(place) for place in range(table.shape[1])]
        listed = ", ".join(repr(names[i]) for i in left[:5]) + ", ..." * (len(left) > 5)
        raise CommandError(
            f"--bounds leave out {len(left)} column(s): {listed}; give LOW:HIGH for "
            "all others too, known beforehand and not read from the rows."
        )
