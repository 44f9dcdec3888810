"""Label-DP by noisy descent: what a replaced label can move."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from problems import length

from skfdp import FeatureDPLogisticRegression
from skfdp.data.grid import GRID, SAFE_STD, GridRows, InputScaler
from skfdp.data.records import PublicRecords
from skfdp.kernels.losses import loss_named
from skfdp.privacy import calibrate
from skfdp.queries.linear import LinearQuery, label_bound
from skfdp.solvers import NoisyGradientDescent, NoisySGD

LOG_LOSS = loss_named("log_loss")


def public_part(n_records, n_columns, n_classes):
    return PublicRecords(
        mask=np.ones(n_columns, dtype=bool),
        input_scaler=InputScaler(),
        n_records=n_records,
        columns=tuple("abcd")[:n_columns],
        classes=np.arange(n_classes),
        class_weight=np.ones(n_classes),
    )


def planned(noise_std, clip_norm):
    return SimpleNamespace(
        step_stds=np.array([noise_std]), clip_norm=clip_norm, sensitivity=2 * clip_norm
    )


def query_of(rows, loss, n_outputs, clip_norm, public, **offset):
    labels = np.zeros(public.n_records, dtype=np.int64)
    given = {"clip_norm": clip_norm, "capacity": public.capacity, **offset}
    return LinearQuery(
        rows=rows, target=labels, loss=loss, n_outputs=n_outputs, **given
    )


def sum_of(query, label, theta, row, unit):
    """Return what a record with this label adds."""
    labelled = dataclasses.replace(query, target=np.full(len(query.target), label))
    return labelled.exact_sum(theta, np.array([row]), unit)


def largest_move(loss, n_outputs, clip_norm, noise_std):
    """Largest move over all labels of a record, over the bound of the package."""
    rng = np.random.default_rng(n_outputs)
    n, classes = 20, max(2, n_outputs)
    rows = GridRows.build(rng.normal(size=(n, 4)) / 2, lambda b: b, bias=0.1)
    public = public_part(n, 4, classes)
    query = query_of(rows, loss, n_outputs, clip_norm, public)
    bound = label_bound(public, loss, rows, planned(noise_std, clip_norm))
    unit = query.unit(noise_std)
    largest = 0.0
    for _ in range(15):
        theta = rng.normal(size=query.shape) * 10.0 ** rng.uniform(-1, 2)
        for row in range(n):
            sums = [sum_of(query, k, theta, row, unit) for k in range(classes)]
            for other in sums[1:]:
                largest = max(largest, length(sums[0] - other, unit))
    return largest / bound, bound


@pytest.mark.parametrize("noise_std", [1.0, 1e4])
@pytest.mark.parametrize("clip_norm", [0.05, 0.9, 3.0])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_no_label_moves_a_sum_further(n_outputs, clip_norm, noise_std):
    largest, bound = largest_move(LOG_LOSS, n_outputs, clip_norm, noise_std)
    assert 0.6 < largest <= 1 and bound <= 2 * clip_norm


def test_what_rounding_adds_is_in_the_bound():
    """One label is just clipped: ten small residuals then round to the other side."""
    grid, n_classes, close = 2.0**-6, 12, 1e-4
    units = np.r_[5.3 - 10 * close, 3.7, np.full(10, 5.5 + close)]
    chances = units * grid
    rows = GridRows.build(np.ones((1, 1)), lambda block: block)
    lengths = [np.linalg.norm(chances - np.eye(n_classes)[k]) for k in (0, 1)]
    # Half a unit in every residual is taken off the clip norm before.
    room = grid * math.sqrt(n_classes) / 2 * (1 + 1e-9)
    clip_norm = lengths[1] * (1 - 1e-4) + room
    assert lengths[0] < clip_norm - room
    noise_std = grid * GRID * SAFE_STD
    public = public_part(1, 1, n_classes)
    offset = np.log(chances)[None]
    query = query_of(rows, LOG_LOSS, n_classes, clip_norm, public, offset=offset)
    unit = query.unit(noise_std)
    assert unit == grid * GRID
    theta = np.zeros(query.shape)
    first, second = (sum_of(query, label, theta, 0, unit) for label in (0, 1))
    moved, plan = length(first - second, unit), planned(noise_std, clip_norm)
    assert moved > math.sqrt(2) * (1 + 1e-4)
    assert moved <= label_bound(public, LOG_LOSS, rows, plan) < 2 * clip_norm


def fitted(data, **parameters):
    model = FeatureDPLogisticRegression(
        public_features="all", bounds=(0, 16), **parameters
    ).fit(*data)
    return model.privacy_, model.privacy_.events[-1]


WIDE = {"clip_norm": 3.0, "max_iter": 30}


@pytest.mark.parametrize(
    "solver", [NoisyGradientDescent(**WIDE), NoisySGD(batch_size=300, **WIDE)]
)
def test_a_wide_clip_costs_what_a_label_can_move(digits, solver):
    report, event = fitted(digits, solver=solver)
    assert event.sensitivity < 0.4 * 2 * event.clip_norm and report.epsilon <= 1
    assert any("Every column is public" in a.text for a in report.assumptions)
    rate = event.sampling_rate
    generic = calibrate(1.0, 1e-5, n_steps=30, sampling_rate=rate, clip_norm=3.0)
    assert event.noise_std[0] < 0.8 * generic.noise_std[0]


@pytest.mark.parametrize(
    ("clip_norm", "parameters"),
    [
        (0.1, {}),
        (3.0, {"class_weight": {0: 2.0}}),
        (3.0, {"neighboring_relation": "replace_special"}),
    ],
)
def test_otherwise_the_clip_norm_decides(digits, clip_norm, parameters):
    solver = NoisyGradientDescent(clip_norm=clip_norm, max_iter=3)
    report, event = fitted(digits, solver=solver, **parameters)
    special = "neighboring_relation" in parameters
    assert event.sensitivity == (1 if special else 2) * event.clip_norm
    assert not any("Every column is public" in a.text for a in report.assumptions)
