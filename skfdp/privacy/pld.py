r"""Privacy loss distributions, computed with dp_accounting.

This module avoids three defects of dp_accounting 0.6:

* The RDP accountant ignores the factor 2 of "replace one". It is not used here.
* The PLD accountant drops ``count`` for some events, and loses a composition if the
  noise multiplier is an int or float32. It gets only Python floats here, and no events.
* Its replace-one curve supports only the sensitivity 2C. Our curve is below.

**The (C, Delta) curve under "replace_one".** Two neighbours contribute v and v' to a
Poisson-sampled sum, with :math:`\|v\|, \|v'\| \le C` and
:math:`\|v - v'\| \le \Delta \le 2C`. For alpha >= 1 the hockey-stick divergence of the
two outputs is at most that of :math:`A = (1-q) N(0) + q N(C)` against
:math:`B = (1-q) N(0) + q N(C - \Delta)`. In one step the first neighbour may correspond
to A, in another step the second one. The dominating curve is therefore symmetrised. For
epsilon >= 0 delta is this divergence, and
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
from scipy.special import ndtr

from skfdp.privacy.events import Relation

# ((noise, sensitivity, sampling rate, relation), count), in units of the clip norm.
_Steps = Sequence[tuple[tuple[float, float, float, str], int]]
# Gap between neighbouring values of the discretised privacy loss for small epsilon;
# for large losses a wider gap is enough.
_FINEST_GAP = 1e-4
# The Fourier transforms of a composition err by about this much per step in delta.
_ROUNDING = 2e-16
_LEAST_RATE = 1e-15
# Noise beyond this many standard deviations counts as infinite loss. Its probability
# is ndtr(-9) = 1e-19 a step, far below any delta.
_TAIL_STDS = 9.0
# Points at which a given curve is evaluated; chords between them bound it.
_CURVE_POINTS = 2_000
# Largest numbers of values of the loss: of one step, and of the composition. A wider
# gap is always safe. Beyond the widest gap epsilon is in the hundreds of thousands.
_STEP_POINTS, _TOTAL_POINTS, _WIDEST_GAP = 2**19, 2**21, 1.0
# A finer gap would resolve rounding errors only.
_NARROWEST_GAP = 1e-9
# exp of a larger number overflows; larger losses count as infinite.
_LARGEST_LOSS = 700.0


# Tails may underflow; where a bound of a tail overflows, infinity is a valid bound.
@np.errstate(over="ignore", under="ignore")
def compose(
    steps: _Steps,
    *,
    full_batch_mu: float,
    curves: Sequence[tuple[Any, int]] = (),
    spread: float | None = None,
) -> tuple[list[Any], float, str]:
    """Compose Poisson-sampled steps, a mu-GDP mechanism and given curves.

    Parameters
    ----------
    steps : sequence
        Pairs ``((noise, sensitivity, q, relation), count)``, in units of the clip norm.
    full_batch_mu : float
    curves : sequence of (PrivacyCurve, int), default=()
        Curves that bound further mechanisms in both directions, and their counts.
    spread : float, default=None
        The width of the range that holds nearly all composed losses, if it is known.
        A known width allows a finer grid of losses. None means a bound computed from
        the steps.

    Returns
    -------
    distributions : list of dp_accounting PrivacyLossDistribution
        One for each direction between neighbours, or one if both are equal.
    rounding : float
        Bound of the rounding error of the deltas.
    description : str
        The accountant and its discretisation, for reports.
    """
    # A larger rate costs more, because a smaller batch can be sampled from a batch.
    # Below the least rate the cost of a step is below the error of the transforms.
    steps = [((z, s, max(q, _LEAST_RATE), r), count) for (z, s, q, r), count in steps]
    n_steps = 1 + sum(count for _, count in (*steps, *curves))
    # A Gaussian release spends about 6 mu at this delta.
    scale = max([full_batch_mu, *(curve.epsilon(1e-9) / 6 for curve, _ in curves)])
    gap = _gap(steps, scale, spread)
    if gap > _WIDEST_GAP:  # losses are too large or too many for the grid
        raise ValueError(
            f"{sum(count for _, count in steps)} Poisson-sampled steps, composed with "
            "the other releases, have too little noise or are too many for a privacy "
            "loss distribution: add noise, take fewer steps, or use full batches only, "
            "which have a closed form."
        )
    total = [privacy_loss_distribution.identity(gap)]
    if full_batch_mu > 0:
        total = _composed(total, [_gaussian(float(full_batch_mu), gap)])
    for key, count in steps:
        step = _poisson_step(*key, gap)
        total = _composed(total, [one.self_compose(int(count)) for one in step])
    for curve, count in curves:
        total = _composed(total, [_from_curve(curve, gap).self_compose(int(count))])
    return (
        total,
        _ROUNDING * n_steps,
        (
            "dp-accounting 0.6 privacy loss distributions, pessimistic "
            f"connect-the-dots, discretisation {gap:g}"
        ),
    )


def _composed(total: Sequence[Any], part: Sequence[Any]) -> list[Any]:
    """Compose two mechanisms, in each direction."""
    n_directions = max(len(total), len(part))
    return [
        total[j % len(total)].compose(part[j % len(part)]) for j in range(n_directions)
    ]


def _gap(steps: _Steps, full_batch_mu: float, spread: float | None) -> float:
    """Return the gap of the discretised loss.

    Rounding T steps to the grid costs about sqrt(T) gaps in total, which must be small
    compared with mu. Large losses allow a wider gap.
    """
    mu = _central_limit_mu(steps, full_batch_mu)
    n_steps = 1 + sum(count for _, count in steps)
    coarse = _FINEST_GAP * 2.0 ** min(7, max(0, round(math.log2(mu + 1e-9))))
    if spread is not None:
        coarse = _FINEST_GAP
    gap = max(_NARROWEST_GAP, min(coarse, 0.05 * mu / math.sqrt(n_steps)))
    # The range is about 20 standard deviations, and at most that of all losses.
    tops = [(_top(*key[:3]), count) for key, count in steps]
    whole = 2 * math.fsum(top * count for top, count in tops) + 20 * full_batch_mu
    spread = min(20 * mu, whole, math.inf if spread is None else spread)
    return max([gap, spread / _TOTAL_POINTS, *(top / _STEP_POINTS for top, _ in tops)])


def _central_limit_mu(steps: _Steps, full_batch_mu: float) -> float:
    square = full_batch_mu**2
    for (noise, sensitivity, q, _), count in steps:
        growth = min(50.0, (sensitivity / noise) ** 2)
        square += q * q * count * math.expm1(growth)
    return max(math.sqrt(square), 1e-12)


def _top(noise: float, sensitivity: float, q: float) -> float:
    """Return the largest finite loss of a step; larger ones count as infinite."""
    return float(_log_ratio(np.array(1 + _TAIL_STDS * noise), noise, sensitivity, q))


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
    """Return the loss distribution of one step, for each direction.

    Noise and sensitivity are in units of the clip norm.
    """
    n_up = max(1, math.ceil(_top(noise, sensitivity, q) / gap))
    if Relation.of(relation).replaces:
        epsilons = np.arange(n_up + 1) * gap
        up = hockey_stick(epsilons, noise, sensitivity, q)
        # Rounding may raise a tail value by 1e-16, but a privacy curve cannot increase.
        up = np.minimum.accumulate(np.clip(up, 0.0, 1.0))
        return (_pmf(gap, -n_up, _symmetrised(epsilons, up)),)
    # If the record is removed, the loss is at least log(1 - q). It is rarely below its
    # value in a far tail. Smaller losses are counted as this value.
    far = -float(_log_mixture(np.array(-_TAIL_STDS * noise), 1.0, noise, q))
    n_down = max(1, math.ceil(min(-math.log1p(-q), far) / gap))
    epsilons = np.arange(-n_down, n_up + 1) * gap
    return (
        _pmf(gap, -n_down, removal(epsilons, noise, q)),
        _pmf(gap, -n_up, addition(-epsilons[::-1], noise, q)),
    )


def _symmetrised(epsilons: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Return a curve at -epsilons and epsilons, from its values at epsilons >= 0."""
    down = -np.expm1(-epsilons[1:]) + np.exp(-epsilons[1:]) * up[1:]
    return np.concatenate([down[::-1], up])


