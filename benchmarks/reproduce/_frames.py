"""Raw tables for additive models: numbers with bounds, categories, three tasks.

The list, the seeds of the generators and `ASIDE` were fixed before a model was fitted.
Rules and constants may be judged on the half "dev"; the half put aside is for closing
figures alone. Tables that other scripts know are in the half where these have them, but
for Adult at full size, on which the marks of `additive.py` are: it is in "dev".

Bounds are what a careful person declares without the records: ranges of a questionnaire
or of a published description, round numbers around what a unit allows, the range that a
generator is known to have. All methods get the same ones. Answers "yes" and "no" and
codes without an order are categories.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from _common import missing
from _data import load_adult
from sklearn import datasets as bundled
from sklearn.model_selection import train_test_split

ASIDE = frozenset(
    {
        "wine",
        "adult 3000",
        "anes96 vote",
        "randhie any visit",
        "curved, 10000",
        "steps, 1000",
        "linear, 10000",
        "idle, 1000",
        "interactions, 10000",
        "friedman1, 2000",
        "star98 math",
        "waves, 1000",
        "trends, 10000",
        "randhie visits",
        "rates, 10000",
    }
)
TASKS = ("classification", "regression", "counts")


@dataclasses.dataclass(frozen=True)
class Raw:
    """Training and test rows of a table, and what is declared.

    Attributes
    ----------
    X, X_test : DataFrame
        Columns in `bounds` hold numbers, those in `categories` strings.
    y, y_test : ndarray
        Labels 0 and 1, or targets within `target_bounds`.
    bounds : dict of str to (float, float)
    categories : dict of str to list of str
    target_bounds : (float, float)
        (0, 1) for labels.
    """

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    bounds: dict
    categories: dict
    target_bounds: tuple[float, float] = (0.0, 1.0)

    def clipped(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return both X with numbers cut to their bounds."""
        low, high = zip(*self.bounds.values(), strict=True)
        names = list(self.bounds)
        return tuple(
            X.assign(**X[names].clip(low, high, axis=1)) for X in (self.X, self.X_test)
        )

    def widened(self, factor: float) -> Raw:
        """Return the same rows under bounds that are `factor` times as wide.

        The upper bound alone moves where the lower one is 0, else both by as much.
        """
        bounds = {}
        for name, (low, high) in self.bounds.items():
            more = (factor - 1) * (high - low)
            below = 0.0 if low == 0 else more / 2
            bounds[name] = (low - below, high + more - below)
        return dataclasses.replace(self, bounds=bounds)


@dataclasses.dataclass(frozen=True)
class Table:
    """A named source of splits.

    Attributes
    ----------
    name : str
    task : {"classification", "regression", "counts"}
    load : callable
        ``load(seed) -> Raw``.
    delta : float, default=1e-5
    source : str, default=""
        A package or a data set that may be absent.
    """

    name: str
    task: str
    load: Callable[[int], Raw]
    delta: float = 1e-5
    source: str = ""

    @property
    def half(self) -> str:
        """The half of the list: "dev" or "aside"."""
        return "aside" if self.name in ASIDE else "dev"

    def missing(self) -> str | None:
        """Return why this table cannot be loaded here, or None."""
        return missing(self.source, lambda: self.load(0))


def split(X, y, bounds, categories, target_bounds, seed: int) -> Raw:
    """Return 70 % of the rows for training and the rest for tests."""
    stratify = y if target_bounds == (0.0, 1.0) else None
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed, stratify=stratify
    )
    return Raw(X, y, X_test, y_test, bounds, categories, target_bounds)


# ---------------------------------------------------------------- real tables

N_TEST = 5000


@functools.cache
def whole_adult() -> Raw:
    """Return the published training and test rows of Adult."""
    train, test = load_adult("train"), load_adult("test")
    y, y_test = ((part.target == ">50K").to_numpy(int) for part in (train, test))
    return Raw(train.data, y, test.data, y_test, train.bounds, train.categories)


def adult(n_rows: int, seed: int) -> Raw:
    """Return training rows and `N_TEST` test rows, drawn by the seed.

    At full size all rows of both: the runs differ in the noise alone.
    """
    raw = whole_adult()
    if n_rows >= len(raw.X):
        return raw
    rng = np.random.default_rng([seed, n_rows])
    rows = rng.permutation(len(raw.X))[:n_rows]
    tests = rng.permutation(len(raw.X_test))[:N_TEST]
    parts = raw.X.iloc[rows], raw.y[rows], raw.X_test.iloc[tests], raw.y_test[tests]
    return Raw(*parts, raw.bounds, raw.categories)


