"""The one-run audit of estimators: honest ones pass, sabotaged ones do not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skfdp
from skfdp.audit.one_run import (
    Parts,
    _right_guesses,
    audit_estimator,
    fitted,
    make_canaries,
)
from skfdp.experimental import PrivateSearchCV
from skfdp.mechanisms import release as mechanism
from skfdp.privacy import AddOrRemoveOne, PrivacyLedger
from skfdp.privacy.events import Relation
from skfdp.solvers import NoisySGD

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
#: An estimator, its parameters, and the canaries that it gets: kind, tails, steps.
KINDS = {
    "nothing public": (LOGISTIC, {}, ("noise", "other", 1)),
    "nothing public, null": (
        *(LOGISTIC, {**SPECIAL, "classes": [0, 1]}),
        ("noise", "null", 1),
    ),
    "columns public": (
        *(LOGISTIC, {"public_features": list(range(200))}),
        ("noise", "other", 1),
    ),
    "target public": (LOGISTIC, {"public_target": True}, ("noise", "other", 1)),
    "label-DP": (LOGISTIC, LABELS, ("flip", "other", 1)),
    "label-DP, descent": (
        *(LOGISTIC, {"solver": "noisy-gd", **LABELS}),
        ("flip", "other", 1),
    ),
    "dpsgd-f": (SGD, {"classes": [0, 1]}, ("noise", "null", 1)),
    "dpsgd-f, two steps": (SGD, {}, ("noise", "other", 2)),
    "dpsgd-f, added": (SGD, {**ADDED, "classes": [0, 1]}, ("noise", "out", 1)),
    "regressor": (REGRESSOR, REAL, ("noise", "other", 1)),
    "dpsgd-f regressor": (skfdp.DPSGDFRegressor, REAL, ("noise", "null", 1)),
}
every_kind = pytest.mark.parametrize("name", KINDS)
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
    assert {audit(one, random_state=seed).tails for seed in range(8)} == {"other"}
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
    monkeypatch.setattr("skfdp.audit.one_run.make_canaries", made)
    audit(name, n_canaries=100, random_state=5)
    made, (rows, labels) = seen["canaries"], seen["fitted"]
    assert (made.kind, made.tails, made.n_steps) == KINDS[name][2]
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
    assert dict(two.allowed)[N] > dict(one.allowed)[N]


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
    # A smaller share of the error for each.
    assert dict(several.allowed)[300] >= dict(fixed.allowed)[300]
    surer = audit("label-DP", confidence=0.999)
    assert dict(surer.allowed)[300] > dict(several.allowed)[300]


def test_results_attach_and_draw():
    model = make("label-DP").fit(X, Y)
    result = audit(model)
    assert result.attach_to(skfdp.report(model)).findings == (result.finding,)
    assert "one run" in str(result)
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    ax = result.plot(Figure().add_subplot())
    assert len(ax.lines) == 3
    guesses, most = ax.lines[0].get_data()
    assert (np.diff(most) >= 0).all()
    assert (np.asarray(most) <= guesses).all()


NAMES = [f"u{j}" for j in range(D)]
FRAME = pd.DataFrame(X, columns=NAMES)
WORDS = pd.Series(np.array(["no", "yes"])[Y], name="answer")
SPARSE = np.where(X < 0.8, 0.0, X)
RAW = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, N),
        "town": RNG.choice(["A", "B", "C"], N),
        "income": RNG.random(N) * 1e5,
    }
)
ENCODER = skfdp.DeclaredEncoder(
    categories={"town": ["A", "B", "C"]}, bounds={"age": (18, 90), "income": (0, 1e5)}
)
HALF = FunctionTransformer(lambda X: X / 2)
NETWORK = skfdp.FeatureDPMLPClassifier(
    epsilon=16.0, bounds=(0, 1), hidden_layer_sizes=(8,), solver=NoisySGD(max_iter=20)
)
CLASSES = RNG.integers(0, 3, N)
LOUD = {"epsilon": 16.0, "bounds": (0, 1)}
#: Estimators, tables, arguments, the kind of canaries, and whether something is seen.
TABLES = {
    **{
        kind: (LOGISTIC(**LOUD), X, Y, {"canaries": kind}, kind, True)
        for kind in ("flip", "mirror", "noise", "swap")
    },
    "given": (LOGISTIC(**LOUD), X, Y, {"canaries": (1 - X, Y)}, "given", True),
    "frame": (
        *(LOGISTIC(**LOUD, public_features=["u0", "u1"]), FRAME, WORDS, {}),
        *("noise", True),
    ),
    "frame, null": (
        *(LOGISTIC(**LOUD, **SPECIAL, classes=["no", "yes"]), FRAME, WORDS),
        *({"tails": "null"}, "noise", True),
    ),
    **{
        f"{kind.__name__}, {given}": (
            *(LOGISTIC(**LOUD, public_features=list(range(200))), kind(SPARSE), Y),
            *({"canaries": given}, given, False),
        )
        for kind in (csr_array, csr_matrix)
        for given in ("noise", "swap")
    },
    "raw": (
        *(LOGISTIC(8.0, encoder=ENCODER, public_features=["town"]), RAW, Y, {}),
        *("swap", False),
    ),
    "three classes": (LOGISTIC(**LOUD), X, CLASSES, {}, "noise", True),
    "network": (NETWORK, X[:, :50], CLASSES, {}, "noise", False),
    "Pipeline": (
        make_pipeline(HALF, LOGISTIC(16.0, bounds=(0, 0.5), public_features=[0, 1])),
        *(X, Y, {"public_features": [0, 1]}, "noise", True),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_and_canaries_of_every_kind(name):
    model, table, y, given, kind, shows = TABLES[name]
    result = audit(model, table, y, **given)
    assert result.kind == kind
    assert result.tails == given.get("tails", "other")
    assert result.passed
    assert result.lower_bound > 0 or not shows


def test_pipelines_of_private_steps():
    first = skfdp.PrivateCenteringTransformer(epsilon=4.0, bounds=(0, 1))
    result = audit(make_pipeline(first, SGD(epsilon=4.0, bounds=False)))
    assert result.subject == "Pipeline"
    assert result.claimed_epsilon > 4.5  # both of them
    assert (result.tails, result.passed) == ("other", True)


@pytest.mark.usefixtures("no_noise")
def test_a_pipeline_whose_columns_are_private_needs_no_help():
    half = make_pipeline(HALF, LOGISTIC(epsilon=1.0, bounds=(0, 0.5)))
    assert not audit(half).passed


def means(model, X_a, y_a, X_b, y_b):
    """Return how far the released mean leans to the first value."""
    return (X_a - X_b) @ (model.mean_ - model.mean_.mean())


@pytest.mark.parametrize(("bounds", "tails"), [((0, 1), "other"), (False, "null")])
def test_transformers_need_a_score(bounds, tails):
    """And missing values are null where there are no bounds."""
    model = skfdp.PrivateCenteringTransformer(epsilon=4.0, bounds=bounds)
    with pytest.raises(ValueError, match=r"pass score\(model"):
        audit(model, y=None)
    for y in (None, Y):  # which a transformer does not learn from
        result = audit(model, y=y, score=means)
        assert (result.tails, result.passed) == (tails, True)
    with pytest.raises(ValueError, match="public or not used"):
        audit(model, canaries="flip", score=means)


@pytest.mark.usefixtures("no_noise")
def test_a_transformer_without_noise_is_refuted():
    model = skfdp.PrivateCenteringTransformer(
        3.0, bounds=(0, 1), neighboring_relation="replace_one"
    )
    assert not audit(model, RNG.random((N, 10 * N)), None, score=means).passed


def canaries(kind, X=X, y=Y, **changed):
    parts = {
        "mask": np.zeros(X.shape[1], dtype=bool),
        "private_target": True,
        "relation": Relation("replace_one"),
        "last": LOGISTIC(bounds=(0, 1)),
        "direct": True,
    }
    rng = np.random.default_rng(0)
    return make_canaries(
        Parts(**parts | changed),
        X,
        y,
        n_canaries=len(y),
        kind=kind,
        tails="auto",
        rng=rng,
    )


def test_canaries_are_far_apart():
    noise = canaries("noise")
    np.testing.assert_array_equal(np.abs(noise.X_a - noise.X_b), 1)
    np.testing.assert_array_equal(noise.y_a, noise.y_b)
    mirror = canaries("mirror")
    np.testing.assert_allclose(mirror.X_a + mirror.X_b, 1)
    flip = canaries("flip")
    assert (flip.y_a != flip.y_b).all()
    assert 0.4 < np.mean(flip.y_a) < 0.6
    flip = canaries("flip", last=REGRESSOR(bounds=(0, 1), target_bounds=(-5, 12)))
    assert set(flip.y_a.tolist()) == {-5.0, 12.0}


@pytest.mark.parametrize("bounds", [False, (0, [np.inf] * D)])
def test_canaries_are_finite_where_a_table_is_not(bounds):
    table = X.copy()
    table[:, 0], table[::2, 1], table[1, 2] = np.nan, np.nan, np.inf
    made = canaries("noise", table, last=LOGISTIC(bounds=bounds))
    for one in (made.X_a, made.X_b):
        assert np.isfinite(one).all()
        assert (np.ptp(one, axis=0) > 0).sum() == D - 1


@pytest.mark.parametrize("columns", [["age", "score", "town"], [0, 1, 2]])
@pytest.mark.parametrize("kind", ["noise", "mirror", "swap", "swapped towns"])
def test_frames_keep_their_types(kind, columns):
    table = pd.DataFrame(
        {
            columns[0]: RNG.integers(18, 90, 60),
            columns[1]: RNG.random(60).astype(np.float32),
            columns[2]: pd.Categorical(RNG.choice(["A", "B"], 60)),
        }
    )
    mask, y = np.array([False, False, True]), Y[:60]
    if kind == "swapped towns":
        kind, mask = "swap", ~mask
    made = canaries(kind, table, y, mask=mask, last=LOGISTIC())
    told, _ = made.table(table, y, RNG.random(60) < 0.5)
    assert told.dtypes.equals(table.dtypes)
    assert told.columns.equals(table.columns)
    for column, public in zip(columns, mask, strict=True):
        assert told[column].equals(table[column]) == public


@pytest.mark.parametrize("n_canaries", [1, 2, 5])
@pytest.mark.parametrize("kind", ["noise", "swap", "flip"])
def test_few_canaries_refute_nothing(n_canaries, kind):
    model = make("nothing public", epsilon=1.0)
    result = audit(model, n_canaries=n_canaries, canaries=kind, random_state=None)
    assert result.passed
    assert result.n_canaries == n_canaries
    assert max(guesses for guesses, _ in result.counts) == n_canaries


LOST = make_pipeline(HALF, LOGISTIC(1.0, bounds=(0, 0.5), public_features=[0, 1]))


@pytest.mark.parametrize(
    ("name", "given", "match"),
    [
        ("nothing public", {"random_state": -1}, "random_state=-1 must be an int"),
        ("nothing public", {"score": "x"}, "score='x' must be None or a function"),
        ("nothing public", {"score": lambda *_: np.zeros(3)}, "return 300 finite numb"),
        ("nothing public", {"canaries": "mole"}, "canaries='mole' is unknown"),
        ("nothing public", {"canaries": (X[:2], None)}, "of the shape of X and y"),
        ("nothing public", {"tails": "heads"}, "tails='heads' is unknown"),
        ("nothing public", {"tails": np.eye(2)}, "tails=.* is unknown"),
        ("nothing public", {"confidence": 1.0}, "confidence=1.0 must be a number > 0"),
        ("nothing public", {"n_canaries": 0}, "n_canaries=0 must be an int >= 1"),
        ("nothing public", {"n_guesses": 301}, "n_guesses=301 must be .* < 301"),
        ("nothing public", {"y": Y[:-1]}, "one target for each row"),
        ("target public", {"canaries": "flip"}, "here they are public"),
        ("label-DP", {"canaries": "noise"}, "here they are public"),
        ("dpsgd-f, two steps", {"tails": "null"}, "a null that this table can tell"),
        (make("nothing public", epsilon=np.inf), {}, "no finite epsilon"),
        (LogisticRegression(), {}, "has privacy_"),
        (LOGISTIC, {}, "must be an estimator"),
        (LOST, {}, "pass public_features"),
    ],
    ids=range(18),
)
def test_refusals_are_one_sentence(name, given, match):
    with pytest.raises(ValueError, match=match) as caught:
        audit(name, **given)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "inner",
    [
        LOGISTIC(bounds=(0, 1), public_target=True),
        SGD(bounds=(0, 1), classes=[0, 1]),
    ],
    ids=["target public", "two steps"],
)
def test_a_search_shows_its_best_model_and_no_iterate(inner):
    search = PrivateSearchCV(inner, {"solver__clip_norm": [0.3, 1.0]}, epsilon=16.0)
    model, iterate = fitted(search, X, Y)
    assert iterate is model
    result = audit(search)
    assert (result.kind, result.tails, result.passed) == ("noise", "other", True)
    assert result.claimed_epsilon == pytest.approx(16.0, rel=1e-4)


SAMPLED = {"solver": NoisySGD(batch_size=30, max_iter=50)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more"),
    [("columns public", {"solver": "noisy-sgd"}), ("dpsgd-f, two steps", {})],
)
def test_sampled_batches(name, more, request):
    honest = audit(make(name, **SAMPLED, **more))
    assert honest.passed
    assert honest.reach > 3
    request.getfixturevalue("no_noise")
    assert not audit(make(name, epsilon=0.5, **SAMPLED, **more)).passed


def test_clusters_of_unequal_size_are_told_apart():
    heads = np.arange(500) < 180
    noise = np.random.default_rng(0).normal(size=500)
    for offset in (0.0, 7.0):  # a model may like the first values better
        scores = np.where(heads, 1.0, -1.0) + offset + 0.1 * noise
        assert _right_guesses(scores, heads, None)[0] == (500, 500)
    assert _right_guesses(np.zeros(4), heads[:4], None)[0] == (4, 0)
