"""Labels: recoded by scikit-learn, in other spellings, undeclared, missing."""

import itertools
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import multiclass
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.semi_supervised import SelfTrainingClassifier

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    PrivacyLedger,
    TableSchema,
    UtilityWarning,
    private_score,
)
from skfdp.data.target import encode_any
from skfdp.schema import Label, Number
from skfdp.solvers import descent as frequencies

RNG = np.random.default_rng(0)
N = 900
X = pd.DataFrame(RNG.random((N, 3)), columns=["a", "b", "c"])
CODES = {
    2: (X.to_numpy() @ [1, 1, -0.5] > 0.75).astype(int),
    3: np.digitize(X["a"], [0.33, 0.66]),
}
BOUNDS = {"bounds": (0, 1)}
PRIVATE = {
    "private": FeatureDPLogisticRegression(8.0, **BOUNDS),
    "label-DP": FeatureDPLogisticRegression(8.0, public_features="all", **BOUNDS),
    "public column": FeatureDPLogisticRegression(8.0, public_features=[0], **BOUNDS),
    "public target": FeatureDPLogisticRegression(8.0, public_target=True, **BOUNDS),
    "DPSGD-F": DPSGDFClassifier(8.0, **BOUNDS),
    "network": FeatureDPMLPClassifier(8.0, hidden_layer_sizes=(9,), **BOUNDS),
}
DECLARED = ([0, 1], [1, 2], [-1, 1], [0, 2], ["no", "yes"], [False, True], [1, 2, 3])


def _fit(meta):
    return lambda model, y: meta(model).fit(X, y).predict(X)


def _predict(method):
    def run(model, y):
        found = cross_val_predict(model, X, y, cv=KFold(3), method=method)
        found = found.argmax(1) if found.ndim > 1 else (found > 0).astype(int)
        return np.unique(y)[found]

    return run


def _twice(meta):
    def run(model, y):
        return np.array(meta(model).fit(X, np.column_stack([y, y])).predict(X))[:, 0]

    return run


META = {
    "predict": lambda model, y: cross_val_predict(model, X, y, cv=KFold(3)),
    "predict_proba": _predict("predict_proba"),
    "decision_function": _predict("decision_function"),
    "soft voting": _fit(lambda m: VotingClassifier([("a", m)], voting="soft")),
    "hard voting": _fit(lambda m: VotingClassifier([("a", m)])),
    "stacking": _fit(lambda m: StackingClassifier([("a", m)], cv=2)),
    "bagging": _fit(lambda m: BaggingClassifier(m, 2, bootstrap=False)),
    "one-vs-rest": _fit(multiclass.OneVsRestClassifier),
    "one-vs-one": _fit(multiclass.OneVsOneClassifier),
    "output code": _fit(lambda m: multiclass.OutputCodeClassifier(m, random_state=0)),
    "outputs": _twice(MultiOutputClassifier),
    "chain": _twice(ClassifierChain),
    "calibrated": _fit(lambda m: CalibratedClassifierCV(m, cv=2)),
    "grid": _fit(lambda m: GridSearchCV(m, {"C": [1.0]}, cv=2)),
    "self-training": _fit(SelfTrainingClassifier),
    "pipeline": _fit(lambda m: make_pipeline(FunctionTransformer(), m)),
}
KINDS = ("private", "DPSGD-F", "public target", "label-DP")


def tried():
    """Yield a kind of fit, a meta-estimator and labels; two of them usual, or nightly.

    scikit-learn itself refuses text in a chain, and takes -1 for "no label".
    """
    for kind, name, declared in itertools.product(KINDS, META, DECLARED):
        if (name, declared[0]) in (("chain", "no"), ("self-training", -1)):
            continue
        usual = kind == "private", name == "hard voting", declared == [1, 2]
        marks = [pytest.mark.nightly] * (sum(usual) < 2)
        yield pytest.param(kind, name, declared, marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "name", "declared"), [*tried()], ids=str)