def bundled_classes(name: str, seed: int) -> Raw:
    """Return two classes, the first against the rest.

    The bounds are the ranges that the published descriptions state.
    """
    X, y = getattr(bundled, f"load_{name}")(return_X_y=True, as_frame=True)
    bounds = {c: (X[c].min(), X[c].max()) for c in X}
    return split(X, (y == 0).to_numpy(int), bounds, {}, (0.0, 1.0), seed)


def diabetes(seed: int) -> Raw:
    """Return the patients of scikit-learn, in units of the clinic."""
    X, y = bundled.load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X["sex"] = X["sex"].astype(int).astype(str)
    bounds = {"age": (18, 80), "bmi": (15, 50), "bp": (50, 150), "s1": (80, 320)}
    bounds |= {"s2": (20, 260), "s3": (10, 110), "s4": (1, 10), "s5": (3, 7)}
    bounds |= {"s6": (50, 150)}
    return split(X, y.to_numpy(), bounds, {"sex": ["1", "2"]}, (0.0, 400.0), seed)


@functools.cache
def _survey_rows(name: str) -> pd.DataFrame:
    import statsmodels.datasets as source

    return getattr(source, name).load_pandas().data


def survey(data_set, bounds, categories, target, target_bounds, seed: int) -> Raw:
    """Return a split of a table of statsmodels; codes of categories become strings."""
    data = _survey_rows(data_set)
    X = data[[*bounds, *categories]].copy()
    for name in categories:
        X[name] = X[name].astype(int).astype(str)
    categories = {name: [str(v) for v in found] for name, found in categories.items()}
    y = target(data).to_numpy(float if target_bounds != (0.0, 1.0) else int)
    return split(X, y, bounds, categories, target_bounds, seed)


_FAIR = {"age": (15, 50), "educ": (9, 20), "children": (0, 6), "religious": (1, 4)}
_FAIR |= {"rate_marriage": (1, 5)}
_JOBS = {"occupation": range(1, 7), "occupation_husb": range(1, 7)}
_ANES = {"logpopul": (-3, 9), "TVnews": (0, 7), "age": (18, 100), "educ": (1, 7)}
_ANES |= dict.fromkeys(("selfLR", "ClinLR", "DoleLR"), (1, 7)) | {"PID": (0, 6)}
_RAND = {"lncoins": (0, 5), "lpi": (0, 8), "fmde": (0, 9), "disea": (0, 60)}
_RAND_YES = dict.fromkeys(("idp", "physlm", "hlthg", "hlthf", "hlthp"), range(2))
_STAR = dict.fromkeys(("LOWINC", "PERASIAN", "PERBLACK", "PERHISP"), (0, 100))
_STAR |= {"PERMINTE": (0, 100), "AVYRSEXP": (0, 30), "PTRATIO": (0, 40)}
_STAR |= dict.fromkeys(("PCTAF", "PCTCHRT", "PCTYRRND"), (0, 100))


def _passed(data):
    return 100 * data["NABOVE"] / (data["NABOVE"] + data["NBELOW"])


#: Name -> task, then what `survey` takes.
SURVEYS = {
    "fair affairs": (
        "classification",
        ("fair", _FAIR | {"yrs_married": (0, 25)}, _JOBS),
        (lambda data: data["affairs"] > 0, (0.0, 1.0)),
    ),
    "anes96 vote": (
        "classification",
        ("anes96", _ANES | {"income": (1, 24)}, {}),
        (lambda data: data["vote"], (0.0, 1.0)),
    ),
    "randhie any visit": (
        "classification",
        ("randhie", _RAND, _RAND_YES),
        (lambda data: data["mdvis"] > 0, (0.0, 1.0)),
    ),
    "anes96 income": (
        "regression",
        ("anes96", _ANES, {"vote": range(2)}),
        (lambda data: data["income"], (1.0, 24.0)),
    ),
    "fair years married": (
        "regression",
        ("fair", _FAIR, _JOBS),
        (lambda data: data["yrs_married"], (0.0, 25.0)),
    ),
    "star98 math": ("regression", ("star98", _STAR, {}), (_passed, (0.0, 100.0))),
    "randhie visits": (
        "counts",
        ("randhie", _RAND, _RAND_YES),
        (lambda data: data["mdvis"], (0.0, 100.0)),
    ),
}


