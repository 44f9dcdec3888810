"""Events and relations: lossless values that refuse what they cannot promise."""

import itertools
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skfdp.privacy import RELATIONS, Event, Relation

positive = st.floats(1e-6, 1e6)
each = pytest.mark.parametrize("name", RELATIONS)


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


def largest_move(name, clip_norm):
    """Contributions on a fine circle, the null, and what becomes of one of them."""
    angles = 2 * math.pi * np.arange(24) / 24
    circle = clip_norm * np.column_stack([np.cos(angles), np.sin(angles)])
    null = np.zeros((1, 2))
    others = circle if name == "replace_one" else null
    return max(
        float(np.linalg.norm(v - w))
        for v, w in itertools.product(np.vstack([circle, null]), others)
    )


@each
@pytest.mark.parametrize("clip_norm", [1.0, 0.3, 1e-12, 1e9])
def test_neighbours_move_a_sum_by_that_much_and_no_more(name, clip_norm):
    moved = largest_move(name, clip_norm)
    assert moved <= Relation.of(name).sensitivity(clip_norm) * (1 + 1e-15)
    assert moved > 0.999 * Relation.of(name).sensitivity(clip_norm)


@each
def test_a_lemma_helps_where_a_record_is_replaced_alone(name):
    moved = Relation.of(name).sensitivity(1.0, replaced=math.sqrt(2))
    assert moved == (math.sqrt(2) if name == "replace_one" else 1.0)
