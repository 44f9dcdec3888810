"""Where a new user was misled: each test is named after the mishap."""

import ast
import inspect
import math
import re
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import skfdp
from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    TableSchema,
    UtilityWarning,
)
from skfdp.data._basis import Smoothing
from skfdp.data.input_scaler import InputScaler, PublicRows
from skfdp.privacy import Event, compose
from skfdp.schema import Category, Label, Number
from skfdp.solvers import Huber, NoisyGradientDescent, NoisySGD, whitening
from skfdp.solvers import network as networks
from skfdp.solvers import parameters as defaults
from skfdp.solvers import postprocessing as coefficient_noise
from skfdp.solvers.network import Network, glorot

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)


def told(category, call):
    """Return what a call warns of, by category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if issubclass(w.category, category)]


# -- networks with a private label ----------------------------------------------------
def test_a_number_alone_is_a_budget_for_the_network_too(small):
    model = FeatureDPMLPClassifier(8, bounds=(0, 1), solver=NoisySGD(max_iter=1))
    assert model.epsilon == 8 and model.hidden_layer_sizes == (300,)
    assert model.fit(*small).privacy_.epsilon == pytest.approx(8, rel=1e-3)


def chance_warnings(n, d, epsilon, **options):
    rng = np.random.default_rng(0)
    X, y = rng.random((n, d)), np.arange(n) % 2
    options = {"hidden_layer_sizes": (300,), "bounds": (0, 1)} | options
    model = FeatureDPMLPClassifier(epsilon, **options)
    found = told(UtilityWarning, lambda: model.plan(X, y))
    return [one for one in found if "small for a network" in one]


def test_a_network_without_a_chance_is_told_beforehand():
    # The hospital of the report: 3,750 stays, 12 columns, some of them texts.
    (text,) = chance_warnings(3750, 30, 0.1)
    assert "hidden layers (300,)" in text and "3750 records and 30 features" in text
    assert "than FeatureDPLogisticRegression learns with the same budget" in text
    assert not chance_warnings(3750, 30, 1.0)
    assert not chance_warnings(40_000, 30, 0.1)
    assert chance_warnings(300, 30, 1.0, hidden_layer_sizes=(5,))
    # Nothing to tell where the label is public: a linear model comes first.
    assert not chance_warnings(3750, 30, 0.1, public_target=True)


@pytest.mark.parametrize(
    ("n", "hidden", "epsilon", "rate", "n_steps"),
    [
        (1000, 32, 1.0, 1.0, 100),
        (4096, 8, 8.0, 1.0, 272),  # where the budget has use for more
        (5000, 32, 0.1, 1024 / 5000, 100),
        (32_768, 300, 0.1, 1 / 16, 160),
    ],
)
def test_a_random_network_takes_enough_steps(n, hidden, epsilon, rate, n_steps):
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 30)), np.arange(n) % 2
    model = FeatureDPMLPClassifier(
        epsilon, hidden_layer_sizes=hidden, bounds=(0, 1), classes=[0, 1]
    )
    schedule = model.plan(X, y).schedule
    assert (schedule.sampling_rate, schedule.n_steps) == (rate, n_steps)


def test_a_step_is_as_long_as_the_noise_in_a_fresh_weight_allows():
    found = [defaults.network_noise(widths, False) for widths in ((64, 32, 10), (7, 9))]
    assert found == pytest.approx([2 * (2 / 96) ** 0.5, 2 * (2 / 16) ** 0.5])
    assert defaults.network_noise((64, 32, 10), True) == 0.03
    rates = [defaults.network_learning_rate(9.0, 900.0, 75, 0.9, x) for x in (0.1, 9.0)]
    assert rates == pytest.approx([0.1 / (0.01 * 5 * 10), 1.0])


@pytest.mark.filterwarnings("ignore::skfdp.privacy.PrivacyWarning")
@pytest.mark.parametrize("hidden", [32, pytest.param(64, marks=pytest.mark.slow)])
def test_a_narrow_network_learns_digits(hidden):
    X, y = load_digits(return_X_y=True)
    model = FeatureDPMLPClassifier(
        4.0,
        hidden_layer_sizes=hidden,
        bounds=(0, 16),
        classes=range(10),
        random_state=0,
    )
    assert model.fit(X[:1347], y[:1347]).score(X[1347:], y[1347:]) > 0.75


@pytest.mark.parametrize("widths", [(12, 300, 1), (40, 20, 1), (20, 60, 40, 1)])
def test_the_index_knows_how_much_a_random_network_says(widths):
    """Its denominator, per unit of the rows' length, is that of drawn networks."""
    rng = np.random.default_rng(0)
    rows = rng.random((200, widths[0]))
    rows -= rows.mean(axis=0)  # what differs between rows
    spreads = []
    for _ in range(100):
        network = glorot(widths, rng)
        zero = [0 * intercept for intercept in network.intercepts]
        margins = Network(network.coefs, zero).margins(rows)
        spreads.append(
            np.sqrt((margins**2).mean()) / np.linalg.norm(rows, axis=1).mean()
        )
    reach = 1.0
    taught = np.sqrt(2) * reach / (16 * widths[0])
    said = taught / defaults.network_index(reach, widths)  # half the row differs
    assert said / 0.5 == pytest.approx(np.sqrt(np.mean(np.square(spreads))), rel=0.15)


