"""Every refusal: one sentence, with name, value, expectation and remedy."""

import contextlib
import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from problems import FITS
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.privacy import AddOrRemoveOne
from skfdp.schema import Label, Number
from skfdp.solvers import (
    AdaptiveCentering,
    FeatureDPSGD,
    GaussianCentering,
    Huber,
    NoisyGradientDescent,
    NoisySGD,
    NumpyBackend,
    OneShot,
)

EVERY = (
    skfdp.DPSGDFClassifier,
    skfdp.FeatureDPLogisticRegression,
    skfdp.PrivateCenteringTransformer,
)
CENTRING = (skfdp.PrivateCenteringTransformer,)
DPSGDF, FEATURE = (skfdp.DPSGDFClassifier,), (skfdp.FeatureDPLogisticRegression,)
REGRESSORS, LAST = (
    (skfdp.DPSGDFRegressor, skfdp.FeatureDPRegressor),
    (skfdp.FeatureDPRegressor,),
)
COUNTED = {"neighboring_relation": AddOrRemoveOne(300)}
DAYS = np.timedelta64(3, "s")
NINE = [[0] * 9, [1] * 9], [0, 1]
NETWORK = (
    partial(skfdp.FeatureDPMLPClassifier, bounds=(0, 1), hidden_layer_sizes=(8,)),
)
ONE_SHOT = (partial(FEATURE[0], public_features="all", solver="one-shot"),)
BALANCED = (partial(FEATURE[0], bounds=(0, 1), class_weight="balanced"),)
CONDITIONAL = (partial(CENTRING[0], bounds=(0, 1), public_features=[1, 3]),)
KNOWN = {"public_features": [0], "public_target": True}
KNOWING = (partial(FEATURE[0], **KNOWN), partial(LAST[0], **KNOWN))
UNTOLD = {"public_target": False}
UNKNOWN = UNTOLD | {"target_bounds": (0, 9)}
LINEAR, ODD = LogisticRegression(), r"was fitted on 9 column\(s\), but \d are public"
SEVEN, FITTED = (clone(LINEAR).fit([[0], [1]], [0, last]) for last in (7, 1))
BALANCES = "'balanced' needs .*a dict of public|'balanced' needs a public target"
LOOP = {"solver": NoisySGD(max_iter=2)}


def cut(kind, **given):
    """Return an estimator that centres as told."""
    return kind(centering=AdaptiveCentering(**given))


CUT = tuple(partial(cut, kind) for kind in DPSGDF + REGRESSORS)

