"""The benchmark of score intervals: its truths are scikit-learn's, and it counts."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, roc_auc_score

FOLDER = Path(__file__).parents[1] / "benchmarks" / "reproduce"

pytestmark = pytest.mark.skipif(
    not FOLDER.exists(), reason="the benchmarks are not part of an installed package"
)


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    found = importlib.import_module("score_intervals")
    monkeypatch.setattr(found, "POPULATION", 2**12)
    found.population.cache_clear()
    yield found
    del sys.modules["score_intervals"]


def test_truths_are_those_of_scikit_learn(script):
    X, y, model, metrics, truth = script.population("chosen on", "leaves")
    assert set(truth) == set(metrics) == set(script.TWO)
    p = X[:, 0]
    assert truth["roc_auc"] == pytest.approx(roc_auc_score(y, p))
    assert truth["accuracy"] == pytest.approx(accuracy_score(y, model.predict(X)))
    assert truth["brier_score"] == pytest.approx(brier_score_loss(y, p))
    for half in script.LAWS:
        for name in script.LAWS[half]:
            X, y, model, metrics, truth = script.population(half, name)
            assert len(X) == len(y) == 2**12
            assert np.isfinite(X).all() and np.isfinite(list(truth.values())).all()


def test_it_counts_what_the_intervals_hold(script):
    jobs = [("chosen on", name, 200, 3.0, 4) for name in ("normal", "normal errors")]
    results = dict(map(script.counted, jobs))
    for (_, name, *_), found in results.items():
        tried = 16 if "errors" in name else 4
        for metric, (n_scores, told, held) in found.items():
            assert n_scores == tried
            assert 0 <= held <= told <= tried, metric
    results |= {
        (*key[:2], n, epsilon): found
        for key, found in results.items()
        for n in script.SIZES
        for epsilon in script.EPSILONS
    }
    lines = list(script.lines(results, 4))
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("roc_auc                200") for line in lines)


def test_a_cell_leaves_out_what_is_undetermined(script):
    text, mean = script.cell([[100, 80, 76], [100, 0, 0]])
    assert mean == 95
    assert text.split() == ["95.0", "95-95", "60u"]
    assert script.cell([[5, 0, 0]])[0].strip() == "undetermined"
