"""CSR input: the same integers as for dense rows, and nothing filled in."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix, random_array
from sklearn.base import clone

import skfdp
from skfdp.data.arrays import blanked
from skfdp.solvers import AdaptiveCentering, FeatureDPSGD, NoisyGradientDescent


def sparse_rows(n=203, signed=True):
    rng = np.random.default_rng(0)
    X = random_array((n, 17), density=0.2, random_state=rng, format="csr")
    if signed:
        X.data = rng.normal(size=X.nnz) * 10.0 ** rng.integers(-3, 3, X.nnz)
    return X


@pytest.mark.parametrize("public", [[0, 2], [], [0, 1, 2, 3]])
def test_tables_for_plans_hold_neither_private_values_nor_their_places(public):
    X = random_array((40, 4), density=0.4, format="csr", rng=np.random.default_rng(0))
    mask = np.isin(np.arange(4), public)
    shown = blanked(csr_array(X), mask)
    np.testing.assert_array_equal(shown.toarray(), np.where(mask, X.toarray(), 0.0))
    assert shown.nnz == np.count_nonzero(X.toarray()[:, mask])
    np.testing.assert_array_equal(blanked(X.toarray(), mask), shown.toarray())


# -- whole fits -----------------------------------------------------------------------
@pytest.mark.parametrize("columns", [[0, 3, 5], slice(None)])
def test_a_public_loss_on_sparse_columns(columns, same_noise):
    X = sparse_rows(n=300, signed=False)
    y = np.random.default_rng(0).integers(0, 3, 300)
    padded = {} if columns == slice(None) else {"public_loss": "zero"}
    solver = FeatureDPSGD(**padded, public_batch_size=100, max_iter=30)
    model = skfdp.FeatureDPLogisticRegression(
        bounds=(0, 1), random_state=0, solver=solver, public_features=columns
    )
    dense, sparse = (clone(model).fit(rows, y) for rows in (X.toarray(), X))
    assert sparse.privacy_.public_features == dense.privacy_.public_features
    # The public gradient is a float; its order of summation is not fixed.
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-5, atol=1e-7)


def test_formats_and_layouts_are_one_problem(same_noise):
    X, y = sparse_rows(n=200), np.arange(200) % 2
    rows, columns = X.tocoo().coords
    twice = coo_array(  # each entry as the sum of two, in no order
        (np.r_[X.data / 2, X.data / 2], (np.r_[rows, rows], np.r_[columns, columns])),
        shape=X.shape,
    )
    parts = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    repeated = csr_array(parts, shape=X.shape)
    repeated.has_canonical_format = True  # what an object claims is not believed
    stored, unsorted = repeated.data.copy(), X[:, ::-1][:, ::-1]
    model = skfdp.DPSGDFClassifier(
        bounds=False, solver=NoisyGradientDescent(max_iter=5)
    )
    wanted = clone(model).fit(X, y)
    for data in (csr_matrix(X), csc_matrix(X), twice, repeated, unsorted):
        model.fit(data, y)
        np.testing.assert_array_equal(model.coef_, wanted.coef_)
        np.testing.assert_array_equal(model.predict(csc_matrix(X)), wanted.predict(X))
    np.testing.assert_array_equal(repeated.data, stored)


# -- refusals -------------------------------------------------------------------------
FILLED_IN = "bounds must have low == 0 in every column"
REFUSED = [
    ({"bounds": (-1, 1)}, FILLED_IN),
    ({"bounds": {3: (1, 2)}}, FILLED_IN),
    ({"bounds": ([0] * 16 + [-1], [1] * 17)}, FILLED_IN),
    ({"solver": FeatureDPSGD(public_loss="gaussian")}, "gaussian' needs a dense X"),
    ({"solver": "one-shot", "public_features": "all"}, "needs a dense X"),
    ({"centering": "adaptive"}, "needs a dense X"),
    ({"centering": AdaptiveCentering(clip_features=True)}, "needs a dense X"),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED)
def test_what_needs_dense_rows_is_refused_before_the_charge(parameters, message):
    ledger = skfdp.PrivacyLedger()
    model = skfdp.FeatureDPLogisticRegression(
        **{"bounds": False} | parameters, ledger=ledger
    )
    with pytest.raises(ValueError, match=message):
        model.fit(sparse_rows(), np.arange(203) % 2)
    assert not ledger.events


def test_the_transformer_needs_dense_rows():
    X = sparse_rows()
    centre = skfdp.PrivateCenteringTransformer(bounds=False)
    for call in (centre.fit(X.toarray()).transform, centre.fit):
        with pytest.raises(TypeError, match="needs a dense X, but X is sparse"):
            call(X)


@pytest.mark.parametrize("what", ["column", "negative column", "pointers"])
def test_malformed_matrices_are_refused_before_the_charge(what):
    X, ledger = sparse_rows(n=20), skfdp.PrivacyLedger()
    if what == "pointers":
        X.indptr[3], X.indptr[4] = X.indptr[4] + 2, X.indptr[3]
    else:
        X.indices[5] = 10**6 if what == "column" else -3
    model = skfdp.DPSGDFClassifier(bounds=False, ledger=ledger)
    with pytest.raises(ValueError, match="not valid CSR") as caught:
        model.fit(X, np.arange(20) % 2)
    assert caught.value.__context__ is None and not ledger.events


def test_entries_whose_sum_is_infinite_count_as_dense_ones():
    X, y = sparse_rows(n=20), np.arange(20) % 2
    X.data[:], X.indices = 1.7e308, np.zeros_like(X.indices)
    with np.errstate(all="ignore"):
        dense = X.toarray()
    model = skfdp.DPSGDFClassifier(bounds=(0, 1))
    sparse, dense = (
        model._on_records(lambda found: found, rows, y) for rows in (X, dense)
    )
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)
    assert sparse.is_null is dense.is_null is None
