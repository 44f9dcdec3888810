"""Figure 1 of paper 1: accuracy against epsilon on Purchase100, 100 columns public.

Purchase100 may not be redistributed: ``--data`` names your copy. Without it the
generator of the same shape stands in, and the figure says so.

Methods, all under replace_one (`--relation replace_special` for the relation in which
the paper's own numbers are smaller):

* public: a network on the public columns and the target, no noise;
* none: scikit-learn's network on everything, no privacy;
* dp-sgd: everything but the label treated alike, its step size tuned on the test rows;
* dp-sgd, paper: the paper's step size;
* paper 1: Algorithm 1 with Gaussian padding, clip 0.01, momentum 0.9, rate 1/16, step
  and private weight tuned on the test rows;
* paper 1, paper: the same, its step the paper's 0.1;
* default: `FeatureDPMLPClassifier` with nothing set but what is public and the bounds;
* with a loop: the default, but a fifth of the squared budget trains the last layer;
* class sums: ``pretraining="class_sums"``, half of it for the last layer;
* linear: `FeatureDPLogisticRegression`, defaults likewise;
* linear, uncentred: the same with ``centering=None``, which keeps the columns
  non-negative, and the sensitivity at sqrt(2) clip_norm.

Tuning on the test rows flatters the rivals and never the default.

The epsilon of a budget is spent in 160 steps, ten passes, with the noise that this
takes. ``--trajectory`` goes the paper's way instead: noise multiplier 1 and rate 1/16
throughout, and the epsilon of a point is what so many steps have cost.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, Store
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from skfdp import FeatureDPLogisticRegression, FeatureDPMLPClassifier
from skfdp.datasets import load_purchase100, make_purchase100
from skfdp.privacy import Event, calibrate, compose
from skfdp.solvers import FeatureDPSGD, NoisySGD, Pretraining

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA, RATE, HIDDEN = 1e-5, 1 / 16, (300,)
#: Steps of DP-SGD and of Algorithm 1: ten passes.
N_STEPS = 160
# On the clipped sum over q n clip_norm: 10 * the paper's step over its clip norm is 1.
DP_SGD_STEPS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Steps of Algorithm 1, and private weights; the first step is the paper's.
WEIGHTED_STEPS = (
    (0.1, 100.0),
    (0.1, 1000.0),
    (0.1, 3000.0),
    (0.1, 10_000.0),
    (0.03, 3000.0),
)
#: Numbers of steps of a trajectory: one, three and ten passes.
TRAJECTORY = (16, 48, N_STEPS)
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


def loop(n, step, n_steps):
    """Parameters of the paper's loop."""
    return {
        "clip_norm": 0.01,
        "learning_rate": step,
        "learning_rate_decay": 0.0,
        "batch_size": max(1, round(RATE * n)),
        "max_iter": n_steps,
        "row_norm": 600**0.5,
    }


def dp_sgd(n, step, n_steps=N_STEPS):
    """Parameters of plain DP-SGD."""
    solver = NoisySGD(**loop(n, step, n_steps))
    return {"pretraining": None, "trained_layers": "all", "solver": solver}


def algorithm_one(n, step, weight, n_steps=N_STEPS):
    """Parameters of paper 1, section 3."""
    # A step on the public gradient, which the loop divides by the clip norm.
    given = loop(n, step * 0.01, n_steps)
    solver = FeatureDPSGD(
        public_loss="gaussian",
        gradient_scale=weight,
        public_batch_size=given["batch_size"],
        **given,
    )
    return dp_sgd(n, step) | {"solver": solver}


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


def methods(epsilon, n_steps, public, n, seed, relation):
    """Yield (name, variant, estimator)."""
    facts = (epsilon, public, n, seed, relation)
    yield "default", "", model(*facts)
    yield (
        "with a loop",
        "a fifth",
        model(*facts, pretraining=Pretraining(budget_share=0.8)),
    )
    yield "class sums", "", model(*facts, pretraining="class_sums")
    for step in DP_SGD_STEPS:
        yield "dp-sgd", f"step {step:g}", model(*facts, **dp_sgd(n, step, n_steps))
    for step, weight in WEIGHTED_STEPS:
        name = f"private weight {weight:g}"
        if step != WEIGHTED_STEPS[0][0]:
            name = f"step {step:g}, {name}"
        yield (
            "paper 1",
            name,
            model(*facts, **algorithm_one(n, step, weight, n_steps)),
        )
    for name, centering in (("linear", "auto"), ("linear, uncentred", None)):
        yield (
            name,
            "",
            FeatureDPLogisticRegression(
                epsilon,
                DELTA,
                public_features=public,
                public_target=True,
                centering=centering,
                bounds=(0, 1),
                neighboring_relation=relation,
                random_state=seed,
            ),
        )


