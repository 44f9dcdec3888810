"""Events: lossless values that refuse what they cannot promise."""

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skfdp.privacy import RELATIONS, Event, Relation

positive = st.floats(1e-6, 1e6)


def make(**changes):
    values = {"label": "steps", "noise_std": (2.0,), "clip_norm": 1.0}
    return Event(**({"sensitivity": 1.0} | values | changes))


@st.composite
def events(draw):
    relation = draw(st.sampled_from(RELATIONS))
    clip = draw(positive)
    reach = draw(st.floats(0.01, 2.0)) if relation == "replace_one" else 1.0
    whole = relation == "add_or_remove_one"
    n_steps = draw(st.integers(1, 5))
    size = draw(st.sampled_from([1, n_steps]))
    return Event(
        label=draw(st.text()),
        noise_std=tuple(draw(st.lists(positive, min_size=size, max_size=size))),
        clip_norm=clip,
        sensitivity=reach * clip,
        n_steps=n_steps,
        sampling_rate=draw(st.floats(1e-6, 1.0)),
        neighboring_relation=relation,
        public_features=()
        if whole
        else tuple(draw(st.lists(st.text() | st.integers(0, 9)))),
        public_target=not whole and draw(st.booleans()),
        classes_source=draw(st.sampled_from([None, "declared", "data"])),
        seeded=draw(st.booleans()),
    )


@given(event=events())
@settings(max_examples=20, deadline=None)
def test_json_is_lossless(event):
    text = json.dumps(event.to_dict(), allow_nan=False)
    assert Event.from_dict(json.loads(text)) == event
    assert pickle.loads(pickle.dumps(event)) == event
    assert len({event, Event.from_dict(json.loads(text))}) == 1


@pytest.mark.parametrize("clip", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("relation", ["replace_special", "add_or_remove_one"])
def test_rounding_is_relative_to_the_clip_norm(relation, clip):
    fields = {"clip_norm": clip, "neighboring_relation": relation}
    make(**fields, sensitivity=clip * (1 + 1e-12))
    for sensitivity in (clip / 2, clip * (1 - 1e-6), clip * (1 + 1e-6)):
        with pytest.raises(ValueError, match="must equal clip_norm"):
            make(**fields, sensitivity=sensitivity)
    with pytest.raises(ValueError, match=r"exceeds 2 \* clip_norm"):
        make(clip_norm=clip, sensitivity=2 * clip * (1 + 1e-6))


def test_relations_have_the_names_of_dp_accounting():
    from dp_accounting import NeighboringRelation

    assert {name.upper() for name in RELATIONS} == set(NeighboringRelation.__members__)
    with pytest.raises(ValueError, match="choose one of 'replace_one', 'replace_spec"):
        Relation("REPLACE_ONE")
