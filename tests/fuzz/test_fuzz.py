"""Fuzzed calls: each works, or is refused in one sentence that shows no datum."""

import copy
import functools
import inspect
import json
import logging
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skfdp
from skfdp.audit import audit_mechanism, audit_replay
from skfdp.inspection import EffectsDisplay
from skfdp.privacy import Event, PrivacyLedger, report

sys.path.append(str(Path(__file__).parent))

import fuzz_files as files
from fuzz_rule import REFUSALS, SECRETS, faults_of
from fuzz_values import (
    COLUMNS,
    SMALL,
    VALUES,
    arguments,
    marked,
    names_of,
    often,
    one_of,
    tables,
    targets,
)

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.UtilityWarning")
ESTIMATORS = [n for n in skfdp.__all__ if hasattr(getattr(skfdp, n), "fit")]


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """Work in a folder for files that calls make."""
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context():
        mpl.use("Agg")
        mpl.rcParams["figure.max_open_warning"] = 0
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        yield


def check(calls, n_examples, *, fresh=False, broken=""):
    """Draw examples of calls, and assert that none breaks the rule.

    With `fresh` they are others each time, and else the same. Only faults that begin
    with `broken` count.
    """

    @settings(
        max_examples=n_examples,
        derandomize=not fresh,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(st.data())
    def draw(data):
        for call in calls(data.draw):
            refusals = (*REFUSALS, OSError)
            found = faults_of(call, ("skfdp", "sklearn", "fuzz_files"), refusals)
            assert not [fault for fault in found if fault.startswith(broken)]

    draw()


# -- estimators ------------------------------------------------------------------------
def called(method, *given, **more):
    """Return a call of a method, with X and y where these names are given."""

    def call(model, X, y):
        known = {"X": X, "y": y}
        return getattr(model, method)(*(known.get(one, one) for one in given), **more)

    return method, call


#: What is asked of an estimator: the method that it needs, and the call.
STEPS = [
    *(called(name, "X") for name in ("predict", "predict_proba", "decision_function")),
    *(called(name, "X") for name in ("predict_log_proba", "transform", "plan", "fit")),
    *(called(name, "X", "y") for name in ("fit_transform", "score", "plan")),
    *(called(name) for name in ("get_params", "coefficients_table", "to_sklearn")),
    *(called(name) for name in ("get_feature_names_out", "__repr__", "_repr_html_")),
    *(called("set_params", nobody=1), called("set_output", transform="pandas")),
    *(("fit", lambda m, *_: clone(m)), ("fit", lambda m, *_: report(m).statement())),
]
#: What is said of n rows beside X and y.
ROWS = {
    "sample_weight": (
        *(lambda n: [1.0], lambda n: 1.0, lambda n: "balanced", lambda n: ["a"] * n),
        *(np.arange, lambda n: np.full(n, 1e308), lambda n: -np.ones(n), np.ones),
        *(lambda n: np.full(n, np.nan), lambda n: np.full(n, 5e-324)),
    ),
    "groups": (
        *(lambda n: "c0", lambda n: "nobody", lambda n: [0], lambda n: {0}, marked),
        *(lambda n: np.arange(n) % 4, lambda n: [None] * n, lambda n: [object()] * n),
        *(lambda n: [[1]] * n, lambda n: np.full(n, np.nan), lambda n: iter([0])),
    ),
}


def of_estimator(name):
    """Return the calls of an estimator: a fit, and what is asked of it afterwards."""
    kind = getattr(skfdp, name)
    known = [name for name in ROWS if name in names_of(kind.fit)]
    told = often(st.just([]), st.sets(st.sampled_from(known))) if known else st.just([])

    def calls(draw):
        given = draw(arguments(names_of(kind), SMALL))
        if given.get("schema") is not None:  # beside it nothing that it declares
            given = {k: v for k, v in given.items() if not k.endswith("bounds")}
        model, n = kind(**given), draw(often(st.just(30), one_of(60, 12, 3, 2, 1, 0)))
        X, y = draw(tables(n)), draw(targets(n))
        facts = {name: draw(st.sampled_from(ROWS[name]))(n) for name in draw(told)}
        yield lambda: model.fit(X, y, **facts)
        steps = st.sampled_from([step for step in STEPS if hasattr(kind, step[0])])
        for _, step in draw(st.lists(steps, max_size=3)):
            other = draw(often(st.just(X), tables(n), 2))
            yield functools.partial(step, copy.copy(model), other, y)

    return calls


# -- functions, and files that they read -----------------------------------------------
N = 12
X, Y = np.c_[marked(N), np.zeros(N)], np.arange(N) % 2
FACTS = {"label": "x", "noise_std": (9.0,), "clip_norm": 1.0, "sensitivity": 1.0}
EVENT = Event(**FACTS)


@functools.cache
def fitted():
    """Return models; the first has a report of an audit's size."""
    # An audit tells by how much a row moved the exact sum of norms.
    solver = skfdp.solvers.NoisyGradientDescent(max_iter=2, row_norm=1.0)
    given = {"bounds": (0, 1), "delta": 1e-3, "solver": solver}
    plain = skfdp.DPSGDFClassifier(**given)
    network = skfdp.FeatureDPMLPClassifier(**given, hidden_layer_sizes=(3,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            *(clone(plain).fit(X, Y), clone(plain).fit(X, np.arange(N) % 3), plain),
            skfdp.DPSGDFRegressor(**given, target_bounds=(0, 1)).fit(X, Y),
            make_pipeline(StandardScaler(), clone(plain)).fit(X, Y),
            *(network.fit(X, Y), LogisticRegression(), skfdp.DPSGDFClassifier),
        )


def counted():
    """Return a ledger that has counted something."""
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5)
    ledger.charge([EVENT], label="first")
    return ledger


@functools.cache
def drawn_from():
    """Return strategies of what functions take, by the name of a parameter."""
    models, plan = one_of(*fitted()), fitted()[2].plan(X, Y)
    one_changed = X + (np.arange(N) == 3)[:, None] / 9
    values = {
        **{"obj": models, "estimator": models, "model": one_of(*fitted()[:-1])},
        **{name: st.sampled_from([one(N) for one in ROWS[name]]) for name in ROWS},
        "X": one_of(
            *(X.tolist(), 1e308 * X, X - np.inf, X > 0.5, X[:, 0], X * 1j),
            *([1.0, 2.0], X[:0], [[1, 2], [3]], X.astype(object), tables(N)),
        ),
        "y": one_of(None, Y[:3], Y * 0, Y.astype(str), targets(N)),
        "by": one_of(None, 0, "a", 9, Y, X[:, :2], ["a", "b"]),
        "plan": one_of(plan, EVENT, [EVENT], "x", {EVENT: 1}),
        "path": one_of(None, Path("a.json"), Path(), Path("no/folder/a"), "", 7, "\0"),
        "neighbors": one_of(
            *(None, [], [(X, Y)], [(X + 1, Y)], [X], X, 3, [(X[:3], Y[:3])]),
            [(one_changed, Y)],
        ),
        **{"n_trials": one_of(100, 99, 0, 101.5, 10**30), "n_neighbors": one_of(3, 0)},
    }
    return VALUES | values


def bounds(**given):
    """Release bounds, and return what shows no public number."""
    found = skfdp.private_bounds(**given)
    return getattr(found, "plan", found)


def scorer(**given):
    """Make a scorer, and score a model by it."""
    return skfdp.make_private_scorer(**given)(fitted()[0], X, Y)


#: Functions by name, with usual values, and what names their parameters.
FUNCTIONS = {
    "private_bounds": (bounds, {"X": X, "delta": 1e-3}, skfdp.private_bounds),
    "private_score": (skfdp.private_score, {"X": X, "y": Y, "epsilon": 1.0}),
    "make_private_scorer": (scorer, {"epsilon": 1.0}, skfdp.make_private_scorer),
    "report": (report, {}),
    "open_table": (lambda path: skfdp.open_table(path), {}),
    "EffectsDisplay": (EffectsDisplay.from_estimator, {}),
    "audit_replay": (audit_replay, {"X": X, "y": Y, "n_neighbors": 3}),
    "audit_mechanism": (audit_mechanism, {"n_trials": 100, "random_state": 0}),
}


def of_function(name):
    """Return the calls of a function, at most three of whose arguments are unusual.

    What has no default and no usual value is drawn.
    """
    function, usual, *signature = FUNCTIONS[name]
    parameters = inspect.signature(*signature or (function,)).parameters.values()
    own = [p for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD]
    needed = [p.name for p in own if p.default is p.empty and p.name not in usual]

    def calls(draw):
        known = drawn_from()
        told = {"ledger": counted()} if function is scorer else {}
        told |= {one: draw(known[one]) for one in needed}
        given = draw(arguments([p.name for p in own], told | usual, known=known))
        yield lambda: function(**given)

    return calls


def of_command(draw):
    """Yield a run of a command."""
    words = draw(files.commands())
    yield lambda: files.run_command(words)


FILES = {"command line": of_command}
CALLS = {name: of_estimator(name) for name in ESTIMATORS}
CALLS |= {name: of_function(name) for name in FUNCTIONS}


@pytest.mark.parametrize("name", [*CALLS, *FILES])
def test_calls(name):
    check((CALLS | FILES)[name], 6 if name in ESTIMATORS else 3)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FILES)
