"""The one-run audit of estimators: honest ones pass, sabotaged ones do not."""

import dataclasses
import warnings

import numpy as np
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
from skfdp.mechanisms import release as desk
from skfdp.privacy import PrivacyLedger
from skfdp.privacy.events import Relation

N, D = 300, 600
LABELS, SPECIAL = (
    {"public_features": "all"},
    {"neighboring_relation": "replace_special"},
)
ADDED = {"neighboring_relation": "add_or_remove_one", "n_records": N}
LOGISTIC, SGD = skfdp.FeatureDPLogisticRegression, skfdp.DPSGDFClassifier
REGRESSOR = skfdp.FeatureDPRegressor
REAL = {"target_bounds": (0, 1)}
KINDS = {
    "nothing public": (LOGISTIC, {}),
    "nothing public, null": (LOGISTIC, {**SPECIAL, "classes": [0, 1]}),
    "columns public": (LOGISTIC, {"public_features": list(range(200))}),
    "target public": (LOGISTIC, {"public_target": True}),
    "label-DP": (LOGISTIC, LABELS),
    "label-DP, descent": (LOGISTIC, {**LABELS, "solver": "dp-gd"}),
    "dpsgd-f": (SGD, {"classes": [0, 1]}),
    "dpsgd-f, two steps": (SGD, {}),
    "dpsgd-f, added": (SGD, {**ADDED, "classes": [0, 1]}),
    "regressor": (REGRESSOR, REAL),
    "dpsgd-f regressor": (skfdp.DPSGDFRegressor, REAL),
}


@pytest.fixture
def table():
    rng = np.random.default_rng(11)
    return rng.random((N, D)), rng.integers(0, 2, N)


def make(name, **changed):
    kind, given = KINDS[name]
    return kind(**{"epsilon": 4.0, "bounds": (0, 1), **given, **changed})


def divide_noise(monkeypatch, factor):
    """Sabotage the desk: noise below what was charged."""

    def less(query, theta, *, noise_std, unit, generator, batch):
        total = query.exact_sum(theta, batch, unit)
        std = noise_std / factor / unit
        return desk.add_integer_gaussian(total, std, generator) * unit

    monkeypatch.setattr(desk, "_noisy_sum", less)


@pytest.mark.parametrize("name", KINDS)
def test_an_honest_estimator_passes_and_shows_something(name, table):
    result = audit_estimator(make(name), *table, random_state=1)
    assert result.passed
    assert result.claimed_epsilon == pytest.approx(4.0, rel=1e-4)
    assert result.n_canaries == result.n_trials == N
    guesses, right = np.array(result.counts).T
    assert (right <= guesses).all()
    assert (right / guesses).max() > 0.55
    assert result.lower_bound == max(result.steinke, result.f_dp)
    assert 0 < result.lower_bound < result.reach


@pytest.mark.parametrize("name", KINDS)
def test_noise_that_is_left_out_is_refuted(name, table, monkeypatch):
    pytest.importorskip("sklearn.callback")
    divide_noise(monkeypatch, 1e4)
    result = audit_estimator(make(name, epsilon=1.0), *table, random_state=1)
    assert not result.passed
    assert result.lower_bound > 1.1


def test_noise_divided_by_twenty_is_refuted(table, monkeypatch):
    pytest.importorskip("sklearn.callback")
    divide_noise(monkeypatch, 20)
    for name in ("nothing public", "label-DP, descent", "dpsgd-f"):
        assert not audit_estimator(make(name, epsilon=2.0), *table).passed


def test_the_claim_decides(table, monkeypatch):
    """What is refuted at one epsilon is not at the one that was spent."""
    divide_noise(monkeypatch, 4)
    spent = make("label-DP", epsilon=8.0)
    result = audit_estimator(spent, *table, random_state=0)
    assert result.passed == (result.lower_bound <= 8)
    modest = dataclasses.replace(result, claimed_epsilon=result.lower_bound / 2)
    assert not modest.passed


@pytest.mark.parametrize("name", ["nothing public, null", "dpsgd-f"])
def test_null_canaries_leave_a_fit_enough_labels(name, table, monkeypatch):
    """With few labels and much noise a count would look empty, and the fit refuse y."""
    divide_noise(monkeypatch, 1e4)
    one = make(name, epsilon=1.0)
    for seed in range(8):
        result = audit_estimator(one, *table, random_state=seed)
        assert result.tails == "other"
    assert audit_estimator(make(name), *table, random_state=0).tails == "null"
    assert (
        audit_estimator(make(name, epsilon=2.0), *table, tails="null").tails == "null"
    )