def test_f02_each_meta_estimator_gives_the_right_model_or_the_reason(
    kind, name, declared
):
    y = np.array(declared)[CODES[len(declared)]]
    model = clone(PRIVATE[kind]).set_params(classes=declared)
    try:
        found = META[name](model, y)
    except (ValueError, TypeError) as error:
        assert re.search("label|classes|sample_weight|binary", str(error)), error
        assert name not in ("predict", "grid", "pipeline", "outputs")
        return
    peer = META[name](LogisticRegression(), y)
    right = np.mean(np.asarray(found) == y)
    assert right > min(0.7, np.mean(np.asarray(peer) == y) - 0.15)


@pytest.mark.parametrize("kind", PRIVATE)
@pytest.mark.parametrize("declared", [[1, 2], [-1, 1], [1, 2, 3]], ids=str)
def test_f02_recoded_numbers_end_the_fit_or_warn_before_it(kind, declared):
    model = clone(PRIVATE[kind]).set_params(classes=declared, ledger=PrivacyLedger())
    y = pd.Series(CODES[len(declared)], name="y")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
        except ValueError as error:
            told = str(error)
            assert not hasattr(model, "coef_")
            if kind != "public target":
                assert "0, ..., k-1" in told and model.ledger.spent(1e-5) > 0
            return
    assert kind == "network"
    assert any("0, ..., k-1" in str(one.message) for one in caught)


@pytest.mark.parametrize("declared", [["no", "yes"], [False, True]], ids=str)
@pytest.mark.parametrize("kind", PRIVATE)
def test_f02_types_that_show_a_recoding_are_refused_before_the_charge(kind, declared):
    ledger = PrivacyLedger()
    model = clone(PRIVATE[kind]).set_params(classes=declared, ledger=ledger)
    with pytest.raises(ValueError, match="differ in type"):
        model.fit(X, pd.Series(CODES[2], name="y"))
    assert ledger.events == ()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["private", "DPSGD-F", "label-DP"])
def test_f02_an_empty_declared_class_alone_is_nothing(kind):
    model = clone(PRIVATE[kind]).set_params(classes=[0, 1, 2])
    assert model.fit(X, CODES[2]).score(X, CODES[2]) > 0.75


@pytest.mark.parametrize("kind", ["private", "DPSGD-F", "label-DP"])
def test_a8_undeclared_labels_warn_from_released_counts(kind):
    y = np.where(RNG.random(N) < 0.3, 7, CODES[2])
    model = clone(PRIVATE[kind]).set_params(classes=[0, 1])
    with pytest.warns(UtilityWarning, match=r"of 900 records about \d+ .* no label"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="no label of classes"):
        model.set_params(classes=[5, 6]).fit(X, y)


@pytest.mark.parametrize("public", [False, True])
def test_the_refusal_of_a_schema_names_no_bounds_and_no_impossible_count(public):
    frame = pd.DataFrame({"a": np.arange(N) % 7, "b": np.arange(N) % 5})
    schema = TableSchema(
        {"a": Number(0, 7, public=public), "b": Number(0, 5), "y": Label(["A", "B"])},
        outcomes="y",
    )
    model = FeatureDPLogisticRegression(schema=schema)
    for _ in range(4):  # the noise is fresh
        with pytest.raises(ValueError, match="no label of classes") as caught:
            model.fit(frame, np.where(CODES[2] > 0, "a", "b"))
        assert "bounds" not in str(caught.value)
        assert int(re.search("records about ([0-9]+)", str(caught.value))[1]) <= N


def test_f02_what_is_judged_is_released(monkeypatch):
    """The judgement is a function of the released counts: exact ones change nothing."""
    seen = []

    def check(counts, noise_std, public, relation):
        seen.append((np.array(counts), noise_std))

    monkeypatch.setattr(frequencies, "check_counts", check)
    for declared in ([0, 1], [0, 1, 2]):
        model = clone(PRIVATE["private"]).set_params(classes=declared, epsilon=0.1)
        model.fit(X, CODES[2])
        counts, noise_std = seen.pop()
        stds = {event.label: event.noise_std[0] for event in model.privacy_.events}
        assert noise_std == stds[frequencies.CLASS_COUNTS]
        exact = np.bincount(CODES[2], minlength=len(declared))
        assert (counts != exact).all() and np.abs(counts - exact).max() < 6 * noise_std


