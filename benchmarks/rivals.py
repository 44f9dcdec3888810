"""The table of rivals: our defaults beside every private method that could be run.

    export SKFDP_DIFFPRIVLIB=/path/to/python   # of an environment with diffprivlib
    export SKFDP_SBDT=/path/to/python          # of one with the module of S-BDT
    python benchmarks/rivals.py > benchmarks/results/rivals.txt
    python benchmarks/rivals.py --rivals "AdaSSP" --tables "Adult" --seeds 1
    python benchmarks/rivals.py --report

Six tables of classes and one regression, five budgets, five splits, delta 1e-5. Tables
with more than 20,000 training rows are cut to that by the seed. *Ours* is
`FeatureDPLogisticRegression` (or `FeatureDPRegressor`) with a schema of the declared
bounds, ``neighboring_relation="replace_special"`` and nothing else: its splines are
"curves", and "lines" is the same with ``basis="linear"``. Nothing is public, but for
the rivals that protect the label alone: beside them every column is public, under
``"replace_one"``.

A rival gets the same bounds, both of our bases, and **the best setting of its grid for
each table, budget and score, chosen on the test rows and not charged**. `_rivals.py`
has them, each with its grid. DP-EBM needs ``pip install interpret-core==0.7.8``, and
AIM ``pip install mbi==2.0.0``, minutes a fit, and more than ten with twenty columns.

*Level* is within .3 points of accuracy or AUC and .003 of log-loss or R2, in the means.
One JSON line for each fit, appended: an interrupted run continues. Seeds make the runs
reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import functools
import json
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "reproduce"))

import numpy as np
import pandas as pd
from _common import RESULTS, about
from _frames import TASKS, Raw, Table, adult, bundled_classes
from _law import read_entries
from _rivals import CEILING, LIMIT, RIVALS, Problem, private, scores
from dominance import append
from private_columns import _BANK, _TELCO, folder

import skfdp

EPSILONS = (0.1, 0.5, 1.0, 3.0, 8.0)
DELTA = 1e-5
MOST_ROWS, MOST_TEST = 20_000, 10_000
#: Score -> (its name, sign of better, factor to print, what is level, decimals).
SCORES = {
    "accuracy": ("accuracy", 1, 1, 0.3, 2),
    "auc": ("AUC", 1, 100, 0.3, 2),
    "log_loss": ("log-loss", -1, 1, 0.003, 4),
    "r2": ("R2", 1, 1, 0.003, 4),
}
#: Rivals that were not run, and why.
NOT_RUN = {"DD-SSP": "its tables come from AIM, minutes a fit; see no noise"}


# ---------------------------------------------------------------- tables


def drawn(X: pd.DataFrame, y, bounds, categories, target_bounds, seed: int) -> Raw:
    """Return 70 % of the rows, at most `MOST_ROWS`, and at most `MOST_TEST` others."""
    order = np.random.default_rng([seed, 31]).permutation(len(X))
    n = round(0.7 * len(X))
    rows, tests = order[:n][:MOST_ROWS], order[n:][:MOST_TEST]
    parts = X.iloc[rows], y[rows], X.iloc[tests], y[tests]
    return Raw(*parts, bounds, categories, target_bounds)


@functools.cache
def survey_of_work(file: str, target: str) -> tuple:
    """Return a table of the American Community Survey, its bounds and categories."""
    frame = pd.read_csv(folder() / "acs" / f"{file}.csv.gz")
    path = folder() / "acs" / f"{file}-domain.json"
    levels = json.loads(path.read_text(encoding="utf-8"))
    y = frame.pop(target).to_numpy()
    bounds = {c: (0, levels[c] - 1) for c in frame if levels[c] > 30}
    categories = {c: [*map(str, range(levels[c]))] for c in frame if c not in bounds}
    return frame.astype(dict.fromkeys(categories, str)), y, bounds, categories


def work(file: str, target: str, cut: int | None, seed: int) -> Raw:
    """Return a split; the label says whether the target is at least `cut`."""
    X, y, bounds, categories = survey_of_work(file, target)
    if cut is None:
        return drawn(X, y.astype(float), bounds, categories, (0.0, 19.0), seed)
    return drawn(X, (y >= cut).astype(int), bounds, categories, (0.0, 1.0), seed)


@functools.cache
def people(name: str, target: str, yes: str, bounds: tuple) -> tuple:
    """Return a table of people; its levels are those that the columns have.

    A missing number is the middle of its bounds, a missing category the level "?".
    """
    path = folder() / "tables" / f"{name}.csv.gz"
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    y = (frame.pop(target) == yes).to_numpy(int)
    bounds = dict(bounds)
    for column, (low, high) in bounds.items():
        values = pd.to_numeric(frame[column], errors="coerce")
        frame[column] = values.fillna((low + high) / 2)
    frame = frame.replace("", "?")
    categories = {c: sorted(frame[c].unique()) for c in frame if c not in bounds}
    return frame, y, bounds, categories, (0.0, 1.0)


def churn(name: str, target: str, yes: str, bounds: dict) -> Callable[[int], Raw]:
    """Return a loader of the splits of a table of people."""
    given = name, target, yes, tuple(bounds.items())
    return lambda seed: drawn(*people(*given), seed)


def _table(name: str, load: Callable[[int], Raw], task: str = "classification"):
    return Table(name, task, load, DELTA, "" if name == "breast cancer" else name)


_INCOME = functools.partial(work, "ACSincome-LIN", "PINCP")
TABLES = [
    _table("breast cancer", functools.partial(bundled_classes, "breast_cancer")),
    _table("telco churn", churn("telco_churn", "Churn", "Yes", _TELCO)),
    _table("bank churn", churn("bank_churn", "Exited", "1", _BANK)),
    _table("Adult", functools.partial(adult, MOST_ROWS)),
    _table("ACSEmployment", functools.partial(work, "ACSemployment", "ESR", 1)),
    _table("ACSIncome", functools.partial(_INCOME, 10)),
    _table("ACSIncome, step", functools.partial(_INCOME, None), "regression"),
]

# ---------------------------------------------------------------- runs

OURS = ("curves", "lines")
ALL_PUBLIC = {"relation": "replace_one", "public": True}
#: Name -> fit; of label-DP with every column public.
OWN = {
    "curves": private("spline"),
    "lines": private("linear"),
    "label curves": private("spline", **ALL_PUBLIC),
    "label lines": private("linear", **ALL_PUBLIC),
}


def fitted(method: str, problem: Problem, epsilon: float, seed: int) -> dict:
    """Return the scores of every setting of a method, or the error that it raised."""
    start, task = time.perf_counter(), problem.table.task
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method in OWN:
                fit = OWN[method]
                found = {"": fit(problem.table, problem.raw, epsilon, seed)}
            else:
                found = RIVALS[method].fit(problem, epsilon, seed)
        measured = {
            setting: scores(task, problem.raw.y_test, predicted)
            for setting, predicted in found.items()
        }
    except Exception as error:  # A fit that fails is a result; the report counts it.
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    return {"seconds": round(time.perf_counter() - start, 2), "settings": measured}


def tasks(method: str) -> tuple[str, ...]:
    """Return the tasks that a method has."""
    if method in OWN:
        return TASKS
    return RIVALS[method].tasks


def run(table: Table, seed: int, given: argparse.Namespace, done: set) -> None:
    """Measure what the file lacks of one table and seed, and append it."""
    problem = None
    for epsilon in given.epsilons:
        for method in given.methods:
            key = (table.name, method, epsilon, seed)
            if key in done or table.task not in tasks(method):
                continue
            problem = problem or Problem(table, table.load(seed))
            found = fitted(method, problem, epsilon, seed)
            names = ("table", "method", "epsilon", "seed")
            entry = {"task": table.task, "n": len(problem.raw.X)}
            append(given.state, entry | dict(zip(names, key, strict=True)) | found)
            if "error" in found:
                print(*key, found["error"], file=sys.stderr, flush=True)


# ---------------------------------------------------------------- report


def matches(name: str, patterns) -> bool:
    """Return whether a name is like one of the fnmatch patterns."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def source() -> dict:
    """Return the commit of skfdp, if it is a checkout, and interpret's version."""
    known, folder = {}, Path(skfdp.__file__).parent
    call = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        found = subprocess.run(call, capture_output=True, text=True, check=True)
        known["commit"] = found.stdout.strip()
    with contextlib.suppress(metadata.PackageNotFoundError):
        known["interpret-core"] = metadata.version("interpret-core")
    return known


