"""The one-run audit of estimators: honest ones pass, sabotaged ones do not."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.mechanisms import release as mechanism
from skfdp.privacy import AddOrRemoveOne, PrivacyLedger
from skfdp.solvers import NoisySGD

sys.path.append(str(Path(__file__).parent))

from guessed_coins import (
    _right_guesses,
    audit_estimator,
    make_canaries,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::skfdp.UtilityWarning"),
    pytest.mark.filterwarnings("ignore:epsilon=16.0:skfdp.PrivacyWarning"),
]
N, D = 300, 600
LABELS, SPECIAL = (
    {"public_features": "all"},
    {"neighboring_relation": "replace_special"},
)
ADDED = {"neighboring_relation": AddOrRemoveOne(N)}
LOGISTIC, SGD = skfdp.FeatureDPLogisticRegression, skfdp.DPSGDFClassifier
REGRESSOR = skfdp.FeatureDPRegressor
REAL = {"target_bounds": (0, 1)}
#: An estimator, its parameters, and the canaries that it gets: tails, steps.
KINDS = {
    "nothing public": (LOGISTIC, {}, ("other", 1)),
    "nothing public, null": (LOGISTIC, {**SPECIAL, "classes": [0, 1]}, ("null", 1)),
    "columns public": (
        LOGISTIC,
        {"public_features": list(range(200)), "public_model": None},
        ("other", 1),
    ),
    "target public": (LOGISTIC, {"public_target": True}, ("other", 1)),
    "label-DP": (LOGISTIC, LABELS, ("other", 1)),
    "label-DP, descent": (LOGISTIC, {"solver": "noisy-gd", **LABELS}, ("other", 1)),
    "dpsgd-f": (SGD, {**SPECIAL, "classes": [0, 1]}, ("null", 1)),
    "dpsgd-f, two steps": (SGD, SPECIAL, ("other", 2)),
    "dpsgd-f, added": (SGD, {**ADDED, "classes": [0, 1]}, ("out", 1)),
    "regressor": (REGRESSOR, REAL, ("other", 1)),
    "dpsgd-f regressor": (skfdp.DPSGDFRegressor, {**SPECIAL, **REAL}, ("null", 1)),
}
#: Those that differ from others in a part that the others have, too.
NIGHTLY = (
    "nothing public",
    "label-DP, descent",
    "dpsgd-f, two steps",
    "dpsgd-f regressor",
)
every_kind = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * (name in NIGHTLY))
        for name in KINDS
    ],
)
RNG = np.random.default_rng(11)
X, Y = RNG.random((N, D)), RNG.integers(0, 2, N)


def make(name, **changed):
    kind, given, _ = KINDS[name]
    return kind(**{"epsilon": 4.0, "bounds": (0, 1), **given, **changed})


def audit(name, X=X, y=Y, random_state=0, **given):
    """Audit an estimator of this name, or one that is given."""
    made = make(name) if isinstance(name, str) else name
    return audit_estimator(made, X, y, random_state=random_state, **given)


@pytest.fixture
def no_noise(monkeypatch):
    """Sabotage the mechanism: noise below what was charged. Only iterates show it."""
    pytest.importorskip("sklearn.callback")

    def less(query, theta, *, noise_std, unit, generator, batch):
        total = query.exact_sum(theta, batch, unit)
        std = noise_std / 1e4 / unit
        return mechanism.add_integer_gaussian(total, std, generator) * unit

    monkeypatch.setattr(mechanism, "_noisy_sum", less)


@every_kind
def test_an_honest_estimator_passes_and_shows_something(name):
    result = audit(name, random_state=1)
    if result.lower_bound == 0:  # the noise is that of a private fit: once in a while
        result = audit(name, random_state=2)
    assert result.passed
    assert result.claimed_epsilon == pytest.approx(4.0, rel=1e-4)
    assert result.n_canaries == result.n_trials == N
    guesses, right = np.array(result.counts).T
    assert (right <= guesses).all()
    assert (right / guesses).max() > 0.55
    assert result.lower_bound == max(result.steinke, result.f_dp)
    assert 0 < result.lower_bound < result.reach


@pytest.mark.usefixtures("no_noise")
@every_kind
def test_noise_that_is_left_out_is_refuted(name):
    result = audit(make(name, epsilon=1.0), random_state=1)
    assert not result.passed
    assert result.lower_bound > 1.1


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("name", ["nothing public, null", "dpsgd-f"])
def test_null_canaries_leave_a_fit_enough_labels(name):
    """With few labels and much noise a count would look empty, and the fit refuse y."""
    one = make(name, epsilon=1.0)
    assert {audit(one, random_state=seed).tails for seed in range(2)} == {"other"}
    assert audit(name).tails == "null"
    assert audit(make(name, epsilon=2.0), tails="null").tails == "null"


@every_kind
def test_what_coins_choose(name, monkeypatch):
    """Canaries alone change, in their private parts; those of tails may be null."""
    seen, kind = {}, KINDS[name][0]
    fit, table = kind.fit, make_canaries

    class Spy(mechanism.Mechanism):
        def __init__(self, events, streams, is_null=None, units=None):
            seen["void"] = np.zeros(N, dtype=bool) if is_null is None else is_null
            super().__init__(events, streams, is_null, units)

    def kept(self, X, y=None, **of_rows):
        seen["fitted"] = X.copy(), y.copy()
        return fit(self, X, y, **of_rows)

    def made(*given, **named):
        seen["canaries"] = table(*given, **named)
        return seen["canaries"]

    monkeypatch.setattr("skfdp.base.Mechanism", Spy)
    monkeypatch.setattr(kind, "fit", kept)
    monkeypatch.setattr("guessed_coins.make_canaries", made)
    audit(name, n_canaries=100, random_state=5)
    made, (rows, labels) = seen["canaries"], seen["fitted"]
    assert (made.tails, made.n_steps) == KINDS[name][2]
    others = np.delete(np.arange(N), made.rows)
    if made.tails == "out":
        assert len(others) + 25 < len(rows) < N - 25
        known = {row.tobytes() for row in X} | {row.tobytes() for row in made.X_a}
        assert {row.tobytes() for row in rows} < known
        return
    np.testing.assert_array_equal(rows[others], X[others])
    np.testing.assert_array_equal(labels[others], Y[others])
    heads = (rows[made.rows] == made.X_a).all(axis=1)
    heads &= labels[made.rows] == made.y_a
    assert 25 < heads.sum() < 75
    np.testing.assert_array_equal(rows[made.rows][~heads], made.X_tails[~heads])
    np.testing.assert_array_equal(labels[made.rows][~heads], made.y_tails[~heads])
    is_null = np.zeros(N, dtype=bool)
    is_null[made.rows[~heads]] = made.tails == "null"
    np.testing.assert_array_equal(seen["void"], is_null)
    public, given = np.zeros(D, dtype=bool), KINDS[name][1].get("public_features", [])
    public[slice(None) if given == "all" else given] = True
    np.testing.assert_array_equal(rows[:, public], X[:, public])
    assert (rows[made.rows][:, ~public] != X[made.rows][:, ~public]).all()
    if name == "target public":
        np.testing.assert_array_equal(labels, Y)


def test_two_steps_cost_twice_the_sensitivity():
    two, one = (audit("dpsgd-f", tails=tails) for tails in ("other", "null"))
    assert (two.tails, one.tails) == ("other", "null")
    assert two.claimed_epsilon == pytest.approx(4.0, rel=1e-4)
    assert two.reach < one.reach


def test_nothing_is_charged_and_the_estimator_is_untouched():
    ledger = PrivacyLedger()
    model = make("dpsgd-f", ledger=ledger, random_state=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", skfdp.PrivacyWarning)  # of a seed
        one, other = audit(model), audit(model)
    assert one.counts != other.counts  # the coins are equal, and the noise is not
    assert not ledger.events
    assert model.ledger is ledger
    assert model.random_state == 3
    assert not hasattr(model, "coef_")


def test_the_number_of_guesses_is_fixed_or_corrected_for():
    fixed = audit("label-DP", n_guesses=100)
    assert [guesses for guesses, _ in fixed.counts] == [fixed.n_guesses] == [100]
    several = audit("label-DP")
    assert [guesses for guesses, _ in several.counts] == [300, 150, 75, 37]
    assert audit("label-DP", confidence=0.999).reach < several.reach
    whole = audit("label-DP", n_guesses=300)
    assert whole.reach > several.reach  # a smaller share of the error for each


LOUD = {"epsilon": 16.0, "bounds": (0, 1)}
CLASSES = RNG.integers(0, 3, N)
NETWORK = skfdp.FeatureDPMLPClassifier(
    hidden_layer_sizes=(8,), solver=NoisySGD(max_iter=20), **LOUD
)
#: Estimators, tables, targets, how tails are told, and whether something is seen.
TABLES = {
    "words": (LOGISTIC(**LOUD), X, np.array(["no", "yes"])[Y], "auto", True),
    "words, null": (
        *(LOGISTIC(**LOUD, **SPECIAL, classes=["no", "yes"]), X),
        *(np.array(["no", "yes"])[Y], "null", True),
    ),
    "three classes": (LOGISTIC(**LOUD), X, CLASSES, "auto", True),
    "network": (NETWORK, X[:, :50], CLASSES, "auto", False),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_and_targets_of_every_kind(name):
    model, table, y, tails, shows = TABLES[name]
    result = audit(model, table, y, tails=tails)
    assert result.tails == ("null" if tails == "null" else "other")
    assert result.passed
    assert result.lower_bound > 0 or not shows


def means(model, X_a, y_a, X_b, y_b):
    """Return how far the released mean leans to the first value."""
    return (X_a - X_b) @ (model.mean_ - model.mean_.mean())


@pytest.mark.parametrize(("bounds", "tails"), [((0, 1), "other"), (False, "null")])
def test_transformers_need_a_score(bounds, tails):
    """And missing values are null where there are no bounds."""
    model = skfdp.PrivateCenteringTransformer(4.0, bounds=bounds, **SPECIAL)
    with pytest.raises(ValueError, match=r"pass score\(model"):
        audit(model, y=None)
    for y in (None, Y):  # which a transformer does not learn from
        result = audit(model, y=y, score=means)
        assert (result.tails, result.passed) == (tails, True)


@pytest.mark.usefixtures("no_noise")
def test_a_transformer_without_noise_is_refuted():
    model = skfdp.PrivateCenteringTransformer(
        3.0, bounds=(0, 1), neighboring_relation="replace_one"
    )
    assert not audit(model, RNG.random((N, 10 * N)), None, score=means).passed


def canaries(model, X=X, y=Y):
    rng, events = np.random.default_rng(0), model.plan(X, y).events
    return make_canaries(model, events, X, y, len(X), "auto", rng)


def test_canaries_are_far_apart():
    noise = canaries(LOGISTIC(bounds=(0, 1)))
    np.testing.assert_array_equal(np.abs(noise.X_a - noise.X_b), 1)
    np.testing.assert_array_equal(noise.y_a, noise.y_b)
    flip = canaries(LOGISTIC(bounds=(0, 1), **LABELS))
    np.testing.assert_array_equal(flip.X_a, flip.X_b)
    assert (flip.y_a != flip.y_b).all()
    assert 0.4 < np.mean(flip.y_a) < 0.6
    flip = canaries(REGRESSOR(bounds=(0, 1), target_bounds=(-5, 12), **LABELS))
    assert set(flip.y_a.tolist()) == {-5.0, 12.0}


@pytest.mark.parametrize("bounds", [False, (0, [np.inf] * D)])
def test_canaries_are_finite_where_a_table_is_not(bounds):
    table = X.copy()
    table[:, 0], table[::2, 1], table[1, 2] = np.nan, np.nan, np.inf
    events = LOGISTIC(bounds=(0, 1)).plan(X, Y).events
    rng, model = np.random.default_rng(0), LOGISTIC(bounds=bounds)
    made = make_canaries(model, events, table, Y, N, "auto", rng)
    for one in (made.X_a, made.X_b):
        assert np.isfinite(one).all()
        assert (np.ptp(one, axis=0) > 0).sum() == D - 1


@pytest.mark.parametrize("n_canaries", [1, 2, 5])
@pytest.mark.parametrize("name", ["nothing public", "label-DP"])
def test_few_canaries_refute_nothing(n_canaries, name):
    model = make(name, epsilon=1.0)
    result = audit(model, n_canaries=n_canaries, random_state=None)
    assert result.passed
    assert result.n_canaries == n_canaries
    assert max(guesses for guesses, _ in result.counts) == n_canaries


@pytest.mark.parametrize(
    ("name", "given", "match"),
    [
        ("nothing public", {"random_state": -1}, "random_state=-1 must be an int"),
        ("nothing public", {"score": "x"}, "score='x' must be None or a function"),
        ("nothing public", {"score": lambda *_: np.zeros(3)}, "return 300 finite numb"),
        ("nothing public", {"tails": "heads"}, "tails='heads' is unknown"),
        ("nothing public", {"tails": np.eye(2)}, "tails=.* is unknown"),
        ("nothing public", {"confidence": 1.0}, "confidence=1.0 must be a number > 0"),
        ("nothing public", {"n_canaries": 0}, "n_canaries=0 must be an int >= 1"),
        ("nothing public", {"n_guesses": 301}, "n_guesses=301 must be .* < 301"),
        ("nothing public", {"y": Y[:-1]}, "one target for each row"),
        ("dpsgd-f, two steps", {"tails": "null"}, "a null that this table can tell"),
        (make("nothing public", epsilon=np.inf), {}, "no finite epsilon"),
        (LogisticRegression(), {}, "must be an estimator of this package"),
        (LOGISTIC, {}, "must be an estimator"),
        (make_pipeline(LOGISTIC()), {}, "must be an estimator .* by audit_replay"),
        ("nothing public", {"X": pd.DataFrame(X)}, "X must be an array"),
        ("nothing public", {"y": np.stack([Y, Y], 1)}, "one target for each row"),
    ],
    ids=range(16),
)
def test_refusals_are_one_sentence(name, given, match):
    with pytest.raises(ValueError, match=match) as caught:
        audit(name, **given)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


SAMPLED = {"solver": NoisySGD(batch_size=30, max_iter=25)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["columns public", "dpsgd-f, two steps"])
def test_sampled_batches(name, request):
    honest = audit(make(name, **SAMPLED), n_guesses=150)
    assert honest.passed
    assert honest.reach > 3
    request.getfixturevalue("no_noise")
    assert not audit(make(name, epsilon=0.5, **SAMPLED), n_guesses=150).passed


def test_clusters_of_unequal_size_are_told_apart():
    heads = np.arange(500) < 180
    noise = np.random.default_rng(0).normal(size=500)
    for offset in (0.0, 7.0):  # a model may like the first values better
        scores = np.where(heads, 1.0, -1.0) + offset + 0.1 * noise
        assert _right_guesses(scores, heads, None)[0] == (500, 500)
    assert _right_guesses(np.zeros(4), heads[:4], None)[0] == (4, 0)


def test_persons_are_refused():
    class OfPersons(LOGISTIC):
        def fit(self, X, y=None, sample_weight=None, groups=None):
            return super().fit(X, y, groups=np.arange(len(X)) // 2)

    with pytest.raises(ValueError, match="protects persons, and canaries are rows"):
        audit(OfPersons(bounds=(0, 1), classes=[0, 1]), n_canaries=50)
