"""Each parameter changes the plan or the model, or is refused by its name."""

import re
from ast import literal_eval

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import skfdp
from skfdp.privacy import PrivacyLedger
from skfdp.schema import Label, Number, TableSchema
from skfdp.solvers import (
    AdaptiveCentering,
    FeatureDPSGD,
    GaussianCentering,
    Huber,
    NoisyGradientDescent,
    NoisySGD,
    NumpyBackend,
    OneShot,
    Tweedie,
)

pytestmark = pytest.mark.filterwarnings("ignore")

N_ROWS, RNG = 120, np.random.default_rng(0)
X = pd.DataFrame(RNG.random((N_ROWS, 4)), columns=[*"abcd"])
MARGINS = X.to_numpy() @ [3.0, -4, 2, 1] - 0.5 + RNG.logistic(size=N_ROWS) / 4
SCHEMA = TableSchema({"x": Number(0, 1), "y": Label([0, 1])}, outcomes=["y"])
#: The public columns, and whether the target is public.
SPLITS = {
    "nothing": (None, False),
    "columns": ([0, 1], False),
    "target": (None, True),
    "both": ([0, 1], True),
    "label-DP": ("all", False),
}
#: Other values of each parameter, at least one of which is not what "auto" means.
CHANGED = """
C 0.01                alpha 50.0             batch_size 20         bounds (0,.6)
budget_share 0.3      class_weight 'balanced'  clip_features True  clip_norm 0.45
delta 1e-6             dtype 'float64'       epsilon 2.0
fit_intercept False   fit_intercept True     gradient_scale 0.5
hidden_layer_sizes (7,)  learning_rate 0.7   learning_rate_decay 0.0  momentum 0.1
loss 'huber'          loss 'squared_error'   loss 'hinge'          max_iter 2
max_weight_norm 0.05  neighboring_relation 'replace_special'       noise_decay 0.2
normalize True        normalize False        output_bound 0.5      padding_scale 0.1
power 1.2             public_batch_size 20  random_state 1
public_features [2]   public_loss 'zero'     public_loss 'gaussian'  row_norm 0.2
public_target True    public_target False
target 'outcome'      target_bounds (0,5)    threshold 0.05
"""
PAIRS = list(zip(CHANGED.split()[::2], CHANGED.split()[1::2], strict=True))
#: Parameters that may have no effect, and why.
WITHOUT_EFFECT = {"n_jobs": "The number of threads changes no result."}


def target_of(n_classes):
    """Return labels, or numbers for a regression, which has 0 classes."""
    if n_classes == 0:
        return np.clip(MARGINS, -2, 2) + 2
    edges = np.quantile(MARGINS, np.arange(1, n_classes) / n_classes)
    return np.searchsorted(edges, MARGINS)


GD, SGD = NoisyGradientDescent(max_iter=3), NoisySGD(max_iter=3, batch_size=60)
PADS, CENTRED = FeatureDPSGD(max_iter=3), {"centering": GaussianCentering()}
ZEROS = FeatureDPSGD(max_iter=3, batch_size=60, public_loss="zero")
UNIT = NoisyGradientDescent(max_iter=3, normalize=True)
ADAPTS = {"solver": GD, "centering": AdaptiveCentering()}
NUMPY = {"backend": NumpyBackend()}
#: What is fitted, for each split.
KINDS = {
    skfdp.FeatureDPLogisticRegression: {
        "auto": {},
        "gd": {"solver": GD, "C": 1.0},
        "sgd": {"solver": SGD, **CENTRED},
        "normalised": {"solver": UNIT, "fit_intercept": False},
        "padded": {"solver": PADS},
        "padded by zeros": {"solver": ZEROS},
    },
    skfdp.FeatureDPRegressor: {
        "auto": {"loss": "poisson"},
        "tweedie": {"loss": Tweedie()},
        "gd": {"solver": GD, "loss": Huber(), **CENTRED},
        "sgd": {"solver": SGD},
        "normalised": {"solver": UNIT},
    },
    skfdp.FeatureDPMLPClassifier: {
        "auto": NUMPY,
        "gd": {"solver": GD, **NUMPY},
        "padded": {"solver": PADS},
        "sgd": {"solver": SGD},
    },
}
#: What this needs beside the default, as it is refused otherwise.
ONLY = {"padded by zeros": "columns nothing both target"}
#: What is fitted with one split only.
ONE_SPLIT = {
    "one-shot": {"solver": OneShot(max_iter=1), "public_features": "all"},
    "small budget": {"epsilon": 1.0, "public_features": [0, 1]},
}


