"""Comparisons of models on one released table: sensitivity, charge and coverage."""

import math

import numpy as np
import pytest
from scipy.special import expit

from skfdp import (
    FeatureDPLogisticRegression,
    PrivacyBudgetError,
    PrivacyLedger,
    compare_private,
    private_score,
    report,
)
from skfdp.privacy.events import Relation
from skfdp.queries.statistics import ScoreTable
from skfdp.solvers.score import Layout, Model, table_of

ACCURACY = "b - a", "accuracy"
ALL = ["accuracy", "roc_auc", "log_loss", "brier_score"]


class Fixed:
    """A model that is no result of records: probabilities by one column."""

    def __init__(self, column, slope=4.0):
        self.column, self.slope = column, slope
        self.classes_ = np.array([0, 1])

    def predict_proba(self, X):
        share = expit(self.slope * (np.asarray(X, dtype=float)[:, self.column] - 0.5))
        return np.column_stack([1 - share, share])

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)


class Constant:
    """A regressor of one column."""

    def __init__(self, shift):
        self.shift = shift

    def predict(self, X):
        return np.asarray(X, dtype=float)[:, 0] + self.shift


def records(n, rng):
    """Return rows whose two columns tell the label, the first one better."""
    X = rng.random((n, 2))
    odds = 5 * (X[:, 0] - 0.5) + 3 * (X[:, 1] - 0.5)
    return X, (rng.random(n) < expit(odds)).astype(int)


PAIR = {"a": Fixed(1), "b": Fixed(0)}
PUBLIC = {"model_is_public": True}


def compare(X, y, epsilon=1.0, models=None, **options):
    return compare_private(models or PAIR, X, y, epsilon, **(PUBLIC | options))


def layout_of(metrics, n_models, counts_are_public=True, threshold=0.5):
    edges = (0.2, threshold, 0.8) if "roc_auc" in metrics else (threshold,)
    bounds = {"log_loss": 4.0, "brier_score": 1.0}
    return Layout(
        task="two classes",
        metrics=tuple(metrics),
        n_classes=2,
        edges=edges,
        threshold=threshold,
        bounds={name: bounds[name] for name in metrics if name in bounds},
        counts_are_public=counts_are_public,
        n_models=n_models,
    )


def rows_of(layout, X, y, n_models):
    """Return what each record adds to the joint table."""
    models = [
        Model(Fixed(j % 2, 9 - j), "two classes", np.array([0, 1]), by)
        for j, by in zip(range(n_models), ["predict_proba"] * 3, strict=False)
    ]
    cells, losses = layout.joined([table_of(m, layout, X, y) for m in models])
    found = ScoreTable.planned(layout.n_cells, losses.shape[1])
    return [
        ScoreTable(
            cells[[r]], losses[[r]], np.zeros(1, int), found.n_cells, 1, 1
        ).exact_sum(None, None, 2.0**-20)[0]
        * 2.0**-20
        for r in range(len(y))
    ]


@pytest.mark.parametrize("n_models", [2, 3])
@pytest.mark.parametrize("metrics", [ALL[:1], ALL[:2], ALL[2:], ALL])
def test_no_neighbour_moves_the_joint_table_by_more_than_the_sensitivity(
    metrics, n_models
):
    """Brute force over records: replaced, nulled, added or removed."""
    grid = np.array([-9.0, 0.1, 0.49, 0.51, 0.9, 9.0, np.nan])
    X = np.array([[a, b] for a in grid for b in grid for _ in (0, 1, 7)])
    y = np.tile([0, 1, 7], len(grid) ** 2)  # 7 is no class of the models
    layout = layout_of(metrics, n_models)
    added = np.array(rows_of(layout, X, y, n_models))
    query = layout.planned(1, 10)
    assert query.shape[1] == added.shape[1]
    moved = np.linalg.norm(added[:, None] - added[None], axis=2).max()
    alone = np.linalg.norm(added, axis=1).max()
    assert moved <= query.sensitivity(Relation.of("replace_one")) + 1e-9
    for relation in ("replace_special", "add_or_remove_one"):
        assert alone <= query.sensitivity(Relation.of(relation)) + 1e-9
    n_pairs = n_models * (n_models - 1) // 2
    n_losses = n_pairs * len({"log_loss", "brier_score"} & set(metrics))
    n_counts = 2 * (len({"accuracy", "roc_auc"} & set(metrics)) > 0)
    wanted = math.sqrt(n_counts + 1.25 * n_losses)
    assert query.sensitivity(Relation.of("replace_one")) == pytest.approx(wanted)
    assert moved > 0.7 * wanted


def check_noise(seed_of):
    """The released table is off the exact one by the noise that was charged."""
    X, y = records(200, np.random.default_rng(0))
    options = {"metrics": ["accuracy"]}
    seeds = range(120)
    with pytest.warns(UserWarning, match="random_state is an int"):
        fits = [compare(X, y, random_state=seed_of(one), **options) for one in seeds]
    right = [np.asarray(one.predict(X)) == y for one in PAIR.values()]
    cells = np.bincount(2 - 2 * right[1] + 1 - right[0], minlength=4)
    error = np.array([one.table for one in fits]) - cells
    event = fits[0].privacy_.events[0]
    assert fits[0].noise_std == pytest.approx(float(event.noise_std[0]))
    assert event.sensitivity == pytest.approx(math.sqrt(2))
    assert np.sqrt((error**2).mean()) == pytest.approx(fits[0].noise_std, rel=0.15)


def test_the_noise_is_that_of_the_event():
    check_noise(lambda seed: seed)


