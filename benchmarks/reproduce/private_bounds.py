"""What do private bounds cost, and when do they pay? Against declared ones, too wide.

The tables of `additive.py` that need no download x budgets x splits, and three models:

* *lines*: `FeatureDPLogisticRegression` or `FeatureDPRegressor` behind
  ``DeclaredEncoder(basis="linear")``;
* *hats*: the same with the encoder's defaults, an additive model;
* *plain*: the same estimator without an encoder, on the columns of numbers alone.

Each with bounds as declared in `_frames.py`, and 3, 10 and 100 times as wide; and with
private ones, which know nothing of the declared ones: for lines and hats those of
`private_bounds`, which take a tenth of the squared budget, for plain
``bounds="private"``, which takes what its rule says. All arms of a cell have the same
whole budget, under "replace_special". Constants were chosen on the half "dev" before
the half put aside was looked at; see `_frames.py` for the halves.

    python benchmarks/reproduce/private_bounds.py
    python benchmarks/reproduce/private_bounds.py --report \
        > benchmarks/results/private_bounds.txt

One JSON line for each fit, appended: an interrupted run continues. Seeds make the runs
reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import itertools
import math
import textwrap
import time
from pathlib import Path

import numpy as np
from _additive import read_entries, sources
from _common import RESULTS, about
from _frames import TABLES, Raw, Table
from additive import (
    RELATION,
    estimator,
    matches,
    measure,
    predictions,
    schema,
    source,
)
from dominance import append

from skfdp import private_bounds
from skfdp.privacy import gdp_epsilon, gdp_mu

EPSILONS = (0.3, 1.0, 3.0, 8.0)
FACTORS = (1.0, 3.0, 10.0, 100.0)
MODELS = ("lines", "hats", "plain")
#: Of the squared budget, for `private_bounds`.
SHARE = 0.1
PRIVATE = "private"
#: The score of each task: all are at most 1, and 0 for R2 and D2 below.
SCORE = {"classification": "accuracy", "regression": "r2", "counts": "d2"}


def fit(table, raw: Raw, model: str, bounds, epsilon, seed) -> np.ndarray:
    """Return predictions of one arm; bounds are a factor, or "private"."""
    numbers = list(raw.bounds)
    widened = raw if bounds == PRIVATE else raw.widened(bounds)
    if model == "plain":
        own = PRIVATE if bounds == PRIVATE else widened.bounds
        of_target = {"target_bounds": raw.target_bounds}
        if table.task == "classification":
            of_target = {"classes": [0, 1]}
        found = estimator(table, epsilon, seed, bounds=own, **of_target)
        X, X_test = raw.X[numbers], raw.X_test[numbers]
        return predictions(table, found, X, raw.y, X_test)
    if bounds == PRIVATE:
        mu = gdp_mu(epsilon, table.delta)
        first, epsilon = (
            gdp_epsilon(table.delta, math.sqrt(share) * mu)
            for share in (SHARE, 1 - SHARE)
        )
        released = private_bounds(
            raw.X[list(numbers)],
            epsilon=first,
            delta=table.delta,
            neighboring_relation=RELATION,
            random_state=seed,
        )
        widened = dataclasses.replace(raw, bounds=released.bounds)
    basis = "linear" if model == "lines" else "spline"
    own = schema(table, widened, basis)
    found = estimator(table, epsilon, seed, schema=own)
    return predictions(table, found, raw.X, raw.y, raw.X_test)


# ---------------------------------------------------------------- the report


def score_of(entry: dict) -> float:
    """Return the score of a run, between 0 and 1."""
    found = entry[SCORE[entry["task"]]]
    return found / 100 if entry["task"] == "classification" else max(found, 0.0)


def gathered(entries: list[dict]) -> dict:
    """Return (table, model, epsilon) -> bounds -> seed -> score."""
    cells = collections.defaultdict(lambda: collections.defaultdict(dict))
    for entry in entries:
        if "error" not in entry:
            key = entry["table"], entry["model"], entry["epsilon"]
            cells[key][entry["bounds"]][entry["seed"]] = score_of(entry)
    return cells


def ahead(cell: dict, bounds) -> tuple[float, float] | None:
    """Return how far private bounds are ahead of others, and the standard error."""
    seeds = cell[PRIVATE].keys() & cell[bounds].keys()
    if len(seeds) < 2:
        return None
    gaps = [cell[PRIVATE][seed] - cell[bounds][seed] for seed in sorted(seeds)]
    return float(np.mean(gaps)), float(np.std(gaps, ddof=1) / math.sqrt(len(gaps)))


def summary(cells: dict, tables: set[str], title: str) -> list[str]:
    """Return means over tables, and in how many cells private bounds are ahead."""
    lines = [f"{title}: {len(tables)} tables", ""]
    heads = "".join(f"{f'x{f:g}':>8}" for f in FACTORS)
    lines.append(
        f"{'':6}{'epsilon':>8}{heads}{'private':>9}   private ahead of x3, x10, x100"
    )
    for model, epsilon in itertools.product(MODELS, EPSILONS):
        own = [
            cell
            for (table, kind, budget), cell in cells.items()
            if table in tables and (kind, budget) == (model, epsilon)
        ]
        if not own:
            continue
        line = f"{model:6}{epsilon:8g}"
        for bounds, width in (*((f, 8) for f in FACTORS), (PRIVATE, 9)):
            means = [np.mean(list(cell[bounds].values())) for cell in own]
            line += f"{np.mean(means):{width}.3f}"
        counts = []
        for factor in FACTORS[1:]:
            gaps = [gap for cell in own if (gap := ahead(cell, factor))]
            counts.append(f"{sum(gap[0] > 0 for gap in gaps)}/{len(gaps)}")
        lines.append(line + "   " + ", ".join(counts))
    return [*lines, ""]


def every_cell(cells: dict, halves: dict[str, str]) -> list[str]:
    """Return one line for each table, model and budget."""
    heads = "".join(f"{f'x{f:g}':>8}" for f in FACTORS)
    lines = [f"{'':27}{'epsilon':>8}{heads}{'private':>9}{'private - x1':>18}"]
    for (table, model, epsilon), cell in sorted(
        cells.items(), key=lambda item: (halves[item[0][0]], *item[0])
    ):
        line = f"{halves[table]:6}{table:19.19}{model[0]:>2}{epsilon:8g}"
        for bounds, width in (*((f, 8) for f in FACTORS), (PRIVATE, 9)):
            line += f"{np.mean(list(cell[bounds].values())):{width}.3f}"
        gap = ahead(cell, 1.0)
        if gap:
            mark = "*" if abs(gap[0]) > 2 * gap[1] else " "
            line += f"  {gap[0]:+.3f} +- {gap[1]:.3f}{mark}"
        lines.append(line)
    return lines


def report(path: Path) -> str:
    """Return the report of a file of results."""
    entries = read_entries(path)
    cells, halves = gathered(entries), {t.name: t.half for t in TABLES}
    found = {table for table, _, _ in cells}
    n_seeds = len({entry["seed"] for entry in entries})
    lines = [
        "python benchmarks/reproduce/private_bounds.py",
        *textwrap.wrap(f"{n_seeds} splits; {sources(path).split('; commits')[0]}", 98),
        "",
        "Accuracy, R2 or D2 (below 0: 0), means over splits and tables, by how many",
        "times the declared bounds are too wide, and with private bounds.",
        "",
    ]
    for half in ("dev", "aside"):
        own = {table for table in found if halves[table] == half}
        lines += summary(cells, own, f"half {half}")
    lines += ["Every cell (l: lines, h: hats, p: plain; *: beyond two standard errors)"]
    lines += every_cell(cells, halves)
    failed = [entry for entry in entries if "error" in entry]
    if failed:
        lines += ["", f"{len(failed)} fits raised:"]
        lines += sorted({f"  {e['table']}: {e['error']}"[:100] for e in failed})
    return "\n".join(line.rstrip() for line in lines)


def run(table: Table, seed: int, given: argparse.Namespace, done: set) -> None:
    """Measure what the file lacks of one table and seed, and append it."""
    raw = table.load(seed)
    arms = itertools.product(given.models, given.epsilons, (*FACTORS, PRIVATE))
    for model, epsilon, bounds in arms:
        key = (table.name, model, epsilon, bounds, seed)
        if key in done:
            continue
        call = functools.partial(fit, table, raw, model, bounds, epsilon, seed)
        names = ("table", "model", "epsilon", "bounds", "seed")
        entry = {"task": table.task, "half": table.half, "n": len(raw.X)}
        entry |= dict(zip(names, key, strict=True)) | measure(call, table, raw)
        append(given.out, entry)
    print(f"{time.strftime('%H:%M:%S')} {table.name}, seed {seed}", flush=True)


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, and report on all that there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--half", choices=("dev", "aside"), help="both unless given")
    add("--tables", nargs="+", default=("*",), help="names or fnmatch patterns")
    add("--models", nargs="+", default=MODELS, choices=MODELS)
    add("--epsilons", nargs="+", type=float, default=EPSILONS)
    add("--seeds", type=int, default=2)
    add("--out", type=Path, default=RESULTS / "private_bounds.jsonl")
    add("--quick", action="store_true", help="two tables, one budget")
    add("--report", action="store_true", help="only report on the file")
    given = parser.parse_args(argv)
    if given.quick:
        given.tables, given.epsilons, given.seeds = ("diabetes", "wine"), (8.0,), 2
    if not given.report:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        names = ("table", "model", "epsilon", "bounds", "seed")
        done = {tuple(e[k] for k in names) for e in read_entries(given.out)}
        append(given.out, {"about": about() | {"source": source()}})
        tables = [t for t in TABLES if not t.source and matches(t.name, given.tables)]
        tables = [t for t in tables if given.half in (None, t.half)]
        for seed, table in itertools.product(range(given.seeds), tables):
            run(table, seed, given, done)
    print(report(given.out))


if __name__ == "__main__":
    main()
