"""The column of a frame that says whose each row is."""

import numpy as np
import pandas as pd
import pytest

from skfdp import FeatureDPLogisticRegression

pytestmark = pytest.mark.filterwarnings("ignore")
N_ROWS = 60
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.random((N_ROWS, 2)), columns=["age", "dose"])
X.insert(0, "patient", np.arange(N_ROWS) // 3)
Y = RNG.integers(0, 2, N_ROWS)


def model(**parameters):
    return FeatureDPLogisticRegression(
        bounds=(0, 1), classes=[0, 1], random_state=0, **parameters
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_column_is_no_feature(library):
    frame = pytest.importorskip(library).DataFrame({c: X[c].to_numpy() for c in X})
    rest = frame[["age", "dose"]]
    named = model().fit(frame, Y, groups="patient")
    apart = model().fit(rest, Y, groups=X["patient"])
    assert list(named.feature_names_in_) == ["age", "dose"]
    assert np.array_equal(named.coef_, apart.coef_)
    assert np.array_equal(named.predict_proba(frame), apart.predict_proba(rest))
    assert np.array_equal(named.predict_proba(rest), apart.predict_proba(rest))
    assert named.privacy_.n_records == N_ROWS // 3
    assert named.privacy_.events[0].unit == "person"


@pytest.mark.parametrize(
    "spec", [[1], 1, slice(0, 1), np.array([True, False]), [True, False, False]]
)
def test_positions_of_public_columns_are_refused_beside_it(spec):
    # Counted without the column, position 1 would be another column.
    with pytest.raises(ValueError, match=r"public_features=.*name the columns"):
        model(public_features=spec).fit(X, Y, groups="patient")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(["age"], ("age",)), ("age", ("age",)), ("all", ("age", "dose")), (None, ())],
)
def test_names_of_public_columns_are_not(spec, expected):
    found = model(public_features=spec).fit(X, Y, groups="patient").privacy_
    assert found.public_features == expected


def test_positions_of_bounds_are_refused_beside_it():
    estimator = FeatureDPLogisticRegression(bounds={0: (0, 1), 1: (0, 1)})
    with pytest.raises(ValueError, match=r"bounds=.*name the columns"):
        estimator.fit(X, Y, groups="patient")


@pytest.mark.parametrize("table", [X, X.to_numpy()])
def test_a_name_of_no_column_is_refused(table):
    with pytest.raises(ValueError, match="groups='doctor' is not the name of a column"):
        model().fit(table, Y, groups="doctor")
