"""Events for the accountants of dp_accounting: equal, or refused."""

import dataclasses
import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, UnsupportedEventError, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    PrivacyLedger,
    private_score,
    report,
)
from skfdp.privacy import Event, compose

sys.path.append(str(Path(__file__).parents[1] / "golden"))

from golden_cases import CASES, fit

DELTA = 1e-5
RELATIONS = [relation.name.lower() for relation in NeighboringRelation]


def event(relation="replace_special", reach=None, **fields):
    clip = 0.7
    reach = reach or (2 * clip if relation == "replace_one" else clip)
    given = {"noise_std": (2.1,), "n_steps": 5, **fields}
    return Event(
        label="steps",
        clip_norm=clip,
        sensitivity=reach,
        neighboring_relation=relation,
        **given,
    )


FULL = {
    "one": {"n_steps": 1},
    "many": {"n_steps": 40},
    "listed": {"n_steps": 3, "noise_std": (1.0, 3.0, 1.0)},
    "decaying": {"n_steps": 12, "noise_decay": 0.75},
}


def pld(given, reader):
    relation = NeighboringRelation[reader.upper()]
    # A gap as fine as ours for few steps.
    return PLDAccountant(relation, 1e-4).compose(given.to_dp_accounting(relation))


@pytest.mark.slow
@pytest.mark.parametrize("reader", RELATIONS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", FULL)
def test_full_batches_cost_the_same_to_every_reader(kind, relation, reader):
    given = event(relation, **FULL[kind])
    ours = compose([given])
    theirs = pld(given, reader)
    assert theirs.get_epsilon(DELTA) == pytest.approx(ours.epsilon(DELTA), rel=2e-3)
    assert theirs.get_delta(1.0) == pytest.approx(ours.delta(1.0), rel=2e-3)


def test_a_smaller_move_of_replaced_records_is_kept():
    given = event("replace_one", reach=0.7 * math.sqrt(2))
    for reader in RELATIONS:
        found = pld(given, reader).get_epsilon(DELTA)
        assert found == pytest.approx(compose([given]).epsilon(DELTA), rel=2e-3)


@pytest.mark.parametrize("rate", [0.01, 0.3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_poisson_batches_cost_the_same(relation, rate):
    given = event(relation, sampling_rate=rate, n_steps=50)
    theirs = pld(given, relation).get_epsilon(DELTA)
    assert theirs == pytest.approx(compose([given]).epsilon(DELTA), rel=5e-3)
    if relation == "replace_special":  # a null record is read as a missing one
        assert pld(given, "add_or_remove_one").get_epsilon(DELTA) == theirs


@pytest.mark.parametrize("reader", RELATIONS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_the_renyi_accountant_bounds_ours_or_refuses(relation, rate, reader):
    """It ignores the factor of two of replaced records: half of mu would be lost."""
    given = event(relation, sampling_rate=rate, n_steps=50)
    theirs = RdpAccountant(neighboring_relation=NeighboringRelation[reader.upper()])
    if rate < 1 and "replace_one" in {relation, reader} - ({relation} & {reader}):
        with pytest.raises(ValueError, match="no equal event"):
            given.to_dp_accounting(reader)
        return
    found = given.to_dp_accounting(reader)
    if reader == "replace_one":
        with pytest.raises(UnsupportedEventError):
            theirs.compose(found)
        return
    ours = compose([given]).epsilon(DELTA)
    assert ours < theirs.compose(found).get_epsilon(DELTA) < 1.2 * ours


def test_noise_multipliers():
    given = event("replace_one", n_steps=1)
    gaussian = dp_event.GaussianDpEvent(2.1 / 1.4)
    assert given.to_dp_accounting() == gaussian
    wider = dp_event.PoissonSampledDpEvent(1.0, dp_event.GaussianDpEvent(2.1 / 0.7))
    assert given.to_dp_accounting("replace_one") == wider
    repeated = event("replace_one", n_steps=2**40)
    assert repeated.to_dp_accounting() == dp_event.SelfComposedDpEvent(gaussian, 2**40)
    listed = event("replace_one", n_steps=3, noise_std=(2.1, 2.8, 2.1))
    assert listed.to_dp_accounting() == dp_event.ComposedDpEvent(
        [dp_event.SelfComposedDpEvent(gaussian, 2), dp_event.GaussianDpEvent(2.0)]
    )


REFUSED = {
    "read as a smaller move": (
        event("replace_one", sampling_rate=0.1),
        "add_or_remove_one",
        "for an accountant under 'add_or_remove_one', has no equal event in "
        "dp_accounting: pass neighboring_relation='replace_one'",
    ),
    "read as a larger move": (
        event(sampling_rate=0.1),
        "replace_one",
        "pass neighboring_relation='replace_special'",
    ),
    "a smaller move of batches": (
        event("replace_one", reach=1.0, sampling_rate=0.1),
        "replace_one",
        "sensitivity=1.0 and clip_norm=0.7 has no equal event",
    ),
    "a seed": (event(seeded=True), "replace_special", "it has no guarantee"),
    "an unknown relation": (event(), "local", "neighboring_relation='local'"),
    "no relation": (event(), None, "neighboring_relation=None is unknown"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    given, reader, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        given.to_dp_accounting(reader)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.random((400, 3)), rng.integers(0, 2, 400)


def test_reports(data):
    model = DPSGDFClassifier(1.0, bounds=(0, 1), classes=[0, 1])
    found = report(model.fit(*data))
    event = pickle.loads(pickle.dumps(found.to_dp_accounting()))
    theirs = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(event)
    assert theirs.get_epsilon(DELTA) == pytest.approx(found.epsilon, rel=2e-3)
    with pytest.raises(ValueError, match="no equal event in dp_accounting: integer"):
        dataclasses.replace(found, seeded=True).to_dp_accounting()
    free = DPSGDFClassifier(math.inf, bounds=(0, 1), classes=[0, 1]).fit(*data)
    assert report(free).to_dp_accounting() == dp_event.NonPrivateDpEvent()
    empty = report(PrivacyLedger(epsilon=1.0, delta=DELTA))
    assert empty.to_dp_accounting() == dp_event.NoOpDpEvent()


# Every kind of fit, by accountants that share no code with this package. The events
# are written by hand from the noise and the sensitivity that a report states.


def by_hand(events, replaced):
    """Return an event of dp_accounting for releases that their numbers describe."""
    steps = []
    for one in events:
        # Its vectors have this norm; if one is replaced the sum moves by twice that.
        radius = one.sensitivity / 2 if replaced else one.sensitivity
        for std in one.step_stds:
            step = dp_event.GaussianDpEvent(std / radius)
            if one.sampling_rate < 1:
                step = dp_event.GaussianDpEvent(std / one.clip_norm)
                step = dp_event.PoissonSampledDpEvent(one.sampling_rate, step)
            steps.append(step)
    return dp_event.ComposedDpEvent(steps)


def scored():
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 3)), rng.integers(0, 2, 200)
    model = FeatureDPLogisticRegression(math.inf, bounds=(0, 1), classes=[0, 1])
    return private_score(model.fit(X, y), X, y, 1.0, model_is_public=True).privacy_


FITS = {one["name"]: one for one in CASES if "no privacy" not in one["name"]}
#: The others run at night.
ALWAYS = {
    "private_score",
    "FeatureDPLogisticRegression: nothing public",
    "FeatureDPLogisticRegression: persons and weights, Poisson",
    "DPSGDFRegressor: plain",
}


@pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning")
@pytest.mark.filterwarnings("ignore::skfdp.PrivacyWarning")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ALWAYS else pytest.mark.nightly)
        for name in [*FITS, "private_score"]
    ],
)
def test_accountants_of_others_agree_on_every_kind_of_fit(name):
    found = scored() if name == "private_score" else fit(FITS[name])[0]
    (relation,) = {one.neighboring_relation for one in found.events}
    sampled = any(one.sampling_rate < 1 for one in found.events)
    # Without sampling a release has one curve, whatever neighbours are called.
    replaced = sampled and relation == "replace_one"
    reader = NeighboringRelation["REPLACE_ONE" if replaced else "ADD_OR_REMOVE_ONE"]
    events = by_hand(found.events, replaced)
    theirs = PLDAccountant(reader, 1e-3).compose(events).get_epsilon(found.delta)
    assert theirs == pytest.approx(found.epsilon, rel=2e-3)
    own = [dataclasses.replace(one, seeded=False) for one in found.events]
    told = dp_event.ComposedDpEvent([one.to_dp_accounting(reader) for one in own])
    told = PLDAccountant(reader, 1e-3).compose(told).get_epsilon(found.delta)
    assert told == pytest.approx(theirs, rel=1e-6)
    if not replaced:  # which their Renyi accountant refuses
        rdp = RdpAccountant(neighboring_relation=reader).compose(events)
        assert found.epsilon < rdp.get_epsilon(found.delta) < 1.3 * found.epsilon
