"""Figure 1 of paper 1: accuracy against epsilon on Purchase100, 100 columns public.

Methods, all under replace_one (`--relation replace_special` for the relation in which
the paper's own numbers are smaller):

* public: a network on the public columns and the target, no noise;
* none: scikit-learn's network on everything, no privacy;
* dp-sgd: everything but the label treated alike, its step size tuned on the test rows;
* dp-sgd, paper: the paper's step size;
* paper 1: Algorithm 1 with Gaussian padding, clip 0.01, step 0.1, momentum 0.9, rate
  1/16, private weight tuned on the test rows;
* default: `FeatureDPMLPClassifier` with nothing set but what is public and the bounds;
* with a loop: the default, but a fifth of the squared budget trains the last layer;
* class sums: ``pretraining="class_sums"``, half of it for the last layer;
* linear: `FeatureDPLogisticRegression`, defaults likewise.

Tuning on the test rows flatters the rivals and never the default.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, Store
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from skfdp import FeatureDPLogisticRegression, FeatureDPMLPClassifier, calibrate
from skfdp.datasets import load_purchase100, make_purchase100

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA, RATE, HIDDEN = 1e-5, 1 / 16, (300,)
#: Steps of DP-SGD and of Algorithm 1: ten passes.
N_STEPS = 160
# On the clipped sum over q n clip_norm: 10 * the paper's step over its clip norm is 1.
DP_SGD_STEPS = (0.1, 0.3, 1.0, 3.0)
PRIVATE_WEIGHTS = (100.0, 1000.0)
TEST = 4000


def data(n_rows: int, path: Path | None, seed: int):
    """Return training rows, test rows and the indices of the public columns."""
    if path is None:
        X, y = make_purchase100(n_rows + TEST, random_state=0)
    else:
        X, y = load_purchase100(path, return_X_y=True)
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


def dp_sgd(n, step):
    """Parameters of plain DP-SGD."""
    return {
        "pretraining": None,
        "public_loss": None,
        "trained_layers": "all",
        "clip_norm": 0.01,
        "learning_rate": step,
        "learning_rate_decay": 0.0,
        "batch_size": max(1, round(RATE * n)),
        "max_iter": N_STEPS,
        "feature_bound": 600**0.5,
    }


def algorithm_one(n, weight):
    """Parameters of paper 1, section 3."""
    # A step of 0.1 on the public gradient, which the loop divides by the clip norm.
    return dp_sgd(n, 0.1 * 0.01) | {
        "public_loss": "gaussian",
        "private_weight": weight,
        "public_batch_size": max(1, round(RATE * n)),
    }


def reference(X, y, X_test, y_test, columns, seed):
    """Return the accuracy of scikit-learn's network on some columns, in percent."""
    network = MLPClassifier(HIDDEN, max_iter=12, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(X[:, columns].astype(np.float32), y)
    return 100 * network.score(X_test[:, columns].astype(np.float32), y_test)


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
    yield "with a loop", "a fifth", model(*facts, pretraining_share=0.8)
    yield "class sums", "", model(*facts, pretraining="class_sums")
    for step in DP_SGD_STEPS:
        yield "dp-sgd", f"step {step:g}", model(*facts, **dp_sgd(n, step))
    for weight in PRIVATE_WEIGHTS:
        name = f"private weight {weight:g}"
        yield "paper 1", name, model(*facts, **algorithm_one(n, weight))
    yield (
        "linear",
        "",
        FeatureDPLogisticRegression(
            epsilon,
            DELTA,
            public_features=public,
            public_target=True,
            bounds=(0, 1),
            neighboring_relation=relation,
            random_state=seed,
        ),
    )


def run(store, n_rows, epsilons, seed, relation, path, only):
    """Compute what the store lacks, and print one line for each fit."""
    X, y, X_test, y_test, public = data(n_rows, path, seed)
    everything = np.arange(X.shape[1])
    for name, columns in (("public", public), ("none", everything)):
        value = store.compute(
            f"{name} | | | {seed}",
            lambda columns=columns: {
                "accuracy": reference(X, y, X_test, y_test, columns, seed)
            },
        )
        print(f"{name:10} {value['accuracy']:6.2f}", flush=True)
    for epsilon in epsilons:
        for name, variant, estimator in methods(
            epsilon, public, len(X), seed, relation
        ):
            if only and name not in only:
                continue
            value = store.compute(
                f"{name} | {variant} | {epsilon:g} | {seed}",
                lambda estimator=estimator: accuracy(estimator, X, y, X_test, y_test),
            )
            print(
                f"epsilon {epsilon:4g}  {name:8} {variant:20} {value['accuracy']:6.2f}"
                f"  {value['seconds']:6.1f} s",
                flush=True,
            )


def table(cells: dict, epsilons) -> list[dict]:
    """Return one row for each epsilon: means over seeds, the best variant of each."""
    found: dict = {}
    for key, value in cells.items():
        name, variant, epsilon, _ = (part.strip() for part in key.split("|"))
        found.setdefault((name, variant, epsilon), []).append(value["accuracy"])
    means = {key: float(np.mean(values)) for key, values in found.items()}
    rows = []
    for epsilon in epsilons:
        row = {"epsilon": epsilon}
        for (name, variant, e), value in means.items():
            if e not in ("", f"{epsilon:g}"):
                continue
            if value > row.get(name, (-1.0, ""))[0]:
                row[name] = (value, variant)
            if (name, variant) == ("dp-sgd", "step 0.1"):
                row["dp-sgd, paper"] = (value, variant)
        rows.append(row)
    return rows


def draw(rows, path: Path, title: str) -> None:
    """Draw accuracy against epsilon."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    epsilons = [row["epsilon"] for row in rows]
    styles = {
        "default": "C3o-",
        "linear": "C0s-",
        "dp-sgd": "C1^--",
        "dp-sgd, paper": "C1v:",
        "paper 1": "C2d--",
    }
    labels = {
        "default": "FeatureDPMLPClassifier, defaults",
        "linear": "FeatureDPLogisticRegression, defaults",
        "dp-sgd": "DP-SGD, step tuned",
        "dp-sgd, paper": "DP-SGD, the paper's step",
        "paper 1": "Algorithm 1, Gaussian padding, weight tuned",
    }
    for name, style in styles.items():
        if all(name in row for row in rows):
            values = [row[name][0] for row in rows]
            axis.plot(epsilons, values, style, label=labels[name])
    for name, label, style in (
        ("none", "no privacy", "k-"),
        ("public", "public", "k:"),
    ):
        axis.axhline(
            rows[0][name][0], color="k", linestyle=style[1:], lw=1, label=label
        )
    axis.set(xscale="log", xlabel="epsilon", ylabel="test accuracy, percent")
    axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axis.set_title(title, fontsize="small")
    axis.legend(fontsize="x-small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--rows", type=int, help="training rows")
    parser.add_argument("--data", type=Path, help="your copy of Purchase100")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epsilons", type=float, nargs="+")
    parser.add_argument("--only", nargs="+", default=(), help="methods")
    parser.add_argument(
        "--relation",
        default="replace_one",
        choices=["replace_one", "replace_special"],
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args(argv)
    n_rows = options.rows or (19_000 if options.quick else 193_324)
    epsilons = options.epsilons or ((2.0,) if options.quick else EPSILONS)
    paper = calibrate(
        8.0,
        DELTA,
        n_steps=N_STEPS,
        sampling_rate=RATE,
        neighboring_relation=options.relation,
    )
    print(
        f"{n_rows} rows, {options.relation}; {N_STEPS} steps at rate 1/16 and epsilon "
        f"8 have noise multiplier {paper.noise_multiplier:.3f} (the paper: 1)."
    )
    stem = f"figure1_purchase100_{n_rows}_{options.relation}"
    path = options.output or RESULTS / f"{stem}.json"
    config = {
        "rows": n_rows,
        "relation": options.relation,
        "data": None if options.data is None else options.data.name,
    }
    store = Store(path, config)
    for seed in range(options.seeds):
        run(
            store,
            n_rows,
            epsilons,
            seed,
            options.relation,
            options.data,
            options.only,
        )
    rows = table(store.cells, epsilons)
    store.save(rows=rows)
    for row in rows:
        print({k: v if k == "epsilon" else round(v[0], 2) for k, v in row.items()})
    if not options.only:
        title = f"Purchase100 stand-in, n = {n_rows}, {options.relation}"
        draw(rows, options.figure or path.with_suffix(".png"), title)


if __name__ == "__main__":
    main()
