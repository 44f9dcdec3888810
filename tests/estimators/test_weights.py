"""Weights of rows, and persons with several: what is public is weighed as sums are."""

import math

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import (
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDOneClassSVM,
)
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    TableSchema,
)
from skfdp.data.target import TargetMap, exact_map
from skfdp.data.units import RowsOfUnits, Units, noise_of_sums
from skfdp.privacy import AddOrRemoveOne
from skfdp.privacy.events import Relation
from skfdp.queries import fits_grid
from skfdp.queries.statistics import LabelSum
from skfdp.schema import Label, Number
from skfdp.solvers import NoisyGradientDescent, public_model
from skfdp.solvers.centring import public_moments
from skfdp.solvers.postprocessing import label_variance, rate_level

pytestmark = pytest.mark.filterwarnings(
    "ignore::skfdp.data.validation.UtilityWarning", "ignore::skfdp.PrivacyWarning"
)

N_ROWS = 240
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (N_ROWS, 4))
# Two relations, so that weights decide between them.
FIRST = np.arange(N_ROWS) % 2 == 0
WEIGHTS = np.where(FIRST, RNG.integers(2, 5, N_ROWS), RNG.integers(0, 2, N_ROWS))
# And two laws of the columns.
X[FIRST, 0] *= 0.4
X[FIRST, 1] = (X[FIRST, 1] + X[FIRST, 2]) / 2
REPEATED = np.repeat(np.arange(N_ROWS), WEIGHTS)
Z = np.where(FIRST, X @ [2, -1, 1, 0], X @ [-1, 2, 0, 1]) - 1
Z += 0.3 * RNG.standard_normal(N_ROWS)
LABELS, THREE = (Z > 0).astype(int), np.digitize(Z, [-0.3, 0.4])
COUNTS = RNG.poisson(np.exp(Z))
GROUPS = RNG.integers(0, 60, N_ROWS)
TABLE = pd.DataFrame(X, columns=list("abcd")).assign(person=GROUPS)

LOGISTIC, REGRESSOR = FeatureDPLogisticRegression, FeatureDPRegressor
COMMON = {"bounds": (0, 1), "random_state": 0}
TWO, SEVERAL = {"classes": [0, 1]}, {"classes": [0, 1, 2]}
SOME, ALL = {"public_features": [0, 1]}, {"public_features": "all"}
KNOWN, LOOP = {"public_target": True}, {"solver": "noisy-gd"}
NUMBER, COUNT = {"target_bounds": (-4, 4)}, {"target_bounds": (0, 40)}
#: A loop that is soon done.
SOON = {"solver": NoisyGradientDescent(max_iter=2)}
RATES = {"loss": "poisson"}
#: An estimator, and its target.
SOLVERS = {
    "descent": (LOGISTIC(**COMMON, **TWO, **LOOP, C=5.0), LABELS),
    "descent, some public": (LOGISTIC(**COMMON, **SEVERAL, **LOOP, **SOME), THREE),
    "descent, public model": (
        LOGISTIC(**COMMON, **TWO, **LOOP, **SOME, **KNOWN),
        LABELS,
    ),
    "label statistic": (LOGISTIC(**COMMON, **TWO, **ALL, C=1.0), LABELS),
    "label statistic, classes": (LOGISTIC(**COMMON, **SEVERAL, **ALL, C=1.0), THREE),
    "centred descent": (DPSGDFClassifier(**COMMON, **TWO, C=1.0), LABELS),
    "regression": (DPSGDFRegressor(**COMMON, **NUMBER), Z),
    "regression, public model": (REGRESSOR(**COMMON, **NUMBER, **SOME, **KNOWN), Z),
    "rates": (REGRESSOR(**COMMON, **COUNT, **RATES), COUNTS),
    "rates, public model": (
        REGRESSOR(**COMMON, **COUNT, **RATES, **SOME, **KNOWN),
        COUNTS,
    ),
}
solvers = pytest.mark.parametrize("name", SOLVERS)


