"""What is public about conditional centring, and what follows the release."""

from types import SimpleNamespace

import numpy as np
import pytest

from skfdp.data.grid import InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.preprocessing import PrivateCentring, Regressors

PUBLIC = np.array([True, False, True, False, False])


@pytest.fixture
def linear():
    """Private columns that are an exact linear function of the public ones."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 5))
    X[:, 2] **= 20  # few rows far out
    X[:, ~PUBLIC] = 0.3 + X[:, PUBLIC] @ [[0.2, -0.1, 0.0], [0.1, 0.3, -0.2]]
    return X


def table(X):
    public = PublicRecords(
        mask=PUBLIC,
        input_scaler=InputScaler(np.zeros(5), np.ones(5)),
        n_records=len(X),
        columns=tuple("abcde"),
        _table=X,
    )
    return Records(X, None, public)


def exact_sum(query):
    unit = query.unit(0.0)
    return query.exact_sum(None, None, unit) * unit


def centred(X, released=exact_sum, std=0.0):
    """Return what follows a release, given as a function of its query."""
    method, records = PrivateCentring(), table(X)
    return method.run(
        records,
        method.prepare(records.public, None),
        SimpleNamespace(
            events=[SimpleNamespace(label="cross moments", noise_std=(std,))]
        ),
        SimpleNamespace(release=lambda label, query: released(query)),
        on_step=None,
    )


def test_no_record_has_more_leverage_than_another(linear):
    """In grid integers, and although the longest row is many times the median."""
    found = Regressors(linear[:, PUBLIC], weighted=True)
    assert np.linalg.norm(found.rows, axis=1).max() > 3
    squares = np.sum(found.grid.astype(np.int64) ** 2, axis=1)
    assert squares.max() <= 2**28 and squares.min() > 0.999 * 2**28


@pytest.mark.parametrize("exact", [False, True])
def test_a_linear_prediction_is_found_whatever_the_weights(exact, linear):
    if exact:
        found = PrivateCentring().exactly(table(linear))
    else:
        found = centred(linear)
    expected = [[0.2, -0.1, 0.0], [0.1, 0.3, -0.2]]
    np.testing.assert_allclose(found["coef_"], expected, atol=2e-3)
    np.testing.assert_allclose(found["mean_"], linear.mean(axis=0), atol=2e-3)
    # nothing is left of the rows, so that they are scaled up as far as allowed
    assert found["scale_"][1] > 20
