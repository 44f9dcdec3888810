"""A public target: the offset of a public model, and where signs are accounted for."""

import math
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skfdp import FeatureDPLogisticRegression, PrivateCenteringTransformer
from skfdp.privacy.events import Relation
from skfdp.queries.linear import LinearQuery
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD, public_model
from skfdp.solvers.centring import public_moments

HALF = np.arange(64) % 8 < 4  # left half of the digits
SQRT2 = math.sqrt(2)


def feature_dp(**parameters):
    given = {"public_features": [0], "public_target": True, "bounds": (0, 1)}
    return FeatureDPLogisticRegression(**{**given, **parameters})


def of_pixels(**parameters):
    """Return a model of digits whose left half is public."""
    return feature_dp(public_features=HALF, bounds=(0, 16), **parameters)


# -- the last public model ------------------------------------------------------------
def test_a_public_model_is_chosen_once_for_equal_public_data(monkeypatch):
    """Fits get copies. Other rows, targets or weights get another model."""
    choose = Mock(side_effect=public_model._chosen)
    monkeypatch.setattr(public_model, "_chosen", choose)
    public_model._LAST.clear()
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 3)), np.arange(60) % 2

    def coef(X, y, **more):
        model = feature_dp(classes=[0, 1]).fit(X, y, **more)
        return model.public_model_.estimator[-1].coef_

    first, second = coef(X, y), coef(X, y)
    np.testing.assert_array_equal(first, second)
    first[:] = 7  # does not change the model that is kept
    np.testing.assert_array_equal(coef(X, y), second)
    assert choose.call_count == 1
    weights = np.where(y, 2, 1)
    for other in ((X + 0.25, y), (X, 1 - y)):
        coef(*other)
    coef(X, y, sample_weight=weights)
    assert choose.call_count == 4
    private = np.c_[X[:, :1], rng.random((60, 2))]  # the public column is the same
    coef(private, y, sample_weight=weights)
    assert choose.call_count == 4


# -- where it is accounted, and where it is not ---------------------------------------
def sensitivity(model, data):
    event = model.fit(*data).privacy_.events[-1]
    assert event.label == "descent"
    return event.sensitivity / event.clip_norm


@pytest.mark.parametrize("solver", ["noisy-gd", "noisy-sgd"])
@pytest.mark.parametrize("public_features", [None, [0], [1, 2]])
def test_non_negative_columns_and_a_public_target_cost_sqrt2(
    small, solver, public_features
):
    """Where no mean is released: it would be noise, or users want none."""
    for given in ({"centering": None}, {"epsilon": 0.05}):
        model = feature_dp(public_features=public_features, solver=solver, **given)
        assert sensitivity(model, small) == pytest.approx(SQRT2)
        labels = [event.label for event in model.privacy_.events]
        assert labels == ["row length", "temperature", "descent"]
        assert any("sqrt(2) clip_norm" in a.text for a in model.privacy_.assumptions)


