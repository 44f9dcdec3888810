"""Peers side by side: the same work in one process, alternating, as paired ratios.

    pip install "skfdp[bench]"
    OPENBLAS_NUM_THREADS=1 python benchmarks/peers.py --output peers.json

Each round takes every contestant once, in a new random order, and compares within the
round. What is printed are medians over the rounds with the quartiles, times of the
contestant over ours. A peer that is not installed is left out and named.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# One thread for jax as well.
os.environ.setdefault("NPROC", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np
from _steps import (
    jax_step,
    linear_query,
    ours,
    problem,
    same_kernels,
    same_products,
    torch_step,
    two_products,
)

from skfdp.solvers import NoisyGradientDescent

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def measure(contestants: dict, rounds: int, clock, seconds: float = 0.05) -> dict:
    """Return the seconds of every contestant in every round, medians of repetitions."""
    repeats, order = {}, list(contestants)
    for name, step in contestants.items():
        step()
        start = clock()
        step()
        repeats[name] = int(np.clip(seconds / max(clock() - start, 1e-6), 1, 200))
    times = {name: [] for name in contestants}
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            taken = []
            for _ in range(repeats[name]):
                start = clock()
                contestants[name]()
                taken.append(clock() - start)
            times[name].append(float(np.median(taken)))
    return {name: np.array(values) for name, values in times.items()}


def compare(contestants: dict, rounds: int, clock, seconds: float = 0.05) -> dict:
    """Time every contestant once a round; ratios are within a round, to the first."""
    times = measure(contestants, rounds, clock, seconds)
    first = times[next(iter(contestants))]
    return {
        name: {"ms": _quartiles(1e3 * values), "ratio": _quartiles(values / first)}
        for name, values in times.items()
    }


def _quartiles(values: np.ndarray) -> list[float]:
    return [float(q) for q in np.quantile(values, [0.25, 0.5, 0.75])]


def steps(args) -> dict:
    """Whole steps of MNIST's shape against everyone."""
    n, d, k = 60_000, 784, 10
    X, y = problem(n, d, k)
    query = linear_query(X, y, k)
    found = {}
    for batch in args.batches:
        contestants = {
            "skfdp": ours(query, batch),
            "same products, no privacy": same_products(query, batch),
            "float64 tiles, no privacy": same_kernels(X, y, k, batch),
            "NumPy, two products": two_products(X, y, k, batch),
        }
        for name, kind in {
            "torch, no privacy": "plain",
            "Opacus ghost": "ghost",
            "Opacus hooks": "hooks",
        }.items():
            try:
                contestants[name] = torch_step(X, y, k, batch, kind)
            except ImportError as error:
                print(f"left out: {name} ({error})")
        try:
            contestants["jax-privacy"] = jax_step(X, y, k, batch)
        except ImportError as error:
            print(f"left out: jax-privacy ({error})")
        found[f"batch {batch}"] = compare(contestants, args.rounds, args.clock)
    return found


def small(args) -> dict:
    """Twenty columns, ten classes, against NumPy."""
    X, y = problem(60_000, 20, 10)
    query, found = linear_query(X, y, 10), {}
    for batch in args.batches:
        contestants = {
            "skfdp": ours(query, batch),
            "NumPy, two products": two_products(X, y, 10, batch),
        }
        found[f"batch {batch}"] = compare(contestants, args.rounds, args.clock)
    return found


def sparse(args) -> dict:
    """CSR of 10,000 x 50,000, density .002, 20 classes, against scipy's products."""
    from scipy.sparse import random_array

    rng = np.random.default_rng(0)
    X = random_array((10_000, 50_000), density=0.002, rng=rng, format="csr")
    X.data /= 10.0
    y, k, found = rng.integers(0, 20, 10_000), 20, {}
    query = linear_query(X, y, k)
    for batch in (300, 10_000):
        contestants = {
            "skfdp": ours(query, batch if batch < 10_000 else None),
            "scipy": scipy_step(X, y, k, batch),
        }
        found[f"batch {batch}"] = compare(contestants, args.rounds, args.clock)
    return found


