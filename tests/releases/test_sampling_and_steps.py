"""Coins, public batches and step rules."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from skfdp.mechanisms import release as coins
from skfdp.mechanisms.descent import HeavyBall, warn_of_divergence
from skfdp.mechanisms.release import PoissonBatches
from skfdp.solvers.public_model import padded_gradient


@pytest.mark.parametrize(
    ("rate", "room", "block"),
    [*((rate, None, None) for rate in (0.002, 0.07, 0.5, 0.97))]
    + [(0.07, 4, None), (0.07, None, 5), (0.97, 4, 5)],
)
def test_poisson_batches_have_the_right_law(rate, room, block, monkeypatch):
    """Rows are binomial, and so is the size; in many pieces or blocks too."""
    if block is not None:
        monkeypatch.setattr(coins, "_WORDS_AT_ONCE", block)
    batches, n, draws = PoissonBatches(np.random.default_rng(0), 300, rate), 300, 1000
    if room is not None:
        batches._members = np.empty(room, dtype=np.int64)
    members = np.zeros((draws, n), dtype=bool)
    for row in members:
        batch = batches.draw()
        assert batch.dtype == np.int64
        assert (np.diff(batch) > 0).all()
        row[batch] = True
    counts, sizes = members.sum(axis=0), members.sum(axis=1)
    variance = rate * (1 - rate)
    assert stats.binomtest(int(counts.sum()), n * draws, rate).pvalue > 1e-4
    assert abs(sizes.var() / (n * variance) - 1) < 5 * np.sqrt(2 / draws)
    chi2 = ((counts - draws * rate) ** 2).sum() / (draws * variance)
    assert 1e-4 < stats.chi2.sf(chi2, n) < 1 - 1e-4
    # Neighbours and rows far apart are uncorrelated, in one batch and across batches.
    centred = (members - rate) / np.sqrt(variance)
    for lag in (1, 2, 3, 7, 100):
        pairs = (centred[:, lag:] * centred[:, :-lag]).mean()
        assert abs(pairs) < 5 / np.sqrt(draws * (n - lag))
    assert abs((centred[1:] * centred[:-1]).mean()) < 5 / np.sqrt(draws * n)


def test_one_row_more_does_not_change_the_members_before_it():
    """A row that joins at the end has a coin of its own."""
    for rate in (0.01, 0.4):
        one, other = (
            PoissonBatches(np.random.default_rng(5), n, rate).draw().tolist()
            for n in (3_000, 3_001)
        )
        assert other in (one, [*one, 3_000])


def test_uniform_batch():
    def rows(n_rows, size):
        query = SimpleNamespace(n_rows=n_rows, public_gradient=lambda theta, rows: rows)
        return padded_gradient(query, np.random.default_rng(0), size)(None).tolist()

    assert rows(5, None) == rows(5, 9) == [0, 1, 2, 3, 4]
    assert len(set(rows(100, 10))) == 10


def test_projection_onto_the_ball():
    rule = HeavyBall(1.0, 0.0, 10, radius=2.0, stds=np.zeros(10))
    theta = rule.update(np.zeros(2), np.zeros(2), np.array([-30.0, -40.0]), 0)
    np.testing.assert_allclose(theta, [1.2, 1.6])


def test_divergence_is_relative_to_the_start():
    with pytest.warns(UserWarning, match=r"exceeds 2e\+05, so"):  # 20 times the usual
        warn_of_divergence(np.array([3e5]), np.array([20.0]))


def test_a_gap_beyond_the_rows_ends_the_batch(monkeypatch):
    """The first word does not decide the gap; the following words make it longer."""
    words = itertools.chain([0, 0], itertools.repeat(2**64 - 1))

    def given(generator, size):
        return np.full(size, next(words), dtype=np.uint64)

    monkeypatch.setattr(coins, "random_words", given)
    rate = -np.expm1(-1e-3)  # gaps of 44,361 at least, and in fact of 88,722
    assert not len(PoissonBatches(None, 50_000, rate).draw())
    assert next(words) == 2**64 - 1
