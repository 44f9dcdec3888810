"""The relation as a value: its names, and how far neighbours move a sum."""

import itertools
import math

import numpy as np
import pytest

from skfdp.privacy import RELATIONS, Relation

each = pytest.mark.parametrize("name", RELATIONS)


def test_what_each_of_them_says():
    said = {
        name: (relation.replaces, relation.counts_are_public)
        for name, relation in ((name, Relation.of(name)) for name in RELATIONS)
    }
    assert said == {
        "replace_one": (True, True),
        "replace_special": (False, True),
        "add_or_remove_one": (False, False),
    }


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


def check_moves(name, clip_norm):
    moved = largest_move(name, clip_norm)
    assert moved <= Relation.of(name).sensitivity(clip_norm) * (1 + 1e-15)
    assert moved > 0.999 * Relation.of(name).sensitivity(clip_norm)


@each
@pytest.mark.parametrize("clip_norm", [1.0, 0.3, 1e-12, 1e9])
def test_neighbours_move_a_sum_by_that_much_and_no_more(name, clip_norm):
    check_moves(name, clip_norm)


@each
def test_a_lemma_helps_where_a_record_is_replaced_alone(name):
    moved = Relation.of(name).sensitivity(1.0, replaced=math.sqrt(2))
    assert moved == (math.sqrt(2) if name == "replace_one" else 1.0)