def scipy_step(X, y, n_classes: int, batch: int):
    """Return DP-SGD as one would write it with scipy and NumPy's normals."""
    n, d = X.shape
    rng = np.random.default_rng(0)
    theta, norms = np.zeros((d, n_classes)), np.sqrt((X * X).sum(axis=1))

    def step() -> None:
        members = np.flatnonzero(rng.random(n) < batch / n)
        rows = X[members]
        residual = rows @ theta
        residual = np.exp(residual - residual.max(axis=1, keepdims=True))
        residual /= residual.sum(axis=1, keepdims=True)
        residual[np.arange(len(members)), y[members]] -= 1
        length = np.sqrt((residual**2).sum(axis=1)) * norms[members]
        residual *= np.minimum(1, 0.5 / np.maximum(length, 1e-12))[:, None]
        total = rows.T @ residual + rng.normal(0, 0.5, theta.shape)
        theta[:] -= (0.1 / batch) * total

    return step


def fits(args) -> dict:
    """Whole fits, 50,000 x 100 binary, against scikit-learn."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    from skfdp import DPSGDFClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 100))
    logits = 11 * X @ rng.normal(size=100) / 10
    y = (rng.random(60_000) < 1 / (1 + np.exp(-np.clip(logits, -700, 700)))).astype(int)
    train, test = slice(0, 50_000), slice(50_000, 60_000)
    models = {
        "skfdp, 20 steps": DPSGDFClassifier(
            bounds=False,
            neighboring_relation="replace_special",
            solver=NoisyGradientDescent(row_norm=10.0, max_iter=20),
        ),
        "skfdp, default": DPSGDFClassifier(
            bounds=False,
            neighboring_relation="replace_special",
            solver=NoisyGradientDescent(row_norm=10.0),
        ),
        "scikit-learn lbfgs": LogisticRegression(),
        "scikit-learn SGD": SGDClassifier(loss="log_loss", max_iter=20, tol=None),
    }
    contestants = {
        name: (lambda model=model: model.fit(X[train], y[train]))
        for name, model in models.items()
    }
    found = compare(contestants, args.rounds, args.clock, seconds=0)
    for name, model in models.items():
        found[name]["accuracy"] = 100 * model.score(X[test], y[test])
    return {"50,000 x 100": found}


def raw_table(n: int, n_levels: int = 12, n_categories: int = 8, n_numbers: int = 6):
    """Return a frame of numbers in [0, 1] and of categories, and labels."""
    import pandas as pd

    rng = np.random.default_rng(0)
    numbers = {f"x{j}": rng.random(n) for j in range(n_numbers)}
    codes = {f"c{j}": rng.integers(0, n_levels, n) for j in range(n_categories)}
    score = sum(np.sin(3 * x) for x in numbers.values()) + rng.normal(size=n)
    score = score + sum(code % 3 - 1 for code in codes.values())
    named = {
        name: np.char.add("level ", code.astype(str)) for name, code in codes.items()
    }
    return pd.DataFrame(numbers | named), (score > np.median(score)).astype(int)


def tables(args) -> dict:
    """Default fits, and the same work without privacy, or by DP-EBM.

    Lines: 20,000 x 30 and 1,000 x 20 numbers. Curves: 14 raw columns, beside which
    scikit-learn and glum get the same encoded matrix. Many levels: a column of 20,000
    categories and 6 numbers.
    """
    from sklearn.linear_model import LogisticRegression

    from skfdp import FeatureDPLogisticRegression, TableSchema
    from skfdp.schema import Category, Label, Number
    from skfdp.solvers import public_model

    def fit(model, X, y, names: dict):
        def once():
            public_model._LAST.clear()  # a fit in a new process has no model yet
            return model(**names).fit(X, y)

        return once

    def others(X, y) -> dict:
        found = {"scikit-learn lbfgs": lambda: LogisticRegression().fit(X, y)}
        try:
            import glum
        except ImportError as error:
            print(f"left out: glum ({error})")
            return found
        given = {"family": "binomial", "alpha": 1 / len(y), "l1_ratio": 0}
        found["glum"] = lambda: glum.GeneralizedLinearRegressor(**given).fit(X, y)
        return found

    found, rng = {}, np.random.default_rng(0)
    for n, d in ((20_000, 30), (1000, 20)):
        X, half = rng.random((n, d)), list(range(d // 2))
        score = X[:, half].sum(axis=1) + 0.5 * rng.normal(size=n)
        y = (score > np.median(score)).astype(int)
        splits = {
            "skfdp, nothing public": {},
            "skfdp, nothing public, 2 threads": {"n_jobs": 2},
            "skfdp, half public": {"public_features": half},
            "skfdp, half and label public": {
                "public_features": half,
                "public_target": True,
            },
            "skfdp, label-DP": {"public_features": "all"},
        }
        contestants = {
            name: fit(FeatureDPLogisticRegression, X, y, {"bounds": (0, 1)} | split)
            for name, split in splits.items()
        }
        contestants |= others(X, y)
        found[f"lines {n}"] = compare(contestants, args.rounds, args.clock, seconds=0)
    for name, given in {
        "curves": (30_000,),
        "many levels": (20_000, 20_000, 1),
    }.items():
        X, y = raw_table(*given)
        levels = [f"level {k}" for k in range(given[1] if len(given) > 1 else 12)]
        contestants = {}
        for kind, public in (("nothing", ""), ("categories", "c")):
            columns = {
                column: Number(0, 1, public=column[0] in public)
                if column[0] == "x"
                else Category(levels, public=column[0] in public)
                for column in X
            }
            labels = {"y": Label([0, 1])}
            schema = TableSchema(columns | labels, outcomes=["y"])
            own = {"schema": schema}
            model = FeatureDPLogisticRegression
            contestants[f"skfdp, {kind} public"] = fit(model, X, y, own)
            if kind == "nothing":
                both = own | {"n_jobs": 2}
                contestants["skfdp, nothing public, 2 threads"] = fit(model, X, y, both)
        if name == "curves":
            encoder = schema.encoder().fit_to_smooth()
            contestants |= others(encoder.transform(X), y)
            try:
                from interpret import privacy as theirs
            except ImportError as error:
                print(f"left out: DP-EBM ({error})")
            else:
                bounds = {column: (0.0, 1.0) for column in X if column[0] == "x"}
                own = {"epsilon": 1.0, "delta": 1e-5, "n_jobs": 1}
                contestants["DP-EBM"] = fit(
                    theirs.DPExplainableBoostingClassifier,
                    X,
                    y,
                    own | {"privacy_bounds": bounds},
                )
        found[name] = compare(contestants, args.rounds, args.clock, seconds=0)
    return found


def growth(args) -> dict:
    """Step time at batch 4096 as n grows: short rows, and rows of MNIST's length."""
    found = {}
    for d, n_classes, few, many in [
        (20, 2, 20_000, 2_000_000),
        (784, 10, 8192, 200_000),
    ]:
        contestants = {}
        for n in (few, many):
            X, y = problem(n, d, n_classes)
            contestants[f"n = {n}"] = ours(linear_query(X, y, n_classes), 4096)
        found[f"{d} columns"] = compare(contestants, args.rounds, args.clock)
    return found


