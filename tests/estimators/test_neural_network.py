"""The network as a user of scikit-learn meets it, and its guarantee end to end."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from skfdp import FeatureDPMLPClassifier, PrivacyLedger
from skfdp.privacy import AddOrRemoveOne, compose
from skfdp.queries.linear import LinearQuery
from skfdp.queries.network import MLPQuery
from skfdp.solvers import (
    FeatureDPSGD,
    NoisySGD,
    NumpyBackend,
    Pretraining,
    TorchBackend,
)
from skfdp.solvers.descent import Descent
from skfdp.solvers.network import glorot

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning")
INFINITE = float("inf")
QUICK = {"hidden_layer_sizes": (8,), "bounds": (0, 1), "solver": NoisySGD(max_iter=6)}
BATCHES = {"solver": NoisySGD(max_iter=6, batch_size=100)}


def padded(kind):
    """Return the solver of Algorithm 1, soon done, on batches as without it."""
    return {"solver": FeatureDPSGD(public_loss=kind, max_iter=6, batch_size="auto")}


PUBLIC = {"public_features": [0, 1], "public_target": True}


def starts(**given):
    """Return the parameters of a start of public columns and a public target."""
    return PUBLIC | {"pretraining": Pretraining(**given)}


SUMS, NO_LOOP = {"pretraining": "class_sums"}, {"solver": "auto"}
SPECIAL = {"neighboring_relation": "replace_special"}
LAST, EVERY = {"trained_layers": "last"}, {"trained_layers": "all"}
COUNTED = {"neighboring_relation": AddOrRemoveOne(280)}
KINDS = {
    "everything private": {},
    "batches": BATCHES,
    "replace_special": SPECIAL,
    "add/remove": COUNTED | {"solver": NoisySGD(max_iter=6, batch_size=90)},
    "label": {"public_features": "all"} | padded("gaussian"),
    "pretrained": PUBLIC | {"pretraining": "public"},
    "public target": PUBLIC,
    "gaussian": PUBLIC | {"pretraining": None} | padded("gaussian"),
    "class sums, last layer": PUBLIC | SUMS | LAST,
    "class sums, all layers": PUBLIC | SUMS | EVERY | BATCHES,
    "impute": PUBLIC | SUMS | padded("impute"),
    "class sums alone": starts(start="class_sums", budget_share=1.0) | NO_LOOP,
    "linear alone": starts(budget_share=1.0) | NO_LOOP,
    "linear, all layers, special": starts(start="linear", budget_share=0.7)
    | (EVERY | SPECIAL | BATCHES),
}
each = pytest.mark.parametrize("more", KINDS.values(), ids=KINDS)


# -- the guarantee --------------------------------------------------------------------
def check_margins(model, X):
    """Check that margins, probabilities and labels are those of the weights."""
    hidden = model.input_scaler_(X) @ model.coefs_[0] + model.intercepts_[0]
    margins = np.maximum(hidden, 0) @ model.coefs_[1] + model.intercepts_[1]
    found, chances = model.decision_function(X), model.predict_proba(X)
    np.testing.assert_allclose(found, margins[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[chances.argmax(1)])


@each
def test_the_events_describe_the_releases_that_ran(more, small, releases):
    model = FeatureDPMLPClassifier(epsilon=2.0, **QUICK | more).fit(*small)
    late = {"linear model: temperature": 1, "descent": 2}  # as they run
    events = sorted(model.privacy_.events, key=lambda event: late.get(event.label, 0))
    steps = [(event, std) for event in events for std in event.step_stds]
    ran = [seen["std"] for seen in releases]
    np.testing.assert_array_equal(ran, [std for _, std in steps])
    for (event, _), seen in zip(steps, releases, strict=True):
        # Centred rows are cut shorter where the mean decides about their signs.
        if seen["query"].clip_norm != event.clip_norm:
            twice = pytest.approx(2 * seen["query"].clip_norm, rel=1e-12)
            assert event.sensitivity == twice
        assert (seen["batch"] is None) == (event.sampling_rate == 1)
    assert compose(events).epsilon(1e-5) == pytest.approx(model.privacy_.epsilon)
    assert 1.98 < model.privacy_.epsilon <= 2.0
    noise = np.concatenate([seen["noise"].ravel() / seen["std"] for seen in releases])
    assert abs(np.mean(noise**2) - 1) < 5 * math.sqrt(2 / noise.size)
    check_margins(model, small[0])


def test_smaller_sensitivities_are_claimed_only_where_they_hold(small):
    def events(**more):
        model = FeatureDPMLPClassifier(epsilon=2.0, **QUICK | PUBLIC | more)
        return model.fit(*small).privacy_.events

    def reach(event):
        return event.sensitivity / event.clip_norm

    for one in events(**SUMS, **LAST):
        assert reach(one) == pytest.approx(math.sqrt(2))
    for more in (EVERY, padded("impute")):
        assert reach(events(**SUMS, **more)[1]) == 2
    assert {reach(one) for one in events(**SUMS, **SPECIAL)} == {1}


def moved(ours, theirs):
    return math.sqrt(sum(int(entry) ** 2 for entry in (ours - theirs).ravel().tolist()))


def test_the_last_layer_moves_by_sqrt_two_clip_norms_at_most(small, releases):
    """Replace a record's private part: the sums of the loop, in exact grid integers."""
    given = QUICK | KINDS["class sums, last layer"] | {"epsilon": 8.0}
    given["solver"] = NoisySGD(max_iter=6, clip_norm=0.05)
    FeatureDPMLPClassifier(random_state=0, **given).fit(*small)
    query = releases[-1]["query"]
    assert isinstance(query, LinearQuery) and (query.rows.values >= 0).all()
    rng, unit, largest = np.random.default_rng(0), query.unit(1.0), 0.0
    for _ in range(300):
        theta = rng.normal(size=query.shape) * 10.0 ** rng.uniform(-1, 2)
        i, j = rng.integers(0, query.n_rows, 2)
        # whatever the two records hold, give them one public target
        target = query.target.copy()
        target[j] = target[i]
        other = dataclasses.replace(query, target=target)
        ours, theirs = (other.exact_sum(theta, np.array([k]), unit) for k in (i, j))
        assert (ours * theirs >= 0).all()
        largest = max(largest, moved(ours, theirs) * unit / query.clip_norm)
    assert 0.3 < largest <= math.sqrt(2)


