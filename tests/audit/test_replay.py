"""Replays find nothing in what this package fits, and every leak that is planted.

The counts are those of CI; ``benchmarks/audits/replays.py`` makes many more.
"""

import dataclasses
import logging
import math
import random
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
    TableSchema,
)
from skfdp.audit.replay import INSIDE, LEAVES, audit_replay

sys.path.append(str(Path(__file__).parents[1] / "golden"))

from golden_cases import CASES, estimator, of_rows, rows, target

from skfdp.privacy import AddOrRemoveOne
from skfdp.schema import Category, Date, Label, Number
from skfdp.solvers import NoisyGradientDescent, NoisySGD

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.UtilityWarning")
PRIVATE = {
    case["name"]: case for case in CASES if not math.isinf(case["params"]["epsilon"])
}
RNG = np.random.default_rng(0)
X = np.round(RNG.random((60, 4)) * 0.8 + 0.1, 3)
Y = np.arange(60) % 2
LOOP = {"bounds": (0, 1), "solver": NoisyGradientDescent(max_iter=2)}
SAMPLED = {"solver": NoisySGD(batch_size=20, max_iter=2)}
MODEL = DPSGDFClassifier(classes=[0, 1], **LOOP)


def check(result):
    """Check that a replay found nothing, and moved something."""
    assert result.differences == (), str(result)
    assert result.passed
    assert result.lower_bound <= result.claimed_epsilon * (1 + 1e-6)
    assert all(one.largest <= 1 + 1e-9 for one in result.releases)
    assert max(one.largest for one in result.releases) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIVATE)
def test_no_recorded_case_tells_more_than_its_releases(name):
    case = PRIVATE[name]
    found = audit_replay(
        estimator(case),
        rows(case),
        target(case),
        n_neighbors=2,
        fit_params=of_rows(case),
    )
    assert found.n_trials == 2
    check(found)


