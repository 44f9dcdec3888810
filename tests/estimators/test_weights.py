"""Weights of rows, and persons with several: what is public is weighed as sums are."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDOneClassSVM,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skfdp
from skfdp.data.units import Units, kept_rows
from skfdp.privacy import AddOrRemoveOne
from skfdp.privacy.events import Relation
from skfdp.queries.statistics import LabelSum
from skfdp.schema import Label, Number
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, public_model

N_ROWS = 240
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (N_ROWS, 4))
# Two relations, so that weights decide between them.
FIRST = np.arange(N_ROWS) % 2 == 0
WEIGHTS = np.where(FIRST, RNG.integers(2, 5, N_ROWS), RNG.integers(0, 2, N_ROWS))
# And two laws of the columns.
X[FIRST, 0] *= 0.4
X[FIRST, 1] = (X[FIRST, 1] + X[FIRST, 2]) / 2
Z = np.where(FIRST, X @ [2, -1, 1, 0], X @ [-1, 2, 0, 1]) - 1
Z += 0.3 * RNG.standard_normal(N_ROWS)
LABELS, THREE = (Z > 0).astype(int), np.digitize(Z, [-0.3, 0.4])
COUNTS = RNG.poisson(np.exp(Z))
GROUPS = RNG.integers(0, 60, N_ROWS)
TABLE = pd.DataFrame(X, columns=list("abcd")).assign(person=GROUPS)

LOGISTIC, REGRESSOR = skfdp.FeatureDPLogisticRegression, skfdp.FeatureDPRegressor
COMMON = {"bounds": (0, 1), "random_state": 0}
TWO, SEVERAL = {"classes": [0, 1]}, {"classes": [0, 1, 2]}
SOME, ALL = {"public_features": [0, 1]}, {"public_features": "all"}
KNOWN, LOOP = {"public_target": True}, {"solver": "noisy-gd"}
NUMBER, COUNT = {"target_bounds": (-4, 4)}, {"target_bounds": (0, 40)}
#: A loop that is soon done.
SOON = {"solver": NoisyGradientDescent(max_iter=2)}
RATES = {"loss": "poisson"}
TWEEDIE = partial(TweedieRegressor, power=1.5, link="log")
#: An estimator, and its target.
SOLVERS = {
    "descent": (LOGISTIC(**COMMON, **TWO, **LOOP, C=5.0), LABELS),
    "descent, some public": (LOGISTIC(**COMMON, **SEVERAL, **LOOP, **SOME), THREE),
    "public model": (LOGISTIC(**COMMON, **TWO, **LOOP, **SOME, **KNOWN), LABELS),
    "label statistic": (LOGISTIC(**COMMON, **TWO, **ALL, C=1.0), LABELS),
    "label statistic, classes": (LOGISTIC(**COMMON, **SEVERAL, **ALL, C=1.0), THREE),
    "centred descent": (skfdp.DPSGDFClassifier(**COMMON, **TWO, C=1.0), LABELS),
    "regression": (skfdp.DPSGDFRegressor(**COMMON, **NUMBER), Z),
    "regression, public model": (REGRESSOR(**COMMON, **NUMBER, **SOME, **KNOWN), Z),
    "rates": (REGRESSOR(**COMMON, **COUNT, **RATES), COUNTS),
    "rates, public": (REGRESSOR(**COMMON, **COUNT, **RATES, **SOME, **KNOWN), COUNTS),
}
solvers = pytest.mark.parametrize("name", SOLVERS)


def few(name):
    """Return an estimator that is soon fitted, and its target."""
    model, y = SOLVERS[name]
    model = clone(model).set_params(epsilon=3.0)
    if "statistic" not in name:
        model.set_params(solver=NoisyGradientDescent(max_iter=3))
    return model, y


def weights_of(model):
    return np.r_[np.ravel(model.coef_), np.ravel(model.intercept_)]


# -- the weighted problem --------------------------------------------------------------
FLAT = {"C": 100.0, "fit_intercept": False, "class_weight": {0: 3.0}}


@pytest.mark.parametrize("weights", [None, WEIGHTS, RNG.uniform(0, 3, N_ROWS)])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize(
    ("ours", "theirs", "given", "y"),
    [
        (LOGISTIC, LogisticRegression, {"C": 0.7}, THREE),
        (skfdp.DPSGDFClassifier, LogisticRegression, FLAT, LABELS),
        (skfdp.DPSGDFRegressor, Ridge, {"alpha": 0.01, "fit_intercept": False}, Z),
        (partial(REGRESSOR, **RATES), PoissonRegressor, {"alpha": 0.1}, COUNTS),
        (partial(REGRESSOR, loss="gamma"), GammaRegressor, {"alpha": 0.1}, COUNTS + 1),
        (partial(REGRESSOR, loss="tweedie"), TWEEDIE, {"alpha": 0.1}, COUNTS),
    ],
)
def test_without_privacy_it_is_scikit_learns(ours, theirs, given, y, weights, groups):
    model = ours(epsilon=math.inf, bounds=(0, 1), **given)
    model.fit(X, y, sample_weight=weights, groups=groups)
    assert model.privacy_.epsilon == math.inf
    wanted = theirs(tol=1e-10, max_iter=10_000, **given)
    wanted.fit(model.input_scaler_(X), y, sample_weight=weights)
    assert weights_of(model) == pytest.approx(weights_of(wanted), abs=1e-4)


@pytest.mark.slow
@solvers
def test_with_a_huge_budget_a_weight_is_a_number_of_rows(name):
    # Of few records the scale of logits is lowered by what fits chance, less for
    # repeated rows, which look like more records: here each row stands eight times.
    (model, y), many = SOLVERS[name], np.tile(np.arange(N_ROWS), 8)
    repeated, model = np.repeat(many, WEIGHTS[many]), clone(model)
    model.set_params(epsilon=1e5)
    plain = weights_of(clone(model).fit(X[many], y[many]))
    wanted = weights_of(clone(model).fit(X[repeated], y[repeated]))
    found = weights_of(clone(model).fit(X[many], y[many], sample_weight=WEIGHTS[many]))
    # Loops are stopped before they arrive.
    limit = 0.02 if "statistic" in name else 0.2
    assert np.linalg.norm(found - wanted) < limit * np.linalg.norm(plain - wanted)


@solvers
def test_rows_of_weight_zero_are_not_there(name):
    (model, y), used = few(name), WEIGHTS > 0

    def fitted(X, y, weights):
        return weights_of(clone(model).fit(X, y, sample_weight=weights)).tolist()

    found = fitted(X, y, WEIGHTS)
    assert found == fitted(np.where(used[:, None], X, 1 - X), y, WEIGHTS)
    assert found == fitted(X[used], y[used], WEIGHTS[used])
    assert fitted(X[used], y[used], None) == fitted(X, y, 1.0 * used)


@solvers
def test_ones_are_no_weights_and_a_common_factor_is_none(name):
    model, y = few(name)
    for penalty in {"C", "alpha"} & set(model.get_params()):
        model.set_params(**{penalty: "auto"})
    plain = weights_of(clone(model).fit(X, y))
    for ones in (np.ones(N_ROWS), 1, 1.0, pd.Series(np.ones(N_ROWS))):
        same = clone(model).fit(X, y, sample_weight=ones)
        assert np.array_equal(plain, weights_of(same))
    once = weights_of(clone(model).fit(X, y, sample_weight=WEIGHTS))
    twice = weights_of(clone(model).fit(X, y, sample_weight=WEIGHTS * 2.0))
    assert np.array_equal(once, twice) and not np.array_equal(once, plain)


def of_persons(most=None):
    """Return a model of TABLE and LABELS that keeps so many rows of each person."""
    columns = {name: Number(0, 1, public=name == "a") for name in "abcd"}
    schema = skfdp.TableSchema(
        columns | {"y": Label([0, 1], public=True)},
        outcomes=["y"],
        group="person",
        max_rows_per_group=most,
    )
    return LOGISTIC(schema=schema, random_state=0, **SOON)


def test_truncation_drops_the_rows_after_the_first():
    kept = (TABLE.groupby("person").cumcount() < 2).to_numpy()
    by_hand = of_persons().fit(TABLE[kept], LABELS[kept])
    found = of_persons(most=2).fit(TABLE, LABELS)
    assert np.array_equal(weights_of(found), weights_of(by_hand))


# -- penalties -------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [math.inf, 1e6])
def test_a_penalty_is_compared_with_the_sum_of_the_weights(epsilon):
    def fitted(C, factor):
        model = LOGISTIC(**COMMON, **TWO, **ALL, epsilon=epsilon, C=C)
        return weights_of(model.fit(X, LABELS, sample_weight=WEIGHTS * factor))

    once, twice, weaker = fitted(0.01, 1.0), fitted(0.005, 2.0), fitted(0.01, 9.0)
    assert once == pytest.approx(twice, abs=1e-3)
    assert np.linalg.norm(weaker[:-1]) > 1.2 * np.linalg.norm(once[:-1])


# -- public models ---------------------------------------------------------------------
class Spy(DummyClassifier):
    """A classifier that keeps what its `fit` got."""

    seen: list = []

    def fit(self, X, y, sample_weight=None):
        self.seen.append((np.array(X), sample_weight))
        return super().fit(X, y, sample_weight)


def test_a_public_model_gets_the_weights_and_no_fold_splits_a_person():
    Spy.seen.clear()
    model = LOGISTIC(**COMMON, **TWO, **SOME, **KNOWN, **SOON, public_model=Spy())
    used = WEIGHTS > 0
    model.fit(X, LABELS, sample_weight=WEIGHTS, groups=GROUPS)
    (whole, weights), *folds = Spy.seen
    of_rows, every, left_out = GROUPS[used], {*GROUPS[used]}, []
    assert whole == pytest.approx(X[used, :2])
    assert weights.sum() == pytest.approx(len(every))
    of_row = dict(zip(map(tuple, whole), of_rows, strict=True))
    for rows, own in folds:
        persons = {of_row[tuple(row)] for row in rows}
        # Whoever is in the fold is there with all rows.
        assert len(own) == len(rows) == np.isin(of_rows, [*persons]).sum()
        left_out += every - persons
    assert len(folds) == public_model.N_FOLDS and sorted(left_out) == sorted(every)


@pytest.mark.parametrize("routed", [False, True])
def test_public_models_that_know_no_weights_do_without(routed):
    with sklearn.config_context(enable_metadata_routing=routed):
        given = COMMON | TWO | SOME | KNOWN | SOON
        model = LOGISTIC(**given, public_model=KNeighborsClassifier())
        model.fit(X, LABELS, sample_weight=WEIGHTS, groups=GROUPS)
        default = clone(model).set_params(public_model="auto")
        default.fit(X, LABELS, sample_weight=WEIGHTS, groups=GROUPS)
    assert np.isfinite(weights_of(model)).all()
    assert np.isfinite(weights_of(default)).all()


def test_with_fewer_persons_than_folds_nothing_is_cross_fitted():
    units = Units(np.ones(6, dtype=np.int64), np.array([0, 0, 1, 1, 2, 2]))
    assert public_model.folds_of(units, 5, 5) is None
    assert len(public_model.folds_of(units, 3, 3)) == 3
    assert public_model.weights_of(SGDOneClassSVM(), None) == {}


def test_the_grid_of_a_sum_over_units_holds_less_noise():
    query, units = LabelSum.planned(1, 1.0), Units(np.array([1, 1024]))
    std = 2.0**34 * query.unit(1.0)
    assert query.fits_grid(std, None) and not query.fits_grid(2 * std, None)
    # The second row counts 1024 of the grid's units.
    assert not query.fits_grid(std / 1000, units)
    assert query.fits_grid(std / 1025, units)


# -- routing ---------------------------------------------------------------------------
@pytest.mark.parametrize("piped", [False, True])
def test_routed_groups_and_weights_reach_each_fold(piped):
    model, prefix = LOGISTIC(**COMMON, **TWO, **SOON), ""
    of_rows = {"groups": GROUPS, "sample_weight": WEIGHTS + 1.0}
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(sample_weight=True, groups=True)
        model.set_score_request(sample_weight=True)
        if piped:
            model, prefix = make_pipeline(FunctionTransformer(), model), "clf__"
            model.steps[-1] = "clf", model[-1]
        kept = {"return_estimator": True, "return_indices": True}
        how = {"cv": GroupKFold(3), "error_score": "raise"}
        found = cross_validate(model, X, LABELS, params=of_rows, **how, **kept)
        search = GridSearchCV(model, {f"{prefix}C": [1.0, 2.0]}, **how)
        search.fit(X, LABELS, **of_rows)
    folds = zip(found["estimator"], found["indices"]["train"], strict=True)
    for one, rows in (*folds, (search.best_estimator_, slice(None))):
        report = (one[-1] if piped else one).privacy_
        assert report.n_records == len(np.unique(GROUPS[rows]))
        assert report.events[0].unit == "person"


# -- bad input -------------------------------------------------------------------------
MIXED = np.array([1, "1"] * (N_ROWS // 2), dtype=object)
NO_WEIGHTS = "must be one finite, non-negative number"
BAD = [
    ("sample_weight", weights, match)
    for weights, match in (
        (WEIGHTS[:-1], r"sample_weight has the shape \(239,\), and X has 240 rows"),
        (WEIGHTS[:, None], r"sample_weight has the shape \(240, 1\)"),
        *((np.where(FIRST, bad, 1), NO_WEIGHTS) for bad in (np.nan, np.inf, -1.0)),
        (np.ones(N_ROWS) * 1j, NO_WEIGHTS),
        ([[1.0], [1.0, 2.0]], r"sample_weight has the shape \(2,\)"),
        ([object()] * N_ROWS, NO_WEIGHTS),
        *((zero, NO_WEIGHTS) for zero in (0, np.zeros(N_ROWS))),
        ("age", "sample_weight='age' is a name.*A private column cannot weigh rows"),
    )
]
BAD += [
    ("groups", groups, match)
    for groups, match in (
        (GROUPS[:-1], r"one entry for each of the 240 rows of X.*shape \(239,\)"),
        (GROUPS[:, None], r"one entry for each of the 240 rows of X.*shape \(240, 1\)"),
        ([[1], [1, 2]], r"one entry for each.*shape \(2,\)"),
        (7, r"one entry for each of the 240 rows of X.*shape \(1,\)"),
        (np.full(N_ROWS, np.datetime64("NaT")), "groups has missing entries"),
        (pd.array([pd.NA] + [1] * (N_ROWS - 1)), "groups has missing entries"),
        (MIXED, "groups holds entries that cannot be compared"),
        (pd.Series([[1]] * N_ROWS), "groups holds entries that cannot be compared"),
        ("person", "groups='person' is not the name of a column of X"),
    )
]


COUNTED = {"neighboring_relation": AddOrRemoveOne(N_ROWS)}
CALLS = [({"epsilon": epsilon}, *bad) for epsilon in (1.0, math.inf) for bad in BAD]
CALLS += [
    (COUNTED, name, given, "needs a public number of rows")
    for name, given in (("sample_weight", WEIGHTS), ("groups", GROUPS))
]


@pytest.mark.parametrize(("parameters", "name", "given", "match"), CALLS)
def test_bad_weights_and_groups_are_refused(parameters, name, given, match):
    ledger = skfdp.PrivacyLedger()
    model = LOGISTIC(**COMMON, **TWO, **parameters, ledger=ledger)
    for act in (model.fit, model.plan):
        with pytest.raises(ValueError, match=match) as error:
            act(X, LABELS, **{name: given})
        assert error.value.__context__ is None or error.value.__suppress_context__
    assert not ledger.events


def test_names_may_be_any_that_can_be_told_apart():
    relation = Relation.of("replace_one")
    *_, wanted = kept_rows(None, GROUPS, N_ROWS, relation)
    texts, days = GROUPS.astype(str), pd.to_timedelta(GROUPS, unit="D")
    for names in (
        *(GROUPS.astype(float), GROUPS.tolist(), texts.astype(object)),
        *(pd.Categorical(texts), pd.to_datetime("2020-01-01") + days),
        *(
            pd.Series(GROUPS, dtype="Int64"),
            pytest.importorskip("polars").Series(GROUPS),
        ),
    ):
        *_, found = kept_rows(None, names, N_ROWS, relation)
        assert np.array_equal(found, wanted)
    # Equal numbers of several types are one person.
    names = np.array([1, 1.0, True, 2, np.int8(2)], dtype=object)
    *_, found = kept_rows(None, names, 5, relation)
    assert found.tolist() == [0, 0, 0, 1, 1]


def test_the_report_assumes_that_weights_and_order_are_public():
    weights = "sample_weight derives from nothing private"
    order = "max_rows_per_group keeps the first rows of a person"
    model = LOGISTIC(**COMMON, **TWO, **SOON)

    def assumed(model=model, table=X, **of_rows):
        report = model.fit(table, LABELS, **of_rows).privacy_
        unchecked = [a.text for a in report.assumptions if not a.enforced]
        return [any(text in one for one in unchecked) for text in (weights, order)]

    assert assumed() == [False, False]
    assert assumed(sample_weight=WEIGHTS) == [True, False]
    assert assumed(groups=GROUPS) == [False, False]
    assert assumed(of_persons(most=2), TABLE) == [False, True]


# -- what is charged -------------------------------------------------------------------
HEAVY = np.where(np.arange(N_ROWS) == 0, 10.0, 1.0)


def looped(**more):
    """Return a classifier whose loop has a clip norm of 0.4."""
    solver = NoisyGradientDescent(max_iter=5, clip_norm=0.4)
    return LOGISTIC(**COMMON | TWO | {"solver": solver} | more)


def loop_of(model, table=X, **rows):
    """Return the event of the loop."""
    events = model.plan(table, LABELS, **rows).events
    (event,) = (event for event in events if event.label == "descent")
    return event


@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
@pytest.mark.parametrize("kind", [LOGISTIC, REGRESSOR])
def test_the_loop_charges_a_person_as_it_charges_a_record(kind, relation):
    """Two clip norms, whatever the number of rows."""
    given = {"bounds": (0, 1), "solver": looped().solver}
    given |= TWO if kind is LOGISTIC else {"target_bounds": (0, 1)}
    model = kind(neighboring_relation=relation, **given)
    event = loop_of(model, groups=GROUPS, sample_weight=WEIGHTS)
    assert (event.unit, event.clip_norm) == ("person", 0.4)
    assert event.sensitivity == (0.8 if relation == "replace_one" else 0.4)


def test_weights_keep_the_orthant_and_persons_do_not():
    model = looped(public_target=True, centering=None)
    root = math.sqrt(2) * 0.4
    assert loop_of(model).sensitivity == pytest.approx(root)
    weighted = loop_of(model, sample_weight=WEIGHTS)
    assert weighted.sensitivity == pytest.approx(root)
    assert loop_of(model, groups=GROUPS).sensitivity == 0.8
    alone = loop_of(model, groups=np.arange(N_ROWS))
    assert (alone.unit, alone.sensitivity) == ("person", pytest.approx(root))


def test_labels_move_persons_by_their_rows():
    """The longest person counts, all columns being public."""
    model = looped(**ALL, solver=NoisyGradientDescent(max_iter=5, clip_norm=50.0))
    told = {}, {"groups": GROUPS}, {"sample_weight": HEAVY}
    record, person, heavy = (loop_of(model, **one).sensitivity for one in told)
    assert 0.5 < record < 5 and 0.5 < person < 5 and heavy > 3 * record


@pytest.mark.parametrize("padding", ["zero", "gaussian"])
def test_paddings_are_for_records_of_one_row(padding):
    solver = FeatureDPSGD(public_loss=padding, max_iter=5, clip_norm=0.4)
    model = looped(public_features=[0], public_target=True, solver=solver)
    told = f"public_loss='{padding}' needs persons with one row each"
    for call in (model.fit, model.plan):
        with pytest.raises(ValueError, match=told):
            call(X, LABELS, groups=GROUPS)
    cut = of_persons(most=1).set_params(solver=solver)
    assert loop_of(cut, TABLE).sensitivity == 0.8
    assert np.isfinite(cut.fit(TABLE, LABELS).coef_).all()
    assert loop_of(model, sample_weight=WEIGHTS).sensitivity == 0.8
    assert np.isfinite(model.fit(X, LABELS, sample_weight=WEIGHTS).coef_).all()


# -- the column of a frame that says whose each row is --------------------------------
PERSONS = TABLE[["person", "a", "b"]]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_column_is_no_feature(library):
    columns = {name: PERSONS[name].to_numpy() for name in PERSONS}
    frame = pytest.importorskip(library).DataFrame(columns)
    rest = frame[["a", "b"]]
    named = LOGISTIC(**COMMON, **TWO).fit(frame, LABELS, groups="person")
    apart = LOGISTIC(**COMMON, **TWO).fit(rest, LABELS, groups=PERSONS["person"])
    assert list(named.feature_names_in_) == ["a", "b"]
    assert np.array_equal(named.coef_, apart.coef_)
    assert np.array_equal(named.predict_proba(frame), apart.predict_proba(rest))
    assert np.array_equal(named.predict_proba(rest), apart.predict_proba(rest))
    assert named.privacy_.n_records == len(np.unique(GROUPS))
    assert named.privacy_.events[0].unit == "person"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(["a"], ("a",)), ("a", ("a",)), ("all", ("a", "b")), (None, ())],
)
def test_public_columns_are_named_beside_it(spec, expected):
    model = LOGISTIC(**COMMON, **TWO, public_features=spec)
    model.fit(PERSONS, LABELS, groups="person")
    assert model.privacy_.public_features == expected


FEATURES = "public_features=.*name the columns"
POSITIONS = ([1], 1, slice(0, 1), np.array([True, False]), [True, False, False])


@pytest.mark.parametrize(
    ("given", "groups", "match"),
    [
        # Counted without the column, position 1 would be another column.
        *(({"public_features": spec}, "person", FEATURES) for spec in POSITIONS),
        ({"bounds": {0: (0, 1), 1: (0, 1)}}, "person", "bounds=.*name the columns"),
        ({}, "doctor", "groups='doctor' is not the name of a column"),
    ],
)
def test_positions_and_names_of_no_column_are_refused_beside_it(given, groups, match):
    with pytest.raises(ValueError, match=match):
        LOGISTIC(**COMMON | TWO | given).fit(PERSONS, LABELS, groups=groups)
