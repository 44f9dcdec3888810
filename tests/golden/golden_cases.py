"""The fits whose releases are recorded: one dict each, read from top to bottom.

A case has a "name", an "estimator" (a name in `skfdp`), the "data" (a name below), how
they are held ("as": dense float64 unless said otherwise), what may differ "elsewhere",
on another machine than the one that wrote the file, and the parameters. Names are part
of the keys of the streams: a case that is renamed has to be written again.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy.sparse import csr_array
from sklearn.naive_bayes import GaussianNB

import skfdp
from skfdp.experimental import PrivateSearchCV

LOGISTIC, SGD = "FeatureDPLogisticRegression", "DPSGDFClassifier"
REGRESSOR, SGD_REGRESSOR = "FeatureDPRegressor", "DPSGDFRegressor"
NETWORK, SEARCH = "FeatureDPMLPClassifier", "PrivateSearchCV"
CENTRING, COMPLETION = "PrivateCenteringTransformer", "PrivateCompletionClassifier"


@functools.cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X within [0, 1] and y; sums of six columns of uniform numbers."""
    sizes = {"large": 2500, "many": 300}
    n, seed = sizes.get(name, 150), sum(name.encode())
    rng = np.random.default_rng(seed)
    X = rng.random((n, 6)) * (rng.random((n, 6)) < 0.7)  # a third of zeros
    score = X[:, 0] + X[:, 1] - X[:, 2] + 0.5 * X[:, 5] + 0.3 * rng.random(n)
    order = np.argsort(np.argsort(score))
    classes = {"two": 2, "large": 2, "three": 3, "many": 20}
    if name in classes:
        return X, order * classes[name] // n
    if name == "counts":
        return X, np.floor(np.maximum(4 * score, 0.0))
    return X, 4 * score  # "real"


def rows(case: dict):
    """Return X as the case holds it."""
    X = table(case["data"])[0]
    held = case.get("as", "float64")
    if held == "csr":
        return csr_array(X)
    if held == "csr float32":
        return csr_array(X.astype(np.float32))
    if held == "uint8":
        return np.floor(X * 255).astype(np.uint8)
    if held == "frame":
        import pandas as pd

        return pd.DataFrame(
            X, columns=[f"{'pub' if i < 2 else 'u'}{i}" for i in range(6)]
        )
    return X.astype(held)


def target(case: dict):
    """Return y; some cases have labels of text."""
    y = table(case["data"])[1]
    return np.array(["no", "yes", "maybe"])[y] if case.get("text") else y