@functools.cache
def _ink() -> tuple[pd.DataFrame, np.ndarray]:
    X, _ = bundled.load_digits(return_X_y=True)
    names = [f"block {i}" for i in range(64) if i != 28]
    return pd.DataFrame(np.delete(X, 28, axis=1), columns=names), X[:, 28]


def ink(seed: int) -> Raw:
    """Return the inked pixels of one block of a digit, and those of the others."""
    X, y = _ink()
    return split(X, y, dict.fromkeys(X, (0, 16)), {}, (0.0, 16.0), seed)


# ---------------------------------------------------------------- generated tables


def _curve(rng) -> Callable:
    """Return a wave, a hump, a slope that flattens or a valley over [0, 1]."""
    centre, sign = rng.uniform(0.25, 0.75), rng.choice([-1.0, 1.0])
    shapes = (
        lambda u: np.sin(6 * (u - centre)),
        lambda u: np.exp(-(((u - centre) / 0.15) ** 2)),
        lambda u: np.log(0.03 + u),
        lambda u: (u - centre) ** 2,
    )
    shape = shapes[rng.integers(4)]
    return lambda u: sign * shape(u)


def _step(rng) -> Callable:
    """Return a function that jumps at two places."""
    places, heights = np.sort(rng.uniform(0.1, 0.9, 2)), rng.normal(size=3)
    return lambda u: heights[np.searchsorted(places, u)]


def _slope(rng) -> Callable:
    sign = rng.choice([-1.0, 1.0])
    return lambda u: sign * u


_SHAPES = {"curve": _curve, "step": _step, "slope": _slope}


@dataclasses.dataclass(frozen=True)
class Made:
    """A generated table: rows of a fixed additive problem, fresh for each seed.

    Numbers are uniform, normal or lognormal (declared to 4 deviations of its logarithm)
    in turn, in units of very different size. Three categories of four values have
    unequal frequencies, and effects of their own.

    Attributes
    ----------
    seed : int
        Of the problem.
    n_rows : int
    task : str
    shape : {"curve", "step", "slope"}
        The effect of a number, as a function of its quantile or, for a slope, of its
        value.
    n_numbers, n_idle : int
        How many numbers there are, and how many of them have no effect.
    pairs : int, default=0
        Products of two numbers that act beside the sum.
    """

    seed: int
    n_rows: int
    task: str
    shape: str
    n_numbers: int = 6
    n_idle: int = 0
    pairs: int = 0

    def load(self, seed: int) -> Raw:
        """Return training rows, and `N_TEST` more, of the problem."""
        scale = 10.0 ** np.random.default_rng([self.seed, 1]).uniform(
            -1, 3, self.n_numbers
        )
        X, score = self._rows(np.random.default_rng([self.seed, 2, seed]))
        noise = np.random.default_rng([self.seed, 3, seed])
        if self.task == "classification":
            y = (score + noise.logistic(size=len(score)) > 0.4).astype(int)
            target_bounds = (0.0, 1.0)
        elif self.task == "regression":
            y = 50 + 5 * (score + noise.normal(size=len(score)))
            target_bounds = (0.0, 100.0)
        else:
            y = noise.poisson(np.exp(0.7 + 0.4 * score)).astype(float)
            target_bounds = (0.0, 50.0)
        bounds = {}
        for i, name in enumerate(c for c in X if c.startswith("number")):
            X[name] *= scale[i]
            low, high = ((0, 1), (-4, 4), (0, math.exp(3.2)))[i % 3]
            bounds[name] = (low * scale[i], high * scale[i])
        categories = {c: list("abcd") for c in X if c not in bounds}
        n = self.n_rows
        y = np.clip(y, *target_bounds)
        return Raw(X[:n], y[:n], X[n:], y[n:], bounds, categories, target_bounds)

    def _rows(self, rng) -> tuple[pd.DataFrame, np.ndarray]:
        n = self.n_rows + N_TEST
        hidden, codes = self._hidden(rng, n), self._codes(rng, n)
        # Centre and scale of the score are of the problem, not of the drawn rows.
        known = np.random.default_rng([self.seed, 4])
        pilot = self._score(self._hidden(known, 20_000), self._codes(known, 20_000))
        score = (self._score(hidden, codes) - pilot.mean()) / pilot.std() * 2.0
        numbers = {f"number {i}": column for i, column in enumerate(_values(hidden))}
        texts = np.array(list("abcd"))[codes]
        X = pd.DataFrame(numbers | {f"category {i}": texts[:, i] for i in range(3)})
        return X, score

    def _hidden(self, rng, n: int) -> np.ndarray:
        common = rng.normal(size=(n, 1))
        own = rng.normal(size=(n, self.n_numbers))
        return 0.4 * common + math.sqrt(1 - 0.16) * own

    def _codes(self, rng, n: int) -> np.ndarray:
        return rng.choice(4, size=(n, 3), p=(0.5, 0.3, 0.15, 0.05))

    def _score(self, hidden, codes) -> np.ndarray:
        rng, total = np.random.default_rng([self.seed, 5]), 0.0
        known = np.random.default_rng(0).normal(size=(20_000, self.n_numbers))
        form = _values if self.shape == "slope" else lambda z: _uniform(z).T
        acting = self.n_numbers - self.n_idle
        columns = zip(form(hidden), form(known), strict=True)
        for values, typical in itertools.islice(columns, acting):
            effect = _SHAPES[self.shape](rng)
            total += rng.uniform(0.7, 1.3) * effect(values) / effect(typical).std()
        for code in codes.T:
            total += (0.6 * rng.normal(size=4))[code]
        for i in range(self.pairs):
            total += hidden[:, 2 * i] * hidden[:, 2 * i + 1]
        return total


