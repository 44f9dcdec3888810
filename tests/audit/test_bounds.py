"""Audits of private bounds: nothing but what was released tells neighbours apart."""

import numpy as np
import pytest

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, FeatureDPRegressor
from skfdp import bounds as solver
from skfdp.audit import audit_replay
from skfdp.bounds import PrivateBoundsRelease
from skfdp.queries.statistics import BinCounts
from skfdp.solvers import NoisyGradientDescent, NoisySGD

pytestmark = [
    pytest.mark.filterwarnings("ignore::skfdp.UtilityWarning"),
    pytest.mark.filterwarnings("ignore::skfdp.PrivacyWarning"),
]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * [1, 100, 1e6, 0.01] + [0, 500, 0, 1]
Y = np.arange(60) % 2
SHORT = {
    "epsilon": 20.0,
    "bounds": "private",
    "solver": NoisyGradientDescent(max_iter=2),
}
FITS = {
    "classifier": (FeatureDPLogisticRegression, {"classes": [0, 1]}),
    "orthant": (
        FeatureDPLogisticRegression,
        {"public_target": True, "public_features": [3], "centering": None},
    ),
    "batches": (
        DPSGDFClassifier,
        {"classes": [0, 1], "solver": NoisySGD(batch_size=20)},
    ),
    "regressor": (FeatureDPRegressor, {"target_bounds": (-2, 2)}),
}
RELATIONS = ("replace_one", "replace_special")


def alone(relation="replace_one"):
    return PrivateBoundsRelease(20.0, neighboring_relation=relation)


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", FITS)
def test_replays_of_fits_find_nothing(name, relation):
    kind, params = FITS[name]
    model = kind(neighboring_relation=relation, **(SHORT | params))
    found = audit_replay(model, X, Y, n_neighbors=10)
    assert found.passed, str(found)
    moved = {one.label: one.largest for one in found.releases}
    # some neighbour moves each of the counts as far as is said
    assert moved["binades"] == pytest.approx(1.0)
    assert moved["bins"] == pytest.approx(1.0)


@pytest.mark.parametrize("relation", RELATIONS)
def test_replays_of_bounds_alone_find_nothing(relation):
    found = audit_replay(alone(relation), X)
    assert found.passed, str(found)
    assert found.lower_bound == pytest.approx(found.claimed_epsilon, rel=1e-6)


def exact_counts(monkeypatch):
    honest, start, leaked = solver.fine_bounds, BinCounts.exact_sum, {"missing": 0}

    def fine_bounds(told, edges):
        low, high = honest(told, edges)
        return low, high + (high - low) * leaked["missing"]

    def exact_sum(self, theta, batch, unit):
        leaked["missing"] = int(np.isnan(self.X).sum())
        return start(self, theta, batch, unit)

    monkeypatch.setattr(solver, "fine_bounds", fine_bounds)
    monkeypatch.setattr(BinCounts, "exact_sum", exact_sum)


def columns_dropped(monkeypatch):
    monkeypatch.setattr(BinCounts, "clip_norm", property(lambda self: 1.0))
    monkeypatch.setattr(BinCounts, "sensitivity", lambda _, r: r.sensitivity(1, 2**0.5))


def a_look_at_rows(monkeypatch):
    honest = solver.released

    def released(records, plan, mechanism):
        one, *others = honest(records, plan, mechanism)
        peeked = bool((np.abs(np.nan_to_num(records.X)) > 1e200).any())
        return [(one[0], one[1] ^ peeked), *others]

    monkeypatch.setattr(solver, "released", released)


@pytest.mark.parametrize("leak", [exact_counts, columns_dropped, a_look_at_rows])
def test_planted_leaks_are_found(leak, monkeypatch):
    leak(monkeypatch)
    assert not audit_replay(alone(), X).passed


def test_a_middle_that_private_rows_choose_is_found(monkeypatch):
    """Bounds of the rows in place of the placeholder of a plan."""
    honest = solver.BoundsFirst.run

    def run(self, records, prepared, plan, mechanism, on_step):
        fit = honest(self, records, prepared, plan, mechanism, on_step)
        fit.input_scaler.low[0] += np.isnan(records.X).any()
        return fit

    monkeypatch.setattr(solver.BoundsFirst, "run", run)
    kind, params = FITS["classifier"]
    missing = X.copy()
    missing[5] = np.nan
    model = kind(**(SHORT | params))
    assert not audit_replay(model, X, Y, neighbors=[(missing, Y)]).passed
