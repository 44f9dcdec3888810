"""Arguments that mean nothing: the right number or one sentence, and soon."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from skfdp import PrivacyLedger
from skfdp.privacy import (
    Event,
    LedgerEntry,
    PrivacyPlan,
    calibrate,
    compose,
    composed_guarantee,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    pld,
    read_report,
    report,
)

EVENT = {"label": "steps", "noise_std": (2.0,), "clip_norm": 1.0, "sensitivity": 1.0}

NUMBERS = [
    *(0, 1, -1, 0.5, 2.0, 1e-5, 1e-17, 1e-300, 5e-324, 1e5, 700, 1e19, 1e200, 1e308),
    *(math.inf, -math.inf, math.nan, 10**400, True, None, "1", b"1", [1.0], 1j),
    *(np.float32(0.1), np.bool_(True), np.array([1.0, 2.0])),
]
NO_NUMBER = [True, "1", None, 1 + 0j, math.nan, 10**400, np.timedelta64(3, "s")]
NO_COUNT = [2.9, 3.0, True, "3", None, 10**400, math.inf, 0, np.timedelta64(3, "s")]
NO_FLAG = ["no", 0, 1, None]
BAD_EVENT = {
    "label": [3, None],
    "noise_std": [
        *("12", ["1"], {1.0: 2.0}, {1.0}, 2.0, (True,), (10**400,), (1e-200,), ()),
        *((0.0,), (-1.0,), (math.nan,), (math.inf,), (1.0, 2.0)),
    ],
    "clip_norm": [*NO_NUMBER, 0.0, math.inf],
    "sensitivity": [*NO_NUMBER, -1.0, 2.001],
    "n_steps": NO_COUNT,
    "sampling_rate": [*NO_NUMBER, 0.0, 1.5],
    "noise_decay": [*NO_NUMBER, -1.0],
    "public_target": NO_FLAG,
    "seeded": NO_FLAG,
    "public_features": ["age", (1.5,), (True,), (-1,), (None,), {"age": False}],
    "target_name": ["", 3],
    "unnamed": ["target", ("rows",)],
    "classes_source": ["guess", ["data"]],
    "neighboring_relation": ["swap", ["replace_one"], None],
    "unit": ["house", None],
}

#: What no event has beside "add_or_remove_one".
NOT_BESIDE_IT = {"public_features": ("a",), "public_target": True, "unit": "person"}
BAD_TOGETHER = [
    {"n_steps": 3, "noise_std": (1.0, 2.0)},
    {"noise_decay": 1e4, "n_steps": 100, "noise_std": (0.5,)},
    {"noise_decay": 1.0, "sampling_rate": 0.5},
    {"noise_decay": 1.0, "n_steps": 2, "noise_std": (1.0, 2.0)},
    {"noise_decay": 1.0, "n_steps": 10**12},
    *(
        {"neighboring_relation": "add_or_remove_one", name: value}
        for name, value in NOT_BESIDE_IT.items()
    ),
]
BAD_PLAN = {
    "target_epsilon": ["1"],
    "target_delta": [2],
    "event": [None, "ab", (1.0,)],
    "other_events": [(1,), "ab"],
}
BAD_CALIBRATION = {
    "epsilon": [*NO_NUMBER, 0, -1, math.inf],
    "delta": [*NO_NUMBER, 0, 1, -1e-5, 2.0],
    "n_steps": NO_COUNT,
    "sampling_rate": [True, "1", 0, 1.5],
    "clip_norm": [True, "1", 0],
    "sensitivity": ["1", True, math.nan, 2.5],
    "noise_decay": ["1", True],
    "other_events": ["ab", [1], 3],
    "neighboring_relation": [3, "swap", ["replace_one"]],
}
WHY = (
    r"must|cannot|unknown|holds|makes|need|noth|has \d entries|exceeds|too far"
    r"|negligible"
)


def changed(table):
    return [{name: bad} for name, values in table.items() for bad in values]


def refused(call, **given):
    """Check that the refusal is one sentence."""
    with pytest.raises(ValueError, match=WHY) as error:
        call(**given)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def told(changes):
    return repr(changes)[:60]


# -- events, plans, calibration -------------------------------------------------------
@pytest.mark.parametrize("changes", [*changed(BAD_EVENT), *BAD_TOGETHER], ids=told)
def test_an_event_guesses_nothing(changes):
    refused(Event, **EVENT | changes)
    try:
        text = json.dumps(Event(**EVENT).to_dict() | changes)
    except TypeError:  # no JSON
        return
    refused(Event.from_dict, values=json.loads(text))


@pytest.mark.parametrize("changes", changed(BAD_PLAN), ids=told)
def test_a_plan_guesses_nothing(changes):
    plan = calibrate(1.0, 1e-5, n_steps=3)
    fields = {name: getattr(plan, name) for name in PrivacyPlan.__dataclass_fields__}
    refused(PrivacyPlan, **fields | changes)


@pytest.mark.parametrize(
    "changes",
    [
        *changed(BAD_CALIBRATION),
        {"noise_decay": 1.0, "sampling_rate": 0.5},
        {"sensitivity": 2.0, "neighboring_relation": "replace_special"},
    ],
    ids=told,
)
def test_calibrate_guesses_nothing(changes):
    refused(calibrate, **{"epsilon": 1.0, "delta": 1e-5, "n_steps": 3} | changes)


def test_a_table_in_the_place_of_a_number_is_not_quoted():
    secret = np.full((2, 2), 123456.0)
    for name in ("noise_std", "clip_norm", "n_steps", "seeded", "label", "sensitivity"):
        with pytest.raises(ValueError, match=name) as error:
            Event(**EVENT | {name: secret})
        assert "123456" not in str(error.value)


def test_scalars_of_numpy_are_numbers():
    """dp_accounting drops compositions for an int or float32 noise multiplier."""
    event = Event(
        label=np.str_("a"),
        noise_std=np.array([2.0], np.float32),
        clip_norm=np.int16(1),
        sensitivity=np.float16(1),
        n_steps=np.uint8(3),
        sampling_rate=np.float32(1),
        public_features=(*np.array(["a", "b"]), *np.arange(2)),
        public_target=np.bool_(True),
        seeded=np.bool_(False),
        noise_decay=np.float32(0.5),
    )
    assert {type(value) for value in vars(event).values()} <= {
        *(str, float, int, bool, tuple, type(None))
    }
    assert type(event.noise_std[0]) is type(event.sampling_rate) is float
    assert [type(name) for name in event.public_features] == [str, str, int, int]


# -- curves ---------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def strict():
    """No warning, whatever np.seterr and scipy.special.seterr say."""
    traps = np.errstate(all="raise"), special.errstate(all="raise")
    with warnings.catch_warnings(), traps[0], traps[1]:
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("function", [gdp_delta, gdp_epsilon, gdp_mu])
def test_gaussian_dp_is_right_or_refuses(function):
    """gdp_mu hung or warned, gdp_delta(nan) was 0, gdp_epsilon did not converge."""
    answered = 0
    for pair in itertools.product(NUMBERS, repeat=2):
        try:
            found = function(*pair)
        except ValueError as error:
            message = str(error)
            assert "must" in message or "too small" in message
            assert "\n" not in message
            continue
        answered += 1
        assert not any(isinstance(one, str | bool | complex) for one in pair)
        assert found >= 0  # not NaN either
        if function is gdp_delta:
            assert found <= 1
    assert answered > 20


NO_DELTA = [0, 1, 2, -1, math.nan, math.inf, "1e-5", True]
BETWEEN = "strictly between 0 and 1"


def test_deltas_of_large_epsilons():
    little = EVENT | {"noise_std": (0.02,), "sampling_rate": 0.1}
    special = little | {"neighboring_relation": "replace_special"}
    for facts in (EVENT, little, special):
        curve = compose([Event(**facts)])
        for epsilon in (0, 1, 700, 710, 1e5, 1e308, math.inf):
            assert 0 <= curve.delta(epsilon) <= 1


def test_epsilons_beyond_the_floats_are_infinite():
    assert gdp_epsilon(1e-5, 1e200) == math.inf
    assert gdp_epsilon(1e-5, 1e100) == pytest.approx(5e199)
    assert gdp_delta(math.inf, 3.0) == gdp_delta(3.0, 0.0) == 0
    assert compose([Event(**EVENT | {"noise_std": (0.01,)})]).detection_rate(0.1) == 1
    assert gdp_delta(0.0, 1e-200) == 0
    assert gdp_delta(1.0, 1e8) == pytest.approx(1.0)


@given(
    epsilon=st.floats(0, 1e300), mus=st.tuples(st.floats(0, 1e150), st.floats(0, 1e150))
)
@settings(max_examples=100, deadline=None)
def test_delta_grows_with_mu(epsilon, mus):
    low, high = sorted(mus)
    assert 0 <= gdp_delta(epsilon, low) <= gdp_delta(epsilon, high) + 1e-12 <= 1 + 1e-12


@given(delta=st.floats(1e-300, 1 - 1e-9), mu=st.floats(1e-6, 1e100))
@settings(max_examples=100, deadline=None)
def test_epsilon_is_on_the_safe_side_everywhere(delta, mu):
    assert gdp_delta(gdp_epsilon(delta, mu), mu) <= delta


@given(epsilon=st.floats(0, 1e200), delta=st.floats(1e-9, 1 - 1e-9))
@settings(max_examples=100, deadline=None)
def test_mu_is_on_the_safe_side_everywhere(epsilon, delta):
    assert gdp_delta(epsilon, gdp_mu(epsilon, delta)) <= delta


def test_tails_beyond_exp_of_709_are_no_nan():
    """exp and expm1 overflowed: the curve of a step with little noise held NaN."""
    losses = np.linspace(0, 2000, 500)
    with np.errstate(under="ignore"), special.errstate(all="ignore"):
        found = pld.removal(losses, 0.02, 0.1)
        back = pld.addition(-losses, 0.02, 0.1)
    for deltas in (found, back):
        assert np.isfinite(deltas).all()
    assert found[0] == pytest.approx(0.1, rel=1e-3)
    # Half of the record's Gaussian lies beyond the loss at its centre, 1250 - log 10.
    beyond = found[np.searchsorted(losses, 1248.0)]
    assert 0.04 < beyond < 0.06


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling_rate": 1e-300},
        {"sampling_rate": 3e-20, "n_steps": 1000, "noise_std": (1400.0,)},
        {"sampling_rate": 1 - 1e-16},
        {"sampling_rate": 0.01, "noise_std": (1e6,), "n_steps": 100},
        {"sampling_rate": 0.5, "noise_std": (1e90,)},
        {"sampling_rate": 0.5, "noise_std": (0.05,)},
    ],
    ids=repr,
)
@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
def test_odd_steps_have_a_curve(changes, relation):
    event = Event(**EVENT | changes | {"neighboring_relation": relation})
    curve = compose([event])
    closed = compose([Event(**EVENT | changes | {"sampling_rate": 1.0})])
    epsilons = [curve.epsilon(delta) for delta in (1e-3, 1e-5, 1e-8)]
    assert epsilons == sorted(epsilons)
    # A batch costs no more than everybody.
    assert epsilons[1] <= closed.epsilon(1e-5) * 1.01 + 1e-6
    assert curve.delta(0.0) >= curve.delta(1.0) * (1 - 1e-12)


@pytest.mark.parametrize(
    "changes", [{"noise_std": (1e-50,)}, {"n_steps": 10**15}, {"noise_std": (1e-5,)}]
)
def test_what_no_distribution_can_hold_is_one_sentence(changes):
    with pytest.raises(ValueError, match="have too little noise or are too many"):
        compose([Event(**EVENT | {"n_steps": 10} | changes, sampling_rate=0.5)])
    steps = [((2.0, 1.0, 1e-5, "replace_special"), 10**8)]
    assert pld._gap(steps, 0.0, None) > 5e-7
    # With epsilon=1e8 for full batches, their grid would take tens of gigabytes.
    assert pld._gap(steps, 4000.0, None) > pld._WIDEST_GAP


def test_a_search_ends_where_epsilon_jumps():
    given = {"neighboring_relation": "replace_special"}
    mean = Event(**EVENT | given | {"noise_std": (3e8,)})
    given |= {"n_steps": 600, "sampling_rate": 0.5, "other_events": (mean,)}
    plan = calibrate(1e-8, 1e-5, **given)
    assert 0.99e-8 < plan.epsilon(1e-5) <= 1e-8


class Cheap(Event):
    """An event that hides its cost."""

    mu = 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_steps"), [(1e-5, 1e-15, 1), (1e8, 1e-300, 2**53)]
)
def test_calibration_at_the_edges_stays_within_its_budget(epsilon, delta, n_steps):
    plan = calibrate(epsilon, delta, n_steps=n_steps)
    assert plan.epsilon(delta) <= epsilon


# -- ledgers and reports --------------------------------------------------------------
STEPS, PLAN = Event(**EVENT), calibrate(1.0, 1e-5, n_steps=1)


@pytest.fixture
def ledger():
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5)
    ledger.charge([STEPS])
    return ledger


NO_EVENTS = [None, 3, True, "auto", STEPS, [], [None], {"a": 1}, np.array(1.0)]
NO_PUBLIC_SET = [3, [None], [[1]], np.array(1.0)]
SAMPLED = Event(**EVENT, sampling_rate=0.5)
NO_EPSILON = [-1, math.nan, -math.inf, "1", True, None]
LEAST = "epsilon=.* must be a number of at least"
EVENTS, SET = "must be at least one Event", "public=.* must be a"
#: What is called, with which values, and the sentence.
REFUSED = [
    (
        lambda _, values: Event.from_dict(values),
        [None, 3, "x", [], [1], {}, {"label": "a"}, {"price": 1}],
        "must be a mapping|lacks the field|unknown f",
    ),
    (
        lambda _, events: compose(events),
        [None, 3, "ab", {}, [1], [None], np.array(2.0), [Cheap(**EVENT)], STEPS],
        "must be a sequence of Event",
    ),
    (lambda ledger, events: composed_guarantee(events), NO_EVENTS, EVENTS),
    (lambda ledger, events: ledger.charge(events), NO_EVENTS, EVENTS),
    (
        lambda ledger, events: ledger.what_if(events),
        [one for one in NO_EVENTS if one not in (None, STEPS)],
        EVENTS,
    ),
    (lambda _, names: composed_guarantee([STEPS], names), [*NO_PUBLIC_SET, "age"], SET),
    (lambda _, names: PrivacyLedger(public=names), NO_PUBLIC_SET, f"{SET} list of nam"),
    (lambda _, delta: gdp_mu(1.0, delta), NO_DELTA, BETWEEN),
    (lambda _, delta: PLAN.epsilon(delta), NO_DELTA, BETWEEN),
    (lambda _, delta: PLAN.curve.epsilon(delta), NO_DELTA, BETWEEN),
    (lambda _, delta: compose([SAMPLED]).epsilon(delta), NO_DELTA, BETWEEN),
    (lambda _, epsilon: compose([SAMPLED]).delta(epsilon), NO_EPSILON, LEAST),
    (lambda _, epsilon: compose([STEPS]).delta(epsilon), NO_EPSILON, LEAST),
    (lambda ledger, delta: ledger.spent(delta), NO_DELTA, BETWEEN),
    (lambda ledger, delta: ledger.remaining(delta), NO_DELTA, BETWEEN),
    (lambda ledger, delta: report(ledger, delta=delta), NO_DELTA, BETWEEN),
    (lambda ledger, delta: report(ledger).at_delta(delta), NO_DELTA, BETWEEN),
    (lambda ledger, found: ledger.check_report(found), NO_EVENTS, "be a PrivacyReport"),
    (lambda _, path: PrivacyLedger.resolve(path), [7, [], STEPS], "must be None, a p"),
    (
        lambda _, date: LedgerEntry(date=date, label=None, event=None, versions={}),
        [[]],
        r"date=\[\] must be a day",
    ),
]


@pytest.mark.parametrize(
    ("call", "value", "sentence"),
    [(call, one, said) for call, values, said in REFUSED for one in values],
    ids=lambda one: type(one).__name__,
)
def test_a_refused_argument_changes_nothing(call, value, sentence, ledger):
    before = ledger.to_json()
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        call(ledger, value)
    assert "\n" not in str(caught.value) and " at 0x" not in str(caught.value)
    assert ledger.to_json() == before


@pytest.mark.parametrize("content", [b"[" * 100_000, b"1" * 100_000, b"{", b"\xff"])
def test_reports_that_are_no_json(content, tmp_path):
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(ValueError, match="is not a JSON file") as caught:
        read_report(tmp_path / "report.json")
    assert "\n" not in str(caught.value)
