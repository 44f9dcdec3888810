"""Theorem 2.4 of paper 1: its bound beside the excess risk that is measured.

Logistic loss on rows of norm 1, over a ball; the minimum is computed to 1e-10. Target
and some columns are public, and only their share varies: the problem and its minimum
stay the same. Algorithm 1 runs as the theorem has it: zero padding, the private
gradient clipped to its largest norm L' (so that the clip never binds), the exact public
gradient, a constant step, projection, the mean of all iterates. The noise is what
``skfdp.privacy.calibrate`` asks for under "replace_one", with a sensitivity of 2 L'.

``bound`` is what the theorem's proof gives for smooth losses (see the page "Excess
risk"): ``M**2 / (2 eta T) + eta (L'**2 (1 - q) / m + d sigma**2)``, for eta at most
half of the inverse smoothness. The step minimises it.

Parts of the output:

* cells: records, epsilon and share of private columns; full batches, and batches of a
  sixteenth. Beside Algorithm 1 plain DP-GD that clips the whole gradient to the same L'
  with the same noise and step ("clipped"), and, at one size, what
  ``FeatureDPLogisticRegression`` reaches with its defaults;
* slope: a public linear term of growing gradient, which the bound does not see;
* kink: a public loss without curvature, no private loss, no noise: the theorem as
  printed claims an excess of 0 for long runs.

Noise has seeds: **these are no private fits**.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, Store
from scipy.optimize import brentq
from scipy.special import expit

from skfdp import FeatureDPLogisticRegression, PrivacyWarning, UtilityWarning
from skfdp.privacy import calibrate

DELTA, D, RADIUS = 1e-5, 20, 4.0
SIZES, EPSILONS = (1000, 4000, 16_000), (0.5, 2.0, 8.0)
SHARES = (0.0, 0.1, 0.25, 0.5, 1.0)
RATES, SLOPES = (1.0, 1 / 16), (0.0, 1.0, 10.0)
# Rows of norm 1 have a logistic loss of smoothness 1/4.
LARGEST_STEP = 0.5 / 0.25
MIDDLE, N_FITS = 4000, 5
N_STEPS = 400  # of sampled batches; full batches take what the bound asks for


def n_seeds(n: int) -> int:
    """Return the number of runs of a cell."""
    return 20 if n <= MIDDLE else 5


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of norm 1 and labels in {0, 1} of a logistic law."""
    rng = np.random.default_rng([n, 24])
    X = rng.choice([-1.0, 1.0], size=(n, D)) / D**0.5
    weights = rng.normal(size=D)
    weights *= 3.0 / np.linalg.norm(weights)
    return X, (rng.random(n) < expit(X @ weights)).astype(float)


def risk(X, y, slope, weights) -> np.ndarray:
    """Return the mean loss of each column of weights, the public slope included."""
    margins = X @ weights
    loss = np.logaddexp(0, margins) - y[:, None] * margins
    return loss.mean(axis=0) + slope @ weights


def minimum(X, y, slope) -> np.ndarray:
    """Return the minimiser over the ball: Newton's method, and a multiplier."""

    def solve(multiplier):
        w = np.zeros(D)
        for _ in range(100):
            p = expit(X @ w)
            gradient = X.T @ (p - y) / len(y) + slope + multiplier * w
            hessian = (X.T * (p * (1 - p))) @ X / len(y) + multiplier * np.eye(D)
            move = np.linalg.solve(hessian, gradient)
            w -= move * min(1.0, 1.0 / np.linalg.norm(move))
            if np.linalg.norm(gradient) < 1e-13:
                break
        return w

    if not slope.any() and np.linalg.norm(solve(0.0)) <= RADIUS:
        return solve(0.0)
    outside = brentq(
        lambda log: np.linalg.norm(solve(np.exp(log))) - RADIUS, -12, 12, xtol=1e-13
    )
    return solve(np.exp(outside))