TAILS = {
    "nothing public": ("noise", "other", 1),
    "nothing public, null": ("noise", "null", 1),
    "columns public": ("noise", "other", 1),
    "label-DP": ("flip", "other", 1),
    "dpsgd-f": ("noise", "null", 1),
    "dpsgd-f, two steps": ("noise", "other", 2),
    "dpsgd-f, added": ("noise", "out", 1),
    "regressor": ("noise", "other", 1),
    "dpsgd-f regressor": ("noise", "null", 1),
}


def spied(name, table, monkeypatch, **given):
    """Return what an estimator was fitted to, its canaries, and who is null."""
    seen = {}

    class Spy(desk.Desk):
        def __init__(self, events, streams, void=None, units=None, journal=None):
            seen["void"] = void
            super().__init__(events, streams, void, units, journal)

    fit = KINDS[name][0].fit

    def kept(self, X, y=None, **of_rows):
        seen["fitted"] = X.copy(), y.copy()
        return fit(self, X, y, **of_rows)

    def made(*given, **named):
        seen["canaries"] = make_canaries(*given, **named)
        return seen["canaries"]

    monkeypatch.setattr("skfdp.base.Desk", Spy)
    monkeypatch.setattr(KINDS[name][0], "fit", kept)
    monkeypatch.setattr("skfdp.audit.one_run.make_canaries", made)
    seen["result"] = audit_estimator(make(name), *table, **given)
    return seen


