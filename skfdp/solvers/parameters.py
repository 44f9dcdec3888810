r"""Rules for parameters that are "auto", from public and released numbers only.

The rules were chosen on ten data sets and checked on eleven others; see the page on
defaults in the theory.

Notation: ``n`` is the public number of rows, ``d`` of features, and ``m`` of outputs (1
for two classes, else one per class). ``mu`` is the Gaussian-DP parameter of the budget
for sums of sensitivity ``clip_norm``. If a replaced record changes a sum by
``2 * clip_norm``, ``mu`` is half of the budget's own parameter. ``s2n`` is the
signal-to-noise index of the budget, ``mu n / sqrt(d m)``. Rows of the loop have a
typical norm of 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs

from skfdp.mechanisms.descent import HeavyBall
from skfdp.privacy import Event
from skfdp.privacy.events import ASSUMED, Assumption
from skfdp.solvers import NoisyGradientDescent
from skfdp.solvers.method import Needs

#: Value of the constant feature that carries the intercept.
BIAS_FEATURE = 0.1
#: Fewest, usual and most steps of the full-batch loop.
LEAST_STEPS, USUAL_STEPS, MOST_STEPS = 80, 200, 1000
#: Largest and least "auto" momentum, for many and for few steps.
MOMENTUM, LEAST_MOMENTUM = 0.9, 0.5
#: Expected batch size, and number of passes over the data, with Poisson sampling.
BATCH_SIZE, N_EPOCHS = 4096, 20
#: Least number of classes that counts as many.
MANY_CLASSES = 20
#: Largest share of ``mu**2`` for a mean.
MOST_FOR_MEAN = 0.15
#: Least share of ``mu**2`` for the mean of the private columns.
LEAST_FOR_MEAN = 0.02
#: Least typical norm of the public part of a row, if a public model was fitted before.
LEAST_PUBLIC_NORM = 0.25
# Largest clip norm of a classifier, whose residuals are bounded.
_LARGEST_CLIP = 100.0
# Below this clip norm most residuals are clipped, and the cap of the step size does not
# decrease further.
_CAP_CLIP = 0.6
# Standard deviation of the noise that the loop may leave in one weight, for logits and
# for predictions in units of the target's spread.
_WEIGHT_NOISE, _WEIGHT_NOISE_OF_TARGETS = 1.5, 0.75


#: Values of the signal of `gap_of`, and by what is public the quartiles of the gap over
#: the tables of ``benchmarks/reproduce/known_without_data.py`` for each of them.
SIGNALS = (20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 100_000)
GAPS = {
    "nothing": (
        (98, 79, 59, 22, 15, 11, 4, 2, 1, 0),
        (101, 97, 72, 31, 26, 14, 7, 5, 3, 0),
        (106, 102, 88, 50, 36, 21, 11, 8, 6, 0),
    ),
    "columns": (
        (68, 48, 32, 7, 3, 0, 0, 0, 0, 0),
        (86, 70, 50, 16, 9, 3, 1, 1, 1, 0),
        (101, 95, 72, 25, 17, 9, 4, 3, 3, 0),
    ),
    "some columns": (
        (70, 41, 34, 17, 11, 6, 4, 3, 2, 0),
        (98, 76, 64, 28, 20, 13, 7, 5, 3, 0),
        (108, 100, 83, 45, 32, 19, 10, 8, 4, 0),
    ),
    "some columns and target": (
        (93, 87, 59, 28, 19, 13, 6, 4, 3, 0),
        (98, 95, 82, 52, 31, 20, 12, 8, 5, 0),
        (100, 100, 94, 79, 57, 36, 23, 16, 9, 0),
    ),
}


def gap_of(
    signal: float, n_columns: int, n_private: float, n_classes: int, has_target: bool
) -> tuple[float, float, float] | None:
    """Return quartiles of the gap of similar fits, or None if none were measured.

    See `skfdp.metrics.expected_gap`. `signal` is the number of records, divided by the
    noise in a sum of vectors of norm 1/2. `n_classes` is 0 for regressions.
    """
    some = 0 < n_private < n_columns
    name = "some columns" if some else "nothing" if n_private else "columns"
    name += " and target" * has_target
    if name not in GAPS or (n_classes == 0 and name != "nothing"):
        return None
    width = n_columns * (n_classes if n_classes > 2 else 1) / 100
    log = math.log(max(signal, 1e-300) / width**0.25)
    # The place of the signal among those of the table.
    place = float(np.interp(log, np.log(SIGNALS), range(len(SIGNALS))))
    ends = np.array(GAPS[name])[:, [int(place), math.ceil(place)]] / 100
    return tuple((ends[:, 0] + place % 1 * (ends[:, 1] - ends[:, 0])).tolist())


def mean_fraction(mu: float, n: float, d: int, least: float = LEAST_FOR_MEAN) -> float:
    """Return the share of ``mu**2`` for a mean of d columns, for an error of 1/4."""
    return float(np.clip(16 * d / (mu * n) ** 2, least, MOST_FOR_MEAN))


#: The mean of rows of norm 1 is not subtracted if its squared norm is below this limit.
#: After centring, such rows could be scaled up by at most 1.15. Without centring they
#: have public signs, which reduce the sensitivity by a factor of sqrt(2).
LEAST_SQUARED_MEAN = 0.25


def n_steps(signal: float, d: int) -> int:
    """Return the number of steps of the full-batch loop, for a signal ``mu n``.

    The total noise of the loop does not depend on this number, nor does the total step
    size, as long as single steps are below the cap of `learning_rate`.
    """
    usual = USUAL_STEPS * (signal / math.sqrt(d) / 1000) ** (1 / 3)
    return int(np.clip(min(math.sqrt(5 * signal), usual), LEAST_STEPS, MOST_STEPS))


def clip_norm(s2n: float, *, regression: bool = False) -> float:
    """Return the clip norm of gradients, a compromise between noise and bias.

    A small clip norm reduces the noise, and a large one the bias. The clip norm grows
    with `s2n`, except for a plateau of 0.8 between 128 and 1000, and is at most 100. It
    then clips only gradients of rows that are a hundred times as long as usual. With a
    larger clip norm, residuals would be rounded to zero.

    In a `regression` targets have spread 1. Their residuals are unbounded, and clipping
    many of them biases the mean. The clip norm therefore grows without a plateau.
    Beyond 4 it clips almost nothing, and grows more slowly and without a limit.
    """
    if regression:
        clip = 0.8 * math.sqrt(s2n / 128)
        return max(0.1, clip if clip < 4 else math.sqrt(4 * clip))
    if s2n > 1000:
        return min(0.8 * math.sqrt(s2n / 1000), _LARGEST_CLIP)
    return float(np.clip(0.8 * math.sqrt(s2n / 128), 0.1, 0.8))


def learning_rate(
    mu: float,
    n: float,
    n_steps: int,
    *,
    clip_norm: float,
    momentum: float,
    curvature: float,
    regression: bool = False,
) -> float:
    """Return the first step size, which multiplies ``clipped sum / (n clip_norm)``.

    With this step size, the noise that accumulates in a weight has a standard deviation
    of 1.5 (0.75 in a regression), unless the step size is capped. The cap keeps
    heavy-ball steps on the unclipped loss stable, and is lower for losses with a higher
    curvature than the softmax. A small clip norm does not lower the cap in proportion,
    because nearly all residuals are clipped and the loss is nearly linear.
    """
    pace = 2 * (1 - momentum) / n_steps
    cap = float(np.clip(2.5 * n * pace, 10, 40)) * min(1.0, 0.5 / curvature)
    cap *= (1 + momentum) / (1 + MOMENTUM)
    noise = _WEIGHT_NOISE_OF_TARGETS if regression else _WEIGHT_NOISE
    return min(noise * mu * n * pace, cap * max(clip_norm, _CAP_CLIP))


def block_norms(
    has_public_model: bool, s2n: float, columns: tuple[int, int], n_classes: int = 2
) -> tuple[float, float]:
    """Return the typical norms to which both parts of a row are scaled.

    The first norm is for the public columns, the second for the private columns. The
    signal of a part lies between that of one column and that of independent columns.
    The squared norm of a part is therefore proportional to the square root of its
    number of columns. With many classes it is proportional to the number itself,
    because other columns tell other classes. After a public model, public columns only
    add effects that depend on both parts. Such effects need a larger signal.

    `columns` are the numbers of public and of private columns. Without columns of one
    kind the norms are those of equal numbers.
    """
    if 0 in columns:
        columns, s2n = (1, 1), 0.0
    if not has_public_model:
        ours, theirs = np.power(
            columns, 1.0 if n_classes >= MANY_CLASSES else 0.5
        ).tolist()
        share = ours / (ours + theirs)
        return math.sqrt(share), math.sqrt(1 - share)
    ours = float(
        np.clip(LEAST_PUBLIC_NORM * math.sqrt(s2n / 32), LEAST_PUBLIC_NORM, 0.5)
    )
    return ours, math.sqrt(1 - ours**2)


def bias_of_target(doubt: float, n_columns: int) -> float:
    """Return the value of the constant column for a released mean of the target.

    The intercept corrects the error of this mean. Let it have the prior variance
    ``doubt**2``, in units of the target's variance. Let the columns explain a half of
    this variance, with d independent directions of equal size. For the least error with
    isotropic noise, squared norms of directions are proportional to prior deviations,
    so the squared constant is ``doubt * sqrt(2 / d)``. Columns are correlated, so d is
    taken as the square root of their number.
    """
    squared = doubt * math.sqrt(2 / math.sqrt(n_columns))
    return min(1.0, max(BIAS_FEATURE, math.sqrt(squared)))


def is_far(mu: float, n: float, n_classes: int, n_columns: int) -> bool:
    """Whether a descent on all columns is better than to start at a public model.

    This is so with many classes and a large budget, because the model of all columns is
    then far from that of the public columns, and with a private label from that of the
    label statistic (measured on the synthetic Purchase100-like data set). `mu` is the
    budget's own Gaussian-DP parameter, and `n_columns` counts the columns to learn.
    """
    return mu * n * math.sqrt(2 / n_classes / max(1, n_columns)) >= 50


#: Assumptions of the guarantee that do not follow from the events.
ASSUMPTIONS = (
    Assumption(
        "constructor_parameters_chosen",
        "Bounds, clip norm and every other constructor parameter were chosen without "
        "looking at private data.",
    ),
    ASSUMED["stored_types_public"],
    ASSUMED["values_clipped"],
)


def honoured_by_loop(
    loop: NoisyGradientDescent, rate: float, padding: Any
) -> dict[str, tuple[str, ...]]:
    """Return what the parameters of a loop with this sampling rate need."""
    pads, constant = (Needs.PRIVATE_COLUMNS,), rate < 1 and loop.noise_decay > 0
    return {
        **dict.fromkeys(vars(loop), ()),
        "noise_decay": ("full batches",) * constant,
        "public_loss": pads,
        "public_batch_size": (),
        "padding_scale": pads if padding == "gaussian" else ("public_loss='gaussian'",),
    }


def momentum_of(loop: NoisyGradientDescent, n_steps: int) -> float:
    """Return the momentum for a number of steps.

    "auto": the memory ``1 / (1 - momentum)`` is a 20th of the steps, but from 2 to 10
    steps. With a longer memory a short loop would oscillate about the optimum.
    """
    if loop.momentum != "auto":
        return loop.momentum
    return float(np.clip(1 - 20 / n_steps, LEAST_MOMENTUM, MOMENTUM))


def rule_of(
    loop: NoisyGradientDescent, event: Event, n_records: int, rate: float
) -> HeavyBall:
    """Return the rule of steps that start at `rate`, with their noise, unpenalised."""
    n_steps = event.n_steps
    clipped = event.sampling_rate * n_records * event.clip_norm
    return HeavyBall(
        rate,
        momentum_of(loop, n_steps),
        n_steps,
        radius=loop.max_weight_norm,
        decay=loop.learning_rate_decay,
        stds=loop.gradient_scale * event.step_stds / clipped,
    )


def batches_of(
    loop: NoisyGradientDescent,
    n_records: int,
    n_steps: int,
    n_epochs: int = N_EPOCHS,
    automatic: int | None = BATCH_SIZE,
) -> tuple[float, int]:
    """Return the sampling rate and the number of steps.

    If `max_iter` is "auto", there are `n_steps` full batches, or `n_epochs` passes in
    smaller batches. `automatic` is the "auto" batch size; None: every row.
    """
    batch = automatic if loop.batch_size == "auto" else loop.batch_size
    rate = 1.0 if batch is None else min(1.0, batch / n_records)
    if loop.max_iter != "auto":
        return rate, int(loop.max_iter)
    return rate, n_steps if rate == 1 else math.ceil(n_epochs / rate)


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`: at most one for each core."""
    return min(effective_n_jobs(n_jobs), cpu_count())