def cases():
    """Return (estimator, number of classes) by name."""
    found = {}

    def add(kind, name, n_classes, given):
        own = {"classes": list(range(n_classes))} if n_classes else {}
        if issubclass(kind, skfdp.FeatureDPRegressor):
            own = {"target_bounds": (0, 4)}
        if kind is skfdp.FeatureDPMLPClassifier:
            own["hidden_layer_sizes"] = (12,)
        given = {"epsilon": 50.0, "bounds": (0, 1), "random_state": 0, **own, **given}
        found[f"{kind.__name__}, {name}, {n_classes}"] = kind(**given), n_classes

    for kind, variants in KINDS.items():
        for split, (columns, target) in SPLITS.items():
            for name, given in variants.items():
                if split in ONLY.get(name, split):
                    shown = {"public_features": columns, "public_target": target}
                    if columns == "all" and "centering" in given:
                        shown["centering"] = "auto"  # nothing is centred privately
                    numbers = kind is skfdp.FeatureDPRegressor
                    add(kind, f"{name}, {split}", 0 if numbers else 2, given | shown)
                    if not numbers and name in ("auto", "gd"):
                        add(kind, f"{name}, {split}", 3, given | shown)
    for name, given in ONE_SPLIT.items():
        for n in (2, 3):
            add(skfdp.FeatureDPLogisticRegression, name, n, given)
    add(skfdp.DPSGDFClassifier, "adaptive", 3, ADAPTS)
    add(skfdp.DPSGDFClassifier, "hinge", 2, {"solver": SGD, "loss": "squared_hinge"})
    add(skfdp.DPSGDFRegressor, "adaptive", 0, ADAPTS)
    add(skfdp.PrivateCenteringTransformer, "mean", 0, {})
    add(
        skfdp.PrivateCenteringTransformer,
        "cross moments",
        0,
        {"public_features": [0, 1]},
    )
    return found


CASES = cases()


def values_of(name, model, n_classes):
    """Return other values of a parameter."""
    columns = model.get_params(deep=False).get("public_features")
    if name == "classes":
        return [list(range(n_classes + 1))]
    objects = {
        "backend": NumpyBackend(dtype="float64"),
        "ledger": PrivacyLedger(),
        "schema": SCHEMA,
        "solver": NoisyGradientDescent(max_iter=2),
    }
    if name in objects:
        return [objects[name]]
    if name == "centering":
        usual = GaussianCentering() if columns == "all" else AdaptiveCentering()
        return [None if isinstance(model.centering, AdaptiveCentering) else usual]
    if name == "public_model":  # fitted, as the target may be private
        spec, y = LogisticRegression() if n_classes else LinearRegression(), MARGINS
        own = (X if columns in (None, "all") else X.iloc[:, columns]).to_numpy()
        return [spec.fit(own, target_of(n_classes) if n_classes else y)]
    found = [literal_eval(value) for own, value in PAIRS if own == name]
    assert found, f"{name} has no other value in CHANGED"
    return found


def outcome(model, y):
    """Return what a fit tells."""
    model.fit(X, y)
    tell = getattr(model, "_margins", None) or model.transform
    told = getattr(model, "predict", tell)(X), tell(X)
    report = model.privacy_
    return report.sha256, len(report.receipts), *(one.tobytes() for one in told)


def ignored(model, n_classes):
    """Return the parameters that change nothing and are not refused."""
    y, found, fitted = target_of(n_classes), [], None
    plan = model.plan(X, y)
    for name in model.get_params():
        own = name.rpartition("__")[-1]
        if own in WITHOUT_EFFECT:
            continue
        for value in values_of(own, model, n_classes):
            changed = clone(model).set_params(**{name: value})
            try:
                if changed.plan(X, y) != plan:
                    break
                fitted = outcome(clone(model), y) if fitted is None else fitted
                if outcome(changed, y) != fitted:
                    break
            except ValueError as error:
                named = rf"\b({own}|{name.partition('__')[0]})\b"
                assert re.search(named, str(error)), (name, str(error))
                break
        else:
            found.append(name)
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_parameter_acts_or_is_refused(case):
    assert ignored(*CASES[case]) == []


def test_every_class_with_parameters_is_tried():
    models = [model for model, _ in CASES.values()]
    tried = {type(one) for model in models for one in (model, *vars(model).values())}
    # Parameters of an inner estimator are its own: see test_label_dp.py.
    left_out = {"DeclaredEncoder", "LabelDPClassifier", "LabelDPRegressor"}
    known = [getattr(skfdp, n) for n in skfdp.__all__ if n not in left_out]
    known += [
        getattr(skfdp.solvers, n) for n in skfdp.solvers.__all__ if n != "TorchBackend"
    ]
    assert {one for one in known if hasattr(one, "get_params")} <= tried
