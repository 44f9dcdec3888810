"""Scripts of paper 1 and its successors: their lemmas hold, and they run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, softmax

FOLDER = Path(__file__).parents[1] / "benchmarks" / "reproduce"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not FOLDER.exists(),
        reason="the benchmarks are not part of an installed package",
    ),
]


@pytest.fixture(scope="module")
def scripts():
    """Import the modules of the folder, and leave no trace of it on the path."""
    sys.path.insert(0, str(FOLDER))
    try:
        import excess_risk
        import successors_features
    finally:
        sys.path.remove(str(FOLDER))
    return excess_risk, successors_features


@pytest.fixture(scope="module")
def excess_risk(scripts):
    return scripts[0]


@pytest.fixture(scope="module")
def successors(scripts):
    return scripts[1]


def quick(name, tmp_path, *options):
    """Run a script in quick mode; return its cells and what it printed."""
    path = tmp_path / "found.json"
    found = subprocess.run(
        [
            sys.executable,
            str(FOLDER / name),
            "--quick",
            "--output",
            str(path),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    return json.loads(path.read_text(encoding="utf-8")), found.stdout


class TestExcessRisk:
    """Theorem 2.4: the bound, the minimum, and where the printed theorem fails."""

    @pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 1.0])
    def test_no_private_gradient_is_longer_than_its_bound(self, excess_risk, share):
        X, y = excess_risk.problem(200)
        d, radius = excess_risk.D, excess_risk.RADIUS
        public = np.arange(d) >= round(share * d)
        rng = np.random.default_rng(0)
        directions = np.vstack([rng.normal(size=(200, d)), X, -X])
        # Extremes lie on single rows, with more or less weight on the private part.
        for scale in (1.0, 0.5, 0.1):
            tilted = directions.copy()
            tilted[:, public] *= scale
            weights = radius * tilted.T / np.linalg.norm(tilted, axis=1)
            for labels in (y, 1 - y):
                residual = expit(X @ weights) - labels[:, None]
                known = expit(X[:, public] @ weights[public]) - labels[:, None]
                gradients = np.sqrt(
                    (residual - known) ** 2 * (X[:, public] ** 2).sum(axis=1)[:, None]
                    + residual**2 * (X[:, ~public] ** 2).sum(axis=1)[:, None]
                )
                bound = excess_risk.lipschitz(share)
                assert gradients.max() <= bound * (1 + 1e-12)
        if share == 1.0:
            assert gradients.max() > 0.999 * bound

    def test_contributions_are_the_clipped_difference(self, excess_risk):
        X, y = excess_risk.problem(50)
        rng = np.random.default_rng(1)
        weights = rng.normal(size=(excess_risk.D, 3))
        public = np.arange(excess_risk.D) >= 8
        a, b, known, factor = excess_risk.contributions(
            X, y, public, weights, 0.3, True
        )
        assert (factor < 1).any() and (factor == 1).any()
        for i in range(50):
            for k in range(3):
                w, padded = weights[:, k], np.where(public, X[i], 0.0)
                whole = (expit(X[i] @ w) - y[i]) * X[i]
                known_part = (expit(padded @ w) - y[i]) * padded
                expected = whole - known_part
                expected *= min(1.0, 0.3 / np.linalg.norm(expected))
                found = np.where(public, a[i, k], b[i, k]) * X[i]
                np.testing.assert_allclose(found, expected, atol=1e-12)
                np.testing.assert_allclose(known[i, k] * padded, known_part, atol=1e-12)

    @pytest.mark.parametrize("slope", [0.0, 1.0, 10.0])
    def test_the_minimum_is_one(self, excess_risk, slope):
        X, y = excess_risk.problem(300)
        slope = np.full(excess_risk.D, slope / excess_risk.D**0.5)
        best = excess_risk.minimum(X, y, slope)
        assert np.linalg.norm(best) <= excess_risk.RADIUS * (1 + 1e-9)
        gradient = X.T @ (expit(X @ best) - y) / len(y) + slope
        multiplier = np.linalg.norm(gradient) / np.linalg.norm(best)
        if np.linalg.norm(best) < excess_risk.RADIUS * (1 - 1e-9):
            multiplier = 0.0
        np.testing.assert_allclose(gradient, -multiplier * best, atol=1e-9)

    def test_the_bound_falls_as_it_should(self, excess_risk):
        facts = excess_risk.setting(4000, 0.5, 0.5, 1.0)
        assert facts["step"] <= excess_risk.LARGEST_STEP
        longer = excess_risk.setting(8000, 0.5, 0.5, 1.0)
        assert longer["bound"] == pytest.approx(facts["bound"] / 2, rel=0.02)
        free = excess_risk.setting(4000, 0.5, 0.0, 1.0)
        assert free["noise_std"] == 0

    def test_the_quick_run(self, tmp_path):
        found, output = quick("excess_risk.py", tmp_path)
        verdict = found["verdict"]
        assert verdict["above_the_bound"] == []
        assert verdict["n_cells"] == 6
        power = verdict["mean_power_of_lipschitz"]
        assert power["bound"] == pytest.approx(1, abs=1e-6)
        assert power["algorithm 1"] > 1
        kink = found["cells"]["kink | 100000"]
        assert kink["excess"] > 0.8 > 1e4 * kink["printed"]
        assert "bound" in output
        assert (tmp_path / "found.png").stat().st_size > 10_000


class TestSuccessors:
    """Hybrids."""

    def test_flips_are_taken_out(self, successors):
        """The model of flipped labels is that of the labels, up to their noise."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, size=(20_000, 2))
        truth = softmax(X @ [[4.0, 0.0, -2.0], [0.0, 2.0, -2.0]], axis=1)
        y = (rng.random((len(X), 1)) > truth.cumsum(axis=1)).sum(axis=1)
        told = successors.flipped(y, np.full((len(X), 3), 1 / 3), 1.0, rng)
        keep = np.e / (np.e + 2)
        assert (told == y).mean() == pytest.approx(keep, abs=0.02)
        wide = (-1.0, 1.0)
        model = successors.Unflipped(keep, np.arange(3), wide).fit(X, told)
        apart = np.abs(model.predict_proba(X) - truth).mean()
        assert apart < 0.03
        believed = successors.Unflipped(1.0, np.arange(3), wide).fit(X, told)
        assert np.abs(believed.predict_proba(X) - truth).mean() > 3 * apart

    def test_a_hybrid_starts_at_its_first_model(self, successors):
        """Which sees the public columns in the units of the table."""
        from skfdp import FeatureDPLogisticRegression

        rng = np.random.default_rng(0)
        X = rng.uniform(20, 90, size=(3000, 2))
        y = (X[:, 0] + 10 * rng.normal(size=3000) > 55).astype(int)
        split = successors.Split(X, y, X, y, (0, 100))
        known = successors.public_part(split, [0])
        first = successors.first_model(known, np.arange(2), 8.0, 0, False)
        assert (first.predict_proba(known.X).argmax(axis=1) == y).mean() > 0.8
        model = FeatureDPLogisticRegression(
            0.01,
            public_features=[0],
            public_model=first,
            bounds=(0, 100),
            classes=[0, 1],
            random_state=0,
        )
        assert model.fit(X, y).score(X, y) > 0.8

    def test_the_quick_run(self, tmp_path):
        found, output = quick("successors_features.py", tmp_path)
        names = {key.split(" | ")[0] for key in found["cells"]}
        assert names == {"chua"}
        assert "hybrid" in output
        assert all(0 < value["log_loss"] < 1 for value in found["cells"].values())
