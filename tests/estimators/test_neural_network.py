"""The network as a user of scikit-learn meets it, and its guarantee end to end."""

import math
import sys

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from skfdp import FeatureDPLogisticRegression, FeatureDPMLPClassifier, PrivacyLedger
from skfdp.privacy import AddOrRemoveOne, compose
from skfdp.queries.network import MLPQuery
from skfdp.solvers import (
    FeatureDPSGD,
    NoisySGD,
    NumpyBackend,
    TorchBackend,
)
from skfdp.solvers.network import Network, Neurons, glorot

INFINITE = float("inf")
QUICK = {"hidden_layer_sizes": (8,), "bounds": (0, 1), "solver": NoisySGD(max_iter=6)}
BATCHES = {"solver": NoisySGD(max_iter=6, batch_size=100)}


def padded(kind):
    """Return the solver of Algorithm 1, soon done, on batches as without it."""
    return {"solver": FeatureDPSGD(public_loss=kind, max_iter=6, batch_size="auto")}


PUBLIC = {"public_features": [0, 1], "public_target": True}


SPECIAL = {"neighboring_relation": "replace_special"}
COUNTED = {"neighboring_relation": AddOrRemoveOne(280)}
#: A large budget for random neurons, and a small one without them.
WIDE = {"solver": "auto", "hidden_layer_sizes": (40,), "epsilon": 30.0}
LINEAR = WIDE | {"epsilon": 2.0}
KINDS = {
    "neurons": WIDE,
    "neurons, two layers": WIDE | {"hidden_layer_sizes": (40, 30)},
    "neurons, columns": WIDE | {"public_features": [0, 1]},
    "neurons, both": WIDE | PUBLIC,
    "neurons, label": WIDE | {"public_features": "all"},
    "neurons, target": WIDE | {"public_target": True},
    "linear": LINEAR | PUBLIC,
    "everything private": {},
    "batches": BATCHES,
    "replace_special": SPECIAL,
    "add/remove": COUNTED | {"solver": NoisySGD(max_iter=6, batch_size=90)},
    "label": {"public_features": "all"} | padded("gaussian"),
    "public": PUBLIC,
    "gaussian": PUBLIC | padded("gaussian"),
}
each = pytest.mark.parametrize("more", KINDS.values(), ids=KINDS)