# Malformed values of every type, where nothing stands in for them: null records.
VOID = {"classes": [0, 1], "bounds": False, "solver": NoisyGradientDescent(max_iter=2)}
WITHOUT_BOUNDS = {
    "labels": DPSGDFClassifier(**VOID),
    "labels, Poisson": DPSGDFClassifier(**VOID | SAMPLED),
    "labels alone": FeatureDPLogisticRegression(
        classes=[0, 1], public_features="all", bounds=False
    ),
    "whole records": DPSGDFClassifier(
        neighboring_relation=AddOrRemoveOne(70), **VOID | SAMPLED
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_BOUNDS)
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_malformed_records_tell_no_more(name, kind):
    model, y = WITHOUT_BOUNDS[name], Y.astype(object)
    check(audit_replay(model, kind(X), y, n_neighbors=16))


FRAME = pd.DataFrame(
    {
        "age": RNG.uniform(20, 80, 60),
        "children": RNG.integers(0, 5, 60),
        "city": np.array(["Ulm", "Bonn", None], dtype=object)[np.arange(60) % 3],
        "owner": np.arange(60) % 2 == 0,
        "since": pd.date_range("2020-01-01", periods=60),
        "kind": pd.Categorical(np.array(["a", "b"])[np.arange(60) % 2]),
    }
)
COLUMNS = {
    "age": Number(20, 80),
    "children": Number(0, 9),
    "since": Date("2020-01-01", "2021-01-01"),
    "city": Category(["Ulm", "Bonn"]),
    "kind": Category(["a", "b"]),
}
LABEL, TWO = Label([0, 1]), NoisyGradientDescent(max_iter=2)


def schema_of(outcome=LABEL, public=()):
    """Return the schema of the frame, with an outcome "y"."""
    columns = {
        name: dataclasses.replace(column, public=name in public)
        for name, column in COLUMNS.items()
    }
    return TableSchema({**columns, "y": outcome}, outcomes=["y"])


RAW = {
    "classifier": DPSGDFClassifier(schema=schema_of(), solver=TWO),
    "public columns": FeatureDPLogisticRegression(
        schema=schema_of(public=["age", "city"]), solver=TWO
    ),
    "labels alone": FeatureDPLogisticRegression(schema=schema_of(public=COLUMNS)),
    "regressor": DPSGDFRegressor(schema=schema_of(Number(0, 1)), solver=TWO),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RAW)
def test_raw_tables_tell_no_more(name):
    check(audit_replay(RAW[name], FRAME, Y, n_neighbors=12))


def test_lists_are_tables_too():
    check(audit_replay(MODEL, X.tolist(), Y.tolist(), n_neighbors=8))


THREE = np.arange(60) % 3
AROUND = {
    "one for each class": (OneVsRestClassifier(MODEL), THREE),
    "one for each target": (
        MultiOutputClassifier(DPSGDFClassifier(**LOOP)),
        np.column_stack([Y, THREE > 0]),
    ),
    "Pipeline": (
        make_pipeline(
            PrivateCenteringTransformer(bounds=(0, 1)), DPSGDFClassifier(**VOID)
        ),
        Y,
    ),
    "regressor": (
        FeatureDPRegressor(public_features=[0], target_bounds=(0, 4), **LOOP),
        X.sum(axis=1),
    ),
}


@pytest.mark.parametrize("name", AROUND)
def test_tools_around_private_fits(name):
    model, y = AROUND[name]
    check(audit_replay(model, X, y, n_neighbors=6))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_transformed_target():
    """Of a tool that refuses NaN by itself, and tells so."""
    inner = DPSGDFRegressor(target_bounds=(0, 2), **LOOP)
    model = TransformedTargetRegressor(inner, func=np.sqrt, inverse_func=np.square)
    pairs = [(one_changed(X, 3, value), X.sum(axis=1)) for value in (0, 1e9)]
    check(audit_replay(model, X, X.sum(axis=1), neighbors=pairs))


def state():
    """Return what a fit could change around it."""
    return (
        repr(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
        [*logging.getLogger().handlers, logging.getLogger().level, *warnings.filters],
    )


def test_nothing_of_the_user_is_changed():
    ledger, table = PrivacyLedger(epsilon=0.1, delta=1e-5), X.copy()
    model = DPSGDFClassifier(classes=[0, 1], ledger=ledger, random_state=3, **LOOP)
    before = state()
    check(audit_replay(model, table, Y, n_neighbors=2))  # above the limit
    assert state() == before
    assert not ledger.entries
    assert not hasattr(model, "coef_")
    assert (model.random_state, model.ledger) == (3, ledger)
    np.testing.assert_array_equal(table, X)


def test_the_same_seed_makes_the_same_neighbours():
    one, other, third = (
        audit_replay(MODEL, X, Y, n_neighbors=3, random_state=seed)
        for seed in (0, 0, 1)
    )
    assert one == other != third


# ------------------------------------------------------------------- what it refuses
FREE = DPSGDFClassifier(math.inf)
WRONG = DPSGDFClassifier(solver=NoisyGradientDescent(clip_norm=-1.0))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"estimator": LogisticRegression()}, "must be an estimator of this package"),
        ({"estimator": DPSGDFClassifier}, "must be an estimator of this package"),
        ({"estimator": FREE}, "epsilon=inf makes no privacy claim"),
        ({"estimator": OneVsRestClassifier(FREE)}, "epsilon=inf makes no privacy"),
        ({"estimator": WRONG}, "clip_norm=-1"),  # by the fit
        ({"X": None}, "expected rows with columns"),
        ({"random_state": "x"}, "random_state='x' must be an int"),
    ],
    ids=range(7),
)
def test_odd_arguments_are_refused_in_one_sentence(given, match):
    with pytest.raises((TypeError, ValueError), match=match) as caught:
        audit_replay(**{"estimator": MODEL, "X": X, "y": Y} | given)
    assert "\n" not in str(caught.value)


# Not "multiprocessing": it forks, and a fork of a process with threads may hang.
@pytest.mark.parametrize(
    "backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)]
)
def test_fits_elsewhere_are_refused(backend):
    joblib = pytest.importorskip("joblib")
    with joblib.parallel_config(backend=backend):
        with pytest.raises(ValueError, match="n_jobs=None"):
            audit_replay(OneVsRestClassifier(MODEL, n_jobs=2), X, THREE)


class Drawn(BaseEstimator, TransformerMixin):
    """A step that draws from no fixed seed."""

    def fit(self, X, y=None):
        self.shift_ = np.random.default_rng().random()
        return self

    def transform(self, X):
        return X + self.shift_