def _uniform(z: np.ndarray) -> np.ndarray:
    """Return about the quantile of a standard normal."""
    return 1 / (1 + np.exp(-1.702 * z))


def _values(hidden: np.ndarray) -> list[np.ndarray]:
    """Return uniform, normal and lognormal columns, in turn."""
    kinds = (_uniform, lambda z: z, lambda z: np.exp(0.8 * z))
    return [kinds[i % 3](z) for i, z in enumerate(hidden.T)]


def friedman(seed: int) -> Raw:
    """Return the first problem of Friedman: a wave, a parabola, lines, a product."""
    X, y = bundled.make_friedman1(2000 + N_TEST, noise=1.0, random_state=seed)
    X = pd.DataFrame(X, columns=[f"x{i}" for i in range(10)])
    bounds = dict.fromkeys(X, (0.0, 1.0))
    return Raw(X[:2000], y[:2000], X[2000:], y[2000:], bounds, {}, (0.0, 30.0))


_CLASSES, _REALS, _COUNTS = TASKS
MADE = {
    "curved, 1000": Made(201, 1000, _CLASSES, "curve"),
    "curved, 10000": Made(202, 10_000, _CLASSES, "curve"),
    "steps, 1000": Made(203, 1000, _CLASSES, "step"),
    "steps, 10000": Made(204, 10_000, _CLASSES, "step"),
    "linear, 1000": Made(205, 1000, _CLASSES, "slope"),
    "linear, 10000": Made(206, 10_000, _CLASSES, "slope"),
    "idle, 1000": Made(207, 1000, _CLASSES, "curve", 20, 17),
    "idle, 10000": Made(208, 10_000, _CLASSES, "curve", 20, 17),
    "interactions, 1000": Made(209, 1000, _CLASSES, "curve", pairs=2),
    "interactions, 10000": Made(210, 10_000, _CLASSES, "curve", pairs=2),
    "waves, 1000": Made(211, 1000, _REALS, "curve"),
    "waves, 10000": Made(212, 10_000, _REALS, "curve"),
    "trends, 1000": Made(213, 1000, _REALS, "slope"),
    "trends, 10000": Made(214, 10_000, _REALS, "slope"),
    "rates, 1000": Made(215, 1000, _COUNTS, "curve"),
    "rates, 10000": Made(216, 10_000, _COUNTS, "curve"),
}


def _adult(n_rows: int, name: str) -> Table:
    load = functools.partial(adult, n_rows)
    return Table(name, _CLASSES, load, 1e-6, source="adult")


def _two_classes(name: str) -> Table:
    return Table(name, _CLASSES, functools.partial(bundled_classes, name))


def _survey(name: str) -> Table:
    task, rows, target = SURVEYS[name]
    load = functools.partial(survey, *rows, *target)
    return Table(name, task, load, source="statsmodels")


TABLES = [
    _two_classes("breast_cancer"),
    _two_classes("wine"),
    _adult(1000, "adult 1000"),
    _adult(3000, "adult 3000"),
    _adult(32_561, "adult"),
    Table("diabetes", _REALS, diabetes),
    Table("friedman1, 2000", _REALS, friedman),
    Table("ink", _COUNTS, ink),
    *map(_survey, SURVEYS),
    *(Table(name, made.task, made.load) for name, made in MADE.items()),
]