def test_private_values_cannot_reach_what_is_public(small, monkeypatch):
    """Public gradients and pretraining do not move when private columns do."""
    seen = []

    def spied(self, theta, batch):
        seen.append((gradient(self, np.ones(self.shape), batch), batch))
        return np.zeros(self.shape)

    gradient = MLPQuery.public_gradient
    monkeypatch.setattr(MLPQuery, "public_gradient", spied)
    X, y = small
    other = X.copy()
    other[:, 2:] = np.random.default_rng(0).random((len(X), 2))
    sizes = {"public_batch_size": 17, "batch_size": 50, "max_iter": 6}
    for kind in ("zero", "gaussian"):
        given = QUICK | PUBLIC | {"solver": FeatureDPSGD(public_loss=kind, **sizes)}
        for rows in (X, other):
            FeatureDPMLPClassifier(random_state=0, **given).fit(rows, y)
    for kind in (0, 12):
        for k in range(kind, kind + 6):
            np.testing.assert_array_equal(seen[k][0], seen[k + 6][0])
            np.testing.assert_array_equal(seen[k][1], seen[k + 6][1])


# -- backends -------------------------------------------------------------------------
@pytest.mark.nightly
def test_importing_and_fitting_without_torch_does_not_import_it():
    code = (
        "import sys, numpy as np; from skfdp import FeatureDPMLPClassifier as M; "
        "M(hidden_layer_sizes=(3,), bounds=(0, 1)).fit(np.eye(40), np.arange(40) % 2); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_missing_torch_names_the_extra(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "skfdp.queries.torch", raising=False)
    ledger = PrivacyLedger()
    model = FeatureDPMLPClassifier(backend="torch", ledger=ledger, **QUICK)
    with pytest.raises(ImportError, match=r"pip install 'skfdp\[torch\]'"):
        model.fit(*small)
    assert not ledger.entries


# -- the model ------------------------------------------------------------------------
def test_infinite_epsilon_is_as_accurate_as_scikit_learn(digits):
    X, y = digits
    theirs = MLPClassifier((50,), random_state=0).fit(X[:1200], y[:1200])
    ours = FeatureDPMLPClassifier(INFINITE, hidden_layer_sizes=(50,), random_state=0)
    score = ours.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
    assert abs(score - theirs.score(X[1200:], y[1200:])) <= 0.01
    assert ours.privacy_.epsilon == INFINITE


# -- parts ----------------------------------------------------------------------------
@pytest.fixture
def linear_models(monkeypatch):
    """The margins of linear models that networks started at."""
    seen, run = [], Descent.run

    def spied(self, records, *given):
        found = run(self, records, *given)
        whole = found.whole(records.public.mask)
        rows = records.public.input_scaler(records.X)
        seen.append((rows @ whole.coef.T + whole.intercept)[:, 0])
        return found

    monkeypatch.setattr(Descent, "run", spied)
    return seen


@pytest.mark.parametrize(
    "bounds", [(0, 1), False, {0: (0, 1), 3: (0.2, 0.4)}, (0.3, 0.6), (-5, 0.5)]
)
@pytest.mark.parametrize("hidden", [(2,), (8, 7)])
def test_a_linear_start_is_the_linear_model(small, linear_models, bounds, hidden):
    """Long rows, short rows, unbounded columns: one map, the same margins."""
    X, y = small[0] * np.linspace(0.2, 3, 4), small[1]
    given = {"hidden_layer_sizes": hidden, "bounds": bounds, **PUBLIC}
    network = FeatureDPMLPClassifier(8.0, **given).fit(X, y)
    (margins,) = linear_models
    np.testing.assert_allclose(network.decision_function(X), margins, atol=1e-9)
    assert network.n_iter_ == 0
    labels = {event.label for event in network.privacy_.events}
    assert "descent" not in labels
    parts = "mean", "temperature", "descent"
    assert labels >= {f"linear model: {part}" for part in parts}


def test_a_linear_start_without_a_mean_has_public_signs(small):
    """The budget is too small for a mean: non-negative columns stay as they are."""
    X, y = small
    network = FeatureDPMLPClassifier(0.05, bounds=(0, 1), **PUBLIC).fit(X, y)
    events = {event.label: event for event in network.privacy_.events}
    assert list(events) == ["linear model: temperature", "linear model: descent"]
    loop = events["linear model: descent"]
    assert loop.sensitivity == pytest.approx(math.sqrt(2) * loop.clip_norm)
    texts = [assumption.text for assumption in network.privacy_.assumptions]
    assert any("sqrt(2) clip_norm" in text for text in texts)


def test_where_networks_start_by_default():
    rng = np.random.default_rng(0)
    X, y = rng.random((600, 5)), np.arange(600) % 20

    def labels(**more):
        given = {"hidden_layer_sizes": (40,), "bounds": (0, 1)}
        model = FeatureDPMLPClassifier(**given | PUBLIC | more)
        return [event.label for event in model.plan(X, y).events]

    linear = [f"linear model: {part}" for part in ("mean", "temperature", "descent")]
    assert labels() == linear
    assert labels(hidden_layer_sizes=(39,)) == ["class sums", "descent"]
    half = Pretraining(budget_share=0.5)
    assert labels(pretraining=half) == [*linear, "descent"]
    assert labels(solver=NoisySGD(max_iter=2)) == [*linear, "descent"]
    assert labels(solver=NoisySGD(max_weight_norm=3.0)) == [*linear, "descent"]
    assert labels(solver=NoisySGD(normalize=True, max_iter=2))[0] == "class sums"
    assert labels(solver=NoisySGD(row_norm=1.0, max_iter=2))[0] == "class sums"
    assert labels(bounds=False) == linear
    assert labels(solver=FeatureDPSGD(public_loss="impute"))[0] == "class sums"
    assert labels(public_target=False) == ["descent"]
    y = y % 2
    assert labels() == linear and labels(hidden_layer_sizes=(1,)) == ["descent"]


def test_a_network_that_learnt_from_public_columns_is_blind_to_private_ones(small):
    X, y = small
    # No row is longer than row_norm: a norm would mix the columns.
    solver = NoisySGD(learning_rate=1e-12, row_norm=2.0, max_iter=6)
    given = QUICK | KINDS["pretrained"] | {"solver": solver}
    model = FeatureDPMLPClassifier(random_state=0, **given).fit(X, y)
    others = np.c_[X[:, :2], np.full((len(X), 2), 0.5)]
    margins = [model.decision_function(rows) for rows in (X, others)]
    np.testing.assert_allclose(*margins, atol=1e-6)
    assert model.score(X, y) > 0.8


def test_unseen_classes_are_improbable():
    network = glorot((4, 3, 2), np.random.default_rng(0)).spread(np.array([0, 2]), 3)
    assert network.intercepts[-1][1] == -10
    binary = glorot((4, 3, 1), np.random.default_rng(0))
    rows = np.ones((1, 4))
    spread = binary.spread(np.array([1, 2]), 3).margins(rows)[0]
    assert spread[2] - spread[1] == pytest.approx(binary.margins(rows)[0, 0])


@pytest.mark.slow
@pytest.mark.extra("torch")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "kind", ["batches", "gaussian", "impute", "class sums, last layer"]
)
def test_torch_gives_the_same_network_and_is_an_assumption(kind, dtype, small):
    given = {"random_state": 0, **QUICK, **KINDS[kind]}
    ours, theirs = (
        FeatureDPMLPClassifier(backend=backend(dtype=dtype), **given).fit(*small)
        for backend in (NumpyBackend, TorchBackend)
    )
    for a, b in zip(ours.coefs_, theirs.coefs_, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
    for model, trusted in ((ours, False), (theirs, True)):
        texts = [a.text for a in model.privacy_.assumptions if not a.enforced]
        assert trusted == any("integers by torch are exact" in text for text in texts)
