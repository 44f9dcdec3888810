"""Tight: for every release there is a pair of neighbours that moves it as far as said.

`tight_canaries` lists the pairs; here each is released by the mechanism, a few thousand
times, on fixed streams. ``benchmarks/audits/canaries.py`` does the same with more.
"""

import functools
import math
import sys
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path.append(str(HERE))
sys.path.append(str(HERE.parent / "golden"))
sys.path.append(str(HERE.parents[1] / "benchmarks" / "audits"))

from tight_canaries import CANARIES  # noqa: E402

from skfdp.data.grid import SparseGridRows  # noqa: E402
from skfdp.mechanisms.release import Mechanism  # noqa: E402

BY_NAME = {canary.name: canary for canary in CANARIES}
every_canary = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.extra("torch")] * ("torch" in name))
        for name in BY_NAME
    ],
)


@functools.cache
def pair_of(name):
    return BY_NAME[name].pair()


@pytest.mark.slow
@every_canary
def test_a_release_shows_what_it_claims(name):
    """The interval, two standard errors on either side, lies within [.9, 1.05]."""
    script = pytest.importorskip("canaries", reason="no checkout")
    # That backend takes longer.
    seen = script.seen_of(pair_of(name), 0, 0.6 if "torch" in name else 1.0)
    ratio, error = np.array(seen[:2]) / BY_NAME[name].reach
    assert error <= 0.015
    assert 0.9 <= ratio - 2 * error
    assert ratio + 2 * error <= 1.05


@every_canary
def test_no_canary_is_moved_further_than_claimed(name):
    """In exact integers; and about as far as is said to be reached."""
    moved, reach = pair_of(name).moved(), BY_NAME[name].reach
    assert moved <= 1 + 1e-9
    assert 0.97 * reach <= moved <= reach * (1 + 1e-6)


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

    drawn, honest = set(), Mechanism.release

    def release(self, label, query, theta=None, *, stream=None):
        drawn.add(kind(self.event(label), query, label, stream))
        return honest(self, label, query, theta, stream=stream)

    with mock.patch.object(Mechanism, "release", release), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in CASES:
            if case["params"].get("epsilon") != math.inf:
                fit(case)
    found = set()
    for canary in CANARIES:
        if "torch" not in canary.name:  # no golden fit uses it
            pair = pair_of(canary.name)
            found.add(kind(pair.event, pair.queries[0], canary.label, canary.stream))
    assert drawn <= found
