"""Forty uses of scikit-learn's tools fit, or are refused in a sentence of ours."""

import traceback
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn import calibration, compose, ensemble, inspection, linear_model
from sklearn import feature_selection as fs
from sklearn import model_selection as ms
from sklearn import preprocessing as pp
from sklearn.base import clone, is_classifier
from sklearn.multiclass import (
    OneVsOneClassifier,
    OneVsRestClassifier,
    OutputCodeClassifier,
)
from sklearn.multioutput import ClassifierChain, RegressorChain
from sklearn.pipeline import make_pipeline, make_union
from sklearn.semi_supervised import SelfTrainingClassifier

import skfdp
from skfdp.schema import Label, Number
from skfdp.solvers import NoisyGradientDescent

pytestmark = pytest.mark.filterwarnings("ignore")
X = pd.DataFrame(np.random.default_rng(0).random((200, 4)), columns=list("abcd"))
Y = {"c": (3 * X["a"]).astype(int).rename("y"), "r": X["a"].rename("y")}
SOON = {"random_state": 0, "epsilon": 8.0, "solver": NoisyGradientDescent(max_iter=2)}
NAMED, COLUMNS = dict.fromkeys(X, (0, 1)), dict.fromkeys(X, Number(0, 1))
CLASSIFIER = partial(skfdp.FeatureDPLogisticRegression, **SOON)
REGRESSOR = partial(skfdp.FeatureDPRegressor, **SOON)
SCHEMAS = {
    kind: skfdp.TableSchema(COLUMNS | {"y": outcome}, outcomes=["y"])
    for kind, outcome in (("c", Label([0, 1, 2])), ("r", Number(0, 1)))
}
MODELS = {
    "bounds": CLASSIFIER(bounds=(0, 1)),
    "classes": CLASSIFIER(bounds=(0, 1), classes=[0, 1, 2]),
    "named": CLASSIFIER(bounds=NAMED, public_features=["a"]),
    "schema": CLASSIFIER(schema=SCHEMAS["c"]),
    "regressor": REGRESSOR(bounds=(0, 1), target_bounds=(0, 1)),
    "regressor, named": REGRESSOR(bounds=NAMED, target_bounds=(0, 1)),
    "regressor, schema": REGRESSOR(schema=SCHEMAS["r"]),
}


def either(name):
    """Return the tool for classifiers or regressors."""

    def make(model, **given):
        kind = "Classifier" if is_classifier(model) else "Regressor"
        return getattr(ensemble, name + kind)(model, **given)

    return make


def several(name, **more):
    return lambda m: either(name)([("a", m), ("b", clone(m))], **more)


def chain(m):
    return (ClassifierChain if is_classifier(m) else RegressorChain)(m)


def piped(*steps):
    return lambda m: make_pipeline(*steps, m)