def lipschitz(share: float) -> float:
    """Return L': no private gradient over the ball is longer.

    It is ``(r - s) u + r p`` for a row (u, p) with residual r, and s that of (u, 0):
    both parts are orthogonal, and |r - s| is at most a quarter of |w p|.
    """
    largest = expit(RADIUS)
    apart = min(1.0, RADIUS * share**0.5 / 4)
    return float(np.sqrt(share * largest**2 + (1 - share) * apart**2))


def setting(n: int, epsilon: float, share: float, rate: float) -> dict:
    """Return the facts of a run: step, number of steps, noise, and the bound."""
    bound = lipschitz(share)
    m, n_steps, noise = rate * n, N_STEPS, 0.0
    if bound:
        if rate == 1.0:
            one = calibrate(epsilon, DELTA, n_steps=1).noise_multiplier
            long = RADIUS * n / (one * bound * (2 * D) ** 0.5) / LARGEST_STEP
            n_steps = int(np.clip(np.ceil(long), 50, 1000))
        plan = calibrate(epsilon, DELTA, n_steps=n_steps, sampling_rate=rate)
        noise = plan.noise_multiplier * bound / m
    variance = bound**2 * (1 - rate) / m + D * noise**2
    step = LARGEST_STEP
    if variance:
        step = min(step, RADIUS / (2 * n_steps * variance) ** 0.5)
    return {
        "lipschitz": bound,
        "n_steps": n_steps,
        "noise_std": noise,
        "step": step,
        "bound": RADIUS**2 / (2 * step * n_steps) + step * variance,
    }


def contributions(X, y, public, weights, clip, padded):
    """Return the factors of public and private columns in clipped gradients.

    Both arrays are of shape (n_rows, n_runs): a row adds ``a u`` for its public and
    ``b p`` for its private columns to the private sum of a run.
    """
    residual = expit(X @ weights) - y[:, None]
    known = np.zeros_like(residual)
    if padded:
        known = expit(X[:, public] @ weights[public]) - y[:, None]
    u = (X[:, public] ** 2).sum(axis=1)[:, None]
    p = (X[:, ~public] ** 2).sum(axis=1)[:, None]
    norm = np.sqrt((residual - known) ** 2 * u + residual**2 * p)
    factor = np.minimum(1.0, clip / np.maximum(norm, 1e-300))
    return factor * (residual - known), factor * residual, known, factor


def descend(X, y, public, facts, rate, slope, rng, padded=True) -> np.ndarray:
    """Return the mean iterates of Algorithm 1, a column for each of the seeds."""
    n, clip = len(y), facts["lipschitz"]
    weights = np.zeros((D, n_seeds(n)))
    total = np.zeros_like(weights)
    for _ in range(facts["n_steps"]):
        a, b, known, _ = contributions(X, y, public, weights, clip, padded)
        coins = 1.0
        if rate < 1:
            coins = rng.random(a.shape) < rate
        gradient = np.empty_like(weights)
        gradient[public] = X[:, public].T @ (a * coins)
        gradient[~public] = X[:, ~public].T @ (b * coins)
        gradient /= rate * n
        gradient += facts["noise_std"] * rng.normal(size=gradient.shape)
        gradient[public] += X[:, public].T @ known / n
        weights = weights - facts["step"] * (gradient + slope[:, None])
        weights *= np.minimum(1.0, RADIUS / np.linalg.norm(weights, axis=0))
        total += weights
    return total / facts["n_steps"]


def summary(excess: np.ndarray) -> dict:
    """Return mean and standard error over runs."""
    error = excess.std(ddof=1) / len(excess) ** 0.5
    return {"mean": float(excess.mean()), "se": float(error), "n_runs": len(excess)}