PARAMETERS = [
    (EVERY, {"epsilon": 0}, "epsilon=0 must be a positive number"),
    (EVERY, {"epsilon": float("nan")}, "epsilon=nan must be a positive number"),
    (EVERY, {"delta": 0}, "delta=0 must be a number strictly between 0 and 1"),
    (EVERY, {"neighboring_relation": "other"}, "neighboring_relation='other' is unk"),
    (EVERY, {"neighboring_relation": "add_or_remove_one"}, "pass AddOrRemoveOne"),
    (EVERY, {"bounds": (1, 0)}, "must satisfy low < high"),
    (EVERY, {"random_state": "x"}, "random_state='x' must be None"),
    (EVERY, {"ledger": 3}, "ledger"),
    (CENTRING, {"row_norm": 0}, "row_norm=0 must be a number > 0 or 'auto'"),
    (CENTRING, {"normalize": pd.NA}, "normalize=.* is unknown"),
    (DPSGDF, {"C": 0}, "C=0 must be a number > 0 or 'auto'"),
    (DPSGDF, {"class_weight": "even"}, "must be None, 'balanced' or a dict"),
    (DPSGDF, {"class_weight": {5: 1.0}}, "class_weight names the label 5"),
    (DPSGDF, {"class_weight": {0: -1.0}}, r"class_weight\[0\]=-1.0 must be a number"),
    (DPSGDF, {"classes": [0]}, "must hold at least two labels"),
    (DPSGDF, {"classes": range(2**15 + 1)}, "more than 32768 labels: merge rare ones"),
    (DPSGDF, {"classes": ["a", "\ud800"]}, "classes holds .* a lone surrogate"),
    (DPSGDF, {"fit_intercept": pd.NA}, "fit_intercept=.* must be True or False"),
    (DPSGDF, {"loss": "squared_error"}, "loss='squared_error' is unknown"),
    (DPSGDF, {"centering": "exact"}, "centering='exact' must be 'auto', None, 'gauss"),
    (DPSGDF, {"centering": GaussianCentering(budget_share=1.0)}, "budget_share=1.0 mu"),
    (DPSGDF, {"solver": "feature-dp-sgd"}, "solver='feature-dp-sgd' must be 'auto', "),
    (DPSGDF, {"solver": FeatureDPSGD()}, "must be 'auto', .* or an object of skfdp.so"),
    (DPSGDF, {"solver": NoisyGradientDescent}, "must be 'auto', .* or an object of"),
    (FEATURE, {"solver": "lbfgs"}, "solver='lbfgs' must be 'auto', 'noisy-gd', 'nois"),
    (FEATURE, {"public_target": "yes"}, "public_target='yes' is unknown"),
    (FEATURE, {"public_features": "all", "public_target": True}, "nothing to protect"),
    (FEATURE, {"public_features": [0], **COUNTED}, "so no part of them can be public"),
    (FEATURE, {"solver": FeatureDPSGD(), **COUNTED}, "keeps the number of rows pub"),
    # Found by fuzzing.
    (EVERY, {"bounds": (0, 10**400)}, "bounds=<tuple> must be a pair"),
    (EVERY, {"bounds": {0: (np.zeros(3), 1)}}, "bounds.0. must be a pair|bounds.0.="),
    (EVERY, {"epsilon": DAYS}, "epsilon=.* must be a positive"),
    (FEATURE, {"public_features": slice(0, 2, 0)}, "a slice of positions"),
    (REGRESSORS, {"target_bounds": None}, "target_bounds=None: a private target needs"),
    (REGRESSORS, {"target_bounds": (1, 1)}, r"target_bounds=\(1, 1\) must be a pair"),
    (REGRESSORS, {"target_bounds": (0, np.inf)}, "must be a pair .* of finite numbers"),
    (REGRESSORS, {"target_bounds": (-1, 5), "loss": "poisson"}, "must be at least 0"),
    (REGRESSORS, {"loss": "log_loss"}, "loss='log_loss' must be 'squared_error', 'hub"),
    (REGRESSORS, {"loss": Huber(threshold=0)}, "threshold=0 must be a number > 0"),
    (REGRESSORS, {"alpha": -1}, "alpha=-1 must be a number >= 0 or 'auto'"),
    (REGRESSORS, {"solver": "one-shot"}, "must be 'auto', 'noisy-gd', 'noisy-sgd', or"),
    (REGRESSORS, {"solver": FeatureDPSGD()}, "or an object of skfdp.solvers: NoisyGr"),
    (CUT, {"clip_features": "all"}, "clip_features='all' must be True or False"),
    (ONE_SHOT, {"public_features": [0]}, "one-shot' .label-DP. needs public columns"),
    (ONE_SHOT, {"class_weight": {0: 2.0}}, "class_weight=.* has no effect with solver"),
    (ONE_SHOT, {"epsilon": 1e-9, "delta": 1e-8}, "needs a larger budget, whose noise"),
    (CONDITIONAL, {"public_features": slice(None)}, "needs private columns"),
    (CONDITIONAL, {"normalize": "yes"}, "normalize='yes'"),
    (CONDITIONAL, {"epsilon": 1e-12, "delta": 1e-12}, "raise the budget"),
    (KNOWING, {"public_model": "trees"}, "public_model='trees' must be 'auto', 'line"),
    (KNOWING[1:], {"public_model": DummyClassifier()}, "None or a regressor"),
    (KNOWING[:1], {"public_model": RidgeClassifier()}, "with predict_proba"),
    (KNOWING[1:], {"public_model": Ridge()} | UNKNOWN, "be fitted on a private target"),
    (KNOWING[:1], {"public_model": LINEAR} | UNTOLD, "be fitted on a private target"),
    (KNOWING[:1], {"public_model": SEVEN}, r"public_model has the labels \[7\]"),
    (KNOWING[:1], {"public_model": clone(LINEAR).fit(*NINE)}, ODD),
    (EVERY[2:] + NETWORK + DPSGDF, {"bounds": "privat"}, "private_bounds"),
    (NETWORK, {"bounds": "private", **LOOP}, "private_bounds"),
    (BALANCED, {"C": 1.0}, BALANCES),
    (BALANCED, {"fit_intercept": False, "public_target": True}, BALANCES),
    (BALANCED, {"solver": NoisyGradientDescent(max_weight_norm=1.0)}, BALANCES),
    (BALANCED, {"public_model": FITTED, "public_features": [0]}, BALANCES),
    (BALANCED, {"solver": "feature-dp-sgd", "public_features": [0]}, BALANCES),
    (BALANCED, {"epsilon": 1e-9, "delta": 1e-12}, BALANCES),
    (DPSGDF, {"class_weight": "balanced", "loss": "hinge"}, BALANCES),
    (NETWORK, {"class_weight": "balanced", **LOOP}, BALANCES),
]
NETWORKS = [
    ({"hidden_layer_sizes": (0,)}, r"hidden_layer_sizes=\(0,\) must be an int or a"),
    ({"hidden_layer_sizes": np.array(1.0)}, "hidden_layer_sizes=.* must be an int"),
    ({"hidden_layer_sizes": (9, 1)}, "must be at least 2, two neurons for each of 1"),
    ({"backend": NumpyBackend(dtype="float64")}, "dtype='float64' of backend has no "),
    ({"backend": "jax"}, "backend='jax' must be 'numpy', 'torch', or an object"),
    ({"backend": NumpyBackend(dtype="float16")}, "dtype='float16' is unknown"),
    ({"public_target": True, "public_features": "all"}, "there is nothing to protect"),
]
SOLVERS = [
    (NoisyGradientDescent(row_norm=0), "row_norm=0 must be a number > 0 or 'auto'"),
    (NoisyGradientDescent(clip_norm=-1), "clip_norm=-1 must be a number > 0 or 'auto'"),
    (NoisyGradientDescent(max_iter=0), "max_iter=0 must be an int > 0 or 'auto'"),
    (NoisyGradientDescent(max_iter=DAYS), "must be an int > 0"),
    (NoisyGradientDescent(learning_rate=DAYS), "must be a number > 0"),
    (NoisyGradientDescent(momentum=1.0), "momentum=1.0 must be a number >= 0 and < 1"),
    (NoisyGradientDescent(noise_decay=-1), "noise_decay=-1 must be a number >= 0"),
    (NoisyGradientDescent(max_weight_norm=0), "max_weight_norm=0 must be a number > 0"),
    (NoisyGradientDescent(normalize=pd.NA), "normalize=.* must be True or False"),
    (NoisySGD(batch_size=0), "batch_size=0 must be an int > 0 or 'auto'"),
    (FeatureDPSGD(public_loss="mean"), "public_loss='mean' is unknown"),
    (FeatureDPSGD(public_batch_size=0), "public_batch_size=0 must be an int"),
    (FeatureDPSGD(gradient_scale=0), "gradient_scale=0 must be a number > 0"),
    (FeatureDPSGD(padding_scale=-1), "padding_scale=-1 must be a number >= 0"),
    (FeatureDPSGD(learning_rate_decay=2), "learning_rate_decay=2 must be a number"),
    (OneShot(max_iter=0), "max_iter=0 must be an int > 0"),
]
PARAMETERS += [(FEATURE, {"solver": solver}, message) for solver, message in SOLVERS]
PARAMETERS += [(NETWORK, given, message) for given, message in NETWORKS]