def few(name):
    """Return an estimator that is soon fitted, and its target."""
    model, y = SOLVERS[name]
    model = clone(model).set_params(epsilon=3.0)
    if "statistic" not in name:
        model.set_params(solver=NoisyGradientDescent(max_iter=3))
    return model, y


def of_schema(model, most=None):
    """Return a model of TABLE that declares by a schema what this one does."""
    given = model.get_params()
    shown = given.get("public_features") or []
    public = given.get("public_target", False)
    outcome = Label([0, 1], public=public)
    if "target_bounds" in given:
        outcome = Number(*given["target_bounds"], public=public)
    columns = {name: Number(0, 1, public=j in shown) for j, name in enumerate("abcd")}
    schema = TableSchema(
        columns | {"y": outcome},
        outcomes=["y"],
        group="person",
        max_rows_per_group=most,
    )
    declared = "bounds", "classes", "target_bounds", "public_features", "public_target"
    plain = type(model)().get_params()
    left_out = {name: plain[name] for name in declared if name in plain}
    return clone(model).set_params(schema=schema, **left_out)


def weights_of(model):
    return np.r_[np.ravel(model.coef_), np.ravel(model.intercept_)]


# -- the weighted problem --------------------------------------------------------------
@pytest.mark.parametrize("weights", [None, WEIGHTS, RNG.uniform(0, 3, N_ROWS)])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize(
    ("ours", "theirs", "y"),
    [
        (LOGISTIC(C=0.7), LogisticRegression(C=0.7), LABELS),
        (LOGISTIC(C=0.7), LogisticRegression(C=0.7), THREE),
        (
            DPSGDFClassifier(C=100.0, fit_intercept=False, class_weight={0: 3.0}),
            LogisticRegression(C=100.0, fit_intercept=False, class_weight={0: 3.0}),
            LABELS,
        ),
        (REGRESSOR(alpha=2.0), Ridge(alpha=2.0), Z),
        (
            DPSGDFRegressor(alpha=0.01, fit_intercept=False),
            Ridge(alpha=0.01, fit_intercept=False),
            Z,
        ),
        (REGRESSOR(alpha=0.1, loss="poisson"), PoissonRegressor(alpha=0.1), COUNTS),
    ],
)
def test_without_privacy_it_is_scikit_learns(ours, theirs, y, weights, groups):
    model = clone(ours).set_params(epsilon=math.inf, bounds=(0, 1))
    model.fit(X, y, sample_weight=weights, groups=groups)
    assert model.privacy_.epsilon == math.inf
    theirs = clone(theirs).set_params(tol=1e-10, max_iter=10_000)
    theirs.fit(model.input_scaler_(X), y, sample_weight=weights)
    assert weights_of(model) == pytest.approx(weights_of(theirs), abs=1e-4)


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
    model, y = few(name)
    used = WEIGHTS > 0
    poisoned = X.copy()
    poisoned[~used] = 1 - poisoned[~used]
    found = [
        weights_of(clone(model).fit(X, y, sample_weight=WEIGHTS)),
        weights_of(clone(model).fit(poisoned, y, sample_weight=WEIGHTS)),
        weights_of(clone(model).fit(X[used], y[used], sample_weight=WEIGHTS[used])),
    ]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    one = np.where(used, 1.0, 0.0)
    dropped = weights_of(clone(model).fit(X[used], y[used]))
    assert np.array_equal(dropped, weights_of(model.fit(X, y, sample_weight=one)))


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


@pytest.mark.parametrize("name", ["descent", "label statistic"])
def test_a_persons_row_is_a_record_where_each_has_one(name):
    model, y = SOLVERS[name]
    model = clone(model).set_params(epsilon=1e5)
    alone = np.arange(N_ROWS)[::-1]
    plan, of_persons = model.plan(X, y), model.plan(X, y, groups=alone)
    for ours, theirs in zip(plan.events, of_persons.events, strict=True):
        assert theirs.unit == "person"
        assert theirs.noise_std == pytest.approx(ours.noise_std, rel=1e-6)
    plain = weights_of(clone(model).fit(X, y))
    found = weights_of(clone(model).fit(X, y, groups=alone))
    assert found == pytest.approx(plain, abs=0.2)


