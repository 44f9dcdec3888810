"""Gradients with a public target, by brute force in grid integers.

Other lines of the table of sensitivities are those of ``test_contract.py``.
"""

import dataclasses
import math

import numpy as np
import pytest
from problems import length

from skfdp.data.grid import GridRows, InputScaler
from skfdp.data.records import PublicRecords
from skfdp.kernels.losses import loss_named
from skfdp.privacy import Relation
from skfdp.queries.linear import LinearQuery, has_public_signs

SIGN_FIXING = ("log_loss", "hinge", "squared_hinge")


# -- gradients with a public target --------------------------------------------------
def private_parts(rng, n, signed):
    """Axes, and rows of every length, cut to norm 1."""
    rows = np.abs(rng.normal(size=(n, 3))) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    axes = rng.random(n) < 0.5
    rows[axes] = np.eye(3)[rng.integers(3, size=axes.sum())]
    if signed:
        rows *= rng.choice([-1, 1], size=(n, 1))
    return InputScaler().mapped(rows)


def largest_gradient_move(loss, n_classes, *, n_pairs, signed=False, orthant=False):
    """Two private parts of one record; its public part and its target stay."""
    rng = np.random.default_rng(0)
    clip, n, largest = 0.3, 500, 0.0
    n_outputs = 1 if n_classes == 2 else n_classes
    for block in range(n_pairs // n):
        public = 0.25 * rng.normal(size=(n, 1)) * rng.integers(0, 2, size=(n, 1))
        given = {"clip_norm": clip, "capacity": n, "public_target": True}
        given |= {"target": rng.integers(0, n_classes, n), "n_outputs": n_outputs}
        given |= {"offset": rng.normal(size=(n, n_outputs)), "orthant": orthant}
        given |= {"class_weight": rng.uniform(0.5, 2, n_classes), "loss": loss}
        parts = (np.hstack([private_parts(rng, n, signed), public]) for _ in "ab")
        queries = [
            LinearQuery(GridRows.build(rows, lambda rows: rows, bias=0.1), **given)
            for rows in parts
        ]
        theta = rng.normal(size=queries[0].shape) * 10.0 ** rng.uniform(-1, 1)
        theta *= 100 if block % 4 == 3 else 1  # residuals at their ends
        unit = queries[0].unit(rng.uniform(0, 10))
        for i in range(n):
            one, other = (q.exact_sum(theta, np.array([i]), unit) for q in queries)
            largest = max(largest, length(one - other, unit) / clip)
    return largest


@pytest.mark.parametrize(
    ("n_classes", "n_pairs"),
    [(2, 3000), (3, 5000), pytest.param(3, 20_000, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("loss", SIGN_FIXING)
@pytest.mark.parametrize("orthant", [True, False])
def test_non_negative_rows_with_a_public_target_stay_in_an_orthant(
    orthant, loss, n_classes, n_pairs
):
    """With the clamp of the query or without."""
    assert loss_named(loss).sign_fixed
    given = {"n_pairs": n_pairs, "orthant": orthant}
    largest = largest_gradient_move(loss_named(loss), n_classes, **given)
    bound = Relation.of("replace_one").sensitivity(1.0, 2**0.5)
    assert largest <= bound
    assert largest > 0.97 * bound


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_clamp_holds_the_bound_against_residuals_of_the_wrong_sign(n_classes):
    """As a rounded softmax may give; the Huber loss has them of either sign."""
    either = loss_named("huber", 1.0)
    clamped = largest_gradient_move(either, n_classes, n_pairs=500, orthant=True)
    assert clamped <= math.sqrt(2)
    assert largest_gradient_move(either, n_classes, n_pairs=500) > 1.5


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
    loss = dataclasses.replace(loss_named("log_loss"), sign_fixed=sign_fixed)
    expected = has_target and sign_fixed and span == "bounded"
    assert has_public_signs(public, loss) is expected


@pytest.mark.parametrize("loss", SIGN_FIXING)
def test_signed_rows_leave_the_orthant(loss):
    moved = largest_gradient_move(loss_named(loss), 3, n_pairs=2000, signed=True)
    assert moved > 1.9