@pytest.mark.parametrize(
    ("estimator", "parameters", "message"),
    [(cls, kw, message) for classes, kw, message in PARAMETERS for cls in classes],
    ids=lambda part: None if isinstance(part, str) else "",
)
def test_bad_parameters(estimator, parameters, message, small, releases):
    ledger = skfdp.PrivacyLedger()
    model = estimator(**parameters)
    if "ledger" not in parameters:
        model.set_params(ledger=ledger)
    if isinstance(model, REGRESSORS) and "target_bounds" not in parameters:
        model.set_params(target_bounds=(0, 1))
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*small)
    assert not releases and not ledger.entries
    assert not model.__sklearn_is_fitted__()


def column(value, dtype=object):
    X = np.ones((10, 2), dtype=dtype)
    X[3, 1] = value
    return X


class Opaque:
    """A value that refuses to be a number, loudly."""

    def __float__(self):
        raise ValueError("secret")


SECRET = 4242.5
Y = np.arange(10) % 2
ONES = np.ones((10, 2))
ALL = {"public_features": "all"}
SHOWN = {"public_target": True}
# What is private is replaced whatever it is; types and shapes are not.
CLASSIFIED = [
    (ALL, column(np.nan, float), Y, "contains NaN"),
    (ALL, column(np.inf, float), Y, "contains infinity"),
    (ALL, np.array([["secret", "b"]] * 10), Y, "contains NaN"),
    (ALL, column(Opaque()), Y, "contains NaN"),
    (ALL, column({"secret": 1}), Y, "contains NaN"),
    (ALL, sp.csr_array(np.full((10, 2), np.nan)), Y, "Input X contains NaN"),
    ({}, np.full(10, SECRET), Y, "Expected 2D array as X"),
    ({}, np.full((10, 2, 1), SECRET), Y, "Found array with dim 3"),
    ({}, np.ones((10, 0)), Y, r"0 feature\(s\)"),
    ({}, pd.DataFrame(index=range(10)), Y, "X has no columns: check how they were"),
    ({}, ONES, Y[:9], "inconsistent numbers of samples"),
    ({}, ONES, np.zeros(10), "one class only"),
    ({}, ONES, np.r_[np.nan, Y[1:]], "NaN"),
    ({}, ONES, ["a", np.nan, *"secret"[:4], *"abcd"], "y contains NaN"),
    ({}, ONES, SECRET + np.arange(10) / 7, "Unknown label type"),
    ({}, ONES, None, "requires y to be passed"),
    ({}, ONES, np.array(["secret", 1] * 5, dtype=object), "labels of several types"),
    (SHOWN | {"classes": ["a", "b"]}, ONES, np.array(["a", "secret"] * 5), "s outside"),
]
RATES = {"target_bounds": None, "loss": "poisson"}
TARGETS = [
    (SHOWN, ["secret"] * 10, "y holds values that are not numbers"),
    (SHOWN, np.array([Opaque()] * 10), "y holds values that are not numbers"),
    (SHOWN, np.r_[np.nan, Y[1:]], "NaN"),
    ({**SHOWN, "loss": "huber"}, np.r_[SECRET, np.inf, Y[2:]], "infinity"),
    ({}, None, "requires y to be passed"),
    ({}, np.full((10, 2), SECRET), "1d array"),
    *(
        (shown | RATES, np.r_[-SECRET, Y[1:]], "negative values, for which loss='")
        for shown in (SHOWN, {"epsilon": np.inf})
    ),
]
MALFORMED = [
    (skfdp.FeatureDPLogisticRegression(**given), X, y, message)
    for given, X, y, message in CLASSIFIED
]
MALFORMED += [
    (skfdp.FeatureDPRegressor(**{"target_bounds": (0, 1)} | given), ONES, y, message)
    for given, y, message in TARGETS
]


