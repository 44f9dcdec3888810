"""Private scores where all rows of a person are protected together, or are weighted."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score

from skfdp import (
    DPSGDFClassifier,
    PrivacyBudgetError,
    PrivacyLedger,
    make_private_scorer,
    private_score,
    report,
)
from skfdp.data.units import Units
from skfdp.privacy import AddOrRemoveOne, Relation
from skfdp.privacy.assumptions import WEIGHTS_ARE_PUBLIC
from skfdp.queries.statistics import ScoreTable
from skfdp.queries.weighted import Weighted


class Says:
    """A public model of two classes, which says what the first column is."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0.5).astype(int)

    def predict_proba(self, X):
        p = np.asarray(X)[:, 0]
        return np.column_stack([1 - p, p])


def score(X, y, epsilon=1.0, **given):
    """Return a seeded score of the public model, without the warning."""
    given = {"model_is_public": True, "random_state": 0} | given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return private_score(Says(), X, y, epsilon, **given)


@pytest.fixture
def panel():
    """900 rows of 300 persons, one to seven for each."""
    rng = np.random.default_rng(1)
    groups = np.r_[np.arange(300), rng.integers(0, 120, 600)]
    X = rng.random((900, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=900) > 0.5).astype(int)
    return X, y, groups


MODEL = DPSGDFClassifier(bounds=(0, 1), classes=[0, 1])


def named(X, groups):
    """Return the rows as a frame with a column of persons."""
    return pd.DataFrame(X, columns=["a", "b"]).assign(who=groups)


def table(cells, losses, group, units):
    """Return the weighted table of four rows."""
    own = ScoreTable(
        np.array(cells), np.array(losses).reshape(-1, 1), group, 3, 2, 1024 * 4
    )
    return Weighted(own, units)


@pytest.mark.parametrize("weights", [[512] * 4, [1024, 1024, 1024, 3]])
@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
def test_nobody_moves_the_table_further_than_is_said(relation, weights):
    """Also somebody with rows in two groups of `by`: one charge covers both."""
    units = Units(np.array(weights), np.array([0, 0, 1, 1]))
    group, relation = np.array([0, 1, 0, 0]), Relation(relation)
    choices = list(itertools.product([0, 1, 2], [0.0, 0.4, 1.0, math.nan]))
    largest, others = {0: 0.0, 1: 0.0}, [(0, 0.0), (1, 1.0)]
    for person in (0, 1):
        totals = []
        for own in itertools.product(choices, repeat=2):
            full = [*own, *others] if person == 0 else [*others, *own]
            query = table(*zip(*full, strict=True), group, units)
            unit = query.unit(1.0)
            totals.append(query.exact_sum(None, None, unit).ravel() * unit)
        rest = np.flatnonzero(units.persons != person)
        left = query.exact_sum(None, rest, unit).ravel() * unit
        for one in totals:
            compared = totals if relation.replaces else [left]
            moved = np.linalg.norm(one - compared, axis=1).max()
            largest[person] = max(largest[person], moved)
    bound = query.sensitivity(relation)
    assert max(largest.values()) <= bound * (1 + 1e-9)
    assert largest[1] > (0.9 if weights[2] == weights[3] else 0.4) * bound


def test_persons_count_alike(panel):
    """The score is the mean over persons of the mean over their rows."""
    X, y, groups = panel
    right = Says().predict(X) == y
    truth = pd.Series(right).groupby(groups).mean().mean()
    found = score(X, y, 1e6, groups=groups)
    assert found.values["accuracy"] == pytest.approx(truth, abs=2e-3)
    assert found.confusion_matrix.sum() == pytest.approx(300, abs=1e-2)
    assert abs(truth - right.mean()) > 1e-3
    assert found.n_records == 300
    rows = score(X, y, 1e6, groups=groups, metrics="accuracy", sample_weight=1)
    assert rows.values["accuracy"] == pytest.approx(right.mean(), abs=1e-4)


def test_the_noise_is_that_of_persons(panel):
    X, y, groups = panel
    plain, alike = score(X, y), score(X, y, groups=groups)
    assert alike.noise_std == pytest.approx(plain.noise_std, rel=0.01)
    rows = score(X, y, groups=groups, sample_weight=np.ones(900))
    largest = np.bincount(groups).max() / 3
    assert rows.noise_std == pytest.approx(largest * plain.noise_std)
    (event,) = rows.privacy_.events
    assert event.unit == "person"
    assert event.sensitivity == pytest.approx(largest * math.sqrt(2))
    assert event.noise_std == (rows.noise_std,)


def test_groups_of_by_share_their_persons(panel):
    X, y, groups = panel
    sites = pd.Series(np.arange(900) % 2, name="site")
    found = score(X, y, 1e6, groups=groups, by=sites, metrics="accuracy")
    right = pd.Series(Says().predict(X) == y)
    share = 1 / np.bincount(groups)[groups]
    for site, one in found.by_value.items():
        own = sites.to_numpy() == site
        truth = np.average(right[own], weights=share[own])
        assert one.values["accuracy"] == pytest.approx(truth, abs=3e-3)
        assert one.n_records == len(np.unique(groups[own]))
    alone, several = (
        score(X, y, groups=groups, metrics="accuracy", by=by).privacy_.events[0]
        for by in (None, sites)
    )
    assert several.sensitivity == alone.sensitivity


