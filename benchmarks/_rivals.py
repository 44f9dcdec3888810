"""The rivals of `rivals.py`, written anew for it; none is part of the package.

A rival gets a `Problem`, a budget and a seed, and returns the predictions of each of
its settings for the test rows: chances of class 1, or targets. Whoever reports takes
the best setting by the test rows, at no charge to the rival's budget.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import math
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import searched
from _frames import TASKS, Raw, Table
from numpy.polynomial import Chebyshev, Polynomial
from scipy.optimize import brentq
from scipy.special import expit, log_expit, log_ndtr, ndtr
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

from skfdp import (
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    LabelDPClassifier,
    LabelDPRegressor,
    TableSchema,
)
from skfdp.privacy import gdp_mu
from skfdp.schema import Category, Label, Number

BASES = {"lines": "linear", "curves": "spline"}
RELATION = "replace_special"
#: Setting -> predictions of the test rows.
Found = dict[str, np.ndarray]


# ---------------------------------------------------------------- ours


def schema(table: Table, raw: Raw, basis: str, public: bool = False) -> TableSchema:
    """Return the declared bounds and categories, with the outcome "y"."""
    columns = {
        name: Number(*pair, basis=basis, public=public)
        for name, pair in raw.bounds.items()
    }
    columns |= {
        name: Category(levels, public=public) for name, levels in raw.categories.items()
    }
    outcome = Number(*raw.target_bounds)
    if table.task == "classification":
        outcome = Label([0, 1])
    return TableSchema({**columns, "y": outcome}, outcomes=["y"])


def predictions(table: Table, model, X, y, X_test) -> np.ndarray:
    """Fit, and return chances of class 1 or targets of the test rows."""
    model.fit(X, y)
    if table.task == "classification":
        return model.predict_proba(X_test)[:, 1]
    return model.predict(X_test)


def private(basis: str, relation: str = RELATION, public: bool = False) -> Callable:
    """Return a fit of our estimators, untouched except for what is declared."""

    def fit(table: Table, raw: Raw, epsilon: float, seed: int) -> np.ndarray:
        kinds = {"classification": FeatureDPLogisticRegression}
        model = kinds.get(table.task, FeatureDPRegressor)(
            epsilon=epsilon,
            delta=table.delta,
            neighboring_relation=relation,
            random_state=seed,
            schema=schema(table, raw, basis, public),
        )
        return predictions(table, model, raw.X, raw.y, raw.X_test)

    return fit


def scores(task: str, y: np.ndarray, predicted: np.ndarray) -> dict:
    """Return the scores of chances of class 1, or of predicted targets."""
    if task == "classification":
        return {
            "accuracy": 100 * float(accuracy_score(y, predicted > 0.5)),
            "auc": float(roc_auc_score(y, predicted)),
            "log_loss": float(log_loss(y, predicted, labels=[0, 1])),
        }
    return {"r2": float(r2_score(y, predicted))}


# ---------------------------------------------------------------- rows as numbers


@dataclasses.dataclass(frozen=True)
class Problem:
    """A split of a table, and its rows as numbers."""

    table: Table
    raw: Raw

    def __hash__(self):
        return id(self)

    @functools.cached_property
    def longest(self) -> float:
        """The length that no encoded row exceeds, by the declarations alone."""
        return math.sqrt(self.raw.X.shape[1] + 1)

    @functools.lru_cache(maxsize=8)  # noqa: B019 (a problem lives for one table)
    def rows(self, basis: str, most: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Return training and test rows in the unit ball, a constant included.

        A number is in [-1, 1] or on hats, a category in a column for each level. Rows
        longer than `most` times the longest are shortened to it. No value is missing
        or undeclared: the columns that would say so are left out.
        """
        encoder = schema(self.table, self.raw, BASES[basis]).encoder().fit(self.raw.X)
        names = encoder.get_feature_names_out()
        kept = [name.split("__")[-1] not in ("missing", "other") for name in names]
        numbers = [name.endswith("__linear") for name in names[kept]]
        found = []
        for frame in (self.raw.X, self.raw.X_test):
            Z = encoder.transform(frame)[:, kept]
            Z[:, numbers] = 2 * Z[:, numbers] - 1
            Z = np.column_stack([Z, np.ones(len(frame))])
            length = np.linalg.norm(Z, axis=1)
            assert length.max() < self.longest + 1e-9
            Z /= np.maximum(length, most * self.longest)[:, None]
            found.append(Z)
        return tuple(found)

    @functools.lru_cache(maxsize=8)  # noqa: B019
    def gram(self, basis: str, most: float) -> np.ndarray:
        """Return the sum of x x' over the training rows."""
        X, _ = self.rows(basis, most)
        return X.T @ X

    @property
    def targets(self) -> np.ndarray:
        """The outcomes between -1 and 1."""
        low, high = self.raw.target_bounds
        y = np.clip(self.raw.y, low, high)
        return (2 * y - low - high) / (high - low)

    def read(self, scores: np.ndarray) -> np.ndarray:
        """Return what scores between -1 and 1 predict, kept within the bounds."""
        low, high = self.raw.target_bounds
        least = 0.005 if self.table.task == "classification" else 0.0
        share = np.clip((1 + scores) / 2, least, 1 - least)
        return low + (high - low) * share