def calibration(args) -> dict:
    """Poisson calibration against dp_accounting's own search; memoised."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    from skfdp.privacy import accounting, calibrate

    arguments = {"n_steps": 1000, "sampling_rate": 0.05}

    def fresh() -> None:
        accounting._calibrated.cache_clear()
        calibrate(1.0, 1e-5, neighboring_relation="replace_special", **arguments)

    def event(noise: float):
        gaussian = dp_accounting.GaussianDpEvent(noise)
        sampled = dp_accounting.PoissonSampledDpEvent(0.05, gaussian)
        return dp_accounting.SelfComposedDpEvent(sampled, 1000)

    def theirs() -> None:
        dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, 1.0, 1e-5)

    def memoised() -> None:
        calibrate(1.0, 1e-5, neighboring_relation="replace_special", **arguments)

    contestants = {"skfdp": fresh, "memoised": memoised, "dp_accounting": theirs}
    return {"1000 steps": compare(contestants, args.rounds, args.clock, seconds=0)}


def memory(args) -> dict:
    """Megabytes that steps allocate beyond the rows as held, at any batch."""
    X, y = problem(60_000, 784, 10)
    found = {}
    for batch in (256, 16_384, None):
        query = linear_query(X, y, 10)  # its working memory is made in the first step
        query.exact_sum(np.zeros(query.shape), np.arange(9), 1.0)  # compiles
        query.__dict__.pop("_workspaces")
        tracemalloc.start()
        step = ours(query, batch)
        step(), step()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        found[f"batch {batch}"] = {"megabytes": [peak] * 3}
    return found


FIRST_FIT = """
import time, warnings
import numpy as np
import sklearn.base
warnings.simplefilter("ignore")
X, y = np.random.default_rng(0).random((500, 20)), np.arange(500) % 2
start = time.process_time()
from skfdp import DPSGDFClassifier
from skfdp.solvers import NoisyGradientDescent
DPSGDFClassifier(bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2)).fit(X, y)
print(time.process_time() - start)
"""


def cold(args) -> dict:
    """CPU seconds in new processes, caches on disk being warm."""
    imported = (
        "import time; start = time.process_time(); import {}; "
        "print(time.process_time() - start)"
    )
    scripts = {
        "skfdp": imported.format("skfdp"),
        "sklearn.base": imported.format("sklearn.base"),
        "first fit": FIRST_FIT,
    }
    found = {}
    for name, script in scripts.items():
        command = [sys.executable, "-c", script]
        run = functools.partial(
            subprocess.run, command, capture_output=True, text=True, check=True
        )
        run()
        seconds = [float(run().stdout) for _ in range(args.rounds)]
        found[name] = {"seconds": _quartiles(np.array(seconds))}
    return found


def job(args) -> dict:
    """The command ``skfdp`` as users start it: with compiled code, and with none.

    The results are least, median and largest time, because other work on the machine
    only makes a process slower.
    """
    libraries = "import numba, pandas, scipy.stats, sklearn.pipeline"
    commands = {
        "empty cache": ["-m", "skfdp"],
        "compile": ["-m", "skfdp", "compile"],
        "warm": ["-m", "skfdp"],
        "libraries": ["-c", libraries],  # without any work
    }
    times = {name: [] for name in commands}
    threads = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"
    environment = {k: v for k, v in os.environ.items() if k not in threads}
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as folder:
            environment["NUMBA_CACHE_DIR"] = folder
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(
                    [sys.executable, *command],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
                times[name].append(time.perf_counter() - start)
    return {
        name: {"seconds": [float(q) for q in np.quantile(taken, [0, 0.5, 1])]}
        for name, taken in times.items()
    }


SECTIONS = {
    "steps": steps,
    "small": small,
    "sparse": sparse,
    "fits": fits,
    "tables": tables,
    "growth": growth,
    "calibration": calibration,
    "memory": memory,
    "cold": cold,
    "job": job,
}


def show(section: str, found: dict) -> None:
    """Print a section as a table."""
    print(f"\n{section}")
    for case, rows in found.items():
        if kind := {"megabytes", "seconds"} & set(rows):
            low, middle, high = rows[min(kind)]
            print(f"  {case:14s} {min(kind)} {middle:.3f}  ({low:.3f} .. {high:.3f})")
            continue
        for name, row in rows.items():
            low, middle, high = row["ratio"]
            more = f"  {row['accuracy']:.2f} %" if "accuracy" in row else ""
            print(
                f"  {case:12s} {name:28s} {row['ms'][1]:10.3f} ms"
                f"  x {middle:7.2f}  ({low:.2f} .. {high:.2f}){more}"
            )


def draw(content: dict, path: str) -> None:
    """Draw the ratios of whole steps over the batch size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    cases = content["sections"]["steps"]
    sizes = sorted(int(case.split()[1]) for case in cases)
    steps_of = [cases[f"batch {size}"] for size in sizes]
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    for name in sorted(steps_of[-1], key=lambda name: -steps_of[-1][name]["ratio"][1]):
        ratios = [rows[name]["ratio"][1] for rows in steps_of]
        axis.plot(sizes, ratios, "o-", label=name)
    axis.set(xscale="log", yscale="log", xlabel="expected batch")
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.minorticks_off()
    axis.set_ylabel("time of a step / time of skfdp's")
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument(
        "--batches", nargs="+", type=int, default=[256, 1024, 4096, 16_384]
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="'cpu' on machines that others use as well",
    )
    parser.add_argument("--output", type=Path, help="JSON; sections are added to it")
    parser.add_argument("--figure", help="draws the section 'steps'")
    args = parser.parse_args()
    content: dict = {"sections": {}}
    if args.output and args.output.exists():
        content = json.loads(args.output.read_text(encoding="utf-8"))
    content["machine"] = {
        "processor": _processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "clock": args.clock,
        "rounds": args.rounds,
        "date": time.strftime("%Y-%m-%d"),
    }
    args.clock = CLOCKS[args.clock]
    warnings.simplefilter("ignore")
    for name in args.only:
        content["sections"][name] = SECTIONS[name](args)
        show(name, content["sections"][name])
        if args.output:
            text = json.dumps(content, indent=1, sort_keys=True)
            args.output.write_text(text + "\n", encoding="utf-8")
    if args.figure:
        draw(content, args.figure)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    widest = "avx512f" if "avx512f" in facts.get("flags", "") else "avx2"
    family, model = facts.get("cpu family", "?"), facts.get("model", "?")
    return f"{facts.get('model name', '')} family {family} model {model}, {widest}"


if __name__ == "__main__":
    main()