def test_the_index_is_linear_in_the_reach():
    assert defaults.network_index(2.0, (9, 8, 1)) == pytest.approx(
        2 * defaults.network_index(1.0, (9, 8, 1))
    )
    assert defaults.network_index(1.0, (9, 800, 1)) > defaults.network_index(
        1.0, (9, 8, 1)
    )


# -- public pretraining: steps are counted, not timed ---------------------------------
@pytest.fixture
def counted(monkeypatch):
    """Count what scikit-learn is asked for: calls, rows and steps."""
    seen = {"calls": 0, "rows": 0, "most": 0, "steps": 0}

    class Counting(networks.MLPClassifier):
        def partial_fit(self, X, y, classes=None):
            seen["calls"] += 1
            seen["rows"] += len(X)
            seen["most"] = max(seen["most"], len(X))
            seen["steps"] += math.ceil(len(X) / self.batch_size)
            return super().partial_fit(X, y, classes=classes)

    monkeypatch.setattr(networks, "MLPClassifier", Counting)
    return seen


@pytest.mark.parametrize(
    "n",
    [
        2,
        12,
        200,
        5_000,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (50, 199, 500)),
    ],
)
def test_pretraining_takes_as_many_steps_for_few_rows_as_for_many(n, counted):
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 3)), np.arange(n) % 2
    n_epochs = defaults.pretraining_epochs(n)
    networks.trained(lambda: X, y, 2, (4,), rng)
    assert counted["rows"] == n_epochs * n <= 162_000
    assert counted["most"] < 4096 + n
    assert 780 <= counted["steps"] <= 840
    assert counted["calls"] <= 80


@pytest.mark.parametrize("n", [1, 12, 200, 10_000, 10**8])
def test_passes_over_the_rows(n):
    epochs = defaults.pretraining_epochs(n)
    assert 3 <= epochs <= 800
    assert epochs * n >= min(160_000, 800 * n)


def test_few_rows_are_learnt_as_well_as_before():
    """A dozen rows, in 800 steps."""
    rng = np.random.default_rng(1)
    y = np.arange(12) % 2
    X = rng.random((12, 3)) * 0.3 + 0.6 * y[:, None]
    network = networks.trained(lambda: X, y, 2, (20,), rng)
    assert ((network.margins(X)[:, 0] > 0) == y).all()