# ---------------------------------------------------------------- sums, perturbed


def noisy_gram(gram, rng, std: float, least_std: float, factor: float) -> np.ndarray:
    """Return a noisy sum of x x' with the penalty of AdaSSP.

    The penalty is `factor` times what the noise of the matrix exceeds with probability
    .05, less a lower bound of the smallest eigenvalue.
    """
    d = len(gram)
    noise = np.triu(rng.normal(size=(d, d)) * std)
    least = np.linalg.eigvalsh(gram)[0] + least_std * (rng.normal() - 1.96)
    most = factor * std * math.sqrt(d * math.log(2 * d * d / 0.05))
    penalty = max(0.0, most - max(0.0, least))
    return gram + noise + np.triu(noise, 1).T + max(penalty, 1e-9) * np.eye(d)


def ada_ssp(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return AdaSSP (Wang 2018, algorithm 2): linear regression on the label.

    Adding or removing a row of the unit ball moves the smallest eigenvalue, the sum of
    x x' and that of x y by at most 1 each. Settings: the basis, the most length of a
    row, how the budget is split, and how large the penalty is.
    """
    mu, found = gdp_mu(epsilon, problem.table.delta), {}
    for basis, most, small in itertools.product(BASES, (1.0, 0.8), (1 / 3, 0.05)):
        X, X_test = problem.rows(basis, most)
        large = (1 - small) / 2
        stds = [1 / (mu * math.sqrt(share)) for share in (small, large)]
        cross = X.T @ problem.targets
        for factor in (1.0, 0.3, 0.1, 0.03):
            rng = np.random.default_rng([seed, 21])
            matrix = noisy_gram(
                problem.gram(basis, most), rng, stds[1], stds[0], factor
            )
            noisy = cross + stds[1] * rng.normal(size=len(cross))
            weights = np.linalg.lstsq(matrix, noisy, rcond=None)[0]
            key = f"{basis}, length {most}, share {small:.2f}, penalty {factor}"
            found[key] = problem.read(X_test @ weights)
    return found


def boosted_ada_ssp(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return BoostedAdaSSP (Tang et al. 2023): AdaSSP of what the rounds before left.

    The matrix and its smallest eigenvalue are released once, a third of mu squared
    each; the rounds share the last third. Settings: the basis, the rounds, the
    shrinkage of a round, and how large the penalty is.
    """
    mu, found = gdp_mu(epsilon, problem.table.delta), {}
    std = math.sqrt(3) / mu
    grid = itertools.product(BASES, (10, 50, 100), (0.0, 0.5), (1.0, 0.3))
    for basis, rounds, power, factor in grid:
        if rounds == 100 and (power, factor) != (0.5, 1.0):
            continue  # for the sake of time
        rng = np.random.default_rng([seed, 22])
        X, X_test = problem.rows(basis, 1.0)
        matrix = noisy_gram(problem.gram(basis, 1.0), rng, std, std, factor)
        inverse, weights = np.linalg.pinv(matrix), np.zeros(len(matrix))
        for k in range(rounds):
            left = np.clip(problem.targets - X @ weights, -1, 1)
            noise = std * math.sqrt(rounds) * rng.normal(size=len(weights))
            weights = weights + (k + 1) ** -power * (inverse @ (X.T @ left + noise))
        key = f"{basis}, {rounds} rounds, power {power}, penalty {factor}"
        found[key] = problem.read(X_test @ weights)
    return found


def without_noise(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return what DD-SSP (Ferrando and Sheldon 2025) would tell from exact tables.

    It releases tables of pairs of columns, and takes the sums of x x' and x y from
    them: least squares, or the logistic likelihood as a parabola on an interval of the
    score, which differs from least squares in scale alone. Settings: the basis, the
    interval, and the ridge penalty. **Not private.**
    """
    found = {}
    for basis, penalty in itertools.product(BASES, (1e-6, 0.1)):
        X, X_test = problem.rows(basis)
        matrix = problem.gram(basis, 1.0) + penalty * np.eye(X.shape[1])
        scores = X_test @ np.linalg.solve(matrix, X.T @ problem.targets)
        if problem.table.task == "regression":
            found[f"{basis}, penalty {penalty}"] = problem.read(scores)
            continue
        for half in (2.0, 4.0, 6.0):
            parabola = Chebyshev.interpolate(log_expit, 2, [-half, half])
            _, slope, bend = parabola.convert(kind=Polynomial).coef
            key = f"{basis}, interval {half:g}, penalty {penalty}"
            found[key] = expit(-slope / (2 * bend) * scores)
    return found


# ---------------------------------------------------------------- logistic, perturbed


def minimum(X, y, penalty: float, slope: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the minimum of a logistic loss plus a square and a line, by Newton.

    The loss of a row is ``log(1 + exp(m)) - y m`` for its score m; `y` may be any
    number.
    """

    def value(weights):
        scores = X @ weights
        loss = -log_expit(-scores).sum() - y @ scores
        return loss + penalty / 2 * weights @ weights + slope @ weights, scores

    weights, (best, scores) = start, value(start)
    for _ in range(50):
        chance = expit(scores)
        gradient = X.T @ (chance - y) + penalty * weights + slope
        curvature = (X * (chance * (1 - chance))[:, None]).T @ X
        curvature[np.diag_indices_from(curvature)] += penalty
        step, share = np.linalg.solve(curvature, gradient), 1.0
        if step @ gradient < 1e-9:
            break
        while True:
            moved, moved_scores = value(weights - share * step)
            if moved <= best or share < 1e-8:
                break
            share /= 2
        weights, best, scores = weights - share * step, moved, moved_scores
    return weights


def profile(epsilon: float, std: float, penalty: float) -> float:
    """Return delta of objective perturbation (Redberg et al. 2023, theorem 3.1).

    For gradients of at most 1 along a fixed direction and curvature of at most 1/4, the
    privacy loss is at most ``-log(1 - 1 / (4 penalty)) + s^2 / 2 + |N(0, s^2)|`` with
    s = 1 / std.
    """
    s = 1 / std
    rest = epsilon + math.log1p(-0.25 / penalty) - s * s / 2
    at = max(rest, 0.0)
    beyond = 2 * (ndtr(-at / s) - math.exp(at + s * s / 2 + log_ndtr(-at / s - s)))
    if rest >= 0:
        return beyond
    return -math.expm1(rest) + math.exp(rest) * beyond


def objective_perturbation(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return the exact minimum of a logistic loss with a random line.

    Adding or removing a row of the unit ball. Settings: the basis, and which part of
    epsilon pays for the least penalty. The error of the solver is not charged.
    """
    found, delta = {}, problem.table.delta
    for basis in BASES:
        X, X_test = problem.rows(basis)
        weights = np.zeros(X.shape[1])
        unit = np.random.default_rng([seed, 23]).normal(size=X.shape[1])
        for part in (0.6, 0.25, 0.08, 0.02):
            penalty = 0.25 / -math.expm1(-part * epsilon)
            std = brentq(
                lambda std, penalty=penalty: profile(epsilon, std, penalty) - delta,
                1e-2,
                1e5,
            )
            weights = minimum(X, problem.raw.y, penalty, std * unit, weights)
            found[f"{basis}, part {part}"] = expit(X_test @ weights)
    return found


def newton(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return double-noise Newton (Ganesh et al. 2023, algorithm 3), starting at 0.

    A step has a noisy gradient, and noise on the direction that it gives: the least
    eigenvalue, from a noisy trace, bounds how far a row can turn that. Adding or
    removing a row, n public; each release is a Gaussian one of its part of mu squared.
    Settings: the basis, the way to raise eigenvalues with the curvature that it
    takes, the steps and the multiple of the trace.
    """
    found, n = {}, len(problem.raw.y)
    y = problem.raw.y
    grids = {"lines": ((3, 10), (0.3, 3.0)), "curves": ((5,), (0.3, 3.0))}
    for basis, (all_steps, multiples) in grids.items():
        X, X_test = problem.rows(basis)
        for kind, steps, multiple in itertools.product(
            ("add", "clip"), all_steps, multiples
        ):
            rng = np.random.default_rng([seed, 24])
            rho = gdp_mu(epsilon, problem.table.delta) ** 2 / 2 / steps
            of_gradient, of_trace, of_direction = 0.6 * rho, 0.04 * rho, 0.36 * rho
            weights = np.zeros(X.shape[1])
            for _ in range(steps):
                scores = X @ weights
                chance = expit(scores)
                gradient = X.T @ (chance - y) / n
                gradient += rng.normal(size=len(weights)) / n / (2 * of_gradient) ** 0.5
                if kind == "add":
                    bend = chance * (1 - chance)
                else:  # the tightest quadratic above the loss
                    far = np.abs(scores) > 1e-6
                    bend = np.full(n, 0.25)
                    bend[far] = (chance[far] - 0.5) / scores[far]
                curvature = (X * bend[:, None]).T @ X / n
                trace = np.trace(curvature)
                trace += 0.25 / n / (2 * of_trace) ** 0.5 * rng.normal()
                least = multiple * max(trace, 0.0) / (n**2 * of_direction)
                least = max(least ** (1 / 3), 1 / n)
                values, vectors = np.linalg.eigh(curvature)
                sign = 1 if kind == "add" else -1
                values = values + least if sign > 0 else np.maximum(values, least)
                turn = 0.25 / (n * least**2 + sign * 0.25 * least)
                turn *= np.linalg.norm(gradient) / (2 * of_direction) ** 0.5
                direction = vectors @ (vectors.T @ gradient / values)
                weights = weights - direction + turn * rng.normal(size=len(weights))
            key = f"{basis}, {kind}, {steps} steps, multiple {multiple}"
            found[key] = expit(X_test @ weights)
    return found


# ---------------------------------------------------------------- DP-EBM


def boosting(**settings) -> Callable:
    """Return a fit of DP-EBM under the same declarations.

    Its source (0.7.8) has the noise of adding or removing a record: ``sqrt(columns) /
    mu`` on counts, and ``sqrt(steps) / mu`` times the largest residual on a leaf.
    """

    def fit(table: Table, raw: Raw, epsilon: float, seed: int) -> np.ndarray:
        from interpret.privacy import (
            DPExplainableBoostingClassifier,
            DPExplainableBoostingRegressor,
        )

        common = {
            "epsilon": epsilon,
            "delta": table.delta,
            "random_state": seed,
            "n_jobs": 1,
            "feature_names": list(raw.X),
            "feature_types": [
                "nominal" if name in raw.categories else "continuous" for name in raw.X
            ],
            "privacy_bounds": raw.bounds,
        }
        # Values outside of the bounds would be in no bin of the histogram.
        X, X_test = raw.clipped()
        if table.task == "classification":
            model = DPExplainableBoostingClassifier(**common, **settings)
            return predictions(table, model, X, raw.y, X_test)
        low, high = raw.target_bounds
        model = DPExplainableBoostingRegressor(
            privacy_target_min=low, privacy_target_max=high, **common, **settings
        )
        return np.clip(model.fit(X, raw.y).predict(X_test), low, high)

    return fit


#: Learning rate, leaves and bins, at 100 rounds: what matters is rounds times rate, and
#: fewer steps cost nothing. From small steps for few rows to large ones for many.
SETTINGS = (
    (0.003, 2, 8),
    (0.01, 2, 8),
    (0.03, 3, 8),
    (0.03, 10, 8),
    (0.03, 10, 32),
    (0.1, 10, 16),
    (0.1, 10, 32),
    (0.3, 10, 16),
    (0.3, 10, 64),
)
GRID = {
    f"DP-EBM {rate:g} {leaves} {bins}": boosting(
        max_rounds=100, learning_rate=rate, max_leaves=leaves, max_bins=bins
    )
    for rate, leaves, bins in SETTINGS
}


# ---------------------------------------------------------------- a rival


@dataclasses.dataclass(frozen=True)
class Rival:
    """A method to compare with."""

    #: Of a problem, epsilon and a seed; returns the predictions of each setting.
    fit: Callable[[Problem, float, int], Found]
    relation: str  # what its proof is for
    tasks: tuple[str, ...] = TASKS[:1]
    needs: str = ""  # a package, or a variable of the environment in capitals

    @property
    def of_labels(self) -> bool:
        """Whether it protects the label alone."""
        return "label" in self.relation

    def missing(self) -> str | None:
        """Return what is not here of what it needs, or None."""
        if not self.needs:
            return None
        if self.needs.isupper():
            return None if self.needs in os.environ else self.needs
        return None if importlib.util.find_spec(self.needs) else self.needs


def of_boosting(**fits: Callable) -> Callable:
    """Return a rival whose settings are fits of DP-EBM."""

    def rival(problem: Problem, epsilon: float, seed: int) -> Found:
        return {
            name: fit(problem.table, problem.raw, epsilon, seed)
            for name, fit in fits.items()
        }

    return rival


# ---------------------------------------------------------------- labels private


def flipped(
    y: np.ndarray, prior: np.ndarray, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Return codes of labels by RRWithPrior (Ghazi et al. 2021, arXiv 2102.06062).

    A record answers among its k likeliest classes: the truth, if it is one of them,
    with probability ``e**epsilon / (e**epsilon + k - 1)``, any of the others else; k
    makes the chance of a true answer largest. Under a uniform prior that is Warner's
    randomised response, k being the number of classes. The shape of `prior` is (n_rows,
    n_classes).
    """
    n_rows, n_classes = prior.shape
    order = np.argsort(-prior, axis=1, kind="stable")
    ranked = np.take_along_axis(prior, order, axis=1)
    sizes = np.arange(1, n_classes + 1)
    keep = 1 / (1 + (sizes - 1) * np.exp(-epsilon))
    chosen = (keep * np.cumsum(ranked, axis=1) * (1 + 1e-12 * sizes)).argmax(axis=1)
    k, keep = sizes[chosen], keep[chosen]
    rank = (order == y[:, None]).argmax(axis=1)
    anything = (rng.random(n_rows) * k).astype(int)
    other = (rank + 1 + (rng.random(n_rows) * (k - 1)).astype(int)) % k
    told = np.where(rng.random(n_rows) < keep, rank, other)
    told = np.where(rank < k, told, anything)
    return np.take_along_axis(order, told[:, None], axis=1)[:, 0]


def _from_flips(problem: Problem, y: np.ndarray, bases, start: str = "") -> Found:
    """Return fits on labels that may be any number, by basis and penalty."""
    found = {}
    for basis in bases:
        X, X_test = problem.rows(basis)
        X, X_test = problem.longest * X, problem.longest * X_test
        weights = np.zeros(X.shape[1])
        for penalty in (1000.0, 100.0, 10.0, 1.0):
            weights = minimum(X, y, penalty, np.zeros(len(weights)), weights)
            chance = np.clip(expit(X_test @ weights), 1e-3, 1 - 1e-3)
            found[f"{start}{basis}, penalty {penalty:g}"] = chance
    return found


def randomised_response(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return a logistic regression on flipped labels, without bias (Warner 1965).

    Replacing a label, delta 0. Settings: the basis and the ridge penalty.
    """
    y = problem.raw.y.astype(int)
    prior = np.full((len(y), 2), 0.5)
    told = flipped(y, prior, epsilon, np.random.default_rng([seed, 25]))
    flip = 1 / (1 + math.exp(epsilon))
    return _from_flips(problem, (told - flip) / (1 - 2 * flip), BASES)


def two_stages(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return LP-2ST (Ghazi et al. 2021): half of the labels give the prior of the rest.

    Replacing a label, delta 0. Settings: the basis, and the ridge penalties of the
    prior and of the model.
    """
    y, found = problem.raw.y.astype(int), {}
    rng = np.random.default_rng([seed, 26])
    first, second = np.array_split(rng.permutation(len(y)), 2)
    told = y.copy()
    told[first] = flipped(y[first], np.full((len(first), 2), 0.5), epsilon, rng)
    flip = 1 / (1 + math.exp(epsilon))
    for basis, penalty in itertools.product(BASES, (100.0, 10.0)):
        X = problem.longest * problem.rows(basis)[0]
        zero = np.zeros(X.shape[1])
        unbiased = (told[first] - flip) / (1 - 2 * flip)
        chance = expit(X[second] @ minimum(X[first], unbiased, penalty, zero, zero))
        prior = np.column_stack([1 - chance, chance])
        told[second] = flipped(
            y[second], prior, epsilon, np.random.default_rng([seed, 27])
        )
        start = f"prior {penalty:g}, "
        found |= _from_flips(problem, told.astype(float), [basis], start)
    return found


def boosted_flips(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return boosted trees on random targets, which cross-validation there chooses.

    Replacing a label or a target, delta 0; the meta-estimators of the package.
    """
    raw = problem.raw
    if problem.table.task == "classification":
        kind, own = LabelDPClassifier, {"classes": [0, 1]}
    else:
        kind, own = LabelDPRegressor, {"target_bounds": raw.target_bounds}
    inner = searched(kind is LabelDPRegressor)
    model = kind(inner, epsilon, random_state=seed, **own)
    return {"": _of_codes(problem, model)}


def _of_codes(problem: Problem, model) -> np.ndarray:
    """Fit to numbers and the places of levels, and return predictions."""
    raw = problem.raw
    X, X_test, y = codes(problem, raw.X), codes(problem, raw.X_test), raw.y
    found = predictions(problem.table, model, X, y, X_test)
    chances = problem.table.task == "classification"
    return np.clip(found, *((1e-3, 1 - 1e-3) if chances else raw.target_bounds))


@functools.lru_cache(maxsize=1)
def _pairwise(problem: Problem) -> Found:
    """Return boosted trees of two columns each, without privacy."""
    numbers = problem.table.task == "regression"
    model = searched(numbers, interaction_cst="pairwise")
    return {"": _of_codes(problem, model)}


def aim(problem: Problem, epsilon: float, seed: int) -> Found:
    """Return boosted trees on synthetic rows of AIM, numbers in bins."""
    from _aim import N_BINS, synthetic

    raw, frames = problem.raw, []
    for frame in (raw.X, raw.X_test):
        found = codes(problem, frame)
        numbers = [name in raw.bounds for name in frame]
        found[:, numbers] = np.minimum(found[:, numbers] * N_BINS // 100, N_BINS - 1)
        frames.append(found.astype(int))
    sizes = [len(raw.categories.get(name, range(N_BINS))) for name in raw.X]
    rows = np.column_stack([frames[0], raw.y])
    rows = synthetic(rows, [*sizes, 2], epsilon, problem.table.delta, seed)
    model = searched(False).fit(rows[:, :-1], rows[:, -1])
    return {"": np.clip(model.predict_proba(frames[1])[:, 1], 1e-3, 1 - 1e-3)}


# ---------------------------------------------------------------- elsewhere

START = """
import sys, warnings
import numpy as np
warnings.simplefilter("ignore")
given, found = dict(np.load(sys.argv[1])), {}
epsilon, seed, y = float(given["epsilon"]), int(given["seed"]), given["y"]
"""
#: diffprivlib needs an older scikit-learn.
DIFFPRIVLIB = """
import diffprivlib.models as models
longest = float(given["longest"])
for basis in ("lines", "curves"):
    X, X_test = given[basis], given[basis + " test"]
    own = {"epsilon": epsilon, "random_state": seed}
    fits = {
        f"logistic {C}": models.LogisticRegression(
            C=C, data_norm=1.0, fit_intercept=False, max_iter=1000, **own
        )
        for C in (0.01, 0.1, 1.0)
    }
    fits["naive Bayes"] = models.GaussianNB(bounds=(-1 / longest, 1 / longest), **own)
    if basis == "lines":
        for trees, depth in ((10, 5), (30, 8)):
            fits[f"forest {trees} {depth}"] = models.RandomForestClassifier(
                n_estimators=trees, max_depth=depth, classes=[0, 1],
                bounds=(-1 / longest, 1 / longest), **own
            )
    for name, model in fits.items():
        model.fit(X, y)
        found[basis + ", " + name] = model.predict_proba(X_test)[:, 1]
"""
#: The module of S-BDT is built from its repository; so is delta.
S_BDT = """
import sbdt
numbers, levels = given["levels"] == 0, given["levels"].astype(int)
for trees, depth, share, clip, ridge in (
    (100, 6, 0.1, 0.3, 10.0), (100, 3, 0.04, 0.8, 5.0), (200, 5, 0.04, 0.8, 5.0)
):
    model = sbdt.S_BDT(
        nb_trees=trees, subsampling_ratio=1.0, learning_rate=0.1, max_depth=depth,
        newton_boosting=True, balance_partition=False, lambda_reg_mode=1,
        l2_lambda=ridge, reg_delta=2.0, min_samples_split=0,
        ignore_split_constraints=True, max_features=0, max_feature_values=0,
        criterion=0, reuse_attr=True, use_dp=True, privacy_budget=epsilon,
        privacy_budget_init_score_ratio=0.0, privacy_budget_gain_ratio=0.0,
        leaf_denom_noise_weight=share, l2_threshold=clip, hess_l2_threshold=0.1,
        init_score_threshold=1.0, numeric_feature_weight=1.0, leaf_noise=1,
        use_privacy_filter=False, approximate_privacy_filter=False,
        pf_additional_nb_trees=0, pf_l2_threshold=clip, pf_hess_l2_threshold=0.1,
        pf_subsampling_ratio_factor=1.0, additional_nb_trees=0,
        refine_splits_rounds=0, num_split_candidates=32, gradient_filtering=False,
        leaf_clipping=False, cyclical_feature_interactions=True, refine_splits=False,
        random_splits_from_candidates=True, refine_splits_subsample=1.0,
        cut_off_leaf_denom=True, custom_noise_scale=-1.0, verbosity=6,
        task="BinaryClassification", feature_val_border=(0.0, 100.0),
        continuous_learning=False, scale_y=False,
        cat_idx=np.flatnonzero(~numbers).tolist(),
        num_idx=np.flatnonzero(numbers).tolist(),
        cat_values=[[float(k) for k in range(n)] for n in levels]
    )
    model.train(np.ascontiguousarray(given["codes"]), y.astype(float), "table")
    scores = model.predict(np.ascontiguousarray(given["codes test"]))
    found[f"{trees} trees, depth {depth}"] = 1 / (1 + np.exp(-scores))
"""
END = """
np.savez(sys.argv[2], **found)
"""


def codes(problem: Problem, frame) -> np.ndarray:
    """Return numbers between 0 and 100, and the places of levels."""
    columns = []
    for name in frame:
        if name in problem.raw.bounds:
            low, high = problem.raw.bounds[name]
            columns.append(100 * ((frame[name] - low) / (high - low)).clip(0, 1))
        else:
            place = {v: k for k, v in enumerate(problem.raw.categories[name])}
            columns.append(frame[name].map(place))
    return np.column_stack(columns).astype(float)


def elsewhere(variable: str, program: str) -> Callable:
    """Return a rival that another interpreter runs, which a variable names."""

    def rival(problem: Problem, epsilon: float, seed: int) -> Found:
        given = {"epsilon": epsilon, "seed": seed, "y": problem.raw.y}
        given["longest"], raw = problem.longest, problem.raw
        given["levels"] = [len(raw.categories.get(name, ())) for name in raw.X]
        for basis in BASES:
            given[basis], given[f"{basis} test"] = problem.rows(basis)
        given["codes"], given["codes test"] = (
            codes(problem, frame) for frame in (raw.X, raw.X_test)
        )
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = (str(Path(folder) / f"{name}.npz") for name in "ab")
            np.savez(asked, **given)
            whole = START + program + END
            command = [os.environ[variable], "-c", whole, asked, answered]
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(done.stderr[-150:])
            found = dict(np.load(answered))
        return {k: np.clip(v, 1e-3, 1 - 1e-3) for k, v in found.items() if _finite(v)}

    return rival


def _finite(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all())


#: Not counted: they have no noise, whatever the budget.
LIMIT, CEILING = "DD-SSP, no noise", "pairwise boosting"
_ONE = "add or remove one"
_CLASSES, _REALS = TASKS
RIVALS: dict[str, Rival] = {
    "DP-EBM": Rival(
        of_boosting(default=boosting()), _ONE, (_CLASSES, _REALS), "interpret"
    ),
    "DP-EBM, best": Rival(
        of_boosting(default=boosting(), **GRID), _ONE, (_CLASSES, _REALS), "interpret"
    ),
    "AdaSSP": Rival(ada_ssp, _ONE, (_CLASSES, _REALS)),
    "BoostedAdaSSP": Rival(boosted_ada_ssp, _ONE, (_CLASSES, _REALS)),
    "objective perturbation": Rival(objective_perturbation, _ONE),
    "double-noise Newton": Rival(newton, f"{_ONE}, n public"),
    "diffprivlib": Rival(
        elsewhere("SKFDP_DIFFPRIVLIB", DIFFPRIVLIB),
        "not stated, delta 0",
        needs="SKFDP_DIFFPRIVLIB",
    ),
    "S-BDT": Rival(elsewhere("SKFDP_SBDT", S_BDT), _ONE, needs="SKFDP_SBDT"),
    "AIM, boosting": Rival(aim, _ONE, needs="mbi"),
    LIMIT: Rival(without_noise, "none: not private", (_CLASSES, _REALS)),
    "randomised response": Rival(randomised_response, "replace a label, delta 0"),
    "LP-2ST": Rival(two_stages, "replace a label, delta 0"),
    "flips, boosting": Rival(boosted_flips, "replace a label, delta 0", TASKS),
    CEILING: Rival(
        lambda problem, epsilon, seed: _pairwise(problem), "none: not private", TASKS
    ),
}