@solvers
def test_names_of_persons_leave_no_trace(name):
    model, y = few(name)
    renamed = np.array([f"person {99 - group}" for group in GROUPS])
    found = [
        weights_of(clone(model).fit(X, y, groups=groups))
        for groups in (GROUPS, renamed, list(renamed), pd.Series(renamed))
    ]
    for other in found[1:]:
        assert np.array_equal(found[0], other)
    assert np.isfinite(found[0]).all()


@pytest.mark.parametrize("name", ["descent, public model", "rates"])
def test_truncation_drops_the_rows_after_the_first(name):
    model, y = few(name)
    kept = (TABLE.groupby("person").cumcount() < 2).to_numpy()
    by_hand = of_schema(model).fit(TABLE[kept], y[kept])
    found = weights_of(of_schema(model, most=2).fit(TABLE, y))
    assert np.array_equal(found, weights_of(by_hand))


@pytest.mark.parametrize("name", ["descent", "descent, some public"])
def test_a_plan_is_that_of_the_fit(name):
    model, y = few(name)
    of_rows = {"sample_weight": WEIGHTS, "groups": GROUPS}
    plan = model.plan(np.full_like(X, 0.5), None, **of_rows)
    if name == "descent, some public":
        plan = model.plan(X, None, **of_rows)
    model.fit(X, y, **of_rows)
    assert list(plan.events) == list(model.privacy_.events)
    assert model.privacy_.n_records == len(np.unique(GROUPS[WEIGHTS > 0]))


# -- penalties -------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [math.inf, 1e6])
def test_a_penalty_is_compared_with_the_sum_of_the_weights(epsilon):
    model = LOGISTIC(**COMMON, **TWO, **ALL, epsilon=epsilon, C=0.01)
    once = weights_of(clone(model).fit(X, LABELS, sample_weight=WEIGHTS))
    twice = clone(model).set_params(C=0.005)
    twice = weights_of(twice.fit(X, LABELS, sample_weight=WEIGHTS * 2.0))
    weaker = weights_of(clone(model).fit(X, LABELS, sample_weight=WEIGHTS * 9.0))
    assert once == pytest.approx(twice, abs=1e-3)
    assert np.linalg.norm(weaker[:-1]) > 1.2 * np.linalg.norm(once[:-1])


# -- what is public --------------------------------------------------------------------
def public_of(model, X, y, **of_rows):
    model._declared = model._declare(y)
    return model._records(X, y, **of_rows).public


@pytest.mark.parametrize("centre", [True, False])
def test_public_moments_are_those_of_repeated_rows_for_dense_and_sparse(centre):
    table = np.where(X > 0.5, X, 0.0)
    found = []
    for rows in (table, csr_array(table)):
        model = LOGISTIC(**COMMON, **TWO, **ALL)
        public = public_of(model, rows, LABELS, sample_weight=WEIGHTS)
        found.append(public_moments(public, centre))
    repeated = public_of(model, table[REPEATED], LABELS[REPEATED])
    repeated = public_moments(repeated, centre)
    assert np.array_equal(found[0].mean, found[1].mean)
    assert found[0].spread == found[1].spread
    assert found[0].mean == pytest.approx(repeated.mean, abs=1e-12)
    assert found[0].spread == pytest.approx(repeated.spread)


def test_scales_and_levels_are_those_of_repeated_rows():
    used = WEIGHTS > 0
    shares, margins = Units(WEIGHTS[used]).shares, X[:, :1]
    for start, y, around in (
        (TargetMap(low=-9, high=40), Z, None),
        (TargetMap(log=True, high=40), COUNTS, None),
        (TargetMap(), Z, margins),
    ):
        found, wanted = (
            exact_map(y[rows], start, True, None if around is None else around[rows], s)
            for rows, s in ((used, shares), (REPEATED, None))
        )
        scales = pytest.approx((wanted.centre, wanted.scale))
        assert (found.centre, found.scale) == scales
    level = rate_level(X[used, 0], 0.1, 3.0, 1.2, shares)
    assert level == pytest.approx(rate_level(X[REPEATED, 0], 0.1, 3.0, 1.2))
    variance = label_variance(margins[used], shares)
    assert variance == pytest.approx(label_variance(margins[REPEATED]))
    assert variance != pytest.approx(label_variance(margins[used]), rel=1e-6)