def test_many_files(name):
    check(FILES[name], 300, fresh=True)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CALLS)
def test_many_calls_show_no_datum(name):
    check(CALLS[name], 300, fresh=True, broken="a datum is told")


# -- the rule --------------------------------------------------------------------------
def refuse(kind, message):
    raise kind(message)


class Talkative:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def chained():
    try:
        float("s3cr3t-1")
    except ValueError:
        raise ValueError("X holds text: pass numbers.") from None


def warned(category, message="this is too small: raise it."):
    warnings.warn(message, category, stacklevel=2)


#: Calls that break the rule, by a part of the fault that is found.
PLANTED = {
    "a datum is told": (
        lambda: refuse(ValueError, "y=0.735194 must be 0."),
        lambda: refuse(ValueError, "y=7351.9402 must be 0."),
        lambda: refuse(ValueError, "'s3cr3t-3' must be a number."),
        lambda: refuse(ValueError, "2173-05-09 must be earlier."),
        lambda: print("fitted with 0.73519411"),
        lambda: logging.info("row %s", "s3cr3t-1"),
        lambda: warned(UserWarning, "s3cr3t-1"),
        lambda: Talkative("0.735194"),
        chained,
    ),
    "its text cannot be made": (lambda: Talkative(3),),
    "is no refusal": (
        *(lambda: {}["a"], lambda: refuse(RecursionError, "deep"), lambda: sys.exit(1)),
        *(lambda: np.float64(1) / np.float64(0), lambda: open("/nobody/x")),
    ),
    "was not raised by us": (
        *(lambda: float("a"), lambda: (1).fit, lambda: json.loads("{")),
    ),
    "Warning: ": (lambda: warned(RuntimeWarning), lambda: warned(FutureWarning)),
    "is no sentence": (lambda: refuse(ValueError, "bad X"),),
    "expects nothing": (lambda: refuse(ValueError, "X went so wrong"),),
    "an address": (lambda: refuse(ValueError, f"X={object()} must be 0."),),
    "has several lines": (lambda: refuse(ValueError, "X must be:\n[[0, 1]]"),),
}
HERE = (__name__.partition(".")[0],)


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_defects_are_found(fault):
    for call in PLANTED[fault]:
        found = faults_of(call, HERE)
        assert any(fault in one for one in found), found


def test_what_keeps_the_rule():
    kept = [
        lambda: 3,
        lambda: refuse(ValueError, "bounds=3 must be a pair (low, high)."),
        lambda: warned(UserWarning),
        lambda: warned(skfdp.PrivacyWarning),
        lambda: np.array([0.735194]),  # a result may hold what it likes
        lambda: Talkative("bounds=(0, 1)"),
    ]
    for call in kept:
        assert faults_of(call, HERE) == ()
    assert faults_of(lambda: LogisticRegression().predict([[1.0]])) == ()
    assert faults_of(lambda: open("/nobody/x"), refusals=(*REFUSALS, OSError)) == ()


def test_values_show_their_secret():
    for kind in "unit wide int objects decimals text date float32".split():
        for value in np.asarray(COLUMNS[kind](9)):
            text = str(value).replace(".", "")
            assert any(secret in text for secret in SECRETS), (kind, text)