@pytest.mark.parametrize("pretraining", ["public", "class_sums"])
def test_a_fit_with_many_text_labels(pretraining, counted):
    rng = np.random.default_rng(2)
    labels = np.array([f"label {k}" for k in range(150)])
    y = np.r_[labels, rng.choice(labels, 150)]
    FeatureDPMLPClassifier(
        hidden_layer_sizes=(8,),
        public_features=[0, 1],
        public_target=True,
        pretraining=pretraining,
        bounds=(0, 1),
        random_state=0,
        solver=NoisySGD(max_iter=2),
    ).fit(rng.random((300, 5)), y)
    assert counted["calls"] <= 80
    assert counted["steps"] <= 840


# -- bounds of some columns, and of none ----------------------------------------------
BOUNDED = {
    "FeatureDPLogisticRegression": {},
    "FeatureDPMLPClassifier": {},
    "FeatureDPRegressor": {"target_bounds": (0, 1)},
    "PrivateCenteringTransformer": {},
}


def told_of_bounds(name, X, y, **options):
    model = getattr(skfdp, name)(**BOUNDED[name] | options)
    found = told(UtilityWarning, lambda: model.plan(X, y))
    return [one for one in found if one.startswith("bounds")]


@pytest.mark.parametrize("name", BOUNDED)
def test_private_columns_that_bounds_leave_out_are_named(name, small):
    X, y = small
    frame = pd.DataFrame(X, columns=list("abcd"))
    shared = {"public_features": ["a"]}
    (text,) = told_of_bounds(name, frame, y, bounds={"b": (0, 1)}, **shared)
    assert "do not cover 2 private column(s): 'c', 'd'; " in text
    assert "declare their bounds too" in text
    # Equal for all private values: names and bounds are public.
    frame.loc[:, "b":] = 1e9
    assert [text] == told_of_bounds(name, frame, y, bounds={"b": (0, 1)}, **shared)
    (text,) = told_of_bounds(name, X, y, bounds={1: (0, 1)}, public_features=[0])
    assert "private column(s): 2, 3; " in text
    whole = {column: (0, 1) for column in "bcd"}
    assert not told_of_bounds(name, frame, y, bounds=whole, **shared)
    assert not told_of_bounds(name, frame, y, bounds=False, **shared)


def test_many_columns_without_bounds_are_counted(small):
    X = np.tile(small[0], 5)
    (text,) = told_of_bounds(
        "FeatureDPLogisticRegression", X, small[1], bounds={0: (0, 1)}
    )
    assert "do not cover 19 private column(s): 1, 2, 3, 4, 5, ...; " in text


TABLE = np.column_stack([RNG.uniform(18, 90, 300), RNG.lognormal(8, 1, 300)])

BOTH = np.arange(300) % 2

EVERY = {
    "logistic": (FeatureDPLogisticRegression(delta=1e-3), BOTH),
    "dpsgd-f": (DPSGDFClassifier(delta=1e-3), BOTH),
    "regressor": (FeatureDPRegressor(delta=1e-3, target_bounds=(0, 1)), BOTH),
    "dpsgd-f regressor": (DPSGDFRegressor(delta=1e-3, target_bounds=(0, 1)), BOTH),
    "network": (FeatureDPMLPClassifier(delta=1e-3, solver=NoisySGD(max_iter=2)), BOTH),
    "centring": (PrivateCenteringTransformer(delta=1e-3), None),
}


@pytest.mark.parametrize("name", EVERY)
def test_newcomer_b_a_fit_without_bounds_says_what_to_expect(name):
    model, y = EVERY[name]
    first = told(UtilityWarning, lambda: model.fit(TABLE, y))[0]
    for said in (
        "expect no better than chance",
        "2 private column(s)",
        "a row with a missing value is ignored",
        *("bounds=(low, high)", "TableSchema", "private_bounds"),
    ):
        assert said in first


@pytest.mark.parametrize("name", EVERY)
def test_newcomer_b_scaled_columns_are_no_reason_to_warn(name):
    model, y = EVERY[name]
    model = clone(model).set_params(bounds=False)
    assert not [
        one
        for one in told(Warning, lambda: model.fit(TABLE / 1e4, y))
        if "bounds" in one
    ]


