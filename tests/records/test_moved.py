"""Rows about a centre, rotated: lengths stay, and a row's place changes no bit."""

import numpy as np
import pytest

from skfdp.data.input_scaler import InputScaler, MovedRows, Rotation, rotated_width

WIDTHS = (1, 2, 3, 6, 8, 13)


def rotation(n_columns, seed=0):
    return Rotation.draw(np.random.default_rng(seed), n_columns)


@pytest.mark.parametrize("n_columns", WIDTHS)
def test_a_rotation_is_an_isometry_and_back_is_its_inverse(n_columns):
    X = np.random.default_rng(1).normal(size=(7, n_columns))
    own = rotation(n_columns)
    rows = own.rows(X)
    assert rows.shape == (7, own.width) == (7, rotated_width(n_columns))
    np.testing.assert_allclose(rows @ rows.T, X @ X.T, atol=1e-12)
    for row, original in zip(rows, X, strict=True):
        np.testing.assert_allclose(own.back(row), original, atol=1e-12)


def test_a_rotation_is_the_hadamard_matrix_with_signs():
    hadamard = np.ones((1, 1))
    while len(hadamard) < 8:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    own = rotation(6, seed=3)
    assert set(own.signs) == {-1.0, 1.0}
    wanted = (hadamard[:, :6] * own.signs).T / np.sqrt(8)
    np.testing.assert_allclose(own.rows(np.eye(6)), wanted, atol=1e-15)
    # What it is for: no column has more than its part of the length.
    row = np.eye(500)[17:18]
    assert np.abs(rotation(500).rows(row)).max() == pytest.approx(512**-0.5)


@pytest.mark.parametrize("n_columns", [5, 100])
def test_a_row_has_the_same_bits_wherever_it_stands(n_columns):
    """Or a null record, which is left out, would move the bins of others."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, n_columns)) * 10.0 ** rng.uniform(-9, 9, (500, 1))
    rows = MovedRows(X, rng.normal(size=n_columns), 0.3, rotation(n_columns))
    whole = rows[np.arange(500)]
    for index in (slice(0, 1), slice(3, 20), slice(7, 500), np.array([499, 2, 250])):
        np.testing.assert_array_equal(rows[index], whole[index])
    plain = MovedRows(X, rows.centre, 0.3)
    few = MovedRows(X[10:], rows.centre, 0.3)
    np.testing.assert_array_equal(plain.lengths()[10:], few.lengths())


def test_moved_rows_are_those_of_the_definition():
    X = np.random.default_rng(4).normal(size=(9, 3))
    centre = np.array([1.0, -2.0, 0.5])
    rows = MovedRows(X, centre, 4.0)
    assert rows.shape == X.shape
    np.testing.assert_allclose(rows[:], (X - centre) / 4)
    np.testing.assert_allclose(rows.lengths(), np.linalg.norm(X - centre, axis=1) / 4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e200, 1e308, -1e308, np.inf, np.nan])
def test_a_row_beyond_all_measure_warns_of_nothing(value):
    X = np.zeros((4, 3))
    X[1] = value
    rows = MovedRows(X, np.zeros(3), 1e-10, rotation(3))
    lengths = MovedRows(X, rows.centre, 1e-10).lengths()
    assert not np.isfinite(lengths[1])
    rows[:]
    plain = MovedRows(X, rows.centre, 1e-10)[:]
    cut = InputScaler().mapped(plain)
    assert np.linalg.norm(cut, axis=1).max() <= 1 + 1e-12
