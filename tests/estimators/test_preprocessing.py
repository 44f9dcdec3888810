"""The centring transformer."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.privacy import gdp_epsilon, gdp_mu
from skfdp.solvers import NoisyGradientDescent


def test_the_mean_is_the_mean_at_infinite_epsilon():
    X = np.random.default_rng(0).uniform(2, 3, (500, 4))
    centre = skfdp.PrivateCenteringTransformer(float("inf"), bounds=(0, 4)).fit(X)
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    np.testing.assert_allclose(centre.mean_, unit.mean(axis=0), atol=1e-9)
    assert centre.privacy_.epsilon == float("inf")


def test_columns_without_bounds_are_not_cut_below_row_norm():
    X = np.random.default_rng(0).normal((50, -90), 1, (5000, 2))
    free = {"bounds": False, "normalize": False, "row_norm": 110.0}
    centre = skfdp.PrivateCenteringTransformer(5.0, **free).fit(X)
    np.testing.assert_allclose(centre.mean_ * 110, (50, -90), atol=1)


# -- conditional centring ------------------------------------------------------------
@pytest.fixture
def predictable():
    """Columns 1 and 3 are public; 0, 2 and 4 follow them up to a small rest."""
    rng = np.random.default_rng(1)
    U = rng.random((4000, 2))
    P = 0.5 + 0.6 * (U - 0.5) @ [[0.5, 0.5, -0.3], [0.5, -0.4, 0.4]]
    rest = 0.02 * rng.normal(size=P.shape)
    X = np.empty((4000, 5))
    X[:, [1, 3]], X[:, [0, 2, 4]] = U, np.clip(P + rest, 0, 1)
    y = rest[:, 0] + 0.01 * rng.normal(size=4000) > 0
    return X, y.astype(int)


def conditional(epsilon=1.0, relation="replace_one", **parameters):
    given = {"bounds": (0, 1), "public_features": [1, 3]} | parameters
    return skfdp.PrivateCenteringTransformer(
        epsilon, neighboring_relation=relation, **given
    )


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 10**6),
    st.floats(1e-3, 1e3),
    st.sampled_from([0.01, 1.0, 100.0, float("inf")]),
    st.sampled_from([None, [1, 2]]),
)
def test_output_rows_stay_within_the_bound(seed, output_bound, epsilon, public):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 4)) * 10.0 ** rng.integers(-3, 4) + rng.normal(size=4)
    free = {"bounds": False, "public_features": public, "output_bound": output_bound}
    centre = skfdp.PrivateCenteringTransformer(epsilon, 1e-3, **free).fit(X)
    for rows in (X, 1e9 * rng.normal(size=(20, 4)), np.zeros((1, 4))):
        out = centre.transform(rows)
        assert (np.linalg.norm(out, axis=1) <= output_bound).all()
        shown = np.linalg.norm(out[:, public or []], axis=1)
        assert (shown <= output_bound * np.sqrt(0.5)).all()


def test_least_squares_at_infinite_epsilon(predictable):
    X, _ = predictable
    public = [1, 3]
    centre = conditional(float("inf"), row_norm=10.0).fit(X)
    known = LinearRegression().fit(X[:, public], X[:, [0, 2, 4]] / 10)
    np.testing.assert_allclose(centre.coef_, known.coef_.T, atol=1e-9)
    means = X.mean(axis=0) / [10, 1, 10, 1, 10]
    np.testing.assert_allclose(centre.mean_, means)
    np.testing.assert_array_equal(centre.public_mask_, [0, 1, 0, 1, 0])
    rows = centre.transform(X)
    # nothing of the public columns is left in the private ones, up to the cut
    assert np.abs(np.corrcoef(rows.T)[np.ix_(public, [0, 2, 4])]).max() < 0.05
    squares = np.mean(rows**2, axis=0)
    assert squares[public].sum() == pytest.approx(0.25, rel=0.05)
    assert 0.5 < squares.sum() < 1


@pytest.mark.parametrize(
    ("relation", "bounds", "reach"),
    [
        ("replace_special", (0, 1), 1),
        ("replace_one", (0, 1), np.sqrt(2)),
        ("replace_one", {0: (0, 1), 2: (0, 1), 4: (-1, 1)}, np.sqrt(2)),
        ("replace_one", {0: (0, 1), 2: (0, 1)}, 2),
        ("replace_one", {1: (0, 1), 3: (0, 1)}, 2),
        ("replace_one", False, 2),
    ],
)
def test_the_cross_moments_have_the_declared_level(
    relation, bounds, reach, predictable, releases
):
    """sqrt(2) only where declared bounds make every private column non-negative."""
    centre = conditional(0.5, relation, bounds=bounds).fit(predictable[0])
    (seen,) = releases
    assert seen["std"] == pytest.approx(reach / gdp_mu(0.5, 1e-5))
    (event,) = centre.privacy_.events
    assert event.sensitivity == pytest.approx(reach)
    assert event.noise_std == (seen["std"],) and event.public_features == (1, 3)
    assert centre.privacy_.private_features == (0, 2, 4)
    assert 0.499 < centre.privacy_.epsilon <= 0.5
    assert seen["noise"].shape == (3 * 3 + 1,)


def test_public_columns_are_bitwise_blind_to_private_values(predictable, releases):
    X, _ = predictable
    poisoned = X.copy()
    poisoned[:, [0, 2, 4]] = np.random.default_rng(5).normal(size=(4000, 3)) * 1e6
    outputs = []
    for rows in (X, poisoned):
        centre = conditional(1.0).fit(rows)
        outputs += [centre.transform(one)[:, [1, 3]] for one in (rows, poisoned)]
    for other in outputs[1:]:
        np.testing.assert_array_equal(outputs[0], other)
    np.testing.assert_array_equal(*(one["query"].regressors for one in releases))


def test_a_replaced_record_moves_the_released_sum_of_a_fit(predictable, releases):
    """Through fit: both worlds have the same regressors, the sum moves by <= Delta."""
    X, _ = predictable
    X = X[:200]
    sums = []
    for row in ([0, 0, 0], [1, 0, 0], [0, 1, 0], [9, -9, 9], [1e9, 1e9, 1e9]):
        other = X.copy()
        other[3, [0, 2, 4]] = row
        conditional(1.0).fit(other)
        sums.append(releases[-1]["exact"])
    moves = [np.linalg.norm(a - b) for a in sums for b in sums]
    (event,) = conditional(1.0).fit(X).privacy_.events
    assert max(moves) <= event.sensitivity == np.sqrt(2)


@pytest.mark.parametrize("public", [None, [1, 3]])
@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
def test_the_report_adds_up_what_both_steps_released(
    public, relation, predictable, releases
):
    given = {"epsilon": 1.0, "neighboring_relation": relation, "centering": None}
    last = {"public_features": public, "public_model": None, **given}
    total = skfdp.report(two_steps(predictable, conditional(0.5, relation), **last))
    # By hand: the noise that ran, and what a neighbour can move.
    twice = 2 if relation == "replace_one" else 1
    first, counts, *steps = releases
    ratios = [np.sqrt(twice) / one["std"] for one in (first, counts)]
    ratios += [twice * step["query"].clip_norm / step["std"] for step in steps]
    joint = gdp_epsilon(1e-5, np.linalg.norm(ratios))
    assert total.epsilon == pytest.approx(joint, rel=1e-9) and 1.0 < total.epsilon < 1.5
    assert total.public_features == (1, 3) and total.neighboring_relation == relation


def test_names_of_columns_pass_through_a_pipeline(predictable):
    X, y = predictable
    X = pd.DataFrame(X, columns=list("abcde"))
    first = conditional(0.5, public_features=["b", "d"])
    last = skfdp.FeatureDPLogisticRegression(bounds=False, public_features=["b", "d"])
    pipeline = make_pipeline(first, last).set_output(transform="pandas").fit(X, y)
    assert skfdp.report(pipeline).public_features == ("b", "d")
    assert skfdp.report(pipeline).private_features == ("a", "c", "e")
    restored = pickle.loads(pickle.dumps(first))
    pd.testing.assert_frame_equal(restored.transform(X), first.transform(X))


def two_steps(data, first, **last):
    last = {"bounds": False, "public_features": [1, 3]} | last
    last = skfdp.FeatureDPLogisticRegression(
        solver=NoisyGradientDescent(max_iter=2), **last
    )
    return make_pipeline(first, last).fit(*data)


def test_steps_that_protect_different_things_are_refused(predictable):
    special = {"neighboring_relation": "replace_special"}
    names = pd.DataFrame(predictable[0], columns=list("abcde")), predictable[1]
    for data, first, last, match in (
        (predictable, {}, special, "relation"),
        (predictable, {}, {"public_features": [1]}, "both steps the same public_fe"),
        (predictable, {"public_features": [1]}, {}, "both steps the same public_fe"),
        (predictable, {"public_features": None}, {}, "are 'none', so that"),
        (names, {"public_features": ["b"]}, {}, r"set_output\(transform='pandas'\)"),
    ):
        with pytest.raises(skfdp.PrivacyBudgetError, match=match):
            skfdp.report(two_steps(data, conditional(**first), **last))
    # A step without privacy has no guarantee to compare.
    without = two_steps(predictable, conditional(float("inf")))
    assert skfdp.report(without).epsilon == float("inf")


@pytest.mark.parametrize("epsilon", [1.0, float("inf")])
def test_constant_and_dependent_public_columns(epsilon):
    rng = np.random.default_rng(0)
    u = rng.random(500)
    X = np.column_stack([u, 2 * u, np.full(500, 3.0), u / 2 + 0.1, 1e150 * u])
    centre = conditional(epsilon, bounds=False, public_features=[0, 1, 2, 4])
    assert np.isfinite(centre.fit_transform(X)).all()
    constant = conditional(epsilon, bounds=False, public_features=[2]).fit(X[:, :4])
    assert not constant.coef_.any() and np.isfinite(constant.transform(X[:, :4])).all()