def test_an_error_of_another_library_is_not_quoted():
    model = make_pipeline(StandardScaler(), DPSGDFClassifier(bounds=(-3, 3)))
    rows = np.full((9, 2), 0.735194j)
    with pytest.raises(ValueError, match="raised ValueError; its message") as caught:
        audit_replay(model, rows, np.arange(9) % 2, n_neighbors=3)
    assert "735194" not in "".join(traceback.format_exception(caught.value))


def test_a_fit_that_cannot_be_repeated_is_refused():
    with pytest.raises(ValueError, match=r"steps\[0\]\[1\].shift_.*set a fixed random"):
        audit_replay(make_pipeline(Drawn(), MODEL), X, Y)


class Reversing(Drawn):
    """A step after which record i is another row, beside the target of a third."""

    def fit(self, X, y=None):
        self.n_ = len(X)
        return self

    def transform(self, X):
        return X[::-1]


def test_rows_in_another_order_are_no_leak_but_torn_records_are():
    model = make_pipeline(Reversing(), MODEL)
    pairs = [(one_changed(X, 7, value), Y) for value in (0, 1e9, np.nan)]
    check(audit_replay(model, X, Y, neighbors=pairs))
    kinds, _ = found(model, n_neighbors=12)  # of which some are two rows each
    assert kinds == {"distance"}


def test_global_generators_are_fixed():
    class Shifted(Drawn):
        def fit(self, X, y=None):
            self.shift_ = np.random.random() + random.random()  # noqa: NPY002
            return self

    check(audit_replay(make_pipeline(Shifted(), MODEL), X, Y, n_neighbors=2))


def one_changed(table, record=5, value=0.5):
    other = table.copy()
    other[record] = value
    return other


PUBLIC = FeatureDPLogisticRegression(
    50.0, public_features=[0, 1], classes=[0, 1], **LOOP
)
COMING = DPSGDFClassifier(
    classes=[0, 1], neighboring_relation=AddOrRemoveOne(60), **LOOP
)


@pytest.mark.parametrize(
    ("model", "pairs", "match"),
    [
        (MODEL, [], "neighbors is empty"),
        (MODEL, [(csr_array(X), Y)], "is not a neighbour: give an X of the same"),
        (MODEL, [(X[:, :3], Y)], "is not a neighbour"),
        (MODEL, [(X[:-1], Y[:-1])], r"\[0\] is not a neighbour"),
        (MODEL, [(1 - X, Y)], "is not a neighbour"),
        (MODEL, [(one_changed(X), np.roll(Y, 1))], "is not a neighbour"),
        (PUBLIC, [(X, Y), (one_changed(X), Y)], r"\[1\] is not a neighbour"),
        (COMING, [(one_changed(X), Y)], "is not a neighbour"),
        (COMING, [(X[1:], Y[1:])], "is not a neighbour"),
    ],
)
def test_what_is_no_neighbour_is_refused(model, pairs, match):
    with pytest.raises(ValueError, match=match) as caught:
        audit_replay(model, X, Y, neighbors=pairs)
    assert "0.5" not in str(caught.value)


def test_neighbours_of_the_user():
    pairs = [(one_changed(X, 7, v), one_changed(Y, 7, 1 - Y[7])) for v in (0, 1e9)]
    found = audit_replay(MODEL, X, Y, neighbors=iter(pairs))
    check(found)
    assert (found.audit, found.n_trials) == ("replay", 2)
    assert 0 < found.lower_bound and str(found).startswith("Audit by replay of ")
    pairs = [(X[:-1], Y[:-1]), (np.vstack([X, X[:1] * 1e9]), np.r_[Y, 1])]
    check(audit_replay(COMING, X, Y, neighbors=pairs))
    columns = one_changed(X.T, 3, 1e9).T
    pairs = [(np.vstack([columns[:1], X[1:]]), Y)]
    check(audit_replay(PUBLIC, X, Y, neighbors=pairs))


def test_unknown_public_columns_need_neighbours():
    """Nobody knows which columns of X are public behind this step."""
    made = make_pipeline(PCA(3, random_state=0), PUBLIC)
    with pytest.raises(ValueError, match="neighbors=None needs a report"):
        audit_replay(made, X, Y)
    assert not audit_replay(made, X, Y, neighbors=[(one_changed(X), Y)]).passed


