"""Gradients with a public target, by brute force in grid integers.

Other lines of the table of sensitivities are those of ``test_contract.py``.
"""

import dataclasses
import math

import numpy as np
import pytest

from skfdp.data.grid import GridRows
from skfdp.data.input_scaler import InputScaler
from skfdp.data.records import PublicRecords
from skfdp.privacy import Relation
from skfdp.queries.linear import (
    LOSSES,
    LinearQuery,
    gradient_sensitivity,
    has_public_signs,
)

SIGN_FIXING = ("log_loss", "hinge", "squared_hinge")


def norm(moved, unit):
    return math.sqrt(sum(int(entry) ** 2 for entry in moved.ravel().tolist())) * unit


# -- gradients with a public target --------------------------------------------------
def private_parts(rng, n, signed):
    """Axes, and rows of every length, cut to norm 1."""
    rows = np.abs(rng.normal(size=(n, 3))) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    axes = rng.random(n) < 0.5
    rows[axes] = np.eye(3)[rng.integers(3, size=axes.sum())]
    if signed:
        rows *= rng.choice([-1, 1], size=(n, 1))
    return InputScaler().mapped(rows)


def largest_gradient_move(loss, n_classes, *, n_pairs, signed=False):
    """Two private parts of one record; its public part and its target stay."""
    rng = np.random.default_rng(0)
    clip, n, largest = 0.3, 500, 0.0
    for _ in range(n_pairs // n):
        public = 0.25 * rng.normal(size=(n, 1)) * rng.integers(0, 2, size=(n, 1))
        target = rng.integers(0, n_classes, n)
        queries = [
            LinearQuery(
                rows=GridRows.build(
                    np.hstack([private_parts(rng, n, signed), public]),
                    lambda block: block,
                    bias=0.1,
                ),
                target=target,
                loss=LOSSES[loss],
                n_outputs=1 if n_classes == 2 else n_classes,
                clip_norm=clip,
                capacity=n,
                class_weight=np.ones(n_classes),
                public_target=True,
            )
            for _ in range(2)
        ]
        theta = rng.normal(size=queries[0].shape) * 10.0 ** rng.uniform(-1, 1)
        unit = queries[0].unit(rng.uniform(0, 10))
        for i in range(n):
            one, other = (q.exact_sum(theta, np.array([i]), unit) for q in queries)
            largest = max(largest, norm(one - other, unit) / clip)
    return largest


@pytest.mark.parametrize(("n_classes", "n_pairs"), [(2, 2000), (3, 5000)])
@pytest.mark.parametrize("loss", SIGN_FIXING)
def test_non_negative_rows_with_a_public_target_stay_in_an_orthant(
    loss, n_classes, n_pairs
):
    largest = largest_gradient_move(loss, n_classes, n_pairs=n_pairs)
    bound = gradient_sensitivity(Relation.of("replace_one"), 1.0, orthant=True)
    assert largest <= bound
    assert largest > 0.97 * bound


@pytest.mark.parametrize("has_target", [True, False])
@pytest.mark.parametrize("sign_fixed", [True, False])
@pytest.mark.parametrize("span", ["bounded", "one column unbounded", "no bounds"])
def test_the_orthant_is_claimed_under_all_its_conditions(has_target, sign_fixed, span):
    spans = {
        "bounded": np.array([1.0, 1.0, np.inf]),
        "one column unbounded": np.array([1.0, np.inf, 1.0]),
        "no bounds": None,
    }
    public = PublicRecords(
        mask=np.array([False, False, True]),
        input_scaler=InputScaler(low=np.zeros(3), span=spans[span]),
        n_records=2,
        columns=tuple("abc"),
        target=np.array([0, 1]) if has_target else None,
    )
    loss = dataclasses.replace(LOSSES["log_loss"], sign_fixed=sign_fixed)
    expected = has_target and sign_fixed and span == "bounded"
    assert has_public_signs(public, loss) is expected


@pytest.mark.parametrize("loss", SIGN_FIXING)
def test_signed_rows_leave_the_orthant(loss):
    assert largest_gradient_move(loss, 3, n_pairs=2000, signed=True) > 1.9
