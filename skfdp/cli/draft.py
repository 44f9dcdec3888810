"""``skfdp schema``: a draft of what a fit needs declared.

It comes from the header and from the columns that are said to be public. Nothing of it
depends on the values of other columns.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from skfdp.cli.output import CommandError, check_writable, say, stage, writing
from skfdp.cli.tables import (
    Observed,
    Table,
    are_numbers,
    look_at,
    named_as_identifier,
    quoted,
    roles,
    warn_of_nameless,
)
from skfdp.data.target import text_of

_HEAD = """\
# Drafted by 'skfdp schema' from the first line of {file} and from what is public in it.
# Fill in what is empty by what is known beforehand: to take it from private values
# would disclose them. Then: skfdp fit {file} --schema {schema} --model model.skops
"""
_COLUMNS = """\
# role: "public" (may be disclosed), "private" or "ignore".
# Numbers and dates need bounds = [LOW, HIGH], text needs categories = ["A", "B"].
# If wanted: knots (how many, or where), basis = "linear", spacing = "geometric",
# cyclic = true.
[columns]
"""


def run(arguments: argparse.Namespace) -> None:
    """Print or write the draft."""
    path = arguments.output
    if path is not None:
        if path.exists():
            raise CommandError(f"-o {path} exists: name a new file.")
        check_writable(path, "-o")
    text = draft(arguments)
    if path is None:
        say(text.rstrip("\n"))
        return
    with writing(path):
        path.write_text(text, encoding="utf-8")
    say(f"Draft written to {path}: fill in what is empty.")


def draft(arguments: argparse.Namespace) -> str:
    """Return the text of the draft.

    Parameters
    ----------
    arguments : Namespace
    """
    stage("reading the public columns")
    table = Table(arguments.file, arguments)
    header = table.header()
    public, _, ignored = roles(arguments, header, table.nameless)
    if arguments.public_target and not arguments.target:
        raise CommandError("--public-target needs --target COLUMN.")
    shown = public + [arguments.target] * bool(arguments.public_target)
    rows = table.columns(shown, shown)
    numbers = table.decimals(rows, shown)
    lines = [
        _HEAD.format(
            file=quoted(arguments.file),
            schema=quoted(str(arguments.output or "THIS_FILE")),
        ),
        *_settings(arguments, rows, numbers),
        "",
        _COLUMNS.rstrip("\n"),
    ]
    for name in header:
        if name in (arguments.target, arguments.groups):
            continue
        if name in ignored and name in table.nameless:
            continue
        if name in public:
            found = look_at(rows[name], numbers[name])
            lines.append(_public(name, found, len(rows)))
        else:
            lines.append(_private(name, name in ignored))
    warn_of_nameless(arguments, header, table.nameless)
    return "\n".join(lines) + "\n"


def _settings(
    arguments: argparse.Namespace, rows: pd.DataFrame, numbers: pd.DataFrame
) -> Iterator[str]:
    yield f"target = {_toml(arguments.target or '')}" + (
        "" if arguments.target else "  # the column to predict"
    )
    if arguments.groups:
        yield f"groups = {_toml(arguments.groups)}"
    yield f"public_target = {_toml(bool(arguments.public_target))}"
    classes, bounds = "[]  # of a label: all that can occur", "[]  # of a number"
    if arguments.public_target:
        column, read = rows[arguments.target], numbers[arguments.target]
        labels = sorted({text_of(value) for value in column.tolist()} - {None})
        shown = look_at(column, read).bounds
        if shown and are_numbers([*{text_of(one) for one in read.tolist()} - {None}]):
            bounds = _toml(list(shown))
        else:
            classes = _toml(labels)
    yield f"classes = {classes}"
    yield f"target_bounds = {bounds}"
    yield "epsilon = 1.0"
    yield "delta = 1e-5"
    for name in ("sep", "decimal", "encoding"):
        yield f"{name} = {_toml(getattr(arguments, name))}"


def _public(name: str, found: Observed, n_rows: int) -> str:
    if found.bounds is None and found.categories is None:
        reason = f"{found.n_values} different texts in {n_rows} rows"
        reason += ": names or identifiers?"
        reason += f" {found.text_hint}" * bool(found.text_hint)
        return _line(name, {"role": "ignore"}, reason)
    entry: dict[str, Any] = {"role": "public"}
    comment = ""
    if found.categories is not None:
        entry["categories"] = list(found.categories)
        comment = found.text_hint
    else:
        entry["bounds"] = list(found.bounds or ())
        if found.unread:
            comment = f"{found.unread} values are no numbers and count as missing"
            comment += f". {found.foreign_hint}" * bool(found.foreign_hint)
    if found.running or named_as_identifier(name):
        entry = {"role": "ignore"}
        why = "a number of its own in each row" if found.running else "by its name"
        comment = f"an identifier, {why}?"
    return _line(name, entry, comment)


def _private(name: str, ignored: bool) -> str:
    if ignored:
        return _line(name, {"role": "ignore"}, "")
    if named_as_identifier(name):
        return _line(name, {"role": "ignore"}, "an identifier, by its name?")
    return _line(
        name, {"role": "private", "bounds": [], "categories": []}, "one of the two"
    )


def _line(name: str, entry: dict[str, Any], comment: str) -> str:
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    inside = ", ".join(f"{key} = {_toml(value)}" for key, value in entry.items())
    line = f"{name if plain else _toml(name)} = {{{inside}}}"
    return f"{line}  # {comment}" if comment else line


def _toml(value: Any) -> str:
    """Return a value as TOML; JSON has the same texts, numbers, booleans and lists."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