# ------------------------------------------------------------------ planted leaks
def large(X):
    """Something that one record decides."""
    return float(np.nan_to_num(np.asarray(X, dtype=float)).max()) > 1


def leaking(before=None, after=None):
    """Return a class whose fit does something else, before or after its own."""

    class Leaking(DPSGDFClassifier):
        def fit(self, X, y=None):
            if before is not None:
                before(X)
            super().fit(X, y)
            if after is not None:
                after(self, X, y)
            return self

    return Leaking


class NoiseFromData(DPSGDFClassifier):
    def _on_records(self, use, X, y, **how):
        self._large = large(X)
        return super()._on_records(use, X, y, **how)

    def _budget(self, public):
        return super()._budget(public).share(0.5 if self._large else 1)


class Remembering(DPSGDFClassifier):
    """Answers by rows that it has seen."""

    _seen = None

    def fit(self, X, y=None):
        super().fit(X, y)
        type(self)._seen = large(X)
        return self

    def predict(self, X):
        return super().predict(X) + int(self._seen)


def stores(self, X, y):
    self.kept_ = {"rows": [X]}


def labels_that_occur(self, X, y):
    self.classes_ = np.unique(y)


def averages(self, X, y):
    self.intercept_ = self.intercept_ + 1e-9 * np.nan_to_num(X).clip(0, 1).mean()


def charges_twice(self, X, y):
    if large(X):
        self.ledger.charge(self.privacy_.events, label="once more")


def counts(self, X, y):
    self.n_ = X.shape[0]


FIT = "the fit"
LEAKS = [
    ("attribute", "kept_[0][1][0]", leaking(after=stores)),
    ("attribute", "intercept_", leaking(after=averages)),
    ("attribute", "classes_", leaking(after=labels_that_occur)),
    ("output", FIT, leaking(lambda X: print("mean", X.mean()))),
    ("output", FIT, leaking(lambda X: large(X) and print(file=sys.stderr))),
    ("warning", FIT, leaking(lambda X: large(X) and warnings.warn("!", stacklevel=2))),
    ("output", FIT, leaking(lambda X: logging.getLogger("own").debug("%s", large(X)))),
    ("exception", FIT, leaking(lambda X: large(X) and 1 / 0)),
    ("global generator", FIT, leaking(lambda X: large(X) and random.random())),
    ("global generator", FIT, leaking(lambda X: large(X) and np.random.seed(1))),  # noqa: NPY002
    ("charge", "the ledger", leaking(after=charges_twice)),
    ("release", "'class counts' has another noise_std", NoiseFromData),
    ("prediction", "predict", Remembering),
]


class TestSabotage:
    """Each planted leak is found, and named for what it is."""

    @pytest.mark.parametrize(("finds", "where", "kind"), LEAKS)
    def test_a_subclass_that_leaks(self, finds, where, kind):
        model = kind(classes=[0, 1], **LOOP)
        y = Y.astype(float) if where == "classes_" else Y  # NaN among others
        result = audit_replay(model, X, y, n_neighbors=6)
        places = [d.where for d in result.differences if d.kind == finds]
        assert any(place.startswith(where) for place in places), result
        assert not result.passed
        leaves = any(one.kind in LEAVES for one in result.differences)
        assert (result.lower_bound == math.inf) == leaves
        assert "1e+308" not in str(result)

    def test_the_number_of_rows_where_it_is_private(self):
        parameters = COMING.get_params(deep=False)
        result = audit_replay(leaking(after=counts)(**parameters), X, Y, n_neighbors=2)
        assert [one.where for one in result.differences] == ["n_"]
        assert audit_replay(leaking(after=counts)(classes=[0, 1], **LOOP), X, Y).passed

    def test_a_step_that_learns_from_private_rows(self):
        """Attributes of the step aside, all records move where one of them scales."""
        for step, place in ((StandardScaler(), "mean_"), (MinMaxScaler(), "scale_")):
            kinds, result = found(make_pipeline(step, MODEL))
            assert f"steps[0][1].{place}" in {one.where for one in result.differences}
            assert result.lower_bound == math.inf
            assert "distance" in kinds