def _spelt(low, high):
    return np.array([high if code else low for code in CODES[2]], dtype=object)


ONE_LABEL = {
    "floats": (CODES[2].astype(float), [0, 1]),
    "booleans": (CODES[2].astype(bool), [0, 1]),
    "text of numbers": (_spelt("0", "1"), [0, 1]),
    "text of floats": (_spelt("0.0", "1.0"), [0, 1]),
    "text dtype": (CODES[2].astype(str), [0, 1]),
    "mixed": (np.where(np.arange(N) < N // 2, CODES[2], _spelt("0", "1")), [0, 1]),
    "whole numbers of float classes": (CODES[2], [0.0, 1.0]),
    "words of booleans": (_spelt("false", "TRUE"), [False, True]),
    "objects of booleans": (_spelt(0, 1), [False, True]),
    "numbers of text": (CODES[2].astype(float), ["0", "1"]),
    "whole numbers of text": (CODES[2], ["0", "1"]),
    "bytes": (_spelt(b"no", b"yes"), ["no", "yes"]),
    "bytes in UTF-8": (_spelt(b"no", "sí".encode()), ["no", "sí"]),
    "NFD": (_spelt("nein", "Ru\u0308ckkehr"), ["nein", "Rückkehr"]),
    "NFD declared": (_spelt("nein", "Rückkehr"), ["nein", "Ru\u0308ckkehr"]),
    "spaces": (_spelt("no ", " yes"), ["no", "yes"]),
    "pandas": (pd.Series(CODES[2], dtype="Int64"), [0, 1]),
    "categories": (pd.Series(CODES[2]).astype("category"), [0, 1]),
}


@pytest.mark.parametrize("case", ONE_LABEL)
@pytest.mark.parametrize("kind", ["private", "DPSGD-F", "public target"])
def test_f12_the_declaration_decides_the_spelling(case, kind):
    y, declared = ONE_LABEL[case]
    model = clone(PRIVATE[kind]).set_params(classes=declared).fit(X, y)
    wanted = np.array(declared)
    assert model.classes_.dtype == model.predict(X).dtype == wanted.dtype
    assert np.array_equal(model.classes_, np.unique(wanted))
    code = (model.predict(X) == wanted[1]).astype(int)
    assert np.mean(code == CODES[2]) > 0.75
    assert model.score(X, y) == pytest.approx(np.mean(code == CODES[2]))
    if kind == "private":
        scored = private_score(model, X, y, 8.0, delta=1e-6)
        assert scored.values["accuracy"] > 0.7


SAME = [(["01", "1"], "01"), (["0", "1"], "1.0"), (["0", "1"], "01"), ([0, 1], "true")]
SAME += [([0, 1], True), ([False, True], "True"), ([0.1, 0.5], np.float32(0.1))]
SAME += [(["0.1", "0.5"], 0.1), ([2**53, 2**53 + 2], 2**53 + 1), ([0, 1], complex(0))]
OTHER = [(["01", "2"], "1"), (["01", "2"], 1), (["1.0", "2"], 1.0), ([0, 1], 1j)]
OTHER += [([0, 1], None), ([0, 1], ""), (["no", "yes"], "No")]
SPELT = [(*one, True) for one in SAME] + [(*one, False) for one in OTHER]


@pytest.mark.parametrize(("declared", "label", "is_one"), SPELT, ids=str)
def test_f12_spellings(declared, label, is_one):
    y = np.empty(2, dtype=object)
    y[:] = [label, declared[1]]
    missing = encode_any(y, declared).missing
    assert (missing is None or not missing[0]) == is_one


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, "", "no label"])
def test_f22_score_leaves_rows_without_a_declared_label_out(missing):
    y = CODES[2].astype(object)
    y[::3] = missing
    model = clone(PRIVATE["private"]).set_params(classes=[0, 1])
    model.fit(X, y)
    kept = np.arange(N) % 3 > 0
    with pytest.warns(UtilityWarning, match="300 of 900 rows have no label"):
        found = model.score(X, y, sample_weight=np.ones(N))
    assert found == model.score(X[kept], CODES[2][kept])
    with pytest.raises(ValueError, match="y has no label of classes_"):
        model.score(X[:2], [missing, missing])