def test_sabotage_of_the_noise_is_noticed(monkeypatch):
    from skfdp.mechanisms import release

    own = release.Mechanism.release

    def half(self, label, query, theta=None):
        exact = query.exact_sum(theta, None, 1.0)
        return exact + (own(self, label, query, theta) - exact) / 2

    monkeypatch.setattr(release.Mechanism, "release", half)
    with pytest.raises(AssertionError):
        check_noise(lambda seed: seed)


def truth(metric, n=400_000):
    X, y = records(n, np.random.default_rng(1))
    from sklearn.metrics import roc_auc_score

    found = []
    for model in PAIR.values():
        share = model.predict_proba(X)[:, 1]
        own = np.where(y == 1, share, 1 - share)
        found.append(
            {
                "accuracy": lambda: ((share > 0.5) == y).mean(),  # noqa: B023
                "roc_auc": lambda: roc_auc_score(y, share),  # noqa: B023
                "log_loss": lambda: -np.log(own).mean(),  # noqa: B023
                "brier_score": lambda: ((1 - own) ** 2).mean(),  # noqa: B023
            }[metric]()
        )
    return found[1] - found[0]


@pytest.mark.slow
@pytest.mark.parametrize("metrics", [["accuracy"], ["roc_auc"], ALL[2:]])
def test_intervals_of_differences_cover(metrics):
    rng = np.random.default_rng(3)
    n_tables, hits = 120, {name: 0 for name in metrics}
    true = {name: truth(name) for name in metrics}
    for _ in range(n_tables):
        found = compare(*records(1500, rng), epsilon=2.0, metrics=metrics)
        for name in metrics:
            low, high = found.intervals["b - a", name]
            hits[name] += low <= true[name] <= high
    for name, count in hits.items():
        # Three binomial standard errors. That of the AUC covers both orders in a bin.
        assert count / n_tables >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / n_tables), name
        assert name == "roc_auc" or count < n_tables, name


def test_one_comparison_is_narrower_than_two_scores():
    X, y = records(4000, np.random.default_rng(0))
    X = np.column_stack([X @ [0.7, 0.3], X @ [0.5, 0.5]])  # much alike, as models are
    for metrics in (["accuracy"], ["log_loss"], ["roc_auc"]):
        low, high = compare(X, y, metrics=metrics).intervals["b - a", metrics[0]]
        apart = [
            private_score(one, X, y, 0.5, metrics=metrics, model_is_public=True)
            for one in PAIR.values()
        ]
        widths = [np.diff(one.intervals[metrics[0]])[0] for one in apart]
        assert high - low < 0.9 * math.hypot(*widths), metrics


def test_three_models_and_regressors_have_pairs():
    rng = np.random.default_rng(0)
    X, y = records(3000, rng)
    found = compare(X, y, models={**PAIR, "c": Fixed(0, 1.0)}, metrics=ALL)
    assert [*found.values] == [
        (pair, name) for pair in ("b - a", "c - a", "c - b") for name in ALL
    ]
    assert "PrivateComparison: epsilon=1" in repr(found)
    assert "b - a: accuracy 0." in repr(found)
    assert abs(found.values["c - b", "accuracy"]) < 0.1  # the same order of scores
    target = X[:, 0] + rng.normal(size=len(X)) / 10
    models = {"near": Constant(0.0), "far": Constant(0.5)}
    found = compare(X, target, models=models, error_bound=1.0)
    low, high = found.intervals["far - near", "mean_absolute_error"]
    assert low < 0.42 < high
    low, high = found.intervals["far - near", "mean_squared_error"]
    assert low < 0.25 < high


def test_the_ledger_is_charged_once_before_any_prediction():
    X, y = records(3000, np.random.default_rng(0))
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    models = {
        name: FeatureDPLogisticRegression(
            1.0, bounds=(0, 1), classes=[0, 1], ledger=ledger
        ).fit(X[rows], y[rows])
        for name, rows in [("a", slice(1500)), ("b", slice(1000))]
    }
    found = compare_private(models, X[1500:], y[1500:], 1.0, ledger=ledger)
    assert report(ledger).n_fits == 3
    assert found.privacy_.subject.startswith("compare_private of FeatureDP")
    assert any("ledger" in one.text for one in found.privacy_.assumptions)
    spent = ledger.spent()
    with pytest.raises(PrivacyBudgetError):
        compare_private(models, X[1500:], y[1500:], 30.0, ledger=ledger)
    assert ledger.spent() == spent
    with pytest.raises(ValueError, match="is not the result of a private fit"):
        compare_private({**models, "c": Fixed(0)}, X, y, 1.0)


def test_persons_are_protected_together():
    X, y = records(3000, np.random.default_rng(0))
    found = compare(X, y, groups=np.arange(3000) // 3, metrics=["accuracy"])
    assert found.n_records == 1000
    assert found.privacy_.unit == "person"
    low, high = found.intervals[ACCURACY]
    assert low < found.values[ACCURACY] < high


@pytest.mark.parametrize(
    "models, options, message",
    [
        ([Fixed(0), Fixed(1)], {}, "must be a dictionary of two or three"),
        ({"a": Fixed(0)}, {}, "must be a dictionary of two or three"),
        ({"a": Fixed(0), "b": Constant(0)}, {}, "differ in their classes"),
        (PAIR, {"metrics": "recall"}, "metrics='recall' must be some of"),
        (PAIR, {"by": 0}, "by=0 is not a parameter of a comparison"),
    ],
)
def test_what_cannot_be_compared_is_refused(models, options, message):
    X, y = records(50, np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        compare(X, y, models=models, **options)
