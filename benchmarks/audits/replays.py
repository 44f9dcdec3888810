"""Replays of every estimator, method, relation, split and form of a table.

    python benchmarks/audits/replays.py                         # prints the table
    python benchmarks/audits/replays.py --output replays.txt    # and writes it
    python benchmarks/audits/replays.py --only "DPSGDF" --neighbours 3

Every recorded case of ``tests/golden/golden_cases.py`` with a finite budget is replayed
as it is; under each relation that its public parts allow; with rows dense, as CSR and
as a frame; and without bounds, with labels as objects, so that what is malformed makes
a record void. Schemas are replayed on a raw table with columns of every type. The
neighbours are those of `skfdp.audit.audit_replay`: random, extreme and malformed
values in the row, in the target, or in both, of one record.

What an estimator refuses by itself (CSR where it takes none, bounds where it needs
them) is counted, and is no fit.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import datetime
import functools
import math
import multiprocessing
import sys
import textwrap
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, issparse

import skfdp
from skfdp import TableSchema
from skfdp.audit import audit_replay
from skfdp.privacy import RELATIONS, AddOrRemoveOne, Relation
from skfdp.privacy.entries import package_versions
from skfdp.schema import Category, Date, Label, Number

sys.path.append(str(Path(__file__).parents[2] / "tests" / "golden"))

from golden_cases import CASES, estimator, of_rows, rows, target

from skfdp.solvers import NoisyGradientDescent

N_RAW = 90


def variants(case, n_neighbors):
    """Yield (form, relation, model, X, y, number of neighbours) of a case."""
    few = max(1, n_neighbors // 5)
    X, y = rows(case), target(case)
    held = "csr" if issparse(X) else "frame" if hasattr(X, "iloc") else "dense"
    own = relation_of(estimator(case))
    yield held, own, estimator(case), X, y, n_neighbors
    for form in ("dense", "csr", "frame"):
        if form == held:
            continue
        yield form, own, estimator(case), converted(X, form), y, few
    for relation in RELATIONS:
        if relation != own:
            yield held, relation, under(estimator(case), relation), X, y, few
    model, y = without_bounds(case, y)
    yield f"{held}, no bounds", own, model, X, y, few


def relation_of(model):
    return Relation.of(model.neighboring_relation).name


def under(model, relation):
    """Return the model under another relation."""
    private = relation == "add_or_remove_one"
    return model.set_params(
        neighboring_relation=AddOrRemoveOne(160) if private else relation
    )


def converted(X, form):
    """Return the same rows in another form."""
    dense = X.toarray() if issparse(X) else np.asarray(X)
    if form == "csr":
        return csr_array(dense)
    if form == "frame":
        names = [f"{'pub' if i < 2 else 'u'}{i}" for i in range(dense.shape[1])]
        return pd.DataFrame(dense, columns=names)
    return dense


def without_bounds(case, y):
    """Return the model without bounds, and its private labels as objects."""
    model = estimator(case).set_params(bounds=False)
    private = not model.get_params().get("public_target", False)
    if "classes" in model.get_params() and private:
        model.set_params(classes=sorted(set(y.tolist())))
        y = y.astype(object)
    return model, y


def raw_table():
    """Return a table with columns of every type, and two targets."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, N_RAW),
            "children": rng.integers(0, 5, N_RAW),
            "city": np.array(["Ulm", "Bonn", None], dtype=object)[np.arange(N_RAW) % 3],
            "owner": rng.random(N_RAW) < 0.5,
            "since": pd.date_range("2020-01-01", periods=N_RAW),
            "kind": pd.Categorical(np.array(["a", "b"])[np.arange(N_RAW) % 2]),
        }
    )
    y = (table["age"] + rng.normal(0, 5, N_RAW) > 50).to_numpy()
    return table, y.astype(int), table["age"].to_numpy() / 20


def raw_cases(n_neighbors):
    """Yield the same for estimators with a schema, with labels as objects."""
    table, labels, numbers = raw_table()
    columns = {
        "age": Number(20, 80),
        "children": Number(0, 9),
        "since": Date("2020-01-01", "2021-01-01"),
        "city": Category(["Ulm", "Bonn"]),
        "kind": Category(["a", "b"]),
    }
    kinds = {
        "DPSGDFClassifier": {},
        "FeatureDPLogisticRegression": {},
        "FeatureDPMLPClassifier": {"hidden_layer_sizes": (4,)},
        "DPSGDFRegressor": {},
        "FeatureDPRegressor": {},
    }
    nothing, some = (), ("age", "city")
    splits = {
        "DPSGDFClassifier": [nothing],
        "DPSGDFRegressor": [nothing],
        "FeatureDPMLPClassifier": [nothing, some],
    }
    for name, given in kinds.items():
        for public in splits.get(name, [nothing, some, tuple(columns)]):
            numeric = "Regressor" in name
            known = {
                column: dataclasses.replace(kind, public=column in public)
                for column, kind in columns.items()
            }
            outcome = Number(0, 5) if numeric else Label([0, 1])
            schema = TableSchema({**known, "y": outcome}, outcomes=["y"])
            for relation in RELATIONS:
                added = relation == "add_or_remove_one"
                model = getattr(skfdp, name)(
                    4.0,
                    schema=schema,
                    solver=NoisyGradientDescent(max_iter=2),
                    neighboring_relation=AddOrRemoveOne(N_RAW) if added else relation,
                    **given,
                )
                y = numbers if numeric else labels.astype(object)
                yield name, "raw frame", relation, model, table, y, n_neighbors


