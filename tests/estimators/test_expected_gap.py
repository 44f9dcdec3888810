"""How much of what columns tell is expected to be lost: function, plan and warning."""

import re
import warnings

import numpy as np
import pytest

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, UtilityWarning
from skfdp.metrics import expected_gap

NAMES = ["nothing", "columns", "some columns", "some columns and target"]


def test_the_gap_falls_with_epsilon_records_and_what_is_public():
    sizes = np.geomspace(10, 1e7, 60).astype(int)
    for public in NAMES:
        found = np.array([expected_gap(1.0, n, public=public) for n in sizes])
        assert (np.diff(found, axis=0) <= 0).all()
        assert (np.diff(found, axis=1) >= 0).all()  # quartiles in their order
        assert found[0, 2] > 0.9 and found[-1, 2] < 0.02
    usual = expected_gap(1.0, 1000)[1]
    assert expected_gap(0.3, 1000)[1] > usual > expected_gap(3.0, 1000)[1]
    assert usual >= expected_gap(1.0, 1000, public="columns")[1]
    for more in ({"n_columns": 1000}, {"n_classes": 9}):
        assert expected_gap(1.0, 1000, **more)[1] > usual
    # Half of the noise is worth twice the records.
    halved = expected_gap(1.0, 1000, neighboring_relation="replace_special")
    assert halved == pytest.approx(expected_gap(1.0, 2000))


@pytest.mark.parametrize(
    "name", ["epsilon", "n_records", "delta", "n_columns", "n_classes", "public"]
)
def test_what_is_out_of_range_is_refused(name):
    given = {"epsilon": 1.0, "n_records": 1000, "neighboring_relation": "replace_one"}
    for odd in ({name: -1.5}, {"neighboring_relation": "replace"}):
        with pytest.raises(ValueError, match=next(iter(odd))):
            expected_gap(**given | odd)


def table(n):
    rng = np.random.default_rng(0)
    X = rng.random((n, 6))
    return X, (X[:, 0] + 0.3 * rng.random(n) > 0.7).astype(int)


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_says_what_the_function_says(name):
    (X, y), target = table(2000), "target" in name
    public = {"nothing": None, "columns": "all"}.get(name, [0, 1])
    given = {"bounds": (0, 1), "classes": [0, 1], "public_features": public}
    model = FeatureDPLogisticRegression(0.5, **given, public_target=target)
    plan = model.plan(X, y) if target else model.plan(X)
    gap = expected_gap(0.5, 2000, n_columns=6, public=name)
    assert plan.expected_gap == gap and plan.to_dict()["expected_gap"] == list(gap)
    assert f"about {100 * gap[1]:.0f} %" in repr(plan)


def test_fits_that_were_not_measured_say_nothing():
    X, y = table(2000)
    for model in (
        FeatureDPLogisticRegression(1.0, public_target=True, bounds=(0, 1)),
        FeatureDPRegressor(1.0, target_bounds=(0, 1), public_features=[0, 1]),
        FeatureDPLogisticRegression(float("inf"), bounds=(0, 1), classes=[0, 1]),
    ):
        plan = model.plan(X, y)
        assert plan.expected_gap is None and "such fits" not in repr(plan)


@pytest.mark.parametrize("make", [FeatureDPLogisticRegression, FeatureDPRegressor])
def test_a_fit_that_would_learn_nothing_says_so_before_it_is_charged(make):
    is_regressor = make is FeatureDPRegressor
    of_target = {"target_bounds": (0, 1)} if is_regressor else {"classes": [0, 1]}
    gap = 100 * expected_gap(0.1, 300, n_columns=6)[1]
    told = re.escape(f"lost {gap:.0f} % of the gain over a constant, and a quarter")
    with pytest.warns(UtilityWarning, match=told):
        make(0.1, bounds=(0, 1), **of_target).plan(table(300)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        make(1.0, bounds=(0, 1), **of_target).plan(table(20_000)[0])
