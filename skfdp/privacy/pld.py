r"""Privacy loss distributions, computed with dp_accounting.

This module avoids three defects of dp_accounting 0.6:

* The RDP accountant ignores the factor 2 of "replace one". It is not used here.
* The PLD accountant drops ``count`` for some events, and loses a composition if the
  noise multiplier is an int or float32. It is not used either: loss distributions are
  composed here directly, from Python floats.
* The replace-one curve of dp_accounting supports only sensitivity 2C, where C is the
  clip norm. This module computes the following curve instead.

**The (C, Delta) curve under "replace_one".** In two neighbours the changed record
contributes v and v' to a Poisson-sampled sum, with sampling rate q,
:math:`\|v\|, \|v'\| \le C` and :math:`\|v - v'\| \le \Delta \le 2C`. Let N(c) be the
normal distribution with mean c and the variance of the noise. For epsilon >= 0 the
hockey-stick divergence of the two outputs is at most that of
:math:`A = (1-q) N(0) + q N(C)` against :math:`B = (1-q) N(0) + q N(C - \Delta)`. In one
step the output of the first neighbour may correspond to A, in another step that of the
second neighbour. The dominating curve is therefore symmetrised. For epsilon >= 0 its
delta is the divergence of A against B, and
:math:`\delta(-\epsilon) = 1 - e^{-\epsilon} + e^{-\epsilon} \delta(\epsilon)`. The
proof is in the documentation (theory, "The (C, Delta) curve").
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from scipy.special import expit, ndtr

from skfdp.privacy.events import Relation

# ((noise, sensitivity, sampling rate, relation), count), in units of the clip norm.
_Steps = Sequence[tuple[tuple[float, float, float, str], int]]
_Pure = Sequence[tuple[float, int]]  # (epsilon, count)
# Gap between neighbouring values of the discretised privacy loss, if mu of the
# composition is about 1 or less. For a larger mu a wider gap is enough.
_FINEST_GAP = 1e-4
# Approximate error of delta per composed step, from the Fourier transforms.
_FLOAT_ROUNDING = 2e-16
# Noise beyond this many standard deviations counts as infinite loss. Its probability
# is ndtr(-9) = 1e-19 a step, far below any delta.
_TAIL_STDS = 9.0
# Largest numbers of grid values of the privacy loss: of one step, and of a composition.
# To stay below them the gap is widened, which is always safe. A composition that needs
# more than the widest gap has an epsilon in the hundreds of thousands, and is refused.
_STEP_POINTS, _TOTAL_POINTS, _WIDEST_GAP = 2**19, 2**21, 1.0
# The same for all full batches together, whose grid of losses extends from about
# -mu**2 / 2 to mu**2 / 2.
_GAUSSIAN_POINTS = 2**22


# Tails may underflow. If a bound of a tail overflows, infinity is a valid bound.
@np.errstate(over="ignore", under="ignore")
def compose_pld(
    steps: _Steps, full_batch_mu: float, spread: float | None = None, pure: _Pure = ()
) -> tuple[list[Any], float, str]:
    """Compose Poisson-sampled steps, a mu-GDP mechanism and pure mechanisms.

    `steps` are pairs ``((noise, sensitivity, q, relation), count)``, in units of the
    clip norm. `full_batch_mu` is the Gaussian-DP parameter of all full-batch releases
    together; 0 without any. `pure` are pairs ``(epsilon, count)``. `spread` is the
    width of the interval that holds nearly all composed privacy losses. A known width
    allows a finer grid of losses; None means a bound computed from the steps.

    The result has a privacy loss distribution of dp_accounting for each direction
    between neighbours (one if they are equal), a bound of the rounding error of the
    deltas, and the accountant with its discretisation, for reports.
    """
    # Raising a small rate to 1e-15 is safe. A larger rate never costs less, because
    # batches of a smaller rate can be sampled from batches of a larger rate. At this
    # rate a step costs less than the error of the Fourier transforms.
    steps = [((z, s, max(q, 1e-15), r), count) for (z, s, q, r), count in steps]
    n_steps = sum(count for _, count in (*steps, *pure))
    gap = _gap(steps, full_batch_mu, spread, pure)
    if gap > _WIDEST_GAP:  # losses are too large or too many for the grid
        raise ValueError(
            f"{n_steps} Poisson-sampled or pure releases, composed with the others, "
            "have too little noise or are too many for a privacy loss distribution: "
            "add noise, take fewer steps, or use full batches only, which have a "
            "closed form."
        )
    total = [privacy_loss_distribution.identity(gap)]
    if full_batch_mu > 0:
        total = _composed(total, [_gaussian(float(full_batch_mu), gap)])
    for key, count in steps:
        step = _poisson_step(*key, gap)
        total = _composed(total, [one.self_compose(int(count)) for one in step])
    for epsilon, count in pure:
        total = _composed(total, [_pure(epsilon, gap).self_compose(int(count))])
    return (
        total,
        _FLOAT_ROUNDING * (1 + n_steps),
        (
            "dp-accounting 0.6 privacy loss distributions, pessimistic "
            f"connect-the-dots, discretisation {gap:g}"
        ),
    )


def _composed(total: Sequence[Any], part: Sequence[Any]) -> list[Any]:
    """Compose two mechanisms, in each direction between neighbours.

    A mechanism with equal directions has one distribution, other mechanisms have two.
    """
    n_directions = max(len(total), len(part))
    return [
        total[j % len(total)].compose(part[j % len(part)]) for j in range(n_directions)
    ]


def _gap(
    steps: _Steps, full_batch_mu: float, spread: float | None, pure: _Pure = ()
) -> float:
    """Return the gap between grid values of the discretised privacy loss.

    Rounding the losses of T steps to the grid changes their sum by about sqrt(T) gaps.
    This change must be small compared with mu of the composition, so a large mu allows
    a wider gap. The gap is also widened if the grid would have too many values.
    """
    # mu of the composition by the central limit theorem, an approximation.
    square = full_batch_mu**2
    for (noise, sensitivity, q, _), count in steps:
        growth = min(50.0, (sensitivity / noise) ** 2)
        square += q * q * count * math.expm1(growth)
    # The mean of the loss is mu**2 / 2.
    square += math.fsum(2 * count * e * math.tanh(e / 2) for e, count in pure)
    mu = max(math.sqrt(square), 1e-12)
    n_steps = 1 + sum(count for _, count in (*steps, *pure))
    wider = 0 if spread is not None else round(math.log2(mu + 1e-9))
    coarse = _FINEST_GAP * 2.0 ** min(7, max(0, wider))
    # A finer gap than 1e-9 would resolve rounding errors only.
    gap = max(1e-9, min(coarse, 0.05 * mu / math.sqrt(n_steps)))
    # The grid covers about 20 standard deviations of the composed loss, but not more
    # than all finite losses.
    tops = [*((_top(*key[:3]), count) for key, count in steps), *pure]
    whole = 2 * math.fsum(top * count for top, count in tops) + 20 * full_batch_mu
    spread = min(20 * mu, whole, math.inf if spread is None else spread)
    least = spread / _TOTAL_POINTS, full_batch_mu**2 / _GAUSSIAN_POINTS
    return max([gap, *least, *(top / _STEP_POINTS for top, _ in tops)])


def _top(noise: float, sensitivity: float, q: float) -> float:
    """Return the largest finite loss of a step; larger ones count as infinite."""
    return float(_log_ratio(np.array(1 + _TAIL_STDS * noise), noise, sensitivity, q)[0])


@functools.lru_cache(maxsize=64)
def _gaussian(mu: float, gap: float) -> Any:
    return privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=1 / mu,
        sensitivity=1.0,
        value_discretization_interval=gap,
        use_connect_dots=True,
    )


@functools.lru_cache(maxsize=64)
def _poisson_step(
    noise: float, sensitivity: float, q: float, relation: str, gap: float
) -> tuple[Any, ...]:
    """Return the loss distribution of one step, for each direction between neighbours.

    Noise and sensitivity are in units of the clip norm.
    """
    n_up = max(1, math.ceil(_top(noise, sensitivity, q) / gap))
    if Relation.of(relation).replaces:
        epsilons = np.arange(n_up + 1) * gap
        up = hockey_stick(epsilons, noise, sensitivity, q)
        # Rounding may raise a tail value by 1e-16, but a privacy curve cannot increase.
        up = np.minimum.accumulate(np.clip(up, 0.0, 1.0))
        return (_symmetrised(gap, epsilons, up),)
    # If the record is removed, the loss is at least log(1 - q). The grid begins there,
    # or later: at the loss of an output `_TAIL_STDS` standard deviations below 0.
    # Smaller losses are rare, and are rounded up to the first grid value.
    far = -float(_log_mixture(np.array(-_TAIL_STDS * noise), 1.0, noise, q))
    n_down = max(1, math.ceil(min(-math.log1p(-q), far) / gap))
    epsilons = np.arange(-n_down, n_up + 1) * gap
    return (
        _pmf(gap, -n_down, removal(epsilons, noise, q)),
        _pmf(gap, -n_up, addition(-epsilons[::-1], noise, q)),
    )


@functools.lru_cache(maxsize=64)
def _pure(epsilon: float, gap: float) -> Any:
    """Return the loss distribution of binary randomised response.

    Its curve dominates that of every mechanism with pure epsilon-DP, also in adaptive
    compositions (Kairouz, Oh and Viswanath 2015, The composition theorem for
    differential privacy, https://arxiv.org/abs/1311.0776).
    """
    epsilons = np.arange(max(1, math.ceil(epsilon / gap)) + 1) * gap
    up = expit(epsilon) * -np.expm1(np.minimum(epsilons - epsilon, 0.0))
    return _symmetrised(gap, epsilons, up)


def _symmetrised(gap: float, epsilons: np.ndarray, up: np.ndarray) -> Any:
    """Return the distribution of a symmetrised curve, from its part at epsilon >= 0."""
    # The formula is in the docstring of this module.
    down = -np.expm1(-epsilons[1:]) + np.exp(-epsilons[1:]) * up[1:]
    return _pmf(gap, 1 - len(epsilons), np.concatenate([down[::-1], up]))


def _pmf(gap: float, lowest: int, deltas: np.ndarray) -> Any:
    """Return the pessimistic loss distribution of one direction between neighbours.

    `deltas` holds the privacy curve on a grid of epsilons with this gap, from ``lowest
    * gap`` on. The method is *connect the dots*: Doroshenko, Ghazi, Kamath, Kumar and
    Manurangsi (2022), Algorithm 1, https://arxiv.org/abs/2207.04380.
    """
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    steps, growth = np.diff(deltas), math.expm1(gap)
    mass = np.empty(len(deltas))
    mass[0] = 1 - deltas[0] + steps[0] / growth
    mass[1:-1] = (steps[1:] - steps[:-1] * math.exp(gap)) / growth
    mass[-1] = steps[-1] / math.expm1(-gap)
    mass, infinite = np.maximum(mass, 0.0), float(deltas[-1])
    pmf = pld_pmf.DensePLDPmf(gap, lowest, mass, infinite, True)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def removal(epsilons: np.ndarray, noise: float, q: float) -> np.ndarray:
    r"""Return the hockey-stick divergence of A = (1-q) N(0) + q N(1) against B = N(0).

    For the relations "add_or_remove_one" and "replace_special", in units of the clip
    norm and at any real epsilon. A is the density of the output x with the record, and
    B the density without it. A(x) / B(x) increases with x. So the divergence is a
    difference of two tails beyond a threshold of x, which has a closed form.
    """
    x, alpha = _threshold(epsilons, noise, q), _exp(epsilons)
    with_record = (1 - q) * ndtr(-x / noise) + q * ndtr((1 - x) / noise)
    return with_record - alpha * ndtr(-x / noise)


def addition(epsilons: np.ndarray, noise: float, q: float) -> np.ndarray:
    """Return the hockey-stick divergence of B against A, with A and B of `removal`."""
    x, alpha = _threshold(-epsilons, noise, q), _exp(epsilons)
    with_record = (1 - q) * ndtr(x / noise) + q * ndtr((x - 1) / noise)
    return ndtr(x / noise) - alpha * with_record


def _threshold(epsilons: np.ndarray, noise: float, q: float) -> np.ndarray:
    """Return x with A(x) / B(x) = exp(epsilon), with A and B of `removal`.

    If the ratio is larger at every x, the result is -inf.
    """
    excess = np.expm1(np.minimum(epsilons, 50.0)) + q
    with np.errstate(divide="ignore"):
        log = np.log(np.maximum(excess, 0.0))
    # For epsilon > 50, log(exp(epsilon) - 1 + q) equals epsilon up to rounding.
    log = np.where(epsilons > 50.0, epsilons, log) - math.log(q)
    return noise**2 * log + 0.5


def _exp(epsilons: np.ndarray) -> np.ndarray:
    """Return exp(epsilon), capped against overflow.

    The cap is safe, because a smaller value makes the divergence larger.
    """
    return np.exp(np.minimum(epsilons, 700.0))


def hockey_stick(
    epsilons: np.ndarray, noise: float, sensitivity: float, q: float
) -> np.ndarray:
    r"""Return the hockey-stick divergence :math:`H_{e^\epsilon}(A \| B)`.

    A and B are those of the docstring of this module. The epsilons increase, and are at
    least 0. Noise and sensitivity, in (0, 2], are in units of the clip norm. The
    sampling rate q is in (0, 1].

    Notes
    -----
    Let a and b be the densities of N(1) and N(1 - sensitivity), divided by the density
    of N(0). The density of A is at least exp(epsilon) times that of B exactly beyond
    one threshold x, at which ``q (a(x) - exp(epsilon) b(x))`` equals
    ``(1 - q)(exp(epsilon) - 1)``. The reason is that the first expression is not
    positive up to ``1 - sensitivity / 2``, where a = b, and increases beyond. The
    divergence is therefore a difference of two tails. An inexact threshold makes the
    divergence too small, but only to second order.
    """
    low, high = 1 - sensitivity / 2, 1 + (_TAIL_STDS + 4) * noise
    grid = np.linspace(low, high, 20_001)
    ratio = np.maximum.accumulate(_log_ratio(grid, noise, sensitivity, q)[0])
    x = np.interp(epsilons, ratio, grid)
    for _ in range(4):  # Newton's method converges fast from this start
        value, slope = _log_ratio(x, noise, sensitivity, q)
        step = np.where(slope > 0, (value - epsilons) / np.maximum(slope, 1e-300), 0.0)
        x = np.clip(x - np.clip(step, -noise, noise), low, high)
    alpha = _exp(epsilons)
    centre = 1 - sensitivity
    tails = ndtr((1 - x) / noise) - alpha * ndtr((centre - x) / noise)
    return (1 - q) * (1 - alpha) * ndtr(-x / noise) + q * tails


def _log_mixture(x: np.ndarray, centre: float, noise: float, q: float) -> np.ndarray:
    """Return log of (1 - q) + q N(x; centre) / N(x; 0).

    N(x; c) is the normal density at x, with mean c and the variance of the noise.
    """
    exponent = (2 * centre * x - centre * centre) / (2 * noise * noise)
    return exponent if q == 1 else np.logaddexp(math.log1p(-q), math.log(q) + exponent)


def _log_ratio(
    x: np.ndarray, noise: float, sensitivity: float, q: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return log(A(x) / B(x)), with A and B of `hockey_stick`, and its slope."""
    value, slope = np.zeros_like(x), np.zeros_like(x)
    for sign, centre in ((1, 1.0), (-1, 1 - sensitivity)):
        exponent = (2 * centre * x - centre * centre) / (2 * noise * noise)
        log_mix = _log_mixture(x, centre, noise, q)
        # Share of the component with mean `centre` in the density of the mixture.
        weight = np.exp(math.log(q) + exponent - log_mix)
        value = value + sign * log_mix
        slope = slope + sign * weight * centre / (noise * noise)
    return value, slope