def baskets(share, n_rows=3000, seed=0):
    """Rows of 0 and 1 with a public first column, and a target; `share` are 1."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n_rows, 30)) < share).astype(float)
    return X, (X[:, :10].sum(axis=1) > 10 * share).astype(int)


def query_of_loop(releases):
    """Return the query of the last step."""
    queries = [release["query"] for release in releases]
    return [query for query in queries if isinstance(query, LinearQuery)][-1]


@pytest.mark.parametrize("public_features", [None, [0, 1]])
@pytest.mark.parametrize("share", [0.05, 0.8])
def test_the_released_mean_decides_between_signs_and_centring(
    releases, share, public_features
):
    """Either way a replaced record moves the sum as far as was charged, no further."""
    X, y = baskets(share)
    given = {"solver": "noisy-gd", "random_state": 0}
    model = feature_dp(public_features=public_features, **given).fit(X, y)
    charged, query = model.privacy_.events[-1], query_of_loop(releases)
    private = query.rows.values[:, len(public_features or []) : -1]
    moved = SQRT2 * charged.clip_norm
    assert charged.sensitivity == pytest.approx(moved)
    assert query.sensitivity(Relation.of("replace_one")) == pytest.approx(moved)
    signs = share < 0.5
    assert query.orthant == signs == (private >= 0).all()
    assert query.clip_norm == pytest.approx(moved / (SQRT2 if signs else 2))
    assert "mean" in [event.label for event in model.privacy_.events]
    assert any("(or the released mean is" in a.text for a in model.privacy_.assumptions)


def test_what_the_mean_decides_does_not_show_in_the_plan():
    model = feature_dp(solver="noisy-gd", classes=[0, 1], public_features=None)
    X, y = baskets(0.05)
    assert model.plan(X, y).events == model.plan(1 - X, y).events


@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": NoisySGD(batch_size=300)},
        {"solver": NoisyGradientDescent(clip_norm=0.5)},
        {"centering": "gaussian"},
        *({"neighboring_relation": "replace_special"}, {"bounds": False}),
        {"public_target": False},
    ],
)
def test_elsewhere_a_mean_that_can_be_learnt_is_subtracted(releases, parameters):
    X, y = baskets(0.05)
    model = feature_dp(**({"solver": "noisy-gd"} | parameters)).fit(X, y)
    query, event = query_of_loop(releases), model.privacy_.events[-1]
    assert not query.orthant and query.clip_norm == event.clip_norm
    assert not any("sqrt(2)" in a.text for a in model.privacy_.assumptions)


PRIVATE_Y = {"public_target": False, "public_model": None}


@pytest.mark.parametrize("epsilon", [0.05, 5.0])
def test_a_mean_that_would_be_noise_is_not_released(small, epsilon):
    given = PRIVATE_Y | {"epsilon": epsilon, "public_features": None}
    labels = [event.label for event in feature_dp(**given).fit(*small).privacy_.events]
    assert ("mean" in labels) == (epsilon == 5.0)


@pytest.mark.parametrize(
    ("parameters", "moved"),
    [
        ({"bounds": False}, 2),
        ({"bounds": False, "centering": None}, 2),
        # column 3 may be negative
        ({"bounds": {0: (0, 1), 1: (0, 1), 2: (0, 1)}, "centering": None}, 2),
        ({"centering": "gaussian"}, 2),
        (PRIVATE_Y, 2),
        (PRIVATE_Y | {"centering": None}, 2),
        ({"solver": FeatureDPSGD(public_loss="zero")}, 2),
        # bounds of public columns do not matter
        ({"bounds": {1: (0, 1), 2: (0, 1), 3: (0, 1)}, "centering": None}, SQRT2),
        ({"neighboring_relation": "replace_special"}, 1),
    ],
)
def test_otherwise_a_replaced_record_costs_twice_the_clip_norm(
    small, parameters, moved
):
    model = feature_dp(**parameters)
    assert sensitivity(model, small) == pytest.approx(moved)
    told = any("sqrt(2)" in a.text for a in model.privacy_.assumptions)
    assert told == (moved == SQRT2)


def test_centring_in_a_pipeline_voids_the_orthant(small):
    pipeline = make_pipeline(
        PrivateCenteringTransformer(bounds=(0, 1), neighboring_relation="replace_one"),
        feature_dp(public_features=None, bounds=False),
    ).fit(*small)
    event = pipeline[-1].privacy_.events[-1]
    assert event.sensitivity == 2 * event.clip_norm


# -- public columns stay public -------------------------------------------------------
@pytest.mark.parametrize("public_target", [True, False])
def test_public_columns_of_the_loop_do_not_depend_on_private_values(
    small, releases, public_target
):
    X, y = small
    X = 3 * X  # longer than the feature bound: a norm would shorten private rows
    # A released length scales every column.
    solver = NoisyGradientDescent(row_norm=1.0, max_iter=1)
    given = {"bounds": False, "centering": None, "solver": solver}
    given |= {"public_features": [0, 1]} | ({} if public_target else PRIVATE_Y)
    rows = []
    for value in (X, np.c_[X[:, :2], np.flip(X[:, 2:])]):
        feature_dp(**given).fit(value, y)
        values = query_of_loop(releases).rows.values
        rows.append(values[:, :2])
        assert (values[:, 2] != 0).any()
    np.testing.assert_array_equal(*rows)


def public_of(model, X, y, **of_rows):
    """Return what a fit knows of the public part."""
    return model._on_records(lambda found: found.public, X, y, **of_rows)


def offset(model, X, y):
    """Return what a plan has prepared of the public model."""
    _, prepared, _ = model._planned(public_of(model, X, y))
    return prepared.offset


def test_the_offset_reads_public_columns_only(small):
    X, y = small
    poisoned = np.c_[X[:, :1], np.full((len(X), X.shape[1] - 1), np.nan)]
    seen = [offset(feature_dp(), table, y) for table in (X, poisoned)]
    np.testing.assert_array_equal(*seen)
    assert np.isfinite(seen[0]).all()


# -- the public model -----------------------------------------------------------------
SCALED = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(C=0.01))
TREES = HistGradientBoostingClassifier(max_iter=3)
MODELS = {"auto": "auto", "scaled": SCALED, "trees": TREES}


@pytest.mark.parametrize("n_classes", [2, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("public_model", MODELS.values(), ids=MODELS)
def test_without_budget_the_public_model_is_left(digits, public_model, n_classes):
    X, y = digits
    X, y = X[y < n_classes], y[y < n_classes]
    model = of_pixels(epsilon=1e-3, public_model=public_model).fit(X, y)
    alone = model.public_model_.estimator
    agree = (alone.predict(X[:, HALF]) == model.predict(X)).mean()
    assert agree > 0.99
    expected = alone.predict_proba(X[:, HALF])
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=0.1)
    if model.public_model_.linear is not None:
        margins = model.input_scaler_(X) @ model.coef_.T + model.intercept_
        found = model.decision_function(X).reshape(margins.shape)
        np.testing.assert_allclose(found, margins)
        assert np.abs(model.coef_[:, HALF]).max() > 0


def test_a_fitted_model_serves_a_private_target_and_never_meets_it(small, monkeypatch):
    X, y = small
    other = DecisionTreeClassifier(max_depth=2).fit(X[:100, [0]], y[:100])
    monkeypatch.setattr(DecisionTreeClassifier, "fit", None)  # never fit again
    model = feature_dp(public_target=False, public_model=other)
    np.testing.assert_array_equal(offset(model, X, y), offset(model, X, 1 - y))
    model.fit(X[100:], y[100:])
    assert model.public_model_.estimator is other
    event = model.privacy_.events[-1]
    assert event.sensitivity == 2 * event.clip_norm


@pytest.mark.parametrize(
    ("far", "size", "sparse"), [(1e4, 1.0, False), (0.0, 1e-6, True)]
)
def test_units_of_unbounded_public_columns_do_not_matter(far, size, sparse):
    """Large means and small spreads leave the private columns on the grid."""
    rng = np.random.default_rng(0)
    X = rng.random((3000, 4))
    y = (X[:, 2] + X[:, 3] > 1).astype(int)
    X[:, :2] = far + size * X[:, :2]
    given = {"public_features": [0, 1], "bounds": {2: (0, 1), 3: (0, 1)}}
    model = FeatureDPLogisticRegression(30.0, **given, random_state=0)
    assert model.fit(csr_array(X) if sparse else X, y).score(X, y) > 0.95


def test_one_enormous_public_value_breaks_no_bound(small, releases):
    """A NaN centre would be -2**63 in integers, and sums would wrap around."""
    X, y = small
    X = X.copy()
    X[3, 0] = 1e200
    given = PRIVATE_Y | {"bounds": False, "solver": NoisyGradientDescent(max_iter=2)}
    for centering in (None, "auto"):
        for known in (False, True):
            model = feature_dp(**given, centering=centering)
            model.set_params(public_target=known).fit(csr_array(X), y)
    for seen in releases:
        assert np.abs(seen["exact"]).max() <= 300


def test_stored_private_entries_do_not_reach_public_moments():
    """The order of a sum of floats must not follow the number of private entries."""
    rng = np.random.default_rng(0)
    X = rng.random((5000, 60)) * (rng.random((5000, 60)) < 0.7)
    y = rng.integers(0, 2, 5000)
    found = []
    for other in (X, np.c_[X[:, :5], np.zeros((5000, 55))]):
        model = feature_dp(
            public_features=slice(5), public_target=False, bounds=False, centering=None
        )
        public = public_of(model, csr_array(other), y)
        found.append(public_moments(public, centre=True))
    (mean, spread), (other, same) = found
    np.testing.assert_array_equal(mean, other)
    assert spread == same


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_public_moments_of_dense_and_sparse_rows_are_the_same_bits(centre, weighted):
    """And a weight is a number of rows."""
    rng = np.random.default_rng(0)
    X = rng.random((5000, 7)) * (rng.random((5000, 7)) < 0.4)
    X[:, 1] += 1e6  # far from zero
    X[:, 2] = np.exp(3 * rng.normal(size=5000))
    X[:, 3] = 3.0
    y, weights = np.arange(5000) % 2, rng.integers(0, 4, 5000) if weighted else None
    model, found = feature_dp(public_features=slice(5), bounds=False), []
    for rows in (X, csr_array(X)):
        public = public_of(model, rows, y, sample_weight=weights)
        found.append(public_moments(public, centre=centre))
    (own, spread), (other, same) = found
    np.testing.assert_array_equal(own, other)
    assert spread == same
    rows = X[:, :5] if weights is None else np.repeat(X[:, :5], weights, axis=0)
    mean = rows.mean(axis=0) if centre else np.zeros(5)
    np.testing.assert_allclose(own, mean, rtol=1e-8)
    wanted = np.sqrt(np.sum((rows - mean) ** 2) / len(rows))
    assert spread == pytest.approx(wanted, rel=1e-6)


def test_a_published_model_has_no_margins_of_rows(small):
    """They are chosen by, and are as many as the training rows."""
    X, y = small
    model = feature_dp(public_features=[0, 1]).fit(X, y)
    assert model.public_model_.out_of_fold is None
    assert model.public_model_.estimator is not None