def test_newcomer_b_the_number_is_that_of_private_columns():
    for public, wanted in (([0], 1), ("all", 0)):
        model = FeatureDPLogisticRegression(delta=1e-3, public_features=public)
        found = told(UtilityWarning, lambda model=model: model.fit(TABLE, BOTH))
        assert len([one for one in found if "chance" in one]) == wanted
        assert wanted == sum("for 1 private column(s)" in one for one in found)


def test_newcomer_b_columns_left_without_bounds_lose_rows_with_missing_values():
    model = DPSGDFClassifier(delta=1e-3, bounds={0: (18, 90)})
    with pytest.warns(UtilityWarning, match="bounds do not cover 1 .* is ignored"):
        model.fit(TABLE, BOTH)


# -- messages that lead somewhere -----------------------------------------------------
def event(**changes):
    facts = {"label": "fit", "noise_std": (5.0,), "clip_norm": 1.0, "sensitivity": 2.0}
    return Event(**facts | {"neighboring_relation": "replace_one"} | changes)


def test_no_message_sends_anybody_around_the_accounting():
    with pytest.raises(ValueError, match="do not compose") as caught:
        compose([event(), event(public_target=True)])
    assert "separate data sets" not in str(caught.value)
    ledger = skfdp.PrivacyLedger(epsilon=1.0, delta=1e-5)
    with pytest.raises(skfdp.PrivacyBudgetError, match="budget exhausted") as caught:
        ledger.charge_nonprivate()
    assert "leave this ledger out" not in str(caught.value)