class Tally:
    """What the replays have shown."""

    def __init__(self):
        self.fits, self.replays = defaultdict(Counter), defaultdict(Counter)
        self.largest = defaultdict(lambda: (0, 0, 0.0))
        self.share, self.refused, self.differences = defaultdict(float), Counter(), []

    def add(self, name, form, relation, kind, result):
        """Add the result of an audit."""
        for table, key in (("estimator", kind), ("form", form), ("relation", relation)):
            self.fits[table][key] += 1
            self.replays[table][key] += result.n_trials
        for one in result.neighbors:
            value, _, part = one.partition(" in the ")
            self.replays["neighbour"][value] += 1
            self.replays["part"][part.partition(" of record")[0]] += 1
        share = result.lower_bound / result.claimed_epsilon
        self.share[kind] = max(self.share[kind], share)
        for moved in result.releases:
            n_fits, n_moves, largest = self.largest[kind, moved.label]
            self.largest[kind, moved.label] = (
                n_fits + 1,
                n_moves + moved.n_releases * result.n_trials,
                max(largest, moved.largest),
            )
        self.differences += [f"{name}, {form}: {one}" for one in result.differences]


@functools.cache
def jobs(n_neighbors, only):
    """Return everything to replay; the same list in every process."""
    found = [
        (case["name"], case["estimator"], of_rows(case), *one)
        for case in CASES
        if not math.isinf(case["params"]["epsilon"]) and only in case["name"]
        for one in variants(case, n_neighbors)
    ]
    found += [
        (f"{name}: schema", name, {}, *one)
        for name, *one in raw_cases(max(1, n_neighbors // 2))
        if only in name
    ]
    return found


def replayed(number, arguments):
    """Return what a job is about, and its result, or why it was refused."""
    job = jobs(arguments.neighbours, arguments.only)[number]
    name, kind, told, form, relation, model, X, y, n = job
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = audit_replay(
                model,
                *(X, y),
                n_neighbors=n,
                fit_params=told,
                random_state=arguments.seed + number,
            )
    except (TypeError, ValueError, RuntimeError) as error:
        result = str(error)
    return name, form, relation, kind, result


def run(arguments):
    """Replay everything; return the tally."""
    tally, count = Tally(), len(jobs(arguments.neighbours, arguments.only))
    one = functools.partial(replayed, arguments=arguments)
    with concurrent.futures.ProcessPoolExecutor(
        arguments.jobs, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        for number, (*about, result) in enumerate(pool.map(one, range(count)), 1):
            if isinstance(result, str):
                tally.refused[f"{about[-1]}: {result}"] += 1
            else:
                tally.add(*about, result)
            if number % 50 == 0:
                n_done = sum(tally.replays["estimator"].values())
                print(f"{number}/{count}, {n_done} replays", file=sys.stderr)
    return tally


def written(tally, arguments, seconds):
    """Yield the lines of the table."""
    versions = ", ".join(f"{k} {v}" for k, v in package_versions().items())
    total = sum(tally.replays["estimator"].values())
    n_fits = sum(tally.fits["estimator"].values())
    n_moves = sum(moves for _, moves, _ in tally.largest.values())
    yield "Replays: what neighbours tell when the released numbers are frozen"
    yield ""
    yield (
        f"python benchmarks/audits/replays.py --neighbours {arguments.neighbours} "
        + (f"--seed {arguments.seed}")
    )
    yield from textwrap.wrap(versions, 96)
    yield f"{datetime.datetime.now(datetime.UTC).date()}, {seconds / 60:.0f} minutes"
    yield ""
    yield f"{n_fits} fits recorded, {total} replays on neighbours, {n_moves} releases"
    yield f"compared; {len(tally.differences)} differences"
    yield from (f"  {line}" for line in tally.differences)
    yield ""
    yield "By estimator: the largest lower bound of epsilon on a path, over the claim"
    yield f"{'':32}{'fits':>8}{'replays':>10}{'bound / claim':>16}"
    for kind, count in tally.fits["estimator"].items():
        replays = tally.replays["estimator"][kind]
        yield f"{kind:32}{count:8}{replays:10}{tally.share[kind]:16.3f}"
    for table, title in (("form", "By form"), ("relation", "By relation")):
        yield ""
        yield f"{title:32}{'fits':>8}{'replays':>10}"
        for key, count in tally.fits[table].items():
            yield f"{key:32}{count:8}{tally.replays[table][key]:10}"
    for table, title in (("neighbour", "By value"), ("part", "By part of the record")):
        yield ""
        yield f"{title:40}{'replays':>10}"
        for key, count in sorted(tally.replays[table].items()):
            yield f"{key:40}{count:10}"
    yield ""
    yield "Distance of the exact sums over the declared sensitivity, the largest seen"
    yield f"{'':62}{'fits':>6}{'releases':>11}{'largest':>12}"
    for (kind, label), (fits, moves, largest) in sorted(tally.largest.items()):
        yield f"{kind + ': ' + label:62}{fits:6}{moves:11}{largest:12.9f}"
    yield ""
    yield f"Combinations that an estimator refuses by itself: {tally.refused.total()}"
    for text, count in sorted(tally.refused.items()):
        yield f"{count:6}  {text}"[:100]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--neighbours", type=int, default=12, help="of each case as it is"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    start = time.perf_counter()
    tally = run(arguments)
    lines = [*written(tally, arguments, time.perf_counter() - start)]
    print("\n".join(lines))
    if arguments.output is not None:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