FRAMES = pp.MinMaxScaler().set_output(transform="pandas")
GRID = {"epsilon": [4.0, 8.0]}
TOOLS = {
    "RFE": partial(fs.RFE, n_features_to_select=2),
    "RFECV": partial(fs.RFECV, cv=2, min_features_to_select=3),
    "SFS": partial(fs.SequentialFeatureSelector, n_features_to_select=1, cv=2),
    "SelectFromModel": fs.SelectFromModel,
    "bagging": partial(either("Bagging"), n_estimators=2),
    "bagging of columns": partial(either("Bagging"), n_estimators=2, max_features=0.5),
    "AdaBoost": partial(either("AdaBoost"), n_estimators=2),
    "one-vs-rest": OneVsRestClassifier,
    "one-vs-one": OneVsOneClassifier,
    "output code": partial(OutputCodeClassifier, code_size=1),
    "voting": several("Voting"),
    "stacking": several("Stacking", cv=2),
    "stacking beside X": several("Stacking", cv=2, passthrough=True),
    "calibrated": partial(calibration.CalibratedClassifierCV, cv=2),
    "tuned threshold": partial(ms.TunedThresholdClassifierCV, cv=2),
    "fixed threshold": ms.FixedThresholdClassifier,
    "chain": chain,
    "target": partial(
        compose.TransformedTargetRegressor, func=np.sqrt, inverse_func=np.square
    ),
    "grid": partial(ms.GridSearchCV, param_grid=GRID, cv=2),
    "random": partial(ms.RandomizedSearchCV, param_distributions=GRID, n_iter=1, cv=2),
    "self-training": partial(SelfTrainingClassifier, max_iter=1),
    "RANSAC": partial(linear_model.RANSACRegressor, min_samples=100, max_trials=2),
    "k best": piped(fs.SelectKBest(k=2)),
    "scaled": piped(pp.MinMaxScaler()),
    "scaled frames": piped(FRAMES),
    "powers": piped(pp.PolynomialFeatures()),
    "identity": piped(pp.FunctionTransformer()),
    "columns": piped(compose.make_column_transformer(("passthrough", [0, 1]))),
    "union": piped(make_union(pp.FunctionTransformer())),
}
CV = {"cv": 2, "error_score": "raise"}
USES = {name: lambda m, X, y, t=tool: used(t(m), X, y) for name, tool in TOOLS.items()}
USES |= {
    "predicted": partial(ms.cross_val_predict, cv=2),
    "probabilities": partial(ms.cross_val_predict, cv=2, method="predict_proba"),
    "validated": partial(ms.cross_validate, **CV),
    "learning curve": partial(ms.learning_curve, train_sizes=[0.5], **CV),
    "validation curve": lambda *given: ms.validation_curve(
        *given, param_name="epsilon", param_range=[4.0, 8.0], **CV
    ),
    "permuted labels": partial(ms.permutation_test_score, cv=2, n_permutations=2),
    "permuted columns": lambda m, X, y: inspection.permutation_importance(
        m.fit(X, y), X, y, n_repeats=1
    ),
    "partial dependence": lambda m, X, y: inspection.partial_dependence(
        m.fit(X, y), X[:20], [0], grid_resolution=3
    ),
    "arrays": lambda m, X, y: m.fit(X.to_numpy(), y.to_numpy()).predict(X.to_numpy()),
    "lists": lambda m, X, y: m.fit(X.to_numpy().tolist(), y.tolist()).predict(X[:5]),
    "columns in another order": lambda m, X, y: m.fit(X, y).predict(X[X.columns[::-1]]),
}


def used(tool, X, y):
    y = (
        np.column_stack([y, y])
        if isinstance(tool, (ClassifierChain, RegressorChain))
        else y
    )
    tool.fit(X, y)
    return getattr(tool, "predict", getattr(tool, "transform", None))(X[:5])


@pytest.mark.nightly
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("use", USES)
def test_a_use_fits_or_is_refused(use, model):
    given = X, Y["r" if "regressor" in model else "c"]
    try:
        USES[use](clone(MODELS[model]), *given)
    except Exception as error:
        # A sentence of ours, or of scikit-learn, and no error of what it calls. It asks
        # regressors for what only classifiers have.
        last = traceback.extract_tb(error.__traceback__)[-1]
        told = any(f"/{name}/" in last.filename for name in ("skfdp", "sklearn"))
        told &= last.line.startswith("raise") or "has no attribute" in str(error)
        assert told, f"{last}: {error!r}"


def test_a_selector_reads_importances_of_the_columns_of_a_schema():
    ledger, y = skfdp.PrivacyLedger(), Y["c"]
    model = clone(MODELS["schema"]).set_params(ledger=ledger)
    with pytest.raises(ValueError, match="pass importance_getter"):
        fs.SelectFromModel(model).fit(X, y)
    assert not ledger.entries
    sizes = np.arange(X.shape[1])
    selector = fs.SelectFromModel(model, importance_getter=lambda fitted: sizes)
    assert selector.fit(X, y).transform(X).shape[1] == (sizes >= sizes.mean()).sum()