def _from_curve(curve: Any, gap: float) -> Any:
    r"""Return the symmetrised distribution through points of a curve.

    The true curve is convex in :math:`e^\epsilon` and below the given one; hence below
    the chords of the lower convex hull of any of its points.
    """
    least = 1e-16
    while True:
        try:
            top = curve.epsilon(least)
            break
        except ValueError:  # below the numerical resolution of the curve
            least *= 10
    top = min(top, _LARGEST_LOSS)
    epsilons = np.linspace(0.0, top, _CURVE_POINTS)
    up = np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
    alphas = np.exp(np.concatenate([-epsilons[:0:-1], epsilons]))
    deltas = _symmetrised(epsilons, up)
    deltas[len(up) - 1 :] = np.minimum.accumulate(up)
    hull = _lower_hull(alphas, deltas)
    n_up = max(1, math.floor(top / gap))  # larger losses count as infinite
    grid = np.exp(np.arange(-n_up, n_up + 1) * gap)
    values = np.interp(grid, alphas[hull], deltas[hull])
    return _pmf(gap, -n_up, values)


def _lower_hull(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Return the positions of the lower convex hull of points sorted by x."""
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull


def _pmf(gap: float, lowest: int, deltas: np.ndarray) -> Any:
    """Return the pessimistic distribution of one direction through points of a curve.

    Connect the dots: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022),
    Algorithm 1, https://arxiv.org/abs/2207.04380.
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
    r"""Hockey-stick divergence of A = (1-q) N(0) + q N(1) against B = N(0).

    For the relations "add_or_remove_one" and "replace_special", in units of the clip
    norm and at any real epsilon. A is the output with the record, and B that without.
    A / B increases with x, so the divergence is the difference of two tails beyond a
    threshold, which has a closed form.
    """
    x, alpha = _threshold(epsilons, noise, q), _exp(epsilons)
    with_record = (1 - q) * ndtr(-x / noise) + q * ndtr((1 - x) / noise)
    return with_record - alpha * ndtr(-x / noise)