@pytest.mark.parametrize("name", TAILS)
def test_what_coins_choose(name, table, monkeypatch):
    seen = spied(name, table, monkeypatch, n_canaries=100, random_state=5)
    kind, tails, n_steps = TAILS[name]
    made, (X, y) = seen["canaries"], seen["fitted"]
    assert (made.kind, made.tails, made.n_steps) == (kind, tails, n_steps)
    others = np.delete(np.arange(N), made.rows)
    if tails == "out":
        assert len(others) + 25 < len(X) < N - 25
        assert (X[: len(others) // 2] == table[0][: len(X)][: len(others) // 2]).any()
        return
    np.testing.assert_array_equal(X[others], table[0][others])
    np.testing.assert_array_equal(y[others], table[1][others])
    heads = (X[made.rows] == made.X_a).all(axis=1) & (y[made.rows] == made.y_a)
    assert 25 < heads.sum() < 75
    told = X[made.rows][~heads], y[made.rows][~heads]
    np.testing.assert_array_equal(told[0], made.X_tails[~heads])
    np.testing.assert_array_equal(told[1], np.asarray(made.y_tails)[~heads])
    void = np.zeros(N, dtype=bool) if seen["void"] is None else seen["void"]
    expected = np.zeros(N, dtype=bool)
    if tails == "null":
        expected[made.rows[~heads]] = True
    np.testing.assert_array_equal(void, expected)


@pytest.mark.parametrize("name", ["columns public", "target public", "label-DP"])
def test_the_public_part_stays(name, table, monkeypatch):
    seen = spied(name, table, monkeypatch, random_state=5)
    X, y = seen["fitted"]
    public = make(name).public_features
    columns = slice(None) if public == "all" else public or []
    np.testing.assert_array_equal(X[:, columns], table[0][:, columns])
    assert (y == table[1]).all() == (name == "target public")
    private = np.delete(np.arange(D), np.arange(D)[columns])
    assert (X[:, private] != table[0][:, private]).all()


def test_two_steps_cost_twice_the_sensitivity(table):
    two, one = (
        audit_estimator(make("dpsgd-f"), *table, tails=tails, random_state=2)
        for tails in ("other", "null")
    )
    assert (two.tails, one.tails) == ("other", "null")
    assert two.claimed_epsilon == pytest.approx(4.0, rel=1e-4)
    assert dict(two.allowed)[N] > dict(one.allowed)[N]


def test_nothing_is_charged_and_the_estimator_is_untouched(table):
    ledger = PrivacyLedger()
    model = make("dpsgd-f", ledger=ledger, random_state=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", skfdp.PrivacyWarning)  # of a seed
        audit_estimator(model, *table, random_state=0)
    assert not ledger.events
    assert model.ledger is ledger
    assert model.random_state == 3
    assert not hasattr(model, "coef_")


def test_coins_come_from_random_state_and_noise_does_not(table):
    found = [audit_estimator(make("dpsgd-f"), *table, random_state=4) for _ in range(2)]
    assert found[0].counts != found[1].counts  # the noise is another one
    assert audit_estimator(make("dpsgd-f"), *table).n_canaries == N


def test_the_number_of_guesses_is_fixed_or_corrected_for(table):
    fixed = audit_estimator(make("label-DP"), *table, n_guesses=100, random_state=1)
    assert [guesses for guesses, _ in fixed.counts] == [fixed.n_guesses] == [100]
    several = audit_estimator(make("label-DP"), *table, random_state=1)
    assert [guesses for guesses, _ in several.counts] == [300, 150, 75, 37]
    lax = dict(several.allowed)[300], dict(fixed.allowed)[300]
    assert lax[0] >= lax[1]  # a smaller share of the error for each
    surer = audit_estimator(make("label-DP"), *table, random_state=1, confidence=0.999)
    assert dict(surer.allowed)[300] > lax[0]


def test_results_attach_and_draw(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", skfdp.UtilityWarning)
        model = make("label-DP").fit(*table)
    result = audit_estimator(model, *table, random_state=1)
    report = result.attach_to(skfdp.report(model))
    assert report.findings == (result.finding,)
    assert "one run" in str(result)
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    ax = result.plot(Figure().add_subplot())
    assert len(ax.lines) == 3
    guesses, most = ax.lines[0].get_data()
    assert (np.diff(most) >= 0).all()
    assert (np.asarray(most) <= guesses).all()


@pytest.mark.parametrize("kind", ["flip", "mirror", "noise", "swap", "given"])
def test_kinds_of_canaries(kind, table):
    X, y = table
    given = (1 - X, y) if kind == "given" else kind
    result = audit_estimator(
        make("nothing public", epsilon=16.0), X, y, canaries=given, random_state=0
    )
    assert result.kind == kind
    assert result.passed
    assert result.lower_bound > 0


def test_frames_and_series(table):
    pd = pytest.importorskip("pandas")
    names = [f"u{j}" for j in range(D)]
    X = pd.DataFrame(table[0], columns=names)
    y = pd.Series(np.array(["no", "yes"])[table[1]], name="answer")
    model = LOGISTIC(epsilon=16.0, bounds=(0, 1), public_features=["u0", "u1"])
    result = audit_estimator(model, X, y, random_state=0)
    assert result.kind == "noise"
    assert result.passed
    assert result.lower_bound > 0
    null = LOGISTIC(epsilon=16.0, bounds=(0, 1), classes=["no", "yes"], **SPECIAL)
    result = audit_estimator(null, X, y, random_state=0)
    assert (result.tails, result.passed) == ("null", True)
    assert result.lower_bound > 0


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_rows(kind, table):
    X = kind(np.where(table[0] < 0.8, 0.0, table[0]))
    for given in ("noise", "swap"):
        result = audit_estimator(
            make("columns public", epsilon=16.0, bounds=(0, 1)),
            X,
            table[1],
            canaries=given,
            random_state=0,
        )
        assert result.passed
        assert result.kind == given


def test_raw_tables_swap_private_parts():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 400),
            "town": rng.choice(["A", "B", "C"], 400),
            "income": rng.random(400) * 1e5,
        }
    )
    encoder = skfdp.DeclaredEncoder(
        categories={"town": ["A", "B", "C"]},
        bounds={"age": (18, 90), "income": (0, 1e5)},
    )
    model = LOGISTIC(epsilon=8.0, encoder=encoder, public_features=["town"])
    result = audit_estimator(model, X, rng.integers(0, 2, 400), random_state=0)
    assert result.kind == "swap"
    assert result.passed


def test_several_classes_and_networks(table):
    X, _ = table
    y = np.random.default_rng(2).integers(0, 3, N)
    result = audit_estimator(make("nothing public", epsilon=16.0), X, y, random_state=0)
    assert result.passed
    assert result.lower_bound > 0
    network = skfdp.FeatureDPMLPClassifier(
        epsilon=16.0, bounds=(0, 1), max_iter=20, hidden_layer_sizes=(8,)
    )
    assert audit_estimator(network, X[:, :50], y, random_state=0).passed


def test_pipelines(table):
    first = skfdp.PrivateCenteringTransformer(epsilon=4.0, bounds=(0, 1))
    last = SGD(epsilon=4.0, bounds=False)
    result = audit_estimator(make_pipeline(first, last), *table, random_state=0)
    assert result.subject == "Pipeline"
    assert result.claimed_epsilon > 4.5  # both of them
    assert (result.tails, result.passed) == ("other", True)
    half = make_pipeline(
        FunctionTransformer(lambda X: X / 2),
        LOGISTIC(epsilon=16.0, bounds=(0, 0.5), public_features=list(range(100))),
    )
    with pytest.raises(ValueError, match="pass public_features"):
        audit_estimator(half, *table)
    result = audit_estimator(
        half, *table, public_features=list(range(100)), random_state=0
    )
    assert result.passed
    assert result.lower_bound > 0


def test_a_pipeline_whose_columns_are_private_needs_no_help(table, monkeypatch):
    half = make_pipeline(
        FunctionTransformer(lambda X: X / 2), LOGISTIC(epsilon=1.0, bounds=(0, 0.5))
    )
    assert audit_estimator(half, *table, random_state=0).passed
    pytest.importorskip("sklearn.callback")
    divide_noise(monkeypatch, 1e4)
    assert not audit_estimator(half, *table, random_state=0).passed


def means(model, X_a, y_a, X_b, y_b):
    """Return how far the released mean leans to the first value."""
    return (X_a - X_b) @ (model.mean_ - model.mean_.mean())


def test_transformers_need_a_score(table, monkeypatch):
    model = skfdp.PrivateCenteringTransformer(epsilon=4.0, bounds=(0, 1))
    with pytest.raises(ValueError, match=r"pass score\(model"):
        audit_estimator(model, table[0])
    result = audit_estimator(model, table[0], score=means, random_state=0)
    assert result.passed
    divide_noise(monkeypatch, 1e4)
    bad = model.set_params(neighboring_relation="replace_one", epsilon=3.0)
    X = np.random.default_rng(0).random((N, 10 * N))
    assert not audit_estimator(bad, X, score=means, random_state=0).passed


def test_null_by_missing_values(table):
    model = skfdp.PrivateCenteringTransformer(epsilon=4.0, bounds=False)
    result = audit_estimator(model, table[0], score=means, random_state=0)
    assert result.tails == "null"
    assert result.passed


def parts(**changed):
    given = {
        "mask": np.zeros(D, dtype=bool),
        "private_target": True,
        "relation": Relation("replace_one"),
        "last": LOGISTIC(bounds=(0, 1)),
        "direct": True,
    }
    return Parts(**{**given, **changed})


def test_canaries_are_far_apart(table):
    rng = np.random.default_rng(0)
    given = {"n_canaries": N, "tails": "auto", "rng": rng}
    noise = make_canaries(parts(), *table, kind="noise", **given)
    np.testing.assert_array_equal(np.abs(noise.X_a - noise.X_b), 1)
    np.testing.assert_array_equal(noise.y_a, noise.y_b)
    mirror = make_canaries(parts(), *table, kind="mirror", **given)
    np.testing.assert_allclose(mirror.X_a + mirror.X_b, 1)
    flip = make_canaries(parts(), *table, kind="flip", **given)
    assert (flip.y_a != flip.y_b).all()
    assert 0.4 < np.mean(flip.y_a) < 0.6
    bounds = parts(last=REGRESSOR(bounds=(0, 1), target_bounds=(-5, 12)))
    flip = make_canaries(bounds, *table, kind="flip", **given)
    assert set(flip.y_a.tolist()) == {-5.0, 12.0}


def test_canaries_are_finite_where_a_table_is_not(table):
    X, y = table
    X = X.copy()
    X[:, 0], X[::2, 1], X[1, 2] = np.nan, np.nan, np.inf
    given = {"n_canaries": N, "tails": "auto", "rng": np.random.default_rng(0)}
    for bounds in (False, (0, [np.inf] * D)):
        made = make_canaries(
            parts(last=LOGISTIC(bounds=bounds)), X, y, kind="noise", **given
        )
        for one in (made.X_a, made.X_b):
            assert np.isfinite(one).all()
            assert (np.ptp(one, axis=0) > 0).sum() == D - 1


@pytest.mark.parametrize("columns", ["text", "numbers"])
def test_frames_keep_their_types(columns):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 60),
            "score": rng.random(60).astype(np.float32),
            "town": pd.Categorical(rng.choice(["A", "B"], 60)),
        }
    )
    if columns == "numbers":
        X.columns = [0, 1, 2]
    y, heads = rng.integers(0, 2, 60), rng.random(60) < 0.5
    mask = np.array([False, False, True])
    given = {"n_canaries": 60, "tails": "auto", "rng": rng}
    for kind in ("noise", "mirror", "swap"):
        made = make_canaries(
            parts(mask=mask, last=LOGISTIC()), X, y, kind=kind, **given
        )
        told, _ = made.table(X, y, heads)
        assert told.dtypes.equals(X.dtypes)
        assert told.columns.equals(X.columns)
        assert told.iloc[:, 2].equals(X.iloc[:, 2])
        assert (told.iloc[:, 0] != X.iloc[:, 0]).any()
    swapped = make_canaries(
        parts(mask=~mask, last=LOGISTIC()), X, y, kind="swap", **given
    )
    told, _ = swapped.table(X, y, heads)
    assert told.dtypes.equals(X.dtypes)
    assert not told.iloc[:, 2].equals(X.iloc[:, 2])
    assert told.iloc[:, :2].equals(X.iloc[:, :2])


