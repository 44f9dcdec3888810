"""Events and plans made by hand or by a file: nothing is guessed."""

import json
import math

import numpy as np
import pytest

from skfdp.privacy import Event, PrivacyPlan, calibrate

EVENT = {"label": "steps", "noise_std": (2.0,), "clip_norm": 1.0, "sensitivity": 1.0}
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
BAD_TOGETHER = [
    {"n_steps": 3, "noise_std": (1.0, 2.0)},
    {"noise_decay": 1e4, "n_steps": 100},
    {"noise_decay": 1.0, "sampling_rate": 0.5},
    {"noise_decay": 1.0, "n_steps": 2, "noise_std": (1.0, 2.0)},
    {"noise_decay": 1.0, "n_steps": 10**12},
    *(
        {"neighboring_relation": "add_or_remove_one", **public}
        for public in (
            {"public_features": ("a",)},
            {"public_target": True},
            {"unit": "person"},
        )
    ),
]
BAD_PLAN = {
    "target_epsilon": ["1"],
    "target_delta": [2],
    "n_steps": [2.5, True],
    "sampling_rate": ["1"],
    "clip_norm": [True],
    "sensitivity": [None],
    "noise_multipliers": ["12", ("1",), (0.0,), 3.0],
    "other_events": [(1,), "ab"],
    "accountant": ["rdp"],
    "noise_decay": ["1"],
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
    "accountant": [["auto"], None, "rdp"],
    "neighboring_relation": [3, "swap"],
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


@pytest.mark.parametrize(
    "values", [None, 3, "x", [], [1], {}, {"label": "a"}, {"price": 1}], ids=told
)
def test_what_is_no_dict_of_fields(values):
    with pytest.raises(ValueError, match="must be a mapping|lacks the field|unknown f"):
        Event.from_dict(values)


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
