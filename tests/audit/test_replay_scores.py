"""Private scores under replay: on neighbours nothing else differs than the table."""

import numpy as np
import pytest

from skfdp import metrics as module
from skfdp import private_score
from skfdp.audit import audit_replay
from skfdp.base import PrivateEstimator
from skfdp.privacy import RELATIONS, AddOrRemoveOne
from skfdp.queries.statistics import ScoreSum

METRICS = ("accuracy", "confusion_matrix", "roc_auc", "log_loss", "brier_score")


class Fixed:
    """A public model of two classes: the first column is a probability."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        p = np.asarray(X, dtype=float)[:, 0]
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)


class ScoreOnly(PrivateEstimator):
    """An estimator whose fit is one private score."""

    classes = (0, 1)

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-3,
        *,
        neighboring_relation="replace_one",
        more=None,
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.neighboring_relation = neighboring_relation
        self.more = more
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X, y):
        settings = self.get_params(deep=False)
        more = settings.pop("more")
        score = private_score(Fixed(), X, y, model_is_public=True, **settings, **more)
        self.values_, self.intervals_ = score.values, score.intervals
        self.matrix_, self.table_ = score.confusion_matrix, score.table
        self.privacy_ = score.privacy_
        return self


OTHERS = [(p, k) for p in (0.0, 0.6, 1.0, -9, 7) for k in (0, 1)]
OTHERS += [(np.nan, 1), (np.inf, 0), (0.5, None), (0.5, "nobody"), (1e308, 7)]


def replayed(relation="replace_one", **more):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), rng.integers(0, 2, 40).astype(object)
    pairs = []
    for value, label in OTHERS:
        own, labels = X.copy(), y.copy()
        own[0, 0], labels[0] = value, label
        pairs.append((own, labels))
    if relation == "add_or_remove_one":
        relation = AddOrRemoveOne(40)
        pairs = [(X[:-1], y[:-1])]
    model = ScoreOnly(neighboring_relation=relation, more=more)
    return audit_replay(model, X, y, neighbors=pairs)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("metrics", ["roc_auc", "accuracy", "all"])
def test_nothing_but_the_table_tells_of_a_record(relation, metrics):
    chosen = METRICS if metrics == "all" else (metrics,)
    result = replayed(relation, metrics=list(chosen))
    assert result.passed, str(result)
    (moved,) = result.releases
    assert moved.label == "scores" and moved.largest <= 1 + 1e-9
    if relation == "replace_one":
        assert moved.largest > (0.94 if metrics == "all" else 0.99)


def test_groups_by_a_public_column():
    result = replayed(by=1, metrics=["accuracy"])
    assert result.passed, str(result)


def test_a_missing_root_of_two_is_seen(monkeypatch):
    monkeypatch.setattr(ScoreSum, "sensitivity", lambda self, relation: 1.0)
    result = replayed(metrics=["roc_auc"])
    assert [one.kind for one in result.differences] == ["distance"]


def test_a_table_whose_cells_follow_the_scores_is_seen(monkeypatch):
    planned = module._planned

    def by_rows(layout, scored, *more):
        layout, query, *rest = planned(layout, scored, *more)
        if np.nanmax(scored.X[:, 0]) > 2:
            object.__setattr__(query, "n_cells", query.n_cells + 2)
        return layout, query, *rest

    monkeypatch.setattr(module, "_planned", by_rows)
    assert not replayed(metrics=["roc_auc"]).passed