def cell(n, epsilon, share, rate, slope_size=0.0) -> dict:
    """Return the bound and the measured excess of one setting."""
    X, y = problem(n)
    public = np.arange(D) >= round(share * D)
    slope = np.full(D, slope_size / D**0.5)
    least = risk(X, y, slope, minimum(X, y, slope)[:, None])[0]
    facts = setting(n, epsilon, share, rate)
    found = dict(facts)
    for name, padded in (("algorithm 1", True), ("clipped", False)):
        if share == 0 and not padded:
            continue
        rng = np.random.default_rng([n, int(100 * share), int(100 * epsilon)])
        means = descend(X, y, public, facts, rate, slope, rng, padded)
        found[name] = summary(risk(X, y, slope, means) - least)
    return found


def default(n, epsilon, share) -> dict:
    """Return the excess of the estimator's default on the same problem."""
    X, y = problem(n)
    flat = np.zeros(D)
    least = risk(X, y, flat, minimum(X, y, flat)[:, None])[0]
    excess = []
    for seed in range(N_FITS):
        model = FeatureDPLogisticRegression(
            epsilon,
            DELTA,
            public_features=np.arange(round(share * D), D),
            public_target=True,
            bounds=(-(D**-0.5), D**-0.5),
            random_state=seed,
            neighboring_relation="replace_one",
        ).fit(X, y)
        margins = model.decision_function(X)
        excess.append((np.logaddexp(0, margins) - y * margins).mean() - least)
    return summary(np.array(excess))


def kink(n_steps: int) -> dict:
    """Return the excess of ``|w - .9|`` over [-1, 1] and the printed bound for it.

    The loss is public and Lipschitz, L' is 0, and the step is 2: from 0 on the iterates
    jump between both ends.
    """
    w, total, step = 0.0, 0.0, 2.0
    for _ in range(n_steps):
        w = float(np.clip(w - step * np.sign(w - 0.9), -1.0, 1.0))
        total += w
    excess = abs(total / n_steps - 0.9)
    return {"printed": 1 / (2 * step * n_steps), "excess": excess}


def run(store: Store, sizes, epsilons, shares, rates) -> None:
    """Compute what the store lacks, and print a line for each cell."""
    middle = MIDDLE if MIDDLE in sizes else sizes[0]
    for rate in rates:
        for n in sizes if rate == 1 else (middle,):
            for epsilon in epsilons:
                for share in shares:
                    key = f"cell | {n} | {epsilon:g} | {share:g} | {rate:g}"
                    value = store.compute(
                        key, lambda a=(n, epsilon, share, rate): cell(*a)
                    )
                    show(key, value)
    for size in SLOPES:
        key = f"slope | {middle} | {epsilons[-1]:g} | 0.25 | {size:g}"
        value = store.compute(
            key, lambda size=size: cell(middle, epsilons[-1], 0.25, 1.0, size)
        )
        show(key, value)
    for epsilon in epsilons:
        for share in [share for share in shares if share]:
            key = f"default | {middle} | {epsilon:g} | {share:g}"
            value = store.compute(key, lambda a=(middle, epsilon, share): default(*a))
            print(f"{key:36} excess {value['mean']:.4f} +- {value['se']:.4f}")
    for n_steps in (10, 1000, 100_000):
        value = store.compute(f"kink | {n_steps}", lambda n=n_steps: kink(n))
        print(
            f"kink, {n_steps:6} steps: {value['excess']:.3f} ({value['printed']:.1e})"
        )


def show(key, value) -> None:
    """Print bound and measured excess of a cell."""
    parts = [f"bound {value['bound']:.4f}"]
    for name in ("algorithm 1", "clipped"):
        if name in value:
            mean, error = value[name]["mean"], value[name]["se"]
            parts.append(f"{name} {mean:.4f} +- {error:.4f}")
    print(f"{key:36} L' {value['lipschitz']:.3f}  " + "   ".join(parts), flush=True)


