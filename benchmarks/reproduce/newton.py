"""Newton's method and correlated noise against the default loop, at one budget.

    python benchmarks/reproduce/newton.py --output benchmarks/results/newton.txt

**First table**, computed without data. Near its minimum a loss is quadratic. In a
direction of curvature h the last iterate is then a sum of a_t times (gradient t plus
noise t). A record can push with the sign of a_t in all steps and move the iterate by C
sum |a_t|. So Gaussian noise of total mu leaves at least C sum |a_t| / mu. The table
shows the noise over that bound. Time constants: h times the sum of the steps.

**Second table**, on generated tables. *Newton*: double-noise Newton (Algorithm 3 and
its released code, https://arxiv.org/abs/2305.13209), best of nine settings by median
test loss. *free*: the exact Hessian is told in each step, which no private method may
do, and the gradient alone has noise; best of twelve. Both get exact means and
deviations of the columns and the 90 % quantile of the row norms for free. *default*:
the package, with bounds of four deviations. *diverged*: share of runs of Newton's best
setting that are worse than predicting 1/2. All have one Gaussian-DP parameter and the
relation "replace_special".
"""

from __future__ import annotations

import argparse
import itertools
import os
import warnings

import numpy as np
from scipy.linalg import solve_triangular, toeplitz
from scipy.special import expit
from sklearn.metrics import log_loss

import skfdp
from skfdp.privacy import gdp_mu

DELTA = 1e-5
TIME_CONSTANTS = (0.1, 1.0, 3.0, 10.0, 30.0)
#: Records, columns, correlation of neighbouring columns.
TABLES = {
    "1,000 x 10": (1_000, 10, 0.0),
    "20,000 x 10": (20_000, 10, 0.0),
    "20,000 x 30, correlated": (20_000, 30, 0.95),
    "100,000 x 30, correlated": (100_000, 30, 0.95),
}


def responses(rates, momentum, curvature):
    """Return a_t, by which gradient t enters the last iterate of heavy-ball steps."""
    n_steps = len(rates)
    weight, velocity = np.zeros(n_steps), np.zeros(n_steps)  # one for each impulse
    for step, rate in enumerate(rates):
        velocity = momentum * velocity + curvature * weight
        velocity[step] += 1
        weight = weight - rate * velocity
    return -weight


def independent(a, precision):
    """Return the noise over the bound, for 1 / sigma_t ** 2 in that proportion."""
    variances = precision.sum() / precision
    return float(np.sqrt((a**2 * variances).sum()) / np.abs(a).sum())


def correlated(a):
    """Return the same for noise of DP-FTRL: the square root of the prefix sums."""
    steps = np.arange(1, len(a))
    column = np.cumprod(np.concatenate([[1.0], 1 - 0.5 / steps]))
    root = np.tril(toeplitz(column))
    decoded = solve_triangular(root.T, a)
    return float(
        np.linalg.norm(decoded) * np.linalg.norm(root.sum(axis=1)) / abs(a).sum()
    )


def noise_table(n_steps=100):
    """Yield the lines of the first table."""
    even, ten = np.ones(n_steps), np.ones(10)
    left, momentum = 1 - np.arange(n_steps) / n_steps, 1 - 20 / n_steps
    least = np.maximum(left, 0.5 / n_steps) ** 0.75  # as in the rules of the loop
    curvatures = np.array(TIME_CONSTANTS) / n_steps
    plain = [responses(even, 0.0, h) for h in curvatures]
    loop = [responses(2 * (1 - momentum) * left, momentum, h) for h in curvatures]
    newton_steps = responses(ten, 0.0, 1.0)
    rows = {
        "descent, even noise": [independent(a, even) for a in plain],
        "descent, DP-FTRL's square root": [correlated(a) for a in plain],
        "descent, the best noise": [independent(a, np.abs(a)) for a in plain],
        "the default loop and its noise": [independent(a, least) for a in loop],
        "Newton, 10 steps, curvature free": [independent(newton_steps, ten)] * 5,
    }
    heads = "".join(f"{one:7g}" for one in TIME_CONSTANTS)
    yield f"{'time constants of the direction':34}{heads}"
    for name, row in rows.items():
        yield f"{name:34}" + "".join(f"{value:7.2f}" for value in row)