@pytest.mark.parametrize(("model", "X", "y", "message"), MALFORMED)
def test_malformed_input_is_refused_without_a_datum(model, X, y, message, releases):
    model = clone(model).set_params(bounds=(0, 1))
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        model.fit(X, y)
    # Loggers may write out a context even where a traceback would suppress it.
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    text = " ".join(str(error) for error in chain if error is not None)
    assert "secret" not in text and "4242" not in text
    assert not releases


every_fit = pytest.mark.parametrize("name", FITS)


def uses(model, X, y):
    """Yield what a user does with an estimator, as functions."""
    fitted = clone(model).fit(np.asarray(X), np.asarray(y))
    predict = getattr(fitted, "predict", None) or fitted.transform
    yield from (lambda: clone(model).fit(X, y), lambda: clone(model).plan(X, y))
    yield from (lambda: predict(X), lambda: skfdp.private_bounds(X))
    if hasattr(fitted, "score"):
        yield lambda: fitted.score(X, y)
        yield lambda: skfdp.private_score(fitted, X, y, 1.0)


@pytest.mark.parametrize("tool", [OneVsRestClassifier, OneVsOneClassifier])
@pytest.mark.parametrize("name", ["logistic", "classifier", "network"])
def test_a_member_of_one_vs_rest_has_two_labels(name, tool, small):
    X, y = small[0], np.arange(len(small[0])) % 3
    member, ledger = clone(FITS[name]), skfdp.PrivacyLedger()
    for epsilon in (1.0, np.inf):
        member.set_params(classes=[0, 1, 2], epsilon=epsilon, ledger=ledger)
        with pytest.raises(ValueError, match="each member of one-vs-rest is fitted to"):
            tool(make_pipeline(member)).fit(X, y)
        assert member.fit(X, y).predict(X).shape == y.shape
    charges = len(ledger.entries)
    tool(member.set_params(classes=[0, 1], epsilon=1.0)).fit(X, y).predict(X)
    assert charges and len(ledger.entries) > charges