def addition(epsilons: np.ndarray, noise: float, q: float) -> np.ndarray:
    """Hockey-stick divergence of B against A; see `removal`."""
    x, alpha = _threshold(-epsilons, noise, q), _exp(epsilons)
    with_record = (1 - q) * ndtr(x / noise) + q * ndtr((x - 1) / noise)
    return ndtr(x / noise) - alpha * with_record


def _threshold(epsilons: np.ndarray, noise: float, q: float) -> np.ndarray:
    """Return x with A(x) / B(x) = exp(epsilon); -inf if the ratio is always larger."""
    excess = np.expm1(np.minimum(epsilons, 50.0)) + q
    with np.errstate(divide="ignore"):
        log = np.log(np.maximum(excess, 0.0))
    # Where exp(epsilon) might overflow, the other summands are below its rounding.
    log = np.where(epsilons > 50.0, epsilons, log) - math.log(q)
    return noise**2 * log + 0.5


def _exp(epsilons: np.ndarray) -> np.ndarray:
    """Return exp(epsilon), capped: a smaller value makes the divergence larger."""
    return np.exp(np.minimum(epsilons, _LARGEST_LOSS))


def hockey_stick(
    epsilons: np.ndarray, noise: float, sensitivity: float, q: float
) -> np.ndarray:
    r"""Hockey-stick divergence :math:`H_{e^\epsilon}(A \| B)` for epsilon >= 0.

    Parameters
    ----------
    epsilons : ndarray of shape (n,)
        Increasing, at least 0.
    noise : float
        Standard deviation of the noise over the clip norm.
    sensitivity : float
        Delta over the clip norm, in (0, 2].
    q : float
        Sampling rate, in (0, 1].

    Notes
    -----
    A >= exp(epsilon) B holds exactly beyond one threshold x, at which ``q (a(x) -
    exp(epsilon) b(x))`` equals ``(1 - q)(exp(epsilon) - 1)``. The left side is negative
    below ``1 - sensitivity / 2``, where A = B, and increases beyond. The divergence is
    therefore the difference of two tails. An inexact threshold makes it too small, but
    only to second order.
    """
    low, high = 1 - sensitivity / 2, 1 + (_TAIL_STDS + 4) * noise
    grid = np.linspace(low, high, 20_001)
    ratio = np.maximum.accumulate(_log_ratio(grid, noise, sensitivity, q))
    x = np.interp(epsilons, ratio, grid)
    for _ in range(4):  # Newton's method converges fast from this start
        value, slope = _log_ratio_and_slope(x, noise, sensitivity, q)
        step = np.where(slope > 0, (value - epsilons) / np.maximum(slope, 1e-300), 0.0)
        x = np.clip(x - np.clip(step, -noise, noise), low, high)
    alpha = _exp(epsilons)
    centre = 1 - sensitivity
    tails = ndtr((1 - x) / noise) - alpha * ndtr((centre - x) / noise)
    return (1 - q) * (1 - alpha) * ndtr(-x / noise) + q * tails


def _log_ratio(x: np.ndarray, noise: float, sensitivity: float, q: float) -> np.ndarray:
    """Return log(A(x) / B(x))."""
    return _log_mixture(x, 1.0, noise, q) - _log_mixture(x, 1 - sensitivity, noise, q)


def _log_mixture(x: np.ndarray, centre: float, noise: float, q: float) -> np.ndarray:
    """Return log of (1 - q) + q N(x; centre) / N(x; 0)."""
    exponent = (2 * centre * x - centre * centre) / (2 * noise * noise)
    if q == 1:
        return exponent
    return np.logaddexp(math.log1p(-q), math.log(q) + exponent)


def _log_ratio_and_slope(
    x: np.ndarray, noise: float, sensitivity: float, q: float
) -> tuple[np.ndarray, np.ndarray]:
    value, slope = np.zeros_like(x), np.zeros_like(x)
    for sign, centre in ((1, 1.0), (-1, 1 - sensitivity)):
        exponent = (2 * centre * x - centre * centre) / (2 * noise * noise)
        log_mix = _log_mixture(x, centre, noise, q)
        weight = np.exp(math.log(q) + exponent - log_mix)  # of the part around `centre`
        value = value + sign * log_mix
        slope = slope + sign * weight * centre / (noise * noise)
    return value, slope
