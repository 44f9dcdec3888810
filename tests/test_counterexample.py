"""The counterexample of paper 2, section 4: its lower bound, and the gallery page."""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from skfdp.privacy import gdp_mu

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "examples" / "checks" / "plot_counterexample.py"


def bound(kappa):
    """Return the least expected hinge loss that the lemma of the docs allows."""
    return norm.cdf(
        brentq(lambda a: norm.logpdf(a) - norm.logcdf(a) - np.log(kappa), -1e3, 37)
    )


def expected_loss(mean, std):
    """Return E (1 - N(mean, std**2))_+ by quadrature."""

    def value(z):
        return max(1 - mean - std * z, 0) * norm.pdf(z)

    return quad(value, -12, 12, points=[min(max((1 - mean) / std, -12), 12)])[0]


@pytest.mark.parametrize("kappa", [0.05, 0.24, 1.0, 3.0])
def test_no_schedule_is_below_the_bound(kappa):
    """Steps 2 and 3 of the proof: random steps and noises, and the best ones."""
    rng = np.random.default_rng(0)
    least = np.inf
    for _ in range(200):
        n_steps = rng.integers(1, 6)
        # The signal of a step is kappa, and the precisions of the noise add up to 1.
        precision = rng.dirichlet(np.ones(n_steps))
        steps = rng.exponential(size=n_steps) * 10 ** rng.uniform(-2, 2)
        if rng.random() < 0.5:
            steps = precision * 10 ** rng.uniform(-1, 1)  # Cauchy and Schwarz is sharp
        mean, std = kappa * steps.sum(), np.sqrt((steps**2 / precision).sum())
        least = min(least, expected_loss(mean, std))
    assert least >= bound(kappa) - 1e-7
    assert least <= bound(kappa) + 0.02  # the bound is not loose, either
    assert bound(kappa) > norm.cdf(-kappa)


def test_the_loss_is_no_less_than_that_of_the_second_weight():
    """Step 1, with an intercept."""
    rng = np.random.default_rng(0)
    offset, w, b = rng.normal(size=(3, 1000, 1)) * 3
    second = rng.normal(size=(1000, 1)) * 2
    sides = np.array([1, -1])
    margins = sides * (w * offset + b) + second
    loss = np.maximum(1 - margins, 0).mean(axis=1)
    assert (loss >= np.maximum(1 - second[:, 0], 0) - 1e-12).all()


def test_projection_raises_the_loss_of_a_row_inside_the_cube():
    """Equation (4) of section 6 holds for the rows of the proof, not for the cube."""

    def loss(theta, x, y):
        return max(1 - y * (2 * theta @ x - 1), 0)

    theta, inside = np.array([2.0, 0.0]), np.array([0.5, 0.5])
    assert loss(theta, inside, 1) == 0
    assert loss(np.clip(theta, 0, 1), inside, 1) == 1
    rng = np.random.default_rng(0)
    for theta in rng.normal(size=(500, 3)) * 2:
        for x in (*np.eye(3), np.zeros(3)):
            for y in (1, -1):
                assert loss(np.clip(theta, 0, 1), x, y) <= loss(theta, x, y)


def test_the_page_shows_failure_and_success(monkeypatch, capsys):
    if not PAGE.exists():
        pytest.skip("the examples are not beside the tests")
    monkeypatch.setitem(os.environ, "MPLBACKEND", "agg")
    page = runpy.run_path(str(PAGE))
    plain, default, adaptive = (np.array(found) for found in page["losses"].values())
    ratios, n = page["ratios"], page["n"]
    mu = gdp_mu(page["epsilon"], page["delta"])
    kappas = n * mu / np.sqrt((ratios * n * page["epsilon"]) ** 2 + 1)
    limits = np.array([bound(kappa) for kappa in kappas])
    assert (plain >= limits - 0.05).all()
    np.testing.assert_allclose(
        np.interp(
            np.log(kappas), np.log(page["kappa"][::-1]), norm.cdf(page["a"][::-1])
        ),
        limits,
        atol=0.01,
    )
    past = ratios >= 0.99
    assert (plain[past] > 0.9).all()
    assert adaptive[ratios < 110].max() < 0.2
    assert default[ratios < 0.04].max() < 0.1
    # What the report says was spent is no more than every family may spend.
    assert page["fitted"].privacy_.epsilon <= page["epsilon"]
    assert "PRIVACY STATEMENT" in capsys.readouterr().out