def trajectory(relation, numbers=TRAJECTORY) -> dict[float, int]:
    """Return numbers of steps by the epsilon that they cost at noise multiplier 1."""
    found = {}
    for n_steps in numbers:
        event = Event(
            label="paper 1",
            noise_std=(1.0,),
            clip_norm=1.0,
            sensitivity=2.0 if relation == "replace_one" else 1.0,
            n_steps=n_steps,
            sampling_rate=RATE,
            neighboring_relation=relation,
        )
        found[round(compose([event]).epsilon(DELTA), 2)] = n_steps
    return found


def run(store, n_rows, steps, seed, relation, path, only):
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
    for epsilon, n_steps in steps.items():
        for name, variant, estimator in methods(
            epsilon, n_steps, public, len(X), seed, relation
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
    """Return one row for each epsilon: means over seeds, the best variant of each.

    An entry is the mean, the variant, and the number of seeds.
    """
    found: dict = {}
    for key, value in cells.items():
        name, variant, epsilon, _ = (part.strip() for part in key.split("|"))
        found.setdefault((name, variant, epsilon), []).append(value["accuracy"])
    rows = []
    for epsilon in epsilons:
        row = {"epsilon": epsilon}
        for (name, variant, e), values in found.items():
            if e not in ("", f"{epsilon:g}"):
                continue
            entry = (float(np.mean(values)), variant, len(values))
            names = [name]
            papers = variant == "step 0.1" or variant.startswith("private weight")
            if papers and name in ("dp-sgd", "paper 1"):
                names.append(f"{name}, paper")
            for one in names:
                row[one] = max(row.get(one, entry), entry)
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
        "linear, uncentred": "C4P-",
        "dp-sgd": "C1^--",
        "dp-sgd, paper": "C1v:",
        "paper 1": "C2d--",
        "paper 1, paper": "C2v:",
    }
    labels = {
        "default": "FeatureDPMLPClassifier, defaults",
        "linear": "FeatureDPLogisticRegression, defaults",
        "linear, uncentred": "the same, centering=None",
        "dp-sgd": "DP-SGD, step tuned",
        "dp-sgd, paper": "DP-SGD, the paper's step",
        "paper 1": "Algorithm 1, step and weight tuned",
        "paper 1, paper": "Algorithm 1, the paper's step, weight tuned",
    }
    for name, style in styles.items():
        points = [(row["epsilon"], row[name][0]) for row in rows if name in row]
        if points:
            axis.plot(*zip(*points, strict=True), style, label=labels[name])
    for name, label, style in (
        ("none", "no privacy", "k-"),
        ("public", "a network of the public columns", "k:"),
    ):
        axis.axhline(
            rows[0][name][0], color="k", linestyle=style[1:], lw=1, label=label
        )
    axis.set(xscale="log", xlabel="epsilon", ylabel="test accuracy, percent")
    axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_title(title, fontsize="small")
    axis.legend(
        fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=193_324, help="for training")
    parser.add_argument("--data", type=Path, help="your copy of Purchase100")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--only", nargs="+", default=(), help="methods")
    parser.add_argument(
        "--trajectory",
        type=int,
        nargs="*",
        metavar="STEPS",
        help="noise multiplier 1, as in the paper, and so many steps (16 48 160)",
    )
    parser.add_argument(
        "--relation", default="replace_one", choices=["replace_one", "replace_special"]
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args(argv)
    n_rows = options.rows
    steps = dict.fromkeys(options.epsilons, N_STEPS)
    stem = f"figure1_purchase100_{n_rows}_{options.relation}"
    if options.trajectory is not None:
        steps = trajectory(options.relation, options.trajectory or TRAJECTORY)
        stem += "_trajectory"
    source = "Purchase100"
    if options.data is None:
        source += " stand-in"
        print("No --data: Purchase100 is not here, and generated baskets stand in.")
    else:
        stem += "_real"
    describe(n_rows, options.relation)
    path = options.output or RESULTS / f"{stem}.json"
    config = {
        "rows": n_rows,
        "relation": options.relation,
        "data": None if options.data is None else options.data.name,
    }
    store = Store(path, config)
    for seed in range(options.seeds):
        run(store, n_rows, steps, seed, options.relation, options.data, options.only)
    rows = table(store.cells, steps)
    store.save(rows=rows)
    for row in rows:
        print({k: v if k == "epsilon" else round(v[0], 2) for k, v in row.items()})
    if not options.only or options.figure:
        title = f"{source}, n = {n_rows}, {options.relation}"
        draw(rows, options.figure or path.with_suffix(".png"), title)


def describe(n_rows, relation) -> None:
    """Print the size, the relation, and the noise of ten passes at epsilon 8."""
    paper = calibrate(
        8.0, DELTA, n_steps=N_STEPS, sampling_rate=RATE, neighboring_relation=relation
    )
    print(
        f"{n_rows} rows, {relation}; {N_STEPS} steps at rate 1/16 and epsilon "
        f"8 have noise multiplier {paper.noise_multiplier:.3f} (the paper: 1)."
    )


if __name__ == "__main__":
    main()
