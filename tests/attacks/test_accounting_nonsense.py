"""Accounting functions on nonsense: the right number or one sentence, and soon."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from skfdp.privacy import (
    Event,
    calibrate,
    compose,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    pld,
)

EVENT = {"label": "steps", "noise_std": (2.0,), "clip_norm": 1.0, "sensitivity": 1.0}
NUMBERS = [
    *(0, 1, -1, 0.5, 2.0, 1e-5, 1e-17, 1e-300, 5e-324, 1e5, 700, 1e19, 1e200, 1e308),
    *(math.inf, -math.inf, math.nan, 10**400, True, None, "1", b"1", [1.0], 1j),
    *(np.float32(0.1), np.bool_(True), np.array([1.0, 2.0])),
]


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


@pytest.mark.parametrize("delta", [0, 1, 2, -1, math.nan, math.inf, "1e-5", True])
def test_a_delta_that_is_no_probability(delta):
    """plan.epsilon(0) was a ZeroDivisionError, plan.epsilon(2) was 0."""
    plan = calibrate(1.0, 1e-5, n_steps=1)
    sampled = compose([Event(**EVENT, sampling_rate=0.5)])
    for epsilon in (plan.epsilon, plan.curve.epsilon, sampled.epsilon):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            epsilon(delta)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        gdp_mu(1.0, delta)


@pytest.mark.parametrize("epsilon", [-1, math.nan, -math.inf, "1", True, None])
def test_an_epsilon_that_is_none(epsilon):
    for changes in ({}, {"sampling_rate": 0.5}):
        with pytest.raises(ValueError, match="epsilon=.* must be a number of at least"):
            compose([Event(**EVENT, **changes)]).delta(epsilon)


def test_deltas_of_large_epsilons():
    events = [
        Event(**EVENT),
        Event(**EVENT | {"noise_std": (0.02,)}, sampling_rate=0.1),
        Event(
            **EVENT | {"noise_std": (0.02,)},
            sampling_rate=0.1,
            neighboring_relation="replace_special",
        ),
    ]
    for event in events:
        curve = compose([event])
        for epsilon in (0, 1, 700, 710, 1e5, 1e308, math.inf):
            assert 0 <= curve.delta(epsilon) <= 1


def test_epsilons_beyond_the_floats_are_infinite():
    assert gdp_epsilon(1e-5, 1e200) == math.inf
    assert gdp_epsilon(1e-5, 1e100) == pytest.approx(5e199)
    assert gdp_delta(math.inf, 3.0) == 0
    assert gdp_delta(3.0, 0.0) == 0
    assert gdp_delta(0.0, 1e-200) == 0
    assert gdp_delta(1.0, 1e8) == pytest.approx(1.0)


@given(
    epsilon=st.floats(0, 1e300),
    mus=st.tuples(st.floats(0, 1e150), st.floats(0, 1e150)),
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
    event = Event(**EVENT | {"n_steps": 10} | changes, sampling_rate=0.5)
    with pytest.raises(ValueError, match="have too little noise or are too many"):
        compose([event])


class Cheap(Event):
    """An event that hides its cost."""

    mu = 0.0


@pytest.mark.parametrize(
    "events", [None, 3, "ab", {}, [1], [None], np.array(2.0), [Cheap(**EVENT)]]
)
def test_what_is_no_list_of_events(events):
    with pytest.raises(ValueError, match="must be a sequence of Event"):
        compose(events)
    one = Event(**EVENT)
    with pytest.raises(ValueError, match="must be a sequence of Event"):
        compose(one)


def test_a_rate_that_delta_covers_ends_the_search():
    """Every noise is enough where no record is likely ever to be in a batch."""
    plan = calibrate(1.0, 1e-3, n_steps=10, sampling_rate=1e-8)
    assert plan.epsilon(1e-3) == 0
    assert plan.noise_multiplier == pytest.approx(2 / 30)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_steps"), [(1e-5, 1e-15, 1), (1e8, 1e-300, 2**53)]
)
def test_calibration_at_the_edges_stays_within_its_budget(epsilon, delta, n_steps):
    plan = calibrate(epsilon, delta, n_steps=n_steps)
    assert plan.epsilon(delta) <= epsilon
