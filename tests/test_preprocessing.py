"""The centring transformer."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    PrivateCenteringTransformer,
    report,
)
from skfdp.privacy import gdp_mu


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 10**6),
    st.floats(1e-3, 1e3),
    st.sampled_from([0.01, 1.0, 100.0, float("inf")]),
)
def test_output_rows_stay_within_the_bound(seed, output_bound, epsilon):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 3)) * 10.0 ** rng.integers(-3, 4) + rng.normal(size=3)
    centre = PrivateCenteringTransformer(
        epsilon, 1e-3, bounds=False, output_bound=output_bound
    )
    rows = centre.fit_transform(X)
    assert (np.linalg.norm(rows, axis=1) <= output_bound).all()
    far = centre.transform(1e9 * rng.normal(size=(20, 3)))
    assert (np.linalg.norm(far, axis=1) <= output_bound).all()


def test_the_mean_is_the_mean_at_infinite_epsilon():
    X = np.random.default_rng(0).uniform(2, 3, (500, 4))
    centre = PrivateCenteringTransformer(float("inf"), bounds=(0, 4)).fit(X)
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    np.testing.assert_allclose(centre.mean_, unit.mean(axis=0), atol=1e-9)
    assert centre.privacy_.epsilon == float("inf")


@pytest.mark.parametrize("relation", ["replace_special", "replace_one"])
def test_one_release_of_the_declared_level(relation, releases):
    X = np.random.default_rng(0).uniform(2, 3, (500, 4))
    centre = PrivateCenteringTransformer(
        0.5, bounds=(0, 4), neighboring_relation=relation
    ).fit(X)
    (seen,) = releases
    reach = 2 if relation == "replace_one" else 1
    assert seen["std"] == pytest.approx(reach / gdp_mu(0.5, 1e-5))
    assert centre.privacy_.epsilon == pytest.approx(0.5)
    assert centre.privacy_.epsilon <= 0.5


def test_frames_names_and_set_output():
    X = pd.DataFrame(np.random.default_rng(0).random((300, 2)), columns=["a", "b"])
    centre = PrivateCenteringTransformer(bounds={"a": (0, 1), "b": (0, 1)})
    rows = centre.set_output(transform="pandas").fit_transform(X)
    assert rows.columns.tolist() == ["a", "b"]
    assert rows.index.equals(X.index)
    restored = pickle.loads(pickle.dumps(centre))
    pd.testing.assert_frame_equal(restored.transform(X), rows)


@pytest.mark.parametrize("estimator", [DPSGDFClassifier, FeatureDPLogisticRegression])
def test_the_output_bound_is_the_next_estimators_feature_bound(estimator, small):
    """No row is cut between the steps, and the report adds both spendings."""
    X, y = small
    pipeline = make_pipeline(
        PrivateCenteringTransformer(0.5, bounds=(0, 1)),
        estimator(
            1.0, bounds=False, normalize=False, neighboring_relation="replace_special"
        ),
    ).fit(X, y)
    rows = pipeline[:-1].transform(X)
    np.testing.assert_allclose(pipeline[-1].row_map_(rows), rows, rtol=1e-9)
    total = report(pipeline)
    assert 1.0 < total.epsilon < 1.5
    assert len(total.events) == len(pipeline[-1].privacy_.events) + 1


def test_mixed_relations_are_refused(small):
    pipeline = make_pipeline(
        PrivateCenteringTransformer(0.5, bounds=(0, 1)),
        FeatureDPLogisticRegression(bounds=False),
    ).fit(*small)
    with pytest.raises(ValueError, match="relation"):
        report(pipeline)


def test_centring_rescues_what_an_offset_hides():
    """Paper 2, section 4: classes that differ by less than their common offset."""
    from skfdp.datasets import make_offset_classes

    X, y = make_offset_classes(random_state=0, return_X_y=True)
    scores = {
        centering: np.mean(
            [
                DPSGDFClassifier(bounds=False, centering=centering, random_state=seed)
                .fit(X, y)
                .score(X, y)
                for seed in range(3)
            ]
        )
        for centering in ("gaussian", None)
    }
    assert scores["gaussian"] > 0.95
    assert scores["gaussian"] > scores[None] + 0.1