def test_weights_alone(panel):
    X, y, _ = panel
    weights = np.random.default_rng(2).random(900)
    found = score(X, y, 1e6, sample_weight=weights, metrics="accuracy")
    truth = np.average(Says().predict(X) == y, weights=weights)
    assert found.values["accuracy"] == pytest.approx(truth, abs=1e-3)
    assert found.privacy_.unit == "record"
    told = {one.text: one.enforced for one in found.privacy_.assumptions}
    assert told[WEIGHTS_ARE_PUBLIC.text] is False
    plain = score(X, y, 1e6, metrics="accuracy").noise_std
    reach = weights.max() / weights.mean()
    assert found.noise_std == pytest.approx(reach * plain, rel=2e-3)


def test_a_column_tells_the_persons(panel):
    X, y, groups = panel
    frame, model = named(X, groups), clone(MODEL).set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, y, groups="who")
        given = {"epsilon": 1.0, "random_state": 0}
        found = private_score(model, frame, y, groups="who", **given)
        again = private_score(model, frame[["a", "b"]], y, groups=groups, **given)
    assert found.values == again.values
    said = " ".join(one.text for one in found.privacy_.assumptions)
    assert "The scored rows are not of the persons" in said


def test_one_ledger_counts_persons_and_refuses_records(panel):
    X, y, groups = panel
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    model = clone(MODEL).set_params(ledger=ledger).fit(X, y, groups=groups)
    private_score(model, X, y, 0.5, groups=groups, ledger=ledger)
    with pytest.raises(PrivacyBudgetError, match="pass groups to every fit"):
        private_score(model, X, y, 0.5, ledger=ledger)
    assert report(ledger).unit == "person"
    assert len(ledger.entries) == len(model.privacy_.events) + 1


@pytest.mark.parametrize(
    "given, match",
    [
        ({"groups": "who"}, "not the name of a column of X"),
        ({"groups": [1, 2]}, "groups must have one entry for each of the 900 rows"),
        ({"sample_weight": [1.0]}, "sample_weight has the shape"),
        (
            {"groups": np.arange(900), "neighboring_relation": AddOrRemoveOne(900)},
            "groups needs a public number of rows",
        ),
    ],
)
def test_bad_units_charge_nothing(given, match, panel):
    X, y, _ = panel
    ledger = PrivacyLedger()
    with pytest.raises(ValueError, match=match):
        score(X, y, ledger=ledger, **given)
    assert not ledger.entries


def test_scorers_take_the_name_of_a_column(panel):
    X, y, groups = panel
    frame, ledger = named(X, groups), PrivacyLedger(epsilon=9.0, delta=1e-5)
    scorer = make_private_scorer(epsilon=1.0, ledger=ledger, groups="who")
    model = clone(MODEL).set_params(ledger=ledger)
    how = {"cv": GroupKFold(2), "params": {"groups": "who"}, "error_score": "raise"}
    cross_val_score(model, frame, y, scoring=scorer, groups=groups, **how)
    assert report(ledger).unit == "person"
    assert report(ledger).n_fits == 4
    for given, match in (
        ({"groups": groups}, "must be the name of a column of X"),
        ({"sample_weight": groups}, "sample_weight=.* is not a parameter"),
    ):
        with pytest.raises(ValueError, match=match):
            make_private_scorer(epsilon=1.0, ledger=ledger, **given)


def coverage(n_persons, epsilon, weight=None, repeats=400):
    """Return how often determined intervals hold what very many persons would give.

    A person has 1 to 15 rows, with one label and one score. `weight` is None, for
    persons that count alike, or 1.
    """
    rng = np.random.default_rng(5)
    inside = {name: [] for name in ("accuracy", "roc_auc", "brier_score", "recall")}
    truth = None
    for repeat in range(repeats + 1):
        n = 200_000 if truth is None else n_persons
        sizes = np.minimum(rng.geometric(0.4, n), 15)
        groups = np.repeat(np.arange(n), sizes)
        draws = rng.normal(size=(2, n))[:, groups]
        y = (draws[0] > 0.3).astype(int)
        X = 1 / (1 + np.exp(-(draws[0] + draws[1])))[:, None]
        given = {"metrics": list(inside), "random_state": repeat}
        budget = 1e7 if truth is None else epsilon
        found = score(X, y, budget, groups=groups, sample_weight=weight, **given)
        if truth is None:
            truth = found.values
            continue
        for name, (low, high) in found.intervals.items():
            if not math.isnan(low):
                inside[name].append(low <= truth[name] <= high)
    return {name: float(np.mean(seen)) for name, seen in inside.items()}


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, 1])
@pytest.mark.parametrize(
    "n_persons, epsilon, repeats", [(400, 0.5, 80), (400, 3.0, 400), (3000, 1.0, 400)]
)
def test_intervals_cover_persons_whose_rows_are_alike(
    n_persons, epsilon, repeats, weight
):
    for name, share in coverage(n_persons, epsilon, weight, repeats).items():
        assert share >= 0.91, (name, share)  # no limit above: they are bounds


@pytest.mark.slow
def test_intervals_that_take_rows_for_independent_are_too_short(monkeypatch):
    from skfdp.solvers import score as module

    monkeypatch.setattr(module, "row_spread", lambda totals: 0.4)
    assert coverage(3000, 3.0)["accuracy"] < 0.9