class Cells:
    """Scores by table, budget, score, method, setting and seed, from lines of results.

    Settings whose names hold `without` are left out.
    """

    def __init__(self, entries: list[dict], without: str = "no basis"):
        self.runs, self.n, self.failed = {}, {}, 0
        self.settings = found = defaultdict(lambda: defaultdict(dict))
        for entry in entries:
            if "error" in entry:
                self.failed += 1
                continue
            self.n[entry["table"]] = entry["n"]
            for setting, measured in entry["settings"].items():
                if without in setting:
                    continue
                for score, value in measured.items():
                    place = entry["table"], entry["epsilon"], score, entry["method"]
                    found[place][setting][entry["seed"]] = value * SCORES[score][2]
        for place, settings in found.items():
            most = max(map(len, settings.values()))
            whole = {k: v for k, v in settings.items() if len(v) == most}
            sign = SCORES[place[2]][1]
            best = max(whole, key=lambda k: sign * np.mean([*whole[k].values()]))
            self.runs[place] = best, whole[best]

    def mean(self, *place) -> float:
        """Return the mean of a method at its best setting."""
        return float(np.mean([*self.runs[place][1].values()]))

    def error(self, *place) -> float:
        """Return the standard error of that mean."""
        values = [*self.runs[place][1].values()]
        return float(np.std(values, ddof=1) / len(values) ** 0.5) if values[1:] else 0.0

    def gap(self, table, epsilon, score, ours: str, rival: str):
        """Return how far ours is ahead over the same splits, and its error, or None."""
        pair = [self.runs.get((table, epsilon, score, m)) for m in (ours, rival)]
        if None in pair:
            return None
        return self._gap(score, *(found for _, found in pair))

    def honest_gap(self, table, epsilon, score, ours: str, rival: str) -> float:
        """Return the gap if each split takes the setting best on the other splits."""
        settings, sign = self.settings[table, epsilon, score, rival], SCORES[score][1]
        theirs = {}
        for seed in self.runs[table, epsilon, score, rival][1]:
            others = {
                k: np.mean([v for s, v in runs.items() if s != seed])
                for k, runs in settings.items()
                if seed in runs and len(runs) > 1
            }
            if others:
                best = max(others, key=lambda k: sign * others[k])
                theirs[seed] = settings[best][seed]
        mine = self.runs[table, epsilon, score, ours][1]
        return (self._gap(score, mine, theirs) or (np.nan,))[0]

    def _gap(self, score: str, mine: dict, theirs: dict):
        both = sorted(mine.keys() & theirs.keys())
        if not both:
            return None
        ahead = [SCORES[score][1] * (mine[seed] - theirs[seed]) for seed in both]
        error = np.std(ahead, ddof=1) / len(ahead) ** 0.5 if len(ahead) > 1 else np.inf
        return float(np.mean(ahead)), float(error)

    @property
    def places(self) -> list[tuple]:
        """All (table, budget, score) in the order of the tables and scores."""
        names = [table.name for table in TABLES]
        found = {place[:3] for place in self.runs}
        return sorted(
            found, key=lambda p: (names.index(p[0]), [*SCORES].index(p[2]), p[1])
        )