# -- public models ---------------------------------------------------------------------
class Spy(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what its `fit` got."""

    seen: list = []

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.seen.append((np.array(X), sample_weight))
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def test_a_public_model_gets_the_weights_and_no_fold_splits_a_person():
    Spy.seen.clear()
    model = LOGISTIC(**COMMON, **TWO, **SOME, **KNOWN, **SOON, public_model=Spy())
    used = WEIGHTS > 0
    model.fit(X, LABELS, sample_weight=WEIGHTS, groups=GROUPS)
    (whole, weights), *folds = Spy.seen
    assert whole == pytest.approx(X[used, :2])
    assert weights.sum() == pytest.approx(len(np.unique(GROUPS[used])))
    assert len(folds) == public_model.N_FOLDS
    of_row = {tuple(row): group for row, group in zip(whole, GROUPS[used], strict=True)}
    every = set(GROUPS[used])
    left_out = []
    for rows, own in folds:
        assert len(own) == len(rows)
        persons = {of_row[tuple(row)] for row in rows}
        # Whoever is in the fold is there with all rows.
        assert len(rows) == np.isin(GROUPS[used], list(persons)).sum()
        left_out.append(every - persons)
    assert set.union(*left_out) == every
    assert sum(map(len, left_out)) == len(every)


def test_the_default_public_model_is_the_weighted_one():
    model = LOGISTIC(**COMMON, **TWO, **SOME, **KNOWN, **SOON)
    found = model.fit(X, LABELS, sample_weight=WEIGHTS).public_model_.linear
    wanted = clone(model).fit(X[REPEATED], LABELS[REPEATED]).public_model_.linear
    plain = clone(model).fit(X, LABELS).public_model_.linear
    # n shares in place of sum of weights rows: the penalty counts for more.
    apart = np.abs(found[0] - wanted[0]).max(), np.abs(plain[0] - wanted[0]).max()
    assert apart[0] < 0.3 * apart[1]


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


# -- units and rules -------------------------------------------------------------------
def test_rules_know_how_loud_a_weighted_average_is():
    model = LOGISTIC(**COMMON, **TWO)
    weights = np.where(np.arange(N_ROWS) == 0, 10.0, 1.0)
    public = public_of(model, X, LABELS, sample_weight=weights)
    assert public.reach == pytest.approx(10 * N_ROWS / (N_ROWS + 9))
    assert public.n_effective == pytest.approx((N_ROWS + 9) / 10)
    assert public.total_weight == pytest.approx(N_ROWS + 9)
    assert public.capacity >= public.units.weights.sum()
    plain = public_of(model, X, LABELS)
    assert (plain.n_effective, plain.total_weight) == (N_ROWS, N_ROWS)
    assert np.array_equal(plain.row_shares, np.ones(N_ROWS))


def test_the_grid_of_a_sum_over_units_holds_less_noise():
    query, units = LabelSum.planned(1, 1.0), Units(np.array([1, 1024]))
    std = 2.0**34 * query.unit(1.0)
    assert fits_grid(query, std, None) and not fits_grid(query, 2 * std, None)
    # The second row counts 1024 of the grid's units.
    assert not fits_grid(query, std / 1000, units)
    assert fits_grid(query, std / 1025, units)


def test_without_privacy_weights_are_hardly_rounded_and_persons_not_balanced():
    relation = Relation.of("replace_one")
    assert noise_of_sums(math.inf, 1e-5, relation, 3) is None
    weights = RNG.uniform(0, 1, N_ROWS)
    given = RowsOfUnits.checked(weights, GROUPS, N_ROWS, relation)
    shares = given.units(None).shares
    assert shares / shares.sum() == pytest.approx(weights / weights.sum(), rel=1e-6)
    assert given.units(None).total == pytest.approx(weights.sum())


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
        (np.where(FIRST, np.nan, 1), NO_WEIGHTS),
        (np.where(FIRST, np.inf, 1), NO_WEIGHTS),
        (np.where(FIRST, -1.0, 1), NO_WEIGHTS),
        (np.full(N_ROWS, "1"), NO_WEIGHTS),
        (np.ones(N_ROWS) * 1j, NO_WEIGHTS),
        ([[1.0], [1.0, 2.0]], NO_WEIGHTS),
        ([object()] * N_ROWS, NO_WEIGHTS),
        (np.zeros(N_ROWS), "sample_weight is zero in every row"),
        (0, "sample_weight is zero in every row"),
        ("age", "sample_weight='age' is a name.*A private column cannot weigh rows"),
    )
]
BAD += [
    ("groups", groups, match)
    for groups, match in (
        (GROUPS[:-1], r"one entry for each of the 240 rows of X.*shape \(239,\)"),
        (GROUPS[:, None], r"one entry for each of the 240 rows of X.*shape \(240, 1\)"),
        ([[1], [1, 2]], "one entry for each.*lists of several lengths"),
        (7, r"one entry for each of the 240 rows of X.*shape \(\)"),
        (np.where(FIRST, np.nan, 1), "groups has missing entries"),
        ([None] + ["a"] * (N_ROWS - 1), "groups has missing entries"),
        (np.full(N_ROWS, np.datetime64("NaT")), "groups has missing entries"),
        (pd.array([pd.NA] + [1] * (N_ROWS - 1)), "groups has missing entries"),
        (MIXED, "groups holds entries that cannot be compared"),
        (pd.Series([[1]] * N_ROWS), "groups holds entries that cannot be compared"),
        ("person", "groups='person' is not the name of a column of X"),
    )
]


def refused(match, model, **of_rows):
    """Check that a fit is refused, and that nothing was charged before."""
    ledger = PrivacyLedger()
    model.set_params(ledger=ledger)
    for act in (model.fit, model.plan):
        with pytest.raises(ValueError, match=match) as error:
            act(X, LABELS, **of_rows)
        assert error.value.__context__ is None or error.value.__suppress_context__
    assert not ledger.events


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize(("name", "given", "match"), BAD)
def test_bad_weights_and_groups_are_refused(name, given, match, epsilon):
    refused(match, LOGISTIC(**COMMON, **TWO, epsilon=epsilon), **{name: given})


def test_other_parameters_that_contradict_them_are_refused():
    counted = {"neighboring_relation": AddOrRemoveOne(N_ROWS)}
    for of_rows in ({"sample_weight": WEIGHTS}, {"groups": GROUPS}):
        model = LOGISTIC(**COMMON, **TWO, **counted)
        refused("needs a public number of rows", model, **of_rows)


def test_names_may_be_any_that_can_be_told_apart():
    relation, wanted = Relation.of("replace_one"), None
    for names in (
        GROUPS,
        GROUPS.astype(float),
        GROUPS.astype(str),
        GROUPS.astype(str).astype(object),
        [(int(group), "x") for group in GROUPS[:0]] or GROUPS.tolist(),
        pd.Categorical(GROUPS.astype(str)),
        pd.to_datetime("2020-01-01") + pd.to_timedelta(GROUPS, unit="D"),
        pd.Series(GROUPS, dtype="Int64"),
        pytest.importorskip("polars").Series(GROUPS),
    ):
        found = RowsOfUnits.checked(None, names, N_ROWS, relation).persons
        wanted = found if wanted is None else wanted
        assert np.array_equal(found, wanted)
    # Equal numbers of several types are one person.
    names = np.array([1, 1.0, True, 2, np.int8(2)], dtype=object)
    found = RowsOfUnits.checked(None, names, 5, relation).persons
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
    assert assumed(sample_weight=np.minimum(WEIGHTS, 1)) == [True, False]
    assert assumed(groups=GROUPS) == [False, False]
    assert assumed(of_schema(model, most=2), TABLE) == [False, True]