# -- the guarantee --------------------------------------------------------------------
def check_margins(model, X):
    """Check that margins, probabilities and labels are those of the weights."""
    hidden = model.input_scaler_(X)
    for coef, intercept in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        hidden = np.maximum(hidden @ coef + intercept, 0)
    margins = hidden @ model.coefs_[-1] + model.intercepts_[-1]
    found, chances = model.decision_function(X), model.predict_proba(X)
    np.testing.assert_allclose(found, margins[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[chances.argmax(1)])


@each
def test_the_events_describe_the_releases_that_ran(more, small, releases):
    given = {"epsilon": 2.0} | QUICK | more
    model = FeatureDPMLPClassifier(**given).fit(*small)
    # As they run: the temperature comes last.
    events = sorted(model.privacy_.events, key=lambda one: one.label == "temperature")
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
    assert 0.99 < model.privacy_.epsilon / given["epsilon"] <= 1.0
    noise = np.concatenate([seen["noise"].ravel() / seen["std"] for seen in releases])
    assert abs(np.mean(noise**2) - 1) < 5 * math.sqrt(2 / noise.size)
    check_margins(model, small[0])


def test_private_values_cannot_reach_what_is_public(small, monkeypatch):
    """Public gradients do not move when private columns do."""
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


# -- a linear model as a network ------------------------------------------------------
@pytest.fixture
def linear(monkeypatch):
    """The linear model, which gets the noise of the network."""
    name = FeatureDPMLPClassifier.__qualname__
    kind = type(name, (FeatureDPLogisticRegression,), {})
    kind.__qualname__ = name
    return kind


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"bounds": False},
        {"bounds": {0: (0, 1), 3: (0.2, 0.4)}},
        {"bounds": (-5, 0.5)},
        {"bounds": "private"},
        {"public_features": [0, 1]},
        {"public_features": "all"},
        PUBLIC | {"class_weight": "balanced"},
        PUBLIC | {"class_weight": {0: 3.0}, "epsilon": 0.05},
    ],
)
@pytest.mark.parametrize("hidden", [(2,), (8, 7), ()])
def test_without_neurons_a_network_is_the_linear_model(more, hidden, small, linear):
    """Also of long rows, short rows, persons and weights: the same margins."""
    X, y = small[0] * np.linspace(0.2, 3, 4), small[1]
    given = {"bounds": (0, 1), "epsilon": 2.0, "random_state": 0, **more}
    network = FeatureDPMLPClassifier(hidden_layer_sizes=hidden, **given)
    of_rows = {"sample_weight": np.arange(len(X)) % 3, "groups": np.arange(len(X)) // 2}
    for known in ({}, of_rows):
        ours, theirs = (
            model.fit(X, y, **known) for model in (network, linear(**given))
        )
        expected = theirs.decision_function(X)
        np.testing.assert_allclose(ours.decision_function(X), expected, atol=1e-9)
        assert ours.n_iter_ == theirs.n_iter_ and ours.n_layers_ == len(hidden) + 2
        assert ours.privacy_.events == theirs.privacy_.events


def neurons_of(model, X, y):
    """Return the neurons of a fit, None without any."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        of = Neurons.of.__func__
        spied = classmethod(lambda *given: seen.append(of(*given)) or seen[-1])
        patch.setattr(Neurons, "of", spied)
        model.plan(X, y)
    return seen[0]


@pytest.mark.parametrize("hidden", [(40,), (50, 30)])
@pytest.mark.parametrize("split", ["neurons", "neurons, columns", "neurons, both"])
def test_with_neurons_it_is_the_linear_model_of_a_wide_table(
    split, hidden, small, linear, monkeypatch
):
    # A network of the public columns beside it is tested below.
    monkeypatch.setattr("skfdp.neural_network.public_network", lambda *_: None)
    X, y = small
    given = {"bounds": (0, 1), "random_state": 0, **KINDS[split]}
    given["hidden_layer_sizes"] = hidden
    network = FeatureDPMLPClassifier(**given).fit(X, y)
    neurons = neurons_of(network, X, y)
    table = np.hstack([X, neurons(X)])
    assert table.shape[1] == 4 + hidden[-1] - 2 and table[:, 4:].std() > 0.01
    for name in ("hidden_layer_sizes", "solver"):
        del given[name]
    if "public_features" in given:
        given["public_features"] = [0, 1, *(4 + np.flatnonzero(neurons.public))]
        learns = "public_target" in given  # what random public neurons would
        assert neurons.public.sum() == (not learns) * (hidden[-1] - 2) // 2
    expected = linear(**given).fit(table, y).decision_function(table)
    # In training inputs have 15 bits, and activations are at most 1.
    np.testing.assert_allclose(network.decision_function(X), expected, atol=0.05)


@pytest.fixture
def crossed():
    """Rows whose class depends on a product of the first two columns."""
    X = np.random.default_rng(0).random((4000, 3))
    return X, ((X[:, 0] > 0.5) == (X[:, 1] > 0.5)).astype(int)


@pytest.mark.parametrize("more", [{}, PUBLIC, {"public_features": "all"}])
def test_neurons_learn_what_no_line_can(more, crossed):
    X, y = crossed
    model = FeatureDPMLPClassifier(3.0, bounds=(0, 1), classes=[0, 1], **more)
    assert model.fit(X[:3000], y[:3000]).score(X[3000:], y[3000:]) > 0.8


def test_a_public_network_learns_from_what_is_public_alone(crossed):
    X, y = crossed[0][:1500], crossed[1][:1500]
    given = {"bounds": (0, 1), "random_state": 0, **PUBLIC}
    known = [FeatureDPMLPClassifier(0.1, **given).fit(X, y) for X in (X, X * [1, 1, 0])]
    one, other = (model.public_model_.beside(X[:, :2]) for model in known)
    np.testing.assert_array_equal(one, other)
    weights = known[0].coefs_, known[0].intercepts_
    margins = Network(*weights).margins(X) + one
    np.testing.assert_allclose(known[0].decision_function(X), margins[:, 0])
    assert known[0].score(X, y) > 0.9
    # Weights of rows need scikit-learn 1.7.
    known[0].fit(X, y, sample_weight=np.arange(len(X)) % 3)
    assert not hasattr(known[0], "public_model_")


def test_where_there_are_neurons(small):
    X, y = small

    def has(**more):
        model = FeatureDPMLPClassifier(**{"bounds": (0, 1), **WIDE, **more})
        return neurons_of(model, X, y) is not None

    assert has() and has(hidden_layer_sizes=(6,)) and has(hidden_layer_sizes=(6, 6))
    assert not has(hidden_layer_sizes=(5,)) and not has(hidden_layer_sizes=(40, 5))
    assert not has(epsilon=2.0) and not has(bounds=False)
    assert not has(bounds={0: (0, 1)}) and not has(hidden_layer_sizes=())


@pytest.fixture
def tables(monkeypatch):
    """Each wide table that a fit made."""
    seen, table = [], Neurons._table

    def spied(*given):
        found = table(*given)
        return seen.append(found) or found if given[-1].any() else found

    monkeypatch.setattr(Neurons, "_table", spied)
    return seen


def test_a_record_moves_its_own_private_neurons_alone(tables, small):
    """Neighbours have wide tables, the public one first."""
    (X, y), other = small, small[0].copy()
    other[7, 2:] = 0.9, 0.1
    for rows in (X, other):
        model = FeatureDPMLPClassifier(bounds=(0, 1), **KINDS["neurons, columns"])
        model.fit(rows, y)
    public, whole, same_public, moved = tables
    public_neurons = 4 + np.flatnonzero(neurons_of(model, X, y).public)
    shown = [0, 1, *public_neurons]
    others = np.delete(np.arange(len(X)), 7)
    for other in (same_public, whole, moved):
        np.testing.assert_array_equal(other[:, shown], public[:, shown])
    np.testing.assert_array_equal(whole[others], moved[others])
    assert (whole[7] != moved[7]).any()


def test_neurons_do_not_depend_on_the_position_of_a_record(small):
    X, y = small
    model = FeatureDPMLPClassifier(bounds=(0, 1), **KINDS["neurons, two layers"])
    neurons = neurons_of(model, X, y)
    found = neurons(X)
    assert (found >= 0).all() and (found <= 1).all()
    np.testing.assert_array_equal(found[::-1], neurons(X[::-1]))
    np.testing.assert_array_equal(found, np.vstack([neurons(row[None]) for row in X]))


# -- parts ----------------------------------------------------------------------------
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
@pytest.mark.parametrize("kind", ["batches", "gaussian"])
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