def verdicts(cells: Cells, rival: str, ours: str) -> list[tuple]:
    """Return (place, gap, error) of every cell that both have."""
    found = []
    for place in cells.places:
        gap = cells.gap(*place, ours, rival)
        if gap is not None:
            found.append((place, *gap))
    return found


def own_name(rival: str, basis: str) -> str:
    """Return which fit of ours stands beside a rival."""
    return f"label {basis}" if RIVALS[rival].of_labels else basis


def summary(cells: Cells, straight: Cells) -> list[str]:
    """Return the share of cells ahead or level, by rival, and every loss.

    `straight` has no setting on curves.
    """
    head = f"{'rival':23}{'cells':>6}{'ahead':>6}{'level':>6}{'lost':>5}"
    lines = [f"{head}{'not lost':>10}{'on lines':>10}  its relation"]
    total, losses, worst = np.zeros(3, int), [], {}
    for rival, about_it in RIVALS.items():
        counts = {}
        for basis, held in zip(OURS, (cells, straight), strict=True):
            found = verdicts(held, rival, own_name(rival, basis))
            level = [SCORES[place[2]][3] for place, *_ in found]
            gaps = np.array([gap for _, gap, _ in found])
            ahead, lost = gaps > level, gaps < -np.array(level)
            counts[basis] = np.array(
                [ahead.sum(), (~ahead & ~lost).sum(), lost.sum()], int
            )
            if basis == "curves" and rival not in (LIMIT, CEILING):
                losses += [(rival, *f) for f, no in zip(found, lost, strict=True) if no]
                for (place, *_), one in zip(
                    found, ahead.astype(int) - lost, strict=True
                ):
                    cell = about_it.of_labels, place
                    worst[cell] = min(one, worst.get(cell, 1))
        first, n = counts["curves"], counts["curves"].sum()
        if not n:
            continue
        total += first * (rival not in (LIMIT, CEILING))
        share, other = (
            100 * (c[0] + c[1]) / max(c.sum(), 1) for c in (first, counts["lines"])
        )
        lines.append(
            f"{rival:23}{n:6}{first[0]:6}{first[1]:6}{first[2]:5}"
            f"{share:8.1f} %{other:8.1f} %  {about_it.relation}"
        )
    best = np.array([sum(one == k for one in worst.values()) for k in (1, 0, -1)])
    for name, row in {"all that are private": total, "the best of them": best}.items():
        lines.append(
            f"{name:23}{row.sum():6}{row[0]:6}{row[1]:6}{row[2]:5}"
            f"{100 * (row[0] + row[1]) / max(row.sum(), 1):8.1f} %"
        )
    lines += ["", f"Losses ({len(losses)}); * beyond two paired standard errors;"]
    lines += ["in brackets if each split takes the setting best on the others,"]
    lines += ["and at the end the gap to pairwise boosting without privacy", ""]
    for rival, (table, epsilon, score), gap, error in losses:
        name, _, _, _, decimals = SCORES[score]
        best = cells.runs[table, epsilon, score, rival][0]
        best = ", ".join(best.removeprefix("DP-EBM ").split(", ")[:2])
        star = "*" if -gap > 2 * error else " "
        ours = own_name(rival, "curves")
        gap_to = cells.gap(table, epsilon, score, ours, CEILING)
        ceiling = f"  {gap_to[0]:+.{decimals}f}" if gap_to else ""
        honest = cells.honest_gap(table, epsilon, score, ours, rival)
        lines.append(
            f"{rival:23}{table:14}{epsilon:4g} {name:9}{gap:8.{decimals}f}"
            f" +- {error:.{decimals}f}{star} [{honest:+.{decimals}f}]  {best}{ceiling}"
        )
    return lines


