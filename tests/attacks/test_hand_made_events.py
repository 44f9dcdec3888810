"""Events, selections and plans made by hand or by a file: nothing is guessed."""

import json
import math

import numpy as np
import pytest

from skfdp.privacy import Event, PrivacyPlan, Selection, calibrate

EVENT = {"label": "steps", "noise_std": (2.0,), "clip_norm": 1.0, "sensitivity": 1.0}
BAD_EVENT = [
    {"n_steps": 2.9},
    {"n_steps": 3.0},
    {"n_steps": True},
    {"n_steps": "3"},
    {"n_steps": 10**400},
    {"n_steps": math.inf},
    {"noise_std": "12"},
    {"noise_std": ["1"]},
    {"noise_std": {1.0: 2.0}},
    {"noise_std": {1.0}},
    {"noise_std": 2.0},
    {"noise_std": (True,)},
    {"noise_std": (10**400,)},
    {"noise_std": (1e-200,)},
    {"clip_norm": True},
    {"clip_norm": "1"},
    {"clip_norm": 1 + 0j},
    {"sensitivity": None},
    {"sampling_rate": True},
    {"sampling_rate": "0.5"},
    {"label": 3},
    {"label": None},
    {"public_target": "no"},
    {"public_target": 1},
    {"public_target": None},
    {"seeded": "no"},
    {"seeded": 0},
    {"public_features": "age"},
    {"public_features": (1.5,)},
    {"public_features": (True,)},
    {"public_features": (-1,)},
    {"public_features": (None,)},
    {"public_features": {"age": False}},
    {"classes_source": "guess"},
    {"classes_source": ["data"]},
    {"neighboring_relation": ["replace_one"]},
    {"neighboring_relation": None},
    {"noise_decay": -1.0},
    {"noise_decay": math.nan},
    {"noise_decay": "1"},
    {"noise_decay": 1e4, "n_steps": 100},
    {"noise_decay": 1.0, "sampling_rate": 0.5},
    {"noise_decay": 1.0, "n_steps": 2, "noise_std": (1.0, 2.0)},
    {"noise_decay": 1.0, "n_steps": 10**12},
]


def one_sentence(error):
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize("changes", BAD_EVENT, ids=repr)
def test_an_event_guesses_nothing(changes):
    with pytest.raises(
        ValueError, match="must|unknown|holds|makes|needs|noth"
    ) as error:
        Event(**EVENT | changes)
    one_sentence(error)


JSON_EVENT = [
    changes
    for changes in BAD_EVENT
    if not any(isinstance(value, set | complex) for value in changes.values())
    and not isinstance(changes.get("noise_std"), dict)
]


@pytest.mark.parametrize("changes", JSON_EVENT, ids=repr)
def test_nor_does_one_from_json(changes):
    text = json.dumps(Event(**EVENT).to_dict() | changes)
    with pytest.raises(ValueError, match=r"\w+") as error:
        Event.from_dict(json.loads(text))
    one_sentence(error)


@pytest.mark.parametrize(
    "values", [None, 3, "x", [], [1], {}, {"label": "a"}], ids=repr
)
@pytest.mark.parametrize("kind", [Event, Selection, PrivacyPlan])
def test_what_is_no_dict_of_fields(kind, values):
    with pytest.raises(
        ValueError, match="must be a mapping|lacks the field|unknown (kind|f)"
    ):
        kind.from_dict(values)


def test_a_table_in_the_place_of_a_number_is_not_quoted():
    secret = np.full((2, 2), 123456.0)
    for name in ("noise_std", "clip_norm", "n_steps", "seeded", "label", "sensitivity"):
        with pytest.raises(ValueError, match=name) as error:
            Event(**EVENT | {name: secret})
        assert "123456" not in str(error.value)


def test_scalars_of_numpy_are_numbers():
    event = Event(
        label=np.str_("a"),
        noise_std=np.array([2.0], np.float32),
        clip_norm=np.int16(1),
        sensitivity=np.float16(1),
        n_steps=np.uint8(3),
        public_features=np.array(["a", "b"]),
        public_target=np.bool_(True),
        seeded=np.bool_(False),
        noise_decay=np.float32(0.5),
    )
    plain = {type(value) for value in vars(event).values()}
    assert plain <= {str, float, int, bool, tuple, type(None)}
    assert {type(name) for name in event.public_features} == {str}


@pytest.mark.parametrize(
    "changes",
    [
        {"eta": "1"},
        {"eta": True},
        {"eta": math.nan},
        {"gamma": "0.5"},
        {"gamma": True},
        {"gamma": 1e-300},  # 1e300 runs
        {"noise_decay": 1.0},
        {"n_steps": 2.5},
    ],
    ids=repr,
)
def test_a_selection_guesses_nothing(changes):
    with pytest.raises(
        ValueError, match=r"must|unknown|runs on average|describes|hold"
    ):
        Selection(**EVENT | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_steps": math.inf},
        {"n_steps": math.nan},
        {"n_steps": 2.5},
        {"n_steps": True},
        {"n_steps": "2"},
        {"n_steps": None},
        {"sampling_rate": True},
        {"sampling_rate": "1"},
        {"clip_norm": True},
        {"clip_norm": "1"},
        {"sensitivity": "1"},
        {"sensitivity": True},
        {"sensitivity": math.nan},
        {"epsilon": 10**400},
        {"delta": "1e-5"},
        {"noise_weights": "123"},
        {"noise_weights": ["1", "2", "3"]},
        {"noise_weights": [True, True, True]},
        {"noise_weights": [1e-300, 1e300, 1]},
        {"noise_weights": 3},
        {"noise_decay": "1"},
        {"noise_decay": True},
        {"noise_decay": 1.0, "noise_weights": [1, 2, 3]},
        {"noise_decay": 1.0, "sampling_rate": 0.5},
        {"other_events": "ab"},
        {"other_events": [1]},
        {"other_events": 3},
        {"accountant": ["auto"]},
        {"accountant": None},
        {"neighboring_relation": 3},
    ],
    ids=lambda changes: repr(changes)[:60],
)
def test_calibrate_guesses_nothing(changes):
    with pytest.raises(
        ValueError, match="must|unknown|need|two sched|too far"
    ) as error:
        calibrate(**{"epsilon": 1.0, "delta": 1e-5, "n_steps": 3} | changes)
    one_sentence(error)


@pytest.mark.parametrize(
    "changes",
    [
        {"target_epsilon": "1"},
        {"target_delta": 2},
        {"n_steps": 2.5},
        {"n_steps": True},
        {"sampling_rate": "1"},
        {"clip_norm": True},
        {"sensitivity": None},
        {"noise_multipliers": "12"},
        {"noise_multipliers": ("1",)},
        {"noise_multipliers": (0.0,)},
        {"noise_multipliers": 3.0},
        {"other_events": (1,)},
        {"other_events": "ab"},
        {"accountant": "rdp"},
        {"noise_decay": "1"},
    ],
    ids=repr,
)
def test_a_plan_guesses_nothing(changes):
    plan = calibrate(1.0, 1e-5, n_steps=3)
    with pytest.raises(ValueError, match=r"must|holds|is unknown"):
        PrivacyPlan(**vars_of(plan) | changes)
    with pytest.raises(ValueError, match=r"must|holds|is unknown"):
        PrivacyPlan.from_dict(plan.to_dict() | changes)


def vars_of(plan):
    return {name: getattr(plan, name) for name in PrivacyPlan.__dataclass_fields__}
