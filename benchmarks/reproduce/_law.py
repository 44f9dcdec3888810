"""The law "less protection is never worse": which cells of a file of results break it.

A cell is a table, a budget and a pair of methods of which the second may not be worse.
It breaks the law if the second is behind by more than 1 point of accuracy or .01 of
log-loss over the same seeds, beyond two standard errors of the paired differences; by
far if that mean difference is above 2 points or .03. A fit that raises breaks it too.
"""

from __future__ import annotations

import collections
import dataclasses
import json
from pathlib import Path

import numpy as np

#: The second may not be worse than the first.
PAIRS = (
    ("nothing", "columns"),
    ("columns", "columns and target"),
    ("nothing", "target"),
    ("target", "columns and target"),
    ("nothing", "labels"),
    ("public model", "columns and target"),
    ("released frequencies", "nothing"),
    ("released frequencies", "columns"),
    ("released frequencies", "labels"),
    ("exact frequencies", "target"),
    ("exact frequencies", "columns and target"),
)
FREE = ("public model", "exact frequencies")
METHODS = (
    "nothing",
    "columns",
    "target",
    "columns and target",
    "labels",
    *FREE,
    "released frequencies",
)
#: Score -> (sign of better, margin, margin of "by far").
MARGINS = {"accuracy": (1, 1.0, 2.0), "log_loss": (-1, 0.01, 0.03)}


def read_entries(path: Path) -> list[dict]:
    """Return the entries of a file, without a line that a killed run cut short."""
    entries = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            if "table" in entry:
                entries.append(entry)
    return entries


@dataclasses.dataclass(frozen=True)
class Cell:
    """The shortfall of `more` against `less`, by score: mean and standard error.

    Positive is worse, in points of accuracy and in log-loss. `n_failed` fits of `more`
    raised where `less` did not.
    """

    half: str
    table: str
    epsilon: float
    less: str
    more: str
    shortfall: dict[str, tuple[float, float]]
    n_failed: int

    @property
    def key(self) -> tuple:
        """What the cell is about."""
        return self.table, self.epsilon, self.less, self.more

    @property
    def broken(self) -> list[str]:
        """The scores by which the cell breaks the law."""
        found = [
            score
            for score, (mean, error) in self.shortfall.items()
            if mean - 2 * error > MARGINS[score][1]
        ]
        return found + ["failed"] * (self.n_failed > 0)

    @property
    def by_far(self) -> bool:
        """Whether a broken score is behind by more than the larger margin."""
        scores = [score for score in self.broken if score != "failed"]
        return self.n_failed > 0 or any(
            self.shortfall[score][0] > MARGINS[score][2] for score in scores
        )

    @property
    def severity(self) -> float:
        """The largest shortfall in units of its margin."""
        units = [mean / MARGINS[s][1] for s, (mean, _) in self.shortfall.items()]
        return np.inf if self.n_failed else max(units)


def by_method(entries: list[dict]) -> dict:
    """Return (half, table, method, epsilon) -> seed -> entry; the last one counts."""
    found: dict = collections.defaultdict(dict)
    for entry in entries:
        key = entry["half"], entry["table"], entry["split"], entry["epsilon"]
        found[key][entry["seed"]] = entry
    return found


def judge(entries: list[dict]) -> list[Cell]:
    """Return the cells of which two seeds or more are known."""
    known = by_method(entries)
    places = sorted({(key[0], key[1], key[3]) for key in known if key[3] is not None})
    cells = []
    for half, table, epsilon in places:
        for less, more in PAIRS:
            first = known.get((half, table, less, None if less in FREE else epsilon))
            second = known.get((half, table, more, epsilon))
            if first is None or second is None:
                continue
            pairs = [(first[s], second[s]) for s in first if s in second]
            sound = [(a, b) for a, b in pairs if "error" not in a]
            both = [(a, b) for a, b in sound if "error" not in b]
            n_failed = len(sound) - len(both)
            if len(both) >= 2 or n_failed:
                shortfall = {s: _shortfall(both, s) for s in MARGINS if len(both) >= 2}
                cells.append(
                    Cell(half, table, epsilon, less, more, shortfall, n_failed)
                )
    return cells


def _shortfall(pairs: list[tuple[dict, dict]], score: str) -> tuple[float, float]:
    sign = MARGINS[score][0]
    behind = [sign * (a[score] - b[score]) for a, b in pairs]
    return float(np.mean(behind)), float(np.std(behind, ddof=1) / len(behind) ** 0.5)


# ---------------------------------------------------------------- text