def verdict(cells: dict) -> dict:
    """Return what the numbers say of the theorem."""
    found = {k: v for k, v in cells.items() if k.split(" | ")[0] in ("cell", "slope")}
    ratios = {k: v["algorithm 1"]["mean"] / v["bound"] for k, v in found.items()}
    by_share, by_size = {}, {}
    for key, value in found.items():
        kind, n, epsilon, share, rate = key.split(" | ")
        # Where the step is as long as it may be, the noise is not what limits.
        noisy = share != "0" and value["step"] < LARGEST_STEP
        if kind == "cell" and rate == "1" and noisy:
            point = float(n), value
            by_share.setdefault((n, epsilon), []).append((value["lipschitz"], value))
            by_size.setdefault((share, epsilon), []).append(point)
    return {
        "n_cells": len(found),
        "above_the_bound": [key for key, ratio in ratios.items() if ratio > 1],
        "measured_over_bound": [min(ratios.values()), max(ratios.values())],
        "mean_power_of_lipschitz": powers(by_share),
        "mean_power_of_records": powers(by_size),
    }


def powers(groups: dict) -> dict:
    """Return mean slopes of logarithms over groups of (number, cell)."""
    slopes = {"bound": [], "algorithm 1": [], "clipped": []}
    for points in groups.values():
        x = np.log([number for number, _ in points])
        for name, out in slopes.items():
            y = [v[name] if name == "bound" else v[name]["mean"] for _, v in points]
            if len(x) > 1:
                out.append(float(np.polyfit(x, np.log(y), 1)[0]))
    return {name: float(np.mean(out)) if out else None for name, out in slopes.items()}


def draw(cells: dict, path: Path) -> None:
    """Draw excess risk against records, and against L'."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, 2, figsize=(9, 3.6), layout="constrained", sharey=True
    )
    full = {}
    for key, value in cells.items():
        kind, *facts = key.split(" | ")
        if kind == "cell" and facts[3] == "1":
            full[int(facts[0]), float(facts[1]), float(facts[2])] = value
    sizes, epsilons, shares = (sorted({key[i] for key in full}) for i in range(3))
    middle = epsilons[len(epsilons) // 2]
    for k, share in enumerate(shares):
        values = [full[n, middle, share] for n in sizes]
        axes[0].plot(
            sizes,
            [max(value["algorithm 1"]["mean"], 1e-6) for value in values],
            f"C{k}o-",
            label=f"{share:.0%} private",
        )
        axes[0].plot(sizes, [value["bound"] for value in values], f"C{k}:")
    axes[0].set(
        xscale="log",
        yscale="log",
        xlabel="records",
        ylabel="excess risk",
        title=f"epsilon {middle:g}: measured, and bound (dotted)",
    )
    size = MIDDLE if MIDDLE in sizes else sizes[0]
    for k, epsilon in enumerate(epsilons):
        values = [full[size, epsilon, share] for share in shares if share]
        x = [value["lipschitz"] for value in values]
        for name, style in (("algorithm 1", "o-"), ("clipped", "^--")):
            axes[1].plot(
                x,
                [value[name]["mean"] for value in values],
                f"C{k}{style}",
                label=f"{name}, epsilon {epsilon:g}",
            )
        axes[1].plot(x, [value["bound"] for value in values], f"C{k}:")
    axes[1].set(
        xlabel="largest private gradient, L'",
        title=f"{size} records",
    )
    for axis in axes:
        axis.legend(
            fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2
        )
    figure.savefig(path, dpi=120)


def main(argv: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one size, two shares")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    for kind in (UtilityWarning, PrivacyWarning):
        warnings.simplefilter("ignore", kind)
    grid = SIZES, EPSILONS, SHARES, RATES
    if options.quick:
        grid = (1000,), (2.0,), (0.0, 0.25, 1.0), (1.0,)
    path = options.output or RESULTS / "excess_risk.json"
    store = Store(path, {"delta": DELTA, "columns": D, "radius": RADIUS})
    run(store, *grid)
    found = verdict(store.cells)
    store.save(verdict=found)
    print(found)
    draw(store.cells, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
