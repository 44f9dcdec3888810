"""The report of `additive.py`: who is ahead, in which share of the cells."""

from __future__ import annotations

import collections
import itertools
import json
from pathlib import Path

import numpy as np
from _law import read_entries

#: Score -> (its name, 1 if more is better, what counts as a difference, decimals).
SCORES = {
    "accuracy": ("accuracy", 1, 0.5, 2),
    "auc": ("AUC", 1, 0.01, 4),
    "log_loss": ("log-loss", -1, 0.01, 4),
    "r2": ("R2", 1, 0.01, 3),
    "d2": ("D2", 1, 0.01, 3),
}
BEST = "best"
#: Adult, hats: epsilon -> the least accuracy and AUC wanted.
MARKS = {1.0: (85.6, 0.909), 0.1: (84.9, 0.895)}
COLUMNS = {
    "lines": "lines",
    "hats": "hats",
    "DP-EBM": "DP-EBM",
    BEST: "its best",
    "scikit-learn lines": "skl lines",
    "scikit-learn hats": "skl hats",
}


class Cells:
    """Scores by table, factor of the bounds, budget, method and seed.

    Parameters
    ----------
    entries : list of dict
        The lines of a file of results.
    """

    def __init__(self, entries: list[dict]):
        self._found = collections.defaultdict(dict)
        self.tables, self.failed = {}, []
        for entry in entries:
            if "error" in entry:
                self.failed.append(entry)
                continue
            self.tables[entry["table"]] = (entry["task"], entry["half"], entry["n"])
            place = entry["table"], entry["widen"], entry["epsilon"]
            for score in SCORES.keys() & entry.keys():
                runs = self._found[*place, score].setdefault(entry["method"], {})
                runs[entry["seed"]] = entry[score]

    def all_runs(self):
        """Yield seed -> score of each method in each cell."""
        for methods in self._found.values():
            yield from methods.values()

    def places(self, score: str, widen: float = 1.0) -> list[tuple]:
        """Return (table, budget) of all cells with this score, in a fixed order."""
        found = [
            (table, epsilon)
            for table, factor, epsilon, kind in self._found
            if kind == score and factor == widen and epsilon and table in self.tables
        ]
        order = list(self.tables)
        return sorted(found, key=lambda place: (order.index(place[0]), place[1]))

    def runs(self, table, epsilon, score, method, widen=1.0) -> dict[int, float]:
        """Return seed -> score of a method, or of the best setting of DP-EBM."""
        if method.startswith("scikit-learn"):
            epsilon = None
        found = self._found.get((table, widen, epsilon, score), {})
        if method != BEST:
            return found.get(method, {})
        sign = SCORES[score][1]
        settings = [runs for name, runs in found.items() if name.startswith("DP-EBM")]
        whole = [r for r in settings if len(r) == max(map(len, settings))]
        best = lambda runs: sign * np.mean(list(runs.values()))  # noqa: E731
        return max(whole, key=best, default={})

    def gap(self, table, epsilon, score, one, other, widen=1.0):
        """Return how far `one` is ahead and its standard error, or None."""
        mine, theirs = (
            self.runs(table, epsilon, score, method, widen) for method in (one, other)
        )
        seeds = mine.keys() & theirs.keys()
        if len(seeds) < 2:
            return None
        ahead = [SCORES[score][1] * (mine[s] - theirs[s]) for s in seeds]
        return np.mean(ahead), np.std(ahead, ddof=1) / len(seeds) ** 0.5


def _mean(runs: dict, decimals: int) -> str:
    return f"{np.mean(list(runs.values())):.{decimals}f}" if runs else "-"


def _difference(gap, decimals: int) -> str:
    if gap is None:
        return "-"
    mark = "*" if abs(gap[0]) > 2 * gap[1] else " "
    return f"{gap[0]:+.{decimals}f} +- {gap[1]:.{decimals}f}{mark}"


def table_of(cells: Cells, task: str, score: str) -> list[str]:
    """Return the table of one score: means over splits, and paired differences."""
    name, _, _, decimals = SCORES[score]
    heads = "".join(f"{head:>10}" for head in COLUMNS.values())
    lines = [f"{task}, {name}", f"{'':24}{'epsilon':>8}{heads}"]
    lines[-1] += f"{'hats - its best':>22}{'hats - lines':>22}"
    for table, epsilon in cells.places(score):
        if cells.tables[table][0] != task:
            continue
        line = f"{table:24}{epsilon:8g}"
        for method in COLUMNS:
            line += f"{_mean(cells.runs(table, epsilon, score, method), decimals):>10}"
        for other in (BEST, "lines"):
            gap = cells.gap(table, epsilon, score, "hats", other)
            line += f"{_difference(gap, decimals):>22}"
        lines.append(line)
    return [*lines, ""]


def counted(cells: Cells, other: str, half: str | None, least: int = 0) -> list[str]:
    """Return in how many cells hats are at or above another method, by score.

    Behind: in the mean; clearly: beyond two standard errors; by far: also by more than
    what counts as a difference.
    """
    lines, total = [], np.zeros(4, int)
    for score, (name, _, margin, _) in SCORES.items():
        row = np.zeros(4, int)
        for table, epsilon in cells.places(score):
            _, own, n = cells.tables[table]
            gap = cells.gap(table, epsilon, score, "hats", other)
            if gap is None or n < least or half not in (None, own):
                continue
            clearly = gap[0] < -2 * gap[1]
            row += [1, gap[0] >= 0, clearly, clearly and gap[0] < -margin]
        lines.append(_count(name, row))
        total += row
    return [line for line in [*lines, _count("all", total)] if line]