def report(paths: list[Path], half: str | None, names: list[str] | None) -> str:
    """Return what one file says, or how the second differs from the first."""
    files = []
    for path in paths:
        entries = read_entries(path)
        if names is not None:
            entries = [e for e in entries if e["table"].startswith(tuple(names))]
        files.append([e for e in entries if half is None or e["half"] == half])
    halves = sorted({e["half"] for entries in files for e in entries}, reverse=True)
    parts = []
    for part in halves:
        ours = [[e for e in entries if e["half"] == part] for entries in files]
        if len(ours) == 2:
            parts += _both(part, ours)
        else:
            cells = judge(ours[0])
            parts += [_counts(part, [cells]), _list(cells, "broken"), _means(*ours)]
    return "\n\n".join(parts) or "no results"


def _both(half: str, files: list[list[dict]]) -> list[str]:
    """Return before and after, on the fits that both files have."""
    fits = [{_fit(entry) for entry in entries} for entries in files]
    both = [[e for e in entries if _fit(e) in fits[0] & fits[1]] for entries in files]
    before, after = (judge(entries) for entries in both)
    was = {cell.key for cell in before if cell.broken}
    still = {cell.key for cell in after if cell.broken}
    return [
        _counts(half, [before, after]),
        _list([c for c in after if c.key not in was], "broken after and not before"),
        _list([c for c in after if c.key in was], "broken before and after"),
        _list([c for c in before if c.key not in still], "repaired, as they were"),
        "before\n" + _means(both[0]),
        "after\n" + _means(both[1]),
    ]


def _fit(entry: dict) -> tuple:
    return tuple(entry[part] for part in ("table", "split", "epsilon", "seed"))


def _counts(half: str, files: list[list[Cell]]) -> str:
    """Return the numbers of broken cells by pair."""
    head = f"{half + ': less protection is never worse':52}"
    for label in ("before", "after") if len(files) == 2 else ("",):
        head += f"{label:>8}{'cells':>6}{'broken':>7}{'acc.':>6}{'loss':>6}{'far':>5}"
    lines = [head]
    for pair in (*PAIRS, None):
        line = f"{'all' if pair is None else ' <= '.join(pair):52}"
        for cells in files:
            ours = [c for c in cells if pair in (None, (c.less, c.more))]
            broken = [c for c in ours if c.broken]
            accuracy = sum("accuracy" in c.broken for c in broken)
            loss = sum("log_loss" in c.broken for c in broken)
            share = f"{len(broken) / len(ours):8.1%}" if ours else f"{'-':>8}"
            line += f"{share}{len(ours):6}{len(broken):7}{accuracy:6}{loss:6}"
            line += f"{sum(c.by_far for c in broken):5}"
        lines.append(line)
    return "\n".join(lines)


def _list(cells: list[Cell], title: str) -> str:
    """Return the broken cells, the worst ones first."""
    broken = sorted((c for c in cells if c.broken), key=lambda c: -c.severity)
    lines = [f"{title}: {len(broken)} cells (shortfall +- standard error; ! by far)"]
    for cell in broken:
        line = f"{'!' if cell.by_far else ' '} {cell.table:28}{cell.epsilon:7g}  "
        line += f"{cell.less + ' <= ' + cell.more:42}"
        for score, form in (("accuracy", "6.2f"), ("log_loss", "7.4f")):
            if score in cell.shortfall:
                mean, error = cell.shortfall[score]
                star = "*" if score in cell.broken else " "
                line += f" {mean:{form}} +- {error:{form}}{star}"
        lines.append(line + (f" {cell.n_failed} failed" if cell.n_failed else ""))
    return "\n".join(lines)


def _means(entries: list[dict]) -> str:
    """Return mean scores over the tables, by method and budget."""
    known = by_method(entries)
    epsilons = sorted({key[3] for key in known if key[3] is not None})
    forms = {
        "accuracy": "9.2f",
        "log_loss": "9.4f",
        "auc": "9.4f",
        "calibration_error": "9.4f",
        "seconds": "9.3f",
    }
    lines = []
    for score, form in forms.items():
        head = "".join(f"{epsilon:9g}" for epsilon in epsilons)
        lines.append(f"{'mean ' + score:28}{head}")
        for method in METHODS:
            line = f"  {method:26}"
            for epsilon in epsilons:
                at = None if method in FREE else epsilon
                # The first fit of a process compiles.
                over_seeds = np.median if score == "seconds" else np.mean
                tables = [
                    over_seeds([run[score] for run in runs.values() if score in run])
                    for key, runs in known.items()
                    if key[2:] == (method, at)
                    and any(score in run for run in runs.values())
                ]
                line += f"{np.mean(tables):{form}}" if tables else f"{'-':>9}"
            lines.append(line)
    return "\n".join(lines)