def of_rows(case: dict) -> dict:
    """Return what `fit` is told of the rows: their persons, their weights."""
    n_rows = len(table(case["data"])[1])
    rng, found = np.random.default_rng(n_rows), {}
    if case.get("persons"):
        found["groups"] = rng.integers(0, n_rows // 3, n_rows)
    if case.get("weights"):
        found["sample_weight"] = rng.integers(1, 6, n_rows)
    return found


def steepness(coef, intercept, X_public, y):
    """Return the gradients of a public penalty that reads the public columns."""
    return 0.01 * coef + 0.001 * X_public.mean(), 0.01 * intercept


_FACTS = ("data", "as", "text", "elsewhere", "persons", "weights")


def _cases(estimator: str, common: dict, named: dict[str, dict]) -> list[dict]:
    """Return the cases of one estimator; what is in `_FACTS` is no parameter."""
    cases = []
    for name, more in named.items():
        params = {**RELATIONS.get(estimator, {}), **common, **more}
        facts = {k: params.pop(k) for k in _FACTS if k in params}
        case = {"name": f"{estimator}: {name}", "estimator": estimator, **facts}
        cases.append({**case, "params": params})
    return cases


NULLED = {"neighboring_relation": "replace_special"}
REPLACED = {"neighboring_relation": "replace_one"}
#: Of cases that name none: a search has that of the estimator inside.
RELATIONS = {
    **dict.fromkeys((LOGISTIC, REGRESSOR, NETWORK, COMPLETION), REPLACED),
    **dict.fromkeys((SGD, SGD_REGRESSOR, CENTRING), NULLED),
}
PUBLIC = {"public_features": [0, 1]}
TARGET = {"public_target": True}
SOME = {**PUBLIC, **TARGET}
LABELS = {"public_features": "all"}
ADD = {"neighboring_relation": "add_or_remove_one", "n_records": 160}
#: In the units of the target.
HUBER = {"loss": "huber", "huber_threshold": 1.35}

#: The rows are rotated by eigenvectors, whose signs LAPACK chooses, before the label
#: statistic is summed; the public optimum is found to 1e-4 or so.
ROTATED = {"elsewhere": {"integers": False, "rtol": None}}
#: The covariance is taken apart into eigenvectors, whose signs LAPACK chooses, before
#: draws; no array but the output depends on them.
DRAWN = {"elsewhere": {"rtol": None}}
#: What comes before the loop is trained on public rows in float32.
SINGLE = {"elsewhere": {"rtol": 1e-5}}
#: The optimum without privacy is found to 1e-4 or so.
OPTIMUM = {"epsilon": float("inf"), "elsewhere": {"rtol": 1e-3, "texts": False}}
#: With so few records no smaller budget sees any.
BOUNDS = {"bounds": "private", "epsilon": 30.0}
ALGORITHM_2 = {"centering": "adaptive", "clip_features": True}
ONE_SHOT = {**LABELS, **ROTATED, "max_iter": "auto"}

CASES = [
    *_cases(
        LOGISTIC,
        {"data": "two", "epsilon": 2.0, "bounds": (0, 1), "max_iter": 4},
        {
            "nothing public": {},
            "nothing public, defaults": {"max_iter": "auto"},
            "no privacy": OPTIMUM,
            "no privacy, both public, csr": {**OPTIMUM, **SOME, "as": "csr"},
            "nothing public, three classes": {"data": "three"},
            "nothing public, text": {"data": "three", "text": True},
            "nothing public, replace_special": NULLED,
            "nothing public, add_or_remove_one": ADD,
            "nothing public, Poisson": {"solver": "dp-sgd", "batch_size": 40},
            "nothing public, persons": {"persons": True},
            "nothing public, persons, two rows each": {
                "persons": True,
                "max_rows_per_person": 2,
            },
            "nothing public, weights": {"weights": True},
            "persons and weights, Poisson": {
                **{"persons": True, "weights": True, "batch_size": 12},
                "solver": "dp-sgd",
            },
            "both public, persons": {**SOME, "persons": True},
            "labels, persons": {**ONE_SHOT, "persons": True},
            "released bounds, persons": {**BOUNDS, "persons": True},
            "columns public": PUBLIC,
            "columns public, three classes": {**PUBLIC, "data": "three"},
            "columns public, replace_special": {**PUBLIC, **NULLED},
            "columns public, by name": {
                "public_features": ["pub*"],
                "as": "frame",
            },
            "columns public, by mask": {
                "public_features": [False, False, True, False, True, True]
            },
            "columns public, centred": {**PUBLIC, "centering": "gaussian"},
            "columns public, not centred": {**PUBLIC, "centering": None},
            "columns public, Poisson": {
                **PUBLIC,
                "solver": "dp-sgd",
                "batch_size": 40,
            },
            "target public": TARGET,
            "target public, replace_special": {**TARGET, **NULLED},
            "target public, signed": {**TARGET, "bounds": False},
            "both public": SOME,
            "both public, defaults": {**SOME, "max_iter": "auto"},
            "both public, three classes": {**SOME, "data": "three"},
            "both public, three classes, Poisson": {
                **SOME,
                "data": "three",
                "solver": "dp-sgd",
                "batch_size": 40,
            },
            "both public, twenty classes": {**SOME, "data": "many", "max_iter": 2},
            "both public, replace_special": {**SOME, **NULLED},
            "both public, centred": {**SOME, "centering": "gaussian"},
            "both public, no public model": {**SOME, "public_model": None},
            "both public, model given": {**SOME, "public_model": GaussianNB()},
            "both public, tail": {**SOME, "average": "tail"},
            "both public, float32": {**SOME, "as": "float32"},
            "both public, uint8": {**SOME, "as": "uint8", "bounds": (0, 255)},
            "both public, csr": {**SOME, "as": "csr"},
            "both public, csr, three classes": {
                **SOME,
                "as": "csr",
                "data": "three",
            },
            "both public, csr float32": {**SOME, "as": "csr float32"},
            "columns public, csr": {**PUBLIC, "as": "csr"},
            "nothing public, csr, Poisson": {
                "as": "csr",
                "solver": "dp-sgd",
                "batch_size": 40,
            },
            "nothing public, private bounds": BOUNDS,
            "both public, csr, private bounds": {**BOUNDS, **SOME, "as": "csr"},
            "target public, float32, private bounds": {
                **BOUNDS,
                **TARGET,
                "as": "float32",
                "centering": None,
            },
            "label-DP": ONE_SHOT,
            "label-DP, three classes": {**ONE_SHOT, "data": "three"},
            "label-DP, C": {**ONE_SHOT, "C": 0.5},
            "label-DP, no intercept": {**ONE_SHOT, "fit_intercept": False},
            "label-DP, replace_special": {**ONE_SHOT, **NULLED},
            "label-DP, descent": {**LABELS, "solver": "dp-gd"},
            "label-DP, descent, three classes": {
                **LABELS,
                "solver": "dp-gd",
                "data": "three",
            },
            "label-DP, descent, csr": {**LABELS, "as": "csr", "solver": "dp-gd"},
            "label-DP, Poisson": {**LABELS, "solver": "dp-sgd", "batch_size": 40},
            "zero padding": {**PUBLIC, "public_loss": "zero"},
            "zero padding, target public": {**SOME, "public_loss": "zero"},
            "zero padding, csr": {**SOME, "public_loss": "zero", "as": "csr"},
            "zero padding, public batches": {
                **SOME,
                "public_loss": "zero",
                "public_batch_size": 20,
                "private_weight": 0.5,
            },
            "normal padding": {
                **PUBLIC,
                "public_loss": "gaussian",
                "padding_scale": 0.5,
            },
            "normal padding, three classes": {
                **SOME,
                "public_loss": "gaussian",
                "data": "three",
            },
            "imputed": {**PUBLIC, "public_loss": "impute"},
            "imputed, target public": {**SOME, "public_loss": "impute"},
            "imputed, Poisson": {
                **SOME,
                "public_loss": "impute",
                "solver": "dp-sgd",
                "batch_size": 40,
            },
            "label-DP, public loss": {
                **LABELS,
                "public_loss": "zero",
                "solver": "dp-gd",
            },
            "public loss of the user": {**SOME, "public_loss": steepness},
            "class_weight": {"class_weight": {0: 2.0, 1: 0.5}},
            "C": {**SOME, "C": 0.1},
            "no intercept": {"fit_intercept": False},
            "no intercept, both public": {**SOME, "fit_intercept": False},
            "uniform average": {"average": "uniform"},
            "constant noise, no momentum": {"noise_decay": 0.0, "momentum": 0.0},
            "radius": {"radius": 0.2},
            "clip norm, rate": {"clip_norm": 0.3, "learning_rate": 0.7},
            "normalised": {"normalize": True, "feature_bound": 0.5},
            "bounds by column": {"bounds": ([0] * 6, [1, 1, 2, 2, 1, 1])},
            "declared classes": {"classes": [0, 1, 2]},
            "two threads": {**SOME, "data": "large", "max_iter": 2, "n_jobs": 2},
        },
    ),
    *_cases(
        SGD,
        {"data": "two", "epsilon": 2.0, "bounds": (0, 1), "max_iter": 4},
        {
            "plain": {},
            "no privacy, hinge": {**OPTIMUM, "loss": "hinge"},
            "defaults": {"max_iter": "auto"},
            "three classes": {"data": "three"},
            "hinge": {"loss": "hinge", "data": "three"},
            "squared hinge": {"loss": "squared_hinge"},
            "squared hinge, three classes": {"loss": "squared_hinge", "data": "three"},
            "replace_one": REPLACED,
            "add_or_remove_one": ADD,
            "Poisson": {"batch_size": 30},
            "Poisson, replace_one": {"batch_size": 30, **REPLACED},
            "Poisson, add_or_remove_one": {"batch_size": 30, **ADD},
            "not centred": {"centering": None},
            "share of the mean": {"mean_fraction": 0.3},
            "Algorithm 2": ALGORITHM_2,
            "Algorithm 2, replace_one": {**ALGORITHM_2, **REPLACED},
            "Algorithm 2, add_or_remove_one, Poisson": {
                **ALGORITHM_2,
                **ADD,
                "batch_size": 30,
            },
            "adaptive, lengths kept": {"centering": "adaptive", "normalize": False},
            "adaptive, no quantile": {"centering": "adaptive", "clip_quantile": None},
            "clip_quantile": {"clip_quantile": 0.7},
            "csr": {"as": "csr"},
            "csr, Poisson, three classes": {
                "as": "csr",
                "batch_size": 30,
                "data": "three",
            },
            "uint8": {"as": "uint8", "bounds": (0, 255)},
            "two threads": {"data": "large", "max_iter": 2, "n_jobs": 2},
            "two threads, Poisson": {
                "data": "large",
                "max_iter": 2,
                "n_jobs": 2,
                "batch_size": 2000,
            },
        },
    ),
    *_cases(
        REGRESSOR,
        {
            "data": "real",
            "epsilon": 4.0,
            "bounds": (0, 1),
            "max_iter": 4,
            "target_bounds": (-5, 12),
        },
        {
            "columns public, private bounds": {**BOUNDS, **PUBLIC},
            "nothing public": {},
            "no privacy": OPTIMUM,
            "no privacy, huber": {**OPTIMUM, **HUBER},
            "nothing public, replace_special": NULLED,
            "nothing public, add_or_remove_one": ADD,
            "huber": HUBER,
            "poisson": {"loss": "poisson", "data": "counts", "target_bounds": (0, 12)},
            "columns public": PUBLIC,
            "target public": TARGET,
            "both public": SOME,
            "both public, huber": {**SOME, **HUBER},
            "both public, poisson": {
                **SOME,
                "loss": "poisson",
                "data": "counts",
                "target_bounds": None,
            },
            "both public, csr": {**SOME, "as": "csr"},
            "both public, Poisson batches": {
                **SOME,
                "solver": "dp-sgd",
                "batch_size": 40,
            },
            "label-DP": LABELS,
            "label-DP, one-shot": {**LABELS, "solver": "one-shot", "max_iter": "auto"},
            "label-DP, one-shot, poisson": {
                **LABELS,
                "solver": "one-shot",
                "loss": "poisson",
                "data": "counts",
                "target_bounds": (0, 12),
                "max_iter": "auto",
            },
            "one-shot": {"solver": "one-shot", "max_iter": "auto"},
            "one-shot, columns public": {
                **PUBLIC,
                "solver": "one-shot",
                "max_iter": "auto",
            },
            "one-shot, alpha, replace_special": {
                **NULLED,
                "solver": "one-shot",
                "alpha": 2.0,
                "max_iter": "auto",
            },
            "no bounds": {"bounds": False},
            "not centred, alpha": {"centering": None, "alpha": 3.0},
        },
    ),
    *_cases(
        SGD_REGRESSOR,
        {
            "data": "real",
            "epsilon": 4.0,
            "bounds": (0, 1),
            "max_iter": 4,
            "target_bounds": (-5, 12),
        },
        {
            "plain": {},
            "huber": {"loss": "huber", "huber_threshold": 0.5},
            "poisson": {"loss": "poisson", "data": "counts", "target_bounds": (0, 12)},
            "replace_one": REPLACED,
            "add_or_remove_one, Poisson batches": {**ADD, "batch_size": 30},
            "csr": {"as": "csr"},
            "Algorithm 2": ALGORITHM_2,
            "not centred": {"centering": None, "fit_intercept": False},
        },
    ),
    *_cases(
        NETWORK,
        {
            "data": "two",
            "epsilon": 4.0,
            "bounds": (0, 1),
            "max_iter": 3,
            "hidden_layer_sizes": (8,),
            **SINGLE,
        },
        {
            "nothing public": {},
            "nothing public, add_or_remove_one": ADD,
            "nothing public, three classes": {"data": "three"},
            "nothing public, two layers": {"hidden_layer_sizes": (8, 5)},
            "no hidden layer": {"hidden_layer_sizes": ()},
            "Poisson": {"batch_size": 30},
            "both public, public": {**SOME, "pretraining": "public"},
            "both public, class sums": {**SOME, "pretraining": "class_sums"},
            "both public, class sums, all layers": {
                **SOME,
                "pretraining": "class_sums",
                "trained_layers": "all",
                "batch_size": 30,
            },
            "both public, linear alone": {**SOME, "max_iter": "auto"},
            "both public, linear, last layer": {**SOME, "pretraining": "linear"},
            "both public, linear, Poisson": {
                **SOME,
                "pretraining": "linear",
                "trained_layers": "all",
                "batch_size": 30,
            },
            "target public, linear": {**TARGET, "data": "three"},
            "both public, no pretraining": {**SOME, "pretraining": None},
            "zero padding": {**SOME, "public_loss": "zero"},
            "normal padding, public batches": {
                **SOME,
                "public_loss": "gaussian",
                "public_batch_size": 20,
            },
            "imputed": {
                **SOME,
                "public_loss": "impute",
                "pretraining": "class_sums",
            },
            "label-DP": LABELS,
            "float64": {"dtype": "float64"},
            "replace_special, class weight": {**NULLED, "class_weight": {0: 2.0}},
            "rows of uint8": {**SOME, "as": "uint8", "bounds": (0, 255)},
            "two threads": {"n_jobs": 2, "hidden_layer_sizes": (8, 5)},
        },
    ),
    *_cases(
        COMPLETION,
        {
            "data": "two",
            "epsilon": 4.0,
            "bounds": (0, 1),
            "n_draws": 2,
            **PUBLIC,
            **DRAWN,
        },
        {
            "no privacy": OPTIMUM,
            "sums alone": {"covariance": False},
            "covariance": {"covariance": True},
            "covariance, replace_special": {"covariance": True, **NULLED},
            "three classes": {"data": "three"},
            "no bounds": {"bounds": False},
            "nothing public but the target": {"public_features": None},
        },
    ),
    *_cases(
        CENTRING,
        {"data": "two", "epsilon": 2.0, "bounds": (0, 1)},
        {
            "whole": {},
            "no privacy, whole": OPTIMUM,
            "no privacy, conditional": {**OPTIMUM, **PUBLIC},
            "whole, clip_quantile": {"clip_quantile": 0.8},
            "whole, clip_quantile, replace_one": {**REPLACED, "clip_quantile": 0.8},
            "whole, replace_one": REPLACED,
            "whole, add_or_remove_one": ADD,
            "whole, float32": {"as": "float32", "output_bound": 2.0},
            "conditional": PUBLIC,
            "conditional, replace_one": {**PUBLIC, **REPLACED},
            "conditional, signed": {**PUBLIC, **REPLACED, "bounds": False},
        },
    ),
    *_cases(
        SEARCH,
        {"data": "two", "epsilon": 6.0, "mean_runs": 3.0},
        {
            "select": {},
            "select, logarithmic": {"eta": 0.0},
            "select, log-loss, both public": {
                "scoring": "neg_log_loss",
                "inner": SOME,
            },
        },
    ),
]


def estimator(case: dict):
    """Return the estimator of a case, without a seed."""
    params, name = dict(case["params"]), case["estimator"]
    kind = PrivateSearchCV if name == SEARCH else getattr(skfdp, name)
    if name == COMPLETION:
        return kind(GaussianNB(), **params)
    if name == SEARCH:
        last = skfdp.FeatureDPLogisticRegression(
            bounds=(0, 1), max_iter=3, **REPLACED, **params.pop("inner", {})
        )
        return kind(last, {"clip_norm": [0.3, 1.0]}, **params)
    return kind(**params)


#: What is compared of a fitted model, where it is there.
_ARRAYS = (
    *("coef_", "intercept_", "mean_", "scale_", "class_means_", "best_score_"),
    *("coefs_", "intercepts_"),
)


def fit(case: dict):
    """Fit a case; return its report, its arrays by name, and its other results."""
    X, y = rows(case), target(case)
    model = estimator(case).fit(X, y, **of_rows(case))
    inner = getattr(model, "best_estimator_", model)
    arrays = {}
    for name in _ARRAYS:
        value = getattr(model, name, getattr(inner, name, None))
        if isinstance(value, list):
            arrays |= {f"{name}{i}": part for i, part in enumerate(value)}
        elif value is not None:
            arrays[name] = value
    arrays["output"] = _output(model, X)
    texts = {
        name: repr(getattr(model, name))
        for name in ("n_iter_", "best_params_")
        if hasattr(model, name)
    }
    return model.privacy_, arrays, texts


def _output(model, X) -> np.ndarray:
    """Return what the fitted model says of the first rows."""
    some = X[:20]
    for method in ("decision_function", "predict_proba", "transform"):
        if hasattr(model, method):
            return getattr(model, method)(some)
    return model.predict(some)