def means(cells: Cells) -> list[str]:
    """Return the mean and standard error of every method in every cell."""
    columns = {
        "all private": [*OURS, *(r for r in RIVALS if not RIVALS[r].of_labels)],
        "label private": [*(f"label {basis}" for basis in OURS)]
        + [r for r in RIVALS if RIVALS[r].of_labels],
    }
    lines = []
    for setting, methods in columns.items():
        for score, (name, _, _, _, decimals) in SCORES.items():
            places = [place for place in cells.places if place[2] == score]
            rows = []
            for place in places:
                if (*place, methods[0]) not in cells.runs:
                    continue
                line = f"{place[0]:16}{place[1]:4g}"
                for method in methods:
                    cell = (*place, method)
                    shown = "-"
                    if cell in cells.runs:
                        error = f"{cells.error(*cell):.{decimals}f}".lstrip("0")
                        shown = f"{cells.mean(*cell):.{decimals}f} ({error})"
                    line += f"{shown:>16}"
                rows.append(line)
            if rows:
                heads = "".join(f"{SHORT.get(m, m):>16}" for m in methods)
                lines += ["", f"{name}, {setting}", f"{'':20}{heads}", *rows]
    return lines


SHORT = {
    "objective perturbation": "objective pert",
    "double-noise Newton": "Newton",
    "randomised response": "random response",
    "DD-SSP, no noise": "no noise",
    "pairwise boosting": "pairwise",
}