# -- the main job ---------------------------------------------------------------------
@pytest.mark.slow
def test_the_main_job_prints_a_table_in_which_public_columns_pay():
    done = subprocess.run(
        [sys.executable, "-m", "skfdp", "--seed", "0"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    line = r"^ *(\S.*?)  +(inf|[0-9.]+)  +([0-9.]+) %(?: \+- [0-9.]+)?  +[0-9]"
    rows = re.findall(line, done.stdout, re.MULTILINE)
    scores = {model.split(" (")[0]: float(score) for model, _, score in rows}
    assert len(scores) == 5
    rivals = ("DP on everything", "public columns and target only")
    assert scores["feature-DP"] > max(scores[rival] for rival in rivals) + 2


# -- F10: many categories -------------------------------------------------------------
N_LEVELS, N_ROWS = 3000, 60

N_LEVELS, N_ROWS = 3000, 60

TWO_STEPS = NoisyGradientDescent(max_iter=2)

ZIPS = pd.DataFrame(
    {"zip": RNG.integers(0, N_LEVELS, N_ROWS).astype(str), "age": RNG.random(N_ROWS)}
)

LABELS, NUMBERS = np.arange(N_ROWS) % 2, RNG.random(N_ROWS)

PUBLIC = {
    "private": {},
    "public": {"columns": ("zip",)},
    "label": {"columns": ("zip", "age")},
    "target": {"target": True},
    "public and target": {"columns": ("zip",), "target": True},
}


def zip_schema(
    estimator, levels=N_LEVELS, columns=(), target=False, knots="auto", **more
):
    """Return a schema with the outcome "y", of which some is public."""
    outcome = Number(0, 1, public=target)
    if estimator in (DPSGDFClassifier, FeatureDPLogisticRegression):
        outcome = Label([0, 1], public=target)
    zips = Category(list(map(str, range(levels))), public="zip" in columns)
    age = Number(0, 1, public="age" in columns, knots=knots)
    return TableSchema({"age": age, "zip": zips, "y": outcome}, outcomes=["y"], **more)


def peak_of_fit(estimator, X, y, **given):
    """Return what numpy holds at most during a fit, in bytes, and the model."""
    model = estimator(schema=zip_schema(estimator, **given), delta=1e-3)
    small = zip_schema(estimator, 3, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two = {} if small.public == small.features else {"solver": TWO_STEPS}
        estimator(schema=small, delta=1e-3, **two).fit(X, y)
        tracemalloc.start()
        try:
            model.fit(X, y)
            return tracemalloc.get_traced_memory()[1], model
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("estimator", "public"),
    [
        *[
            pytest.param(one, name, marks=marks)
            for one, marks in (
                (FeatureDPLogisticRegression, ()),
                (FeatureDPRegressor, pytest.mark.nightly),
            )
            for name in PUBLIC
        ],
        (DPSGDFClassifier, "private"),
        pytest.param(DPSGDFRegressor, "private", marks=pytest.mark.nightly),
    ],
)
def test_f10_no_matrix_of_categories_by_categories(estimator, public):
    y = LABELS if "Regressor" not in estimator.__name__ else NUMBERS
    peak, model = peak_of_fit(estimator, ZIPS, y, **PUBLIC[public])
    # Eight bytes for each pair of categories would be 72 MB; the rows are 1.5.
    assert peak < 8 * N_LEVELS**2 / 4
    n_columns = len(model.encoder_.get_feature_names_out())
    assert model.coef_noise_.std.shape == (1, n_columns + 1)
    assert np.isfinite(model.coefficients_table()["noise_std"]).all()


def test_f10_the_noise_of_many_categories_is_that_of_few(monkeypatch):
    given = {"schema": zip_schema(DPSGDFClassifier, 30, knots=5), "random_state": 0}
    monkeypatch.setattr(coefficient_noise, "MOST_WEIGHTS", 0)  # the upper bound
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = DPSGDFClassifier(5.0, 1e-3, **given).fit(ZIPS, LABELS).coef_noise_
        monkeypatch.setattr(coefficient_noise, "MOST_ENTRIES", 0)
        many = DPSGDFClassifier(5.0, 1e-3, **given).fit(ZIPS, LABELS).coef_noise_
    assert few.covariance.ndim == 3
    assert many.covariance.ndim == 2
    np.testing.assert_allclose(many.std, few.std, rtol=1e-12)


def test_f10_variances_of_smooth_weights_are_squares_of_the_map():
    schema = zip_schema(DPSGDFClassifier, 5, knots=6)
    smoothing = Smoothing(schema.blocks(), np.inf, 10**6)
    variances = RNG.random((2, smoothing.n_columns))
    L = smoothing.weights(np.eye(smoothing.n_columns))
    np.testing.assert_allclose(smoothing.weights(variances, power=2), variances @ L**2)


def test_f10_few_rows_of_many_columns_have_the_same_directions(monkeypatch):
    X = RNG.random((20, 40)) * np.linspace(1, 3, 40)
    rows, mean = (
        PublicRows(X, np.ones(40, dtype=bool), InputScaler(shortens=False)),
        X.mean(axis=0),
    )
    shares = RNG.random(20) + 0.5
    exact = whitening._principal(rows, mean, shares)
    monkeypatch.setattr(whitening, "MOST_DIRECTIONS", 19)
    monkeypatch.setattr(whitening, "MOST_COLUMNS", 100)
    few = whitening._principal(rows, mean, shares)
    kept = exact[0] > 1e-9 * exact[0][0]
    variances, axes = exact[0][kept][:19], exact[1][:, kept][:, :19]
    np.testing.assert_allclose(few[0], variances, rtol=1e-9)
    np.testing.assert_allclose(few[1] @ few[1].T, axes @ axes.T, atol=1e-7)


# -- A2: Huber's threshold ------------------------------------------------------------
def costs(n, seed):
    """Return columns and a cost in euros with a heavy tail."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 4))
    y = np.exp(7.2 + 1.4 * X[:, 0] + 0.8 * X[:, 1] + 0.6 * rng.normal(size=n))
    return X, np.minimum(y, 100_000)


@pytest.mark.parametrize("estimator", [FeatureDPRegressor, DPSGDFRegressor])
def test_newcomer_a2_the_default_threshold_is_in_spreads(estimator):
    (X, y), (X_new, y_new) = costs(8000, 0), costs(4000, 1)
    given = {"bounds": (0, 1), "target_bounds": (0, 100_000)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        huber = estimator(2.0, loss="huber", **given).fit(X, y)
        squared = estimator(2.0, **given).fit(X, y)
    # It was -0.2, with a threshold of 1.35 euros.
    assert huber.score(X_new, y_new) > squared.score(X_new, y_new) - 0.06 > 0.1


@pytest.mark.parametrize("estimator", [FeatureDPRegressor, DPSGDFRegressor])
def test_newcomer_a2_the_threshold_follows_the_units_of_the_target(estimator):
    X, y = costs(500, 0)
    given = {"bounds": (0, 1), "loss": "huber", "epsilon": np.inf}
    euros = estimator(**given).fit(X, y)
    thousands = estimator(**given, alpha=1.0).fit(X, y / 1000)
    np.testing.assert_allclose(euros.coef_, 1000 * thousands.coef_, rtol=1e-3)


@pytest.mark.parametrize("estimator", [FeatureDPRegressor, DPSGDFRegressor])
def test_newcomer_a2_a_threshold_that_makes_an_absolute_loss_warns(estimator):
    X, y = costs(500, 0)
    given = {"bounds": (0, 1), "target_bounds": (0, 100_000)}
    says = "threshold=1.35 is below a thousandth of the width"
    with pytest.warns(UtilityWarning, match=says):
        estimator(1.0, loss=Huber(threshold=1.35), **given).fit(X, y)
    with pytest.warns(UtilityWarning, match=says):  # of parameters alone
        estimator(1.0, loss=Huber(threshold=1.35), **given).plan(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        estimator(5.0, loss=Huber(threshold=2000), **given).fit(X, y)


@pytest.mark.parametrize("given", [{"public_target": True}, {"epsilon": np.inf}])
def test_newcomer_a2_without_target_bounds_the_exact_spread_counts(given):
    X, y = costs(500, 0)
    model = FeatureDPRegressor(bounds=(0, 1), loss=Huber(threshold=1.35), **given)
    with pytest.warns(UtilityWarning, match="below a hundredth of the target's spread"):
        model.fit(X, y)


# -- A3: the extra of the documentation -----------------------------------------------
@pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="no checkout")
def test_newcomer_a3_the_extra_docs_has_what_the_pages_import():
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    tree = ast.parse(setup.partition("\nsetup(")[0])
    names = {}
    exec(compile(tree, "setup.py", "exec"), {"__file__": str(ROOT / "setup.py")}, names)
    docs = {re.split("[<>=[]", one)[0] for one in names["EXTRAS"]["docs"]}
    assert {"sphinx", "matplotlib", "pandas"} <= docs


@pytest.mark.skipif(not (ROOT / ".ci/run").is_file(), reason="no checkout")
def test_newcomer_a3_the_documentation_is_built_from_its_extra_alone():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    (installed,) = re.findall(
        r'site/\$bin/python" -m pip install .*\$\{wheels\[0\]\}(.*)"', script
    )
    assert installed == "[docs]"
    assert re.findall(r"(\S+) -m sphinx", script) == ['"$work/site/$bin/python"']


# -- A7: one relation by default, epsilon first ---------------------------------------
def test_newcomer_a7_every_estimator_has_the_same_default_relation():
    for model, _ in EVERY.values():
        assert model.neighboring_relation == "replace_one"
    kinds = FeatureDPLogisticRegression, DPSGDFClassifier
    given = {"bounds": (0, 1), "classes": [0, 1], "delta": 1e-3}
    one, other = (kind(**given).plan(TABLE, BOTH) for kind in kinds)
    assert one.events == other.events


def test_newcomer_a7_golden_cases_name_the_relation(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/golden"))
    from golden_cases import CASES, estimator

    for case in CASES:
        params = estimator(case).get_params()
        named = case["params"].get("neighboring_relation")
        assert named == params["neighboring_relation"]


def test_every_estimator_takes_epsilon_first():
    for model, _ in EVERY.values():
        parameters = inspect.signature(type(model)).parameters.values()
        positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        assert positional in (["epsilon", "delta"], ["epsilon"])