@every_fit
@pytest.mark.parametrize("epsilon", ["x", None, np.array("auto"), object()])
def test_an_estimator_with_a_bad_budget_can_be_printed(name, epsilon):
    model = clone(FITS[name]).set_params(epsilon=epsilon)
    assert model.__sklearn_tags__() and type(model).__name__ in model._repr_html_()


@every_fit
def test_a_name_that_no_file_can_store_is_refused(name, small, releases):
    for first, of_y in (("\ud800", "y"), ("a", "\udce9"))[: 1 + (name != "centring")]:
        X = pd.DataFrame(small[0], columns=pd.Index([first, *"bcd"], dtype=object))
        with pytest.raises(ValueError, match="a name holds .* with a lone surrogate"):
            clone(FITS[name]).fit(X, pd.Series(small[1], name=of_y))
    assert not releases


@every_fit
def test_attributes_of_frames_are_not_copied(name, small):
    """pandas copies them with each column, and a lock cannot be copied."""
    X, y = pd.DataFrame(small[0], columns=list("abcd")), pd.Series(small[1], name="y")
    locked = [pd.DataFrame(X), pd.Series(y)]
    for table in locked:
        table.attrs["connection"] = threading.Lock()
    model = clone(FITS[name]).set_params(random_state=0)
    found = [clone(model).fit(*tables) for tables in ((X, y), locked)]
    fields = [[getattr(m, n) for n in m._released] for m in found]
    for one, other in zip(*fields, strict=True):
        np.testing.assert_equal(one, other)
    for use in uses(model, *locked):
        use()
    assert locked[0].attrs


def test_raw_tables_are_not_copied_and_the_name_of_an_outcome_is_no_target(small):
    table = pd.DataFrame(small[0], columns=list("abcd")).assign(ill=small[1])
    columns = dict.fromkeys("abcd", Number(0, 1)) | {"ill": Label([0, 1])}
    schema = skfdp.TableSchema(columns, outcomes=["ill"])
    table.attrs["connection"] = threading.Lock()
    X, y = schema.split(table)
    model = skfdp.FeatureDPLogisticRegression(schema=schema).fit(table, y)
    schema.encoder().fit(table).transform(table)
    assert len(model.predict(table)) == len(schema.read(table)) == len(X)
    skfdp.private_score(model, table, y, 1.0)
    with pytest.raises(ValueError, match="y is a text"):
        model.fit(table, "ill")


@every_fit
@pytest.mark.extra("torch")
@pytest.mark.parametrize("change", ["requires_grad_", "bfloat16", "to_sparse"])
def test_a_tensor_that_numpy_cannot_read_is_said(name, change, small):
    torch = pytest.importorskip("torch")
    X = getattr(torch.tensor(small[0]), change)()
    for use in uses(FITS[name], *map(torch.tensor, small)):
        use()
    model = clone(FITS[name]).fit(*small)
    predict = getattr(model, "predict", None) or model.transform
    for use in (lambda: clone(model).fit(X, small[1]), lambda: predict(X)):
        with pytest.raises(ValueError, match=r"read by NumPy: pass tensor\.d"):
            use()