def report(path: Path) -> str:
    """Return the whole report of a file of results."""
    entries = read_entries(path)
    cells, straight = Cells(entries), Cells(entries, without="curves")
    seeds = {seed for _, runs in cells.runs.values() for seed in runs}
    known = about()
    versions = {k: v for k, v in (known["versions"] | source()).items() if v}
    rows = ", ".join(f"{name} {n:,}" for name, n in cells.n.items())
    lines = [
        "python benchmarks/rivals.py",
        f"{known['date'][:10]}; " + ", ".join(f"{k} {v}" for k, v in versions.items()),
        f"training rows: {rows}; {len(seeds)} splits; delta {DELTA:g};"
        f" {cells.failed} fits failed",
        "",
        *summary(cells, straight),
        "",
        "Not run",
        "",
    ]
    here = {place[3] for place in cells.runs}
    absent = {r: a.missing() for r, a in RIVALS.items() if r not in here}
    absent = {r: f"needs {m}" if m else "not in this file" for r, m in absent.items()}
    lines += [f"  {name}: {why}" for name, why in (NOT_RUN | absent).items()]
    lines += ["", "Means (standard errors), each rival at its best setting on the test"]
    return "\n".join([*lines[:-1], f"{lines[-1]} rows", *means(cells)])


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--tables", nargs="+", default=("*",), help="names or fnmatch patterns")
    add("--rivals", nargs="+", default=("*",), help="as --tables; ours, too")
    add("--epsilons", nargs="+", type=float, default=EPSILONS)
    add("--seeds", type=int, default=5)
    add("--state", "--out", type=Path, default=RESULTS / "rivals.jsonl", help="lines")
    add("--quick", action="store_true", help="one table, without packages of others")
    add("--report", action="store_true", help="only report on the file")
    given = parser.parse_args(argv)
    if given.quick:
        given.tables, given.epsilons, given.seeds = ("breast*",), (8.0,), 2
    given.methods = [name for name in OWN if matches(name, given.rivals)]
    for name, rival in RIVALS.items():
        if not matches(name, given.rivals) or (given.quick and rival.needs):
            continue
        if rival.missing() and not given.report:
            print(f"left out: {name}: needs {rival.missing()}", file=sys.stderr)
        elif not rival.missing():
            given.methods.append(name)
    return given


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, and report on all that there is."""
    given = arguments(argv)
    if not given.report:
        given.state.parent.mkdir(parents=True, exist_ok=True)
        names = ("table", "method", "epsilon", "seed")
        done = {tuple(e[k] for k in names) for e in read_entries(given.state)}
        for seed in range(given.seeds):
            for table in TABLES:
                if not matches(table.name, given.tables):
                    continue
                reason = table.missing()
                if reason:
                    print(f"left out: {table.name}: {reason}", file=sys.stderr)
                    continue
                run(table, seed, given, done)
                stamp = time.strftime("%H:%M:%S")
                print(stamp, table.name, "split", seed, file=sys.stderr, flush=True)
    print(report(given.state))


if __name__ == "__main__":
    main()