@pytest.mark.parametrize("n_canaries", [1, 2, 5])
def test_few_canaries_refute_nothing(n_canaries, table):
    for kind in ("noise", "swap", "flip"):
        result = audit_estimator(
            make("nothing public", epsilon=1.0),
            *table,
            n_canaries=n_canaries,
            canaries=kind,
        )
        assert result.passed
        assert result.n_canaries == n_canaries
        assert max(guesses for guesses, _ in result.counts) == n_canaries


ERRORS = {
    "seed": ({"random_state": -1}, "random_state=-1 must be an int"),
    "no score": ({"score": "margins"}, "score='margins' must be None or"),
    "kind": ({"canaries": "mole"}, "canaries='mole' is unknown"),
    "shape": ({"canaries": (np.zeros((2, 2)), None)}, "of the shape of X and y"),
    "tails": ({"tails": "heads"}, "tails='heads' is unknown"),
    "confidence": ({"confidence": 1.0}, "confidence=1.0 must be a number > 0 and < 1"),
    "canaries": (
        {"n_canaries": 0},
        "n_canaries=0 must be an int >= 1 and < 301 or None",
    ),
    "guesses": (
        {"n_guesses": 301},
        "n_guesses=301 must be an int >= 1 and < 301 or None",
    ),
    "score": (
        {"score": lambda *_: np.zeros(3)},
        "score must return 300 finite numbers",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_sentence(name, table):
    given, match = ERRORS[name]
    with pytest.raises(ValueError, match=match) as caught:
        audit_estimator(make("nothing public"), *table, **given)
    assert str(caught.value).endswith(".")


def test_what_cannot_be_audited(table):
    with pytest.raises(ValueError, match="no finite epsilon"):
        audit_estimator(make("nothing public", epsilon=np.inf), *table)
    with pytest.raises(ValueError, match="has privacy_"):
        audit_estimator(LogisticRegression(), *table)
    with pytest.raises(ValueError, match="one target for each row"):
        audit_estimator(make("dpsgd-f"), table[0], table[1][:-1])
    with pytest.raises(ValueError, match="must be an estimator"):
        audit_estimator("model", *table)
    with pytest.raises(ValueError, match="here they are public"):
        audit_estimator(make("target public"), *table, canaries="flip")
    with pytest.raises(ValueError, match="here they are public"):
        audit_estimator(make("label-DP"), *table, canaries="noise")
    with pytest.raises(ValueError, match="needs a null that this table can tell"):
        audit_estimator(make("dpsgd-f, two steps"), *table, tails="null")


def test_a_search_shows_its_best_model_and_no_iterate(table):
    inner = LOGISTIC(bounds=(0, 1), public_target=True)
    search = skfdp.PrivateSearchCV(inner, {"clip_norm": [0.3, 1.0]}, epsilon=16.0)
    model, iterate = fitted(search, *table)
    assert iterate is model
    result = audit_estimator(search, *table, random_state=0)
    assert result.passed
    assert result.claimed_epsilon == pytest.approx(16.0, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["columns public", "dpsgd-f, two steps"])
def test_sampled_batches(name, table, monkeypatch):
    model = make(name, batch_size=30, max_iter=50)
    if name == "columns public":
        model.set_params(solver="dp-sgd")
    honest = audit_estimator(model, *table, random_state=0)
    assert honest.passed
    assert honest.reach > 3
    pytest.importorskip("sklearn.callback")
    divide_noise(monkeypatch, 1e4)
    model.set_params(epsilon=0.5)
    assert not audit_estimator(model, *table, random_state=0).passed


def test_clusters_of_unequal_size_are_told_apart():
    heads = np.arange(500) < 180
    noise = np.random.default_rng(0).normal(size=500)
    for offset in (0.0, 7.0):  # a model may like the first values better
        scores = np.where(heads, 1.0, -1.0) + offset + 0.1 * noise
        assert _right_guesses(scores, heads, None)[0] == (500, 500)
    assert _right_guesses(np.zeros(4), heads[:4], None)[0] == (4, 0)
