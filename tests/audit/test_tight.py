"""Tight: for every release there is a pair of neighbours that moves it as far as said.

`tight_canaries` lists the pairs; here each is given out by the desk, a few thousand
times, on fixed streams. ``benchmarks/audits/canaries.py`` does the same with more.
"""

import dataclasses
import functools
import json
import math
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest

HERE = Path(__file__).parent
sys.path.append(str(HERE))
sys.path.append(str(HERE.parent / "golden"))

from tight_canaries import CANARIES  # noqa: E402

from skfdp.data.grid import SparseGridRows  # noqa: E402
from skfdp.mechanisms import release  # noqa: E402
from skfdp.mechanisms.release import Desk  # noqa: E402
from skfdp.privacy import Relation  # noqa: E402

BY_NAME = {canary.name: canary for canary in CANARIES}
every_canary = pytest.mark.parametrize("name", BY_NAME)
#: What golden files call the stream of a loop.
LOOP = {"noise": "descent"}


@functools.cache
def pair_of(name):
    return BY_NAME[name].pair()


def skip_without_torch(name):
    if "torch" in name:
        pytest.importorskip("torch")


def seen_of(name, pair, n_releases=None):
    """Return the ends of the interval and its error, over what is reached."""
    seen, reach = pair.seen(0, n_releases), BY_NAME[name].reach
    ratio, error = seen.ratio / reach, seen.error / reach
    return ratio - 2 * error, ratio + 2 * error, error


def check_tight(name, pair, n_releases=None):
    """Release a canary; the parameter seen is the one claimed, times what is reached.

    The interval, two standard errors on either side, lies within [.9, 1.05].
    """
    low, high, error = seen_of(name, pair, n_releases)
    assert error <= 0.015
    assert 0.9 <= low
    assert high <= 1.05


@pytest.mark.slow
@every_canary
def test_a_release_shows_what_it_claims(name):
    skip_without_torch(name)
    # That backend takes longer.
    check_tight(name, pair_of(name), 2_500 if "torch" in name else None)


@every_canary
def test_no_canary_is_moved_further_than_claimed(name):
    """In exact integers; and about as far as is said to be reached."""
    skip_without_torch(name)
    moved, reach = pair_of(name).moved(), BY_NAME[name].reach
    assert moved <= 1 + 1e-9
    assert 0.97 * reach <= moved <= reach * (1 + 1e-6)


def test_every_release_of_the_golden_fits_has_a_canary():
    """By the stream that it is drawn from."""
    golden = json.loads((HERE.parent / "golden" / "releases.json").read_text())
    drawn = {
        LOOP.get(release[0], release[0])
        for case in golden["cases"].values()
        for release in case["releases"]
    }
    # No fit makes private scores.
    drawn.add("scores")
    assert drawn == {canary.stream or canary.label for canary in CANARIES}


def kind(event, query, label, stream):
    """Return what tells one kind of release from another."""
    loss = getattr(query, "loss", None)
    return (
        type(query).__name__,
        stream or label,
        getattr(loss, "name", "no loss"),
        "replaced" if event.relation.replaces else "nulled or gone",
        *(["Poisson"] * (event.sampling_rate < 1)),
        *(["sparse"] * isinstance(getattr(query, "rows", None), SparseGridRows)),
        *(
            name
            for name in ("padded", "orthant", "label_bound", "nonnegative")
            if getattr(query, name, None) not in (None, False)
        ),
    )


@pytest.mark.slow
def test_every_kind_of_release_of_the_golden_fits_has_a_canary():
    """By query, stream, loss, relation, lemma, sampling and format."""
    from golden_cases import CASES, fit

    drawn, honest = set(), Desk.release

    def release(self, label, query, theta=None, *, stream=None):
        drawn.add(kind(self.event(label), query, label, stream))
        return honest(self, label, query, theta, stream=stream)

    with mock.patch.object(Desk, "release", release), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in CASES:
            if case["params"].get("epsilon") != math.inf:
                fit(case)
    found = set()
    for canary in CANARIES:
        skip_without_torch(canary.name)
        pair = pair_of(canary.name)
        found.add(kind(pair.event, pair.queries[0], canary.label, canary.stream))
    assert drawn <= found


# -- sabotage --------------------------------------------------------------------------
def is_red(pair, name):
    """Whether the whole interval is above, be it ever so wide."""
    return seen_of(name, pair, 2_000 if pair.event.sampling_rate < 1 else 400)[0] > 1.05


@pytest.mark.slow
@every_canary
def test_half_the_noise_is_noticed(name, monkeypatch):
    skip_without_torch(name)
    pair = pair_of(name)
    honest = release._noisy_sum

    def half(*query, noise_std, **more):
        return honest(*query, noise_std=noise_std / 2, **more)

    monkeypatch.setattr(release, "_noisy_sum", half)
    assert is_red(pair, name)


#: A record that is replaced moves these no further than it is long.
SHORT = ("score", "label loop, two", "label loop, three")
FACTORS = [
    canary.name
    for canary in CANARIES
    if canary.other is not None
    and (not canary.name.startswith(SHORT) or "short" in canary.name)
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_that_is_left_out_is_noticed(name, monkeypatch):
    """That of a record that is replaced: 2, sqrt(2), or 1.5."""
    skip_without_torch(name)
    honest = pair_of(name).event
    assert honest.sensitivity > 1.4 * honest.clip_norm

    def moves(self, clip_norm, replaced=None):
        return clip_norm

    monkeypatch.setattr(Relation, "moves", moves)
    pair = BY_NAME[name].pair()
    assert pair.event.sensitivity < honest.sensitivity
    assert is_red(pair, name)


def test_a_record_that_is_left_alone_is_noticed():
    """A canary that is not moved does not pass for a tight one."""
    name = "class counts, two, replaced"
    same = dataclasses.replace(BY_NAME[name], other=BY_NAME[name].one)
    with pytest.raises(AssertionError):
        check_tight(name, same.pair())