def _count(name: str, row) -> str:
    n, at, clearly, far = row
    if not n:
        return ""
    return (
        f"  {name:10}{n:5} cells, at or above in {at:4} ({100 * at / n:5.1f} %), "
        f"clearly behind in {clearly:3} ({100 * clearly / n:4.1f} %), "
        f"by far in {far:3} ({100 * far / n:4.1f} %)"
    )


def summary(cells: Cells, half: str | None) -> list[str]:
    """Return the counts that the marks are about."""
    lines = []
    halves = ("dev", "aside") if half is None else (half,)
    for one in (None, *halves) if half is None else halves:
        title = "both halves" if one is None else f"half {one}"
        for other, least in ((BEST, 0), ("DP-EBM", 0), ("lines", 500)):
            found = counted(cells, other, one, least)
            if found:
                name = {BEST: "DP-EBM's best", "DP-EBM": "DP-EBM's defaults"}
                rows = f", n >= {least}" if least else ""
                lines += [f"{title}: hats against {name.get(other, other)}{rows}"]
                lines += [*found, ""]
    return lines


def averages(cells: Cells) -> list[str]:
    """Return means over tables; R2 and D2 below 0, worse than the mean, count as 0."""
    lines = []
    for score, (name, _, _, decimals) in SCORES.items():
        places = cells.places(score)
        if score == "r2":
            places = [p for p in places if cells.tables[p[0]][0] == "regression"]
        epsilons = sorted({epsilon for _, epsilon in places})
        heads = "".join(f"{epsilon:>10g}" for epsilon in epsilons)
        lines.append(f"{'mean ' + name:24}{heads}")
        for method, head in COLUMNS.items():
            line = f"  {head:22}"
            for epsilon in epsilons:
                found = [
                    cells.runs(table, epsilon, score, method)
                    for table, own in places
                    if own == epsilon
                ]
                means = [np.mean(list(runs.values())) for runs in found if runs]
                if score in ("r2", "d2"):
                    means = np.maximum(means, 0.0)
                whole = len(means) == len(found)
                line += f"{np.mean(means):10.{decimals}f}" if whole else f"{'-':>10}"
            lines.append(line)
        lines.append("")
    return lines


def marks(cells: Cells) -> list[str]:
    """Return Adult at the budgets that have a mark."""
    lines = []
    for epsilon, (accuracy, auc) in MARKS.items():
        for method in ("hats", "stricter hats", "lines", "DP-EBM", BEST):
            found = [
                cells.runs("adult", epsilon, score, method)
                for score in ("accuracy", "auc")
            ]
            if all(found):
                lines.append(
                    f"Adult, epsilon {epsilon:g}: {method:14}{_mean(found[0], 2)} % "
                    f"(wanted {accuracy}), AUC {_mean(found[1], 4)} (wanted {auc})"
                )
    return [*lines, ""]


def too_wide(cells: Cells) -> list[str]:
    """Return one score by factor of the bounds."""
    factors = sorted({widen for _, widen, _, _ in cells._found})
    if len(factors) < 2:
        return []
    lines = [f"{'bounds too wide by':44}" + "".join(f"{f:>9g}" for f in factors)]
    for score in ("accuracy", "r2", "d2"):
        for table, epsilon in cells.places(score, factors[-1]):
            task = cells.tables[table][0]
            if (task == "counts") != (score == "d2"):
                continue
            for method, head in itertools.islice(COLUMNS.items(), 4):
                decimals = SCORES[score][3]
                means = [
                    _mean(cells.runs(table, epsilon, score, method, f), decimals)
                    for f in factors
                ]
                line = f"{table:20}{epsilon:8g}  {SCORES[score][0]} {head:8}"
                lines.append(f"{line:44}" + "".join(f"{m:>9}" for m in means))
    return [*lines, ""]


def sources(path: Path) -> str:
    """Return versions and commits of the runs in a file, and the date of the last."""
    found, commits, date = {}, [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        about = json.loads(line).get("about") if '"about"' in line else None
        if about:
            own = dict(about.get("source", {}))
            commits += [own.pop("commit")] if "commit" in own else []
            found |= about["versions"] | own
            date = about["date"][:10]
    versions = ", ".join(f"{name} {version}" for name, version in found.items())
    return f"{date}; {versions}; commits: {', '.join(dict.fromkeys(commits)) or '?'}"


def report(path: Path, half: str | None = None) -> str:
    """Return the whole report of a file of results."""
    cells = Cells(read_entries(path))
    kept = {name for name, (_, own, _) in cells.tables.items() if half in (None, own)}
    cells.tables = {name: found for name, found in cells.tables.items() if name in kept}
    n_seeds = len({seed for runs in cells.all_runs() for seed in runs})
    lines = [f"{len(cells.tables)} tables, {n_seeds} splits; {sources(path)}", ""]
    lines += [*marks(cells), *summary(cells, half), *averages(cells)]
    lines += too_wide(cells)
    for task, names in (
        ("classification", ("accuracy", "auc", "log_loss")),
        ("regression", ("r2",)),
        ("counts", ("d2", "r2")),
    ):
        for score in names:
            lines += table_of(cells, task, score)
    if cells.failed:
        lines.append(f"{len(cells.failed)} fits raised:")
        lines += sorted(
            {f"  {e['table']}, {e['method']}: {e['error']}" for e in cells.failed}
        )
    return "\n".join(lines)