@pytest.mark.parametrize("name", [name for name in FITS if name != "centring"])
def test_the_name_of_the_target_is_no_target(name, small):
    X = pd.DataFrame(small[0], columns=list("abcd"))
    model = clone(FITS[name]).fit(X, small[1])
    for use in (
        lambda: clone(model).fit(X, "ill"),
        lambda: model.score(X, "ill"),
        lambda: skfdp.private_score(model, X, "ill", 1.0),
    ):
        with pytest.raises(ValueError, match=r"y is a text.*table\[name\] as y"):
            use()


@every_fit
@pytest.mark.parametrize("bounds", [(1, 0), (1, 1), {9: (0, 1)}, "private", 3])
def test_bounds_are_checked_without_privacy(name, bounds, small):
    model = clone(FITS[name]).set_params(epsilon=np.inf, bounds=bounds)
    fine = bounds == "private" and name not in ("network", "centring")
    refused = pytest.raises(ValueError, match="bounds")
    with contextlib.nullcontext() if fine else refused:
        model.fit(*small)


@every_fit
def test_no_usable_row_is_said_without_privacy(name, small):
    X, y = small
    model, ledger = clone(FITS[name]).set_params(epsilon=np.inf), skfdp.PrivacyLedger()
    model.set_params(ledger=ledger, bounds=False)
    with pytest.raises(ValueError, match="no row has both a target and readable"):
        model.fit(np.full_like(X, np.nan), y)
    if name != "centring":
        with pytest.raises(ValueError, match="y holds no label|no row has both"):
            model.fit(X, np.full(len(X), np.nan))
    assert not ledger.entries


CODED = ([1, 2], [1, 2, 3], [-1, 1], ["1", "2"], [0, 5])


@pytest.mark.parametrize("classes", CODED, ids=str)
@pytest.mark.parametrize("name", ["logistic", "classifier", "network"])
def test_recoded_labels_are_refused_without_privacy(name, classes, small):
    X, codes = small[0], np.arange(len(small[0])) % len(classes)
    model = clone(FITS[name]).set_params(epsilon=np.inf, classes=classes)
    model.fit(X, np.array(classes)[codes])
    missing = np.array(classes, dtype=object)[codes]
    missing[codes == 1] = None
    model.fit(X, missing)  # a label that is missing is no code
    for y in (codes, codes.astype(float), codes.astype(str), codes.astype(object)):
        with pytest.raises(ValueError, match="y holds .*Declare the labels of y as th"):
            model.fit(X, y)


@pytest.mark.parametrize("name", ["solver__max_iter", "centering__budget_share"])
def test_a_name_of_an_algorithm_has_no_parameters_to_set(name):
    model = skfdp.FeatureDPLogisticRegression()
    part = name.partition("__")[0]
    with pytest.raises(ValueError, match=f"{part}='auto' has no parameters to set"):
        model.set_params(**{name: 0.5})
    solver, centering = NoisyGradientDescent(), GaussianCentering()
    model.set_params(solver=solver, centering=centering).set_params(**{name: 0.5})
    assert model.get_params()[name] == 0.5


@pytest.mark.parametrize("occurring", [2, 8])
def test_how_many_classes_occur_is_not_told(occurring, recwarn):
    y = np.arange(10) % occurring
    skfdp.DPSGDFClassifier(bounds=(0, 1), classes=range(10)).fit(np.eye(10), y)
    assert not [w for w in recwarn if "classes" in str(w.message)]


@pytest.mark.parametrize("estimator", EVERY)
def test_warnings_come_from_public_facts(estimator, small):
    with pytest.warns(match="no column bounds are declared"):
        estimator(delta=1e-3).fit(*small)
    with pytest.warns(match="delta=0.5 allows a mechanism to publish"):
        estimator(delta=0.5, bounds=(0, 1)).fit(*small)


def test_a_refit_that_fails_leaves_nothing(small):
    model = skfdp.DPSGDFClassifier(bounds=(0, 1)).fit(*small)
    model.set_params(epsilon=-1)
    with pytest.raises(ValueError, match="epsilon"):
        model.fit(*small)
    assert not [name for name in vars(model) if name.endswith("_")]
