"""Where a new user was misled: each test is named after the mishap."""

import inspect
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import skfdp
from skfdp.privacy import Event, compose
from skfdp.solvers import NoisyGradientDescent, NoisySGD
from skfdp.solvers import parameters as defaults
from skfdp.solvers.network import Network, glorot

ESTIMATORS = [
    "DPSGDFClassifier",
    "DPSGDFRegressor",
    "FeatureDPLogisticRegression",
    "FeatureDPMLPClassifier",
    "FeatureDPRegressor",
    "PrivateCenteringTransformer",
]


# -- constructors ---------------------------------------------------------------------
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_takes_epsilon_first(name):
    parameters = list(inspect.signature(getattr(skfdp, name)).parameters.values())
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert positional in (["epsilon", "delta"], ["epsilon"])


def test_a_number_alone_is_a_budget_for_the_network_too(small):
    model = skfdp.FeatureDPMLPClassifier(8, bounds=(0, 1), solver=NoisySGD(max_iter=1))
    assert model.epsilon == 8 and model.hidden_layer_sizes == (300,)
    assert model.fit(*small).privacy_.epsilon == pytest.approx(8, rel=1e-3)


# -- networks with a private label ----------------------------------------------------
def chance_warnings(n, d, epsilon, **options):
    rng = np.random.default_rng(0)
    X, y = rng.random((n, d)), np.arange(n) % 2
    options = {"hidden_layer_sizes": (300,), "bounds": (0, 1)} | options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        skfdp.FeatureDPMLPClassifier(epsilon, **options).plan(X, y)
    return [str(w.message) for w in caught if "small for a network" in str(w.message)]


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
    model = skfdp.FeatureDPMLPClassifier(
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
@pytest.mark.parametrize("hidden", [32, 64])
def test_a_narrow_network_learns_digits(hidden):
    X, y = load_digits(return_X_y=True)
    model = skfdp.FeatureDPMLPClassifier(
        4.0,
        hidden_layer_sizes=hidden,
        bounds=(0, 16),
        classes=range(10),
        random_state=0,
    )
    assert model.fit(X[:1347], y[:1347]).score(X[1347:], y[1347:]) > 0.75


def test_the_warning_points_at_the_line_of_the_user(small):
    model = skfdp.FeatureDPMLPClassifier(
        0.1, bounds=(0, 1), solver=NoisySGD(max_iter=1)
    )
    with pytest.warns(
        skfdp.UtilityWarning, match="no more than the majority"
    ) as caught:
        model.fit(*small)
    assert {w.filename for w in caught if "majority" in str(w.message)} == {__file__}


@pytest.mark.parametrize("widths", [(12, 300, 1), (40, 20, 1), (20, 60, 40, 1)])
def test_the_index_knows_how_much_a_random_network_says(widths):
    """Its denominator, per unit of the rows' length, is that of drawn networks."""
    rng = np.random.default_rng(0)
    rows = rng.random((200, widths[0]))
    rows -= rows.mean(axis=0)  # what differs between rows
    spreads = []
    for _ in range(300):
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


# -- bounds of some columns -----------------------------------------------------------
BOUNDED = {
    "FeatureDPLogisticRegression": {},
    "FeatureDPMLPClassifier": {},
    "FeatureDPRegressor": {"target_bounds": (0, 1)},
    "PrivateCenteringTransformer": {},
}


def told_of_bounds(name, X, y, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(skfdp, name)(**BOUNDED[name] | options).plan(X, y)
    return [str(w.message) for w in caught if str(w.message).startswith("bounds")]


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


# -- coef_ ----------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["FeatureDPLogisticRegression", "DPSGDFClassifier"])
def test_coef_is_documented_as_what_it_is(name):
    rng = np.random.default_rng(0)
    X = rng.uniform(20, 40, (400, 6))
    y = X[:, 0] > X[:, 1]
    estimator = getattr(skfdp, name)
    model = estimator(
        bounds=(20, 40),
        neighboring_relation="replace_special",
        solver=NoisyGradientDescent(normalize=False),
    )
    model.fit(X, y)

    def margins(rows):
        return rows @ model.coef_.ravel() + model.intercept_

    # Log odds of X within the bounds, and of what they cut outside.
    np.testing.assert_allclose(model.decision_function(X), margins(X))
    odds = np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0])
    np.testing.assert_allclose(odds, margins(X))
    wide = rng.uniform(0, 60, (400, 6))
    found = model.decision_function(wide)
    np.testing.assert_allclose(found, margins(model.input_scaler_(wide)))
    np.testing.assert_allclose(found, margins(np.clip(wide, 20, 40)))
    described = " ".join(inspect.getdoc(estimator).split())
    assert "``input_scaler_(X) @ coef_.T + intercept_``" in described
    assert "``X @ coef_.T + intercept_`` for X within" in described or (
        "for X within them it is ``X @ coef_.T + intercept_``" in described
    )
    # Normalised rows are something else, and that is said.
    model = estimator(bounds=(20, 40), solver=NoisyGradientDescent(normalize=True)).fit(
        X, y
    )
    np.testing.assert_allclose(
        model.decision_function(X), margins(model.input_scaler_(X))
    )
    assert not np.allclose(model.decision_function(X), margins(X))
    assert "normalised rows" in described


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


def test_statements_round_what_people_read(small):
    report = skfdp.FeatureDPLogisticRegression(bounds=(0, 1)).fit(*small).privacy_
    (found,) = re.findall(r"mu = (\S+)\.\n", report.statement(full=True))
    assert len(found) <= 9
    assert float(found) == pytest.approx(report.mu, rel=1e-5)


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
