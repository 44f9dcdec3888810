"""Figure 1 of paper 1: accuracy against epsilon on Purchase100, 100 columns public.

Purchase100 may not be redistributed: ``--data`` names your copy, an .npz file with the
arrays `features` and `labels`. Without it the generator of the same shape stands in.

Methods, all under replace_one (`--relation replace_special` for the relation in which
the paper's own numbers are smaller):

* dp-sgd: everything but the label treated alike, its step size tuned on the test rows;
* paper 1: Algorithm 1 with Gaussian padding, clip 0.01, momentum 0.9, rate 1/16, step
  and private weight tuned on the test rows;
* dp-sgd, paper and paper 1, paper: the same, with the paper's step of 0.1;
* default: `FeatureDPMLPClassifier` with nothing set but what is public and the bounds;
* linear: `FeatureDPLogisticRegression`, defaults likewise.

Tuning on the test rows flatters the rivals and never the default. The epsilon of a
budget is spent in 160 steps, ten passes, with the noise that this takes.
"""

import argparse
import functools
import time
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, Store

from skfdp import FeatureDPLogisticRegression, FeatureDPMLPClassifier
from skfdp.datasets import make_purchase100
from skfdp.solvers import FeatureDPSGD, NoisySGD

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA, RATE, HIDDEN = 1e-5, 1 / 16, (300,)
#: Steps of DP-SGD and of Algorithm 1: ten passes.
N_STEPS = 160
# On the clipped sum over q n clip_norm: 10 * the paper's step over its clip norm is 1.
DP_SGD_STEPS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Steps of Algorithm 1, and private weights; the first step is the paper's.
WEIGHTED_STEPS = *((0.1, w) for w in (1e2, 1e3, 3e3, 1e4)), (0.03, 3e3)
TEST = 4000


def data(n_rows: int, path: Path | None, seed: int):
    """Return training rows, test rows and the indices of the public columns."""
    if path is None:
        X, y = make_purchase100(n_rows + TEST, random_state=0)
    else:
        with np.load(path) as arrays:
            X, y = arrays["features"].astype(np.uint8), arrays["labels"]
        y = y.argmax(axis=1) if y.ndim == 2 else y
    rng = np.random.default_rng(seed)
    rows, public = rng.permutation(len(X)), rng.permutation(X.shape[1])[:100]
    train, test = rows[: len(X) - TEST][:n_rows], rows[-TEST:]
    return X[train], y[train], X[test], y[test], np.sort(public)


def model(epsilon, public, n, seed, relation, **more):
    """Return a network with what is public declared."""
    return FeatureDPMLPClassifier(
        epsilon=epsilon,
        hidden_layer_sizes=HIDDEN,
        delta=DELTA,
        public_features=public,
        public_target=True,
        bounds=(0, 1),
        neighboring_relation=relation,
        random_state=seed,
        **more,
    )


def loop(n, step):
    """Parameters of the paper's loop."""
    return {
        "clip_norm": 0.01,
        "learning_rate": step,
        "learning_rate_decay": 0.0,
        "batch_size": max(1, round(RATE * n)),
        "max_iter": N_STEPS,
        "row_norm": 600**0.5,
    }


def algorithm_one(n, step, weight):
    """Return paper 1, section 3."""
    # A step on the public gradient, which the loop divides by the clip norm.
    given = loop(n, step * 0.01) | {"gradient_scale": weight}
    return FeatureDPSGD(public_batch_size=given["batch_size"], **given)


def accuracy(estimator, X, y, X_test, y_test):
    """Return the accuracy in percent, and the seconds of the fit."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, y)
    seconds = time.perf_counter() - start
    return {"accuracy": 100 * estimator.score(X_test, y_test), "seconds": seconds}


def methods(epsilon, public, n, seed, relation):
    """Yield (name, variant, estimator)."""
    facts = (epsilon, public, n, seed, relation)
    yield "default", "", model(*facts)
    for step in DP_SGD_STEPS:
        solver = NoisySGD(**loop(n, step))
        yield "dp-sgd", f"step {step:g}", model(*facts, solver=solver)
    for step, weight in WEIGHTED_STEPS:
        name = f"private weight {weight:g}"
        if step != WEIGHTED_STEPS[0][0]:
            name = f"step {step:g}, {name}"
        yield "paper 1", name, model(*facts, solver=algorithm_one(n, step, weight))
    given = model(*facts).get_params()
    del given["hidden_layer_sizes"], given["backend"]
    yield "linear", "", FeatureDPLogisticRegression(**given)


def run(store, n_rows, epsilons, seed, relation, path):
    """Compute what the store lacks, and print one line for each fit."""
    X, y, X_test, y_test, public = data(n_rows, path, seed)
    for epsilon in epsilons:
        facts = epsilon, public, len(X), seed, relation
        for name, variant, estimator in methods(*facts):
            found = functools.partial(accuracy, estimator, X, y, X_test, y_test)
            key = f"{name} | {variant} | {epsilon:g} | {seed}"
            print(key, store.compute(key, found), flush=True)


def table(cells: dict, epsilons) -> list[dict]:
    """Return one row for each epsilon: means over seeds, the best variant of each.

    An entry is the mean, the variant, and the number of seeds.
    """
    found: dict = {}
    for key, value in cells.items():
        name, variant, epsilon, _ = (part.strip() for part in key.split("|"))
        names = [name]
        if variant == "step 0.1" or variant.startswith("private weight"):
            names.append(f"{name}, paper")
        for one in names:
            runs = found.setdefault((one, epsilon), {}).setdefault(variant, [])
            runs.append(value["accuracy"])
    rows = [{"epsilon": epsilon} for epsilon in epsilons]
    for (name, epsilon), variants in found.items():
        best = max((float(np.mean(v)), k, len(v)) for k, v in variants.items())
        for row in rows:
            if epsilon == f"{row['epsilon']:g}":
                row[name] = best
    return rows


def main(argv: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=193_324, help="for training")
    parser.add_argument("--data", type=Path, help="your copy of Purchase100")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument(
        "--relation", default="replace_one", choices=["replace_one", "replace_special"]
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    n_rows = options.rows
    stem = f"figure1_purchase100_{n_rows}_{options.relation}"
    if options.data is None:
        print("No --data: Purchase100 is not here, and generated baskets stand in.")
    else:
        stem += "_real"
    path = options.output or RESULTS / f"{stem}.json"
    config = {
        "rows": n_rows,
        "relation": options.relation,
        "data": options.data and options.data.name,
    }
    store = Store(path, config)
    for seed in range(options.seeds):
        run(store, n_rows, options.epsilons, seed, options.relation, options.data)
    rows = table(store.cells, options.epsilons)
    store.save(rows=rows)
    for row in rows:
        print({k: v if k == "epsilon" else round(v[0], 2) for k, v in row.items()})


if __name__ == "__main__":
    main()