def generated(n, d, correlation, seed, n_test=20_000):
    """Return training and test tables of a logistic model."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.normal(size=(n + n_test, d))
    for column in range(1, d):
        kept = correlation * X[:, column - 1]
        X[:, column] = kept + np.sqrt(1 - correlation**2) * X[:, column]
    theta = rng.normal(size=d)
    margins = X @ theta
    margins *= 2 / margins.std()
    y = (rng.random(n + n_test) < expit(margins)).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


def rows_of_norm_one(X, X_test):
    """Return centred rows with an intercept, of norm 1 at most, and test rows."""
    centre, spread = X.mean(axis=0), X.std(axis=0)
    both = [np.c_[(one - centre) / spread, np.ones(len(one))] for one in (X, X_test)]
    radius = np.quantile(np.linalg.norm(both[0], axis=1), 0.9)
    train, test = (one / radius for one in both)
    norms = np.linalg.norm(train, axis=1, keepdims=True)
    return train / np.maximum(norms, 1), test


def newton(rows, y, mu, rng, n_steps, gradient_share, curvature):
    """Return the weights of Newton's method for a total of mu-Gaussian-DP.

    `curvature` is "private", with the noise and regularisation of the paper, or a
    number that is added to the eigenvalues of the exact Hessian.
    """
    n, d = rows.shape
    rho, smooth = mu**2 / 2 / n_steps, 0.25
    free = curvature != "private"
    rho_gradient = rho if free else gradient_share * rho
    rho_trace, rho_direction = ((rho - rho_gradient) * share for share in (0.1, 0.9))
    w = np.zeros(d)
    for _ in range(n_steps):
        p = expit(rows @ w)
        gradient = rows.T @ (p - y) / n + rng.normal(size=d) / n / np.sqrt(
            2 * rho_gradient
        )
        hessian = (rows * (p * (1 - p))[:, None]).T @ rows / n
        if free:
            w = w - np.linalg.solve(hessian + curvature * np.eye(d), gradient)
            continue
        trace = np.trace(hessian) + smooth / n * rng.normal() / np.sqrt(2 * rho_trace)
        least = max((0.5 * max(trace, 0) / (n**2 * rho_direction)) ** (1 / 3), 1 / n)
        moved = np.linalg.norm(gradient) * smooth / (n * least**2 + smooth * least)
        w = w - np.linalg.solve(hessian + least * np.eye(d), gradient)
        w = w + moved / np.sqrt(2 * rho_direction) * rng.normal(size=d)
    return w


def losses(shape, epsilon, seed):
    """Return test losses: of Newton by setting, of free curvature, of the default."""
    X, y, X_test, y_test = generated(*shape, seed)
    rows, test = rows_of_norm_one(X, X_test)
    rng, mu = np.random.default_rng(seed), gdp_mu(epsilon, DELTA)

    def loss(setting):
        margins = test @ newton(rows, y, mu, rng, *setting)
        return log_loss(y_test, expit(np.clip(margins, -30, 30)))

    private = itertools.product((5, 10, 15), (0.5, 0.7, 0.9), ("private",))
    free = itertools.product((2, 5, 10), (1.0,), (1e-4, 1e-3, 3e-3, 1e-2))
    centre, ends = X.mean(axis=0), 4 * X.std(axis=0)
    bounds = {"bounds": (centre - ends, centre + ends), "classes": [0, 1]}
    special = {"neighboring_relation": "replace_special", "random_state": seed}
    model = skfdp.FeatureDPLogisticRegression(epsilon, DELTA, **bounds, **special)
    model.fit(X, y)
    ours = log_loss(y_test, model.predict_proba(X_test)[:, 1])
    return [loss(one) for one in private], [loss(one) for one in free], [ours]


def loss_table(tables, epsilons, seeds):
    """Yield the lines of the second table: medians over seeds, and what diverged."""
    heads = ("Newton", "free", "default", "diverged")
    yield f"{'generated table':26}{'eps':>5}" + "".join(f"{head:>9}" for head in heads)
    for name, epsilon in itertools.product(tables, epsilons):
        found = [losses(TABLES[name], epsilon, seed) for seed in range(seeds)]
        medians = [np.median(one, axis=0) for one in zip(*found, strict=True)]
        worse = np.mean([one[0][medians[0].argmin()] > np.log(2) for one in found])
        cells = "".join(f"{one.min():9.3f}" for one in medians)
        yield f"{name:26}{epsilon:5g}{cells}{worse:9.0%}"


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default=os.devnull)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    shown = (list(TABLES)[:1], (1.0,), 1) if given.quick else (TABLES, (0.3, 1, 3), 5)
    with open(given.output, "w", encoding="utf-8") as file:
        for line in itertools.chain(noise_table(), [""], loss_table(*shown)):
            print(line, flush=True)
            print(line, file=file)


if __name__ == "__main__":
    main()