def found(model, y=Y, **more):
    """Return the differences of a replay by kind."""
    result = audit_replay(model, X, y, **{"n_neighbors": 8} | more)
    assert not result.passed
    return {one.kind for one in result.differences}, result


REPLACED = DPSGDFClassifier(classes=[0, 1], neighboring_relation="replace_one", **LOOP)


class TestSabotageOfThePackage:
    """What a defect of this package would be is found, too."""

    def test_half_the_sensitivity(self, monkeypatch):
        from skfdp.queries.statistics import GridRowSum, RowSum

        full = RowSum.sensitivity
        for kind in (RowSum, GridRowSum):  # planned, and released
            monkeypatch.setattr(kind, "sensitivity", lambda *a: full(*a) / 2)
        model = PrivateCenteringTransformer(
            bounds=False, neighboring_relation="replace_one"
        )
        kinds, result = found(model, None)
        assert kinds == {"distance"}
        assert 1 < result.releases[0].largest <= 2
        assert result.claimed_epsilon < result.lower_bound < math.inf

    @pytest.mark.parametrize("model", [MODEL, REPLACED, COMING], ids=str)
    def test_a_clip_left_out(self, model, monkeypatch):
        from skfdp.queries.linear import LinearQuery

        honest = LinearQuery._clip

        def loose(query, unit):
            clip = honest(query, unit)
            none = clip.limits._replace(memory=np.empty(0))
            return clip._replace(clip_norm=1e6, limits=none)

        monkeypatch.setattr(LinearQuery, "_clip", loose)
        kinds, result = found(model)
        assert kinds == {"distance"}
        assert max(one.largest for one in result.releases) > 1

    def test_a_batch_of_the_data(self, monkeypatch):
        from skfdp.mechanisms.release import Mechanism

        batch = Mechanism._batch

        def chosen(self, event, n_rows):
            rows = batch(self, event, n_rows)
            return rows[: len(rows) - chosen.fact] if event.sampling_rate < 1 else rows

        class Choosing(DPSGDFClassifier):
            def fit(self, X, y=None):
                chosen.fact = large(X)
                return super().fit(X, y)

        monkeypatch.setattr(Mechanism, "_batch", chosen)
        model = Choosing(classes=[0, 1], **LOOP | SAMPLED)
        assert "batch" in found(model)[0]
        monkeypatch.setattr(Mechanism, "_batch", batch)
        check(audit_replay(model, X, Y))

    def test_a_release_that_a_private_value_decides(self, monkeypatch):
        from skfdp.preprocessing import PrivateCentring

        run = PrivateCentring.run

        def again(self, records, prepared, plan, mechanism, on_step):
            found = run(self, records, prepared, plan, mechanism, on_step)
            if large(records.X):
                mechanism._released.clear()
                run(self, records, prepared, plan, mechanism, on_step)
            return found

        def never(self, records, prepared, plan, mechanism, on_step):
            if large(records.X):
                return {name: np.zeros(4) for name in ("mean_", "coef_", "scale_")}
            return run(self, records, prepared, plan, mechanism, on_step)

        model = PrivateCenteringTransformer(bounds=(0, 1))
        for leaky, where in (
            (again, "'mean' is requested in addition"),
            (never, "there are fewer"),
        ):
            monkeypatch.setattr(PrivateCentring, "run", leaky)
            kinds, result = found(model, None)
            assert "release" in kinds
            assert any(one.where.startswith(where) for one in result.differences)

    def test_a_gradient_at_a_place_that_private_rows_tell(self, monkeypatch):
        from skfdp.solvers import descent as method

        descent = method.descent

        def started(mechanism, query, *args, **more):
            mean = query.rows.values.mean(axis=0) * query.rows.unit
            return descent(mechanism, query, *args, **more | {"start": mean[None]})

        monkeypatch.setattr(method, "descent", started)
        assert "theta" in found(MODEL)[0]

    def test_the_true_number_of_rows_in_the_average(self, monkeypatch):
        monkeypatch.setattr("skfdp.reader.public_count", lambda n_rows, *others: n_rows)
        assert "release" in found(COMING)[0]


def test_every_kind_of_difference_has_a_sabotage():
    text = Path(__file__).read_text(encoding="utf-8")
    for kind in LEAVES | INSIDE:
        assert f'"{kind}"' in text, kind
