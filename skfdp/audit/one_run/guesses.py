r"""Bounds on right guesses of coins: what one run of a mechanism can tell of many.

Each of m records has two values, and a fair coin of its own chooses. The mechanism runs
once. From its output alone somebody guesses n of the coins and abstains from the
others; C guesses are right, and :math:`p_j = \Pr[C = j]`. Changing one coin is one step
of the relation, so that a claim bounds how much a change of one coin shows.

**Exchange lemma.** Let :math:`\Pr[M \in O] \le G(\Pr[M' \in O])` for all neighbours and
all sets O, with G concave and increasing. For every set A of integers

.. math:: \frac1m \sum_{j \in A} (j+1)\, p_{j+1} \le
   G\Bigl(\frac1m \sum_{j \in A} (n-j)\, p_j\Bigr) .

*Proof.* Fix a record i and the coins of the others. "The guess at i is heads, and the
number of right guesses at the others is in A" is a set of outputs; compare its
probability where coin i shows heads (the guess is right) and tails (it is wrong), and
likewise for a guess of tails. Average over all coins and over i by Jensen's inequality.
A right guess at i with j right ones elsewhere makes C = j + 1, a wrong one C = j, and
there are C right and n - C wrong guesses.

**Approximate DP** (`steinke_p_value`), :math:`G(x) = e^\varepsilon x + \delta`. Let W
be binomial with n trials of probability :math:`e^\varepsilon/(1+e^\varepsilon)`,
:math:`w_j = \Pr[W = j]`, :math:`B_k = \Pr[W \ge k]` and :math:`\rho_j = p_j / w_j`.
Since :math:`(j+1) w_{j+1} = e^\varepsilon (n-j) w_j`, the lemma with the set of the j
for which :math:`\rho_{j+1} > \rho_j` says
:math:`\sum_j (j+1) w_{j+1} (\rho_{j+1} - \rho_j)^+ \le m \delta`. Now

.. math:: \Pr[C \ge v] - B_v = \sum_{j \ge v > i} w_i w_j (\rho_j - \rho_i)
   \le \sum_k (\rho_k - \rho_{k-1})^+ B_{\max(v, k)} (1 - B_{\min(v, k)})
   \le m \delta\, \frac{B_v (1 - B_v)}{v\, w_v} ,

because the right factors over :math:`k\, w_k` are largest at k = v: :math:`B_k / w_k`
decreases, and :math:`(1 - B_k) / (k\, w_k)` increases, being a sum of products of
ratios :math:`w_{j-1} / w_j`, which increase. At delta = 0 this is the bound of Steinke,
Nasr and Jagielski (2023), who have another last term; ours is at most theirs wherever
the tests look.

**f-DP** (`refutes`). With A = {k - 1, k, ...} the lemma reads
:math:`R_k \le G(H_{k-1})` for :math:`R_k = \sum_{j \ge k} j p_j / m` and
:math:`H_k = \sum_{j \ge k} (n - j) p_j / m`. If the tail :math:`\Pr[C \ge c]` is at
least tau, then each tail :math:`t_j = \Pr[C \ge j]` is at least as large as in the
sequence that begins with :math:`p_c = \tau` and spends at each step down what the
inequality asks for: by induction, since
:math:`(n-k+1)\, t_{k-1} = m H_{k-1} + \sum_{j \ge k} t_j` and
:math:`m R_k = k\, t_k + \sum_{j > k} t_j`, where all right sides grow with the tails.
If that sequence passes :math:`t_0 = 1`, the tail is below tau. This is the recursion of
Mahloujifar, Melis and Chaudhuri (2025).

References
----------
Steinke, Nasr and Jagielski (2023), https://arxiv.org/abs/2305.08846; Mahloujifar, Melis
and Chaudhuri (2025), https://arxiv.org/abs/2410.22235.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom

from skfdp.privacy.composition import cost
from skfdp.privacy.curves import PrivacyCurve, compose, gdp_epsilon
from skfdp.privacy.events import Event

# Beyond it no number of guesses that a fit has room for shows anything.
_LARGEST_EPSILON = 60.0
_BISECTIONS = 50
_CURVE_POINTS = 150
# By which noise of sampled releases is divided: each curve takes a moment. One is a
# little above 1, so that a claim that is refuted shows a larger epsilon.
_FACTORS = tuple(1.001 * 2 ** (k / 8) for k in range(-40, 9))

#: Smallest share of wrong guesses that goes with a share of right ones.
Least = Callable[[float], float]


def steinke_p_value(
    n_canaries: int, n_guesses: int, n_correct: int, epsilon: float, delta: float
) -> float:
    """Return a bound on the probability of so many right guesses under a claim.

    Parameters
    ----------
    n_canaries, n_guesses, n_correct : int
        ``0 <= n_correct <= n_guesses <= n_canaries``.
    epsilon, delta : float
        Of the claim, for one changed coin.

    Examples
    --------
    >>> from skfdp.audit.one_run.guesses import steinke_p_value
    >>> round(steinke_p_value(10, 10, 10, epsilon=0.0, delta=0.0) * 2**10, 6)
    1.0
    """
    if n_correct == 0:
        return 1.0
    chance = float(expit(epsilon))
    tail = float(binom.sf(n_correct - 1, n_guesses, chance))
    mass = float(binom.pmf(n_correct, n_guesses, chance))
    if mass == 0:  # below the floats: far out, or far in
        return 0.0 if tail == 0 else 1.0
    lost = n_canaries * delta * tail / mass * (1 - tail) / n_correct
    return min(1.0, tail + lost)


def steinke_bound(
    n_canaries: int,
    n_guesses: int,
    n_correct: int,
    *,
    delta: float,
    significance: float,
    n_steps: int = 1,
) -> float:
    r"""Return the epsilon that so many right guesses refute at delta, or 0.

    Parameters
    ----------
    n_canaries, n_guesses, n_correct : int
    delta, significance : float
    n_steps : {1, 2}, default=1
        Neighbouring steps from one value of a canary to the other. By group privacy
        two of them are :math:`(2\varepsilon, (1 + e^\varepsilon)\delta)`-DP, and it is
        the epsilon of one step that is returned.
    """

    def refuted(epsilon: float) -> bool:
        claim = (epsilon, delta)
        if n_steps == 2:
            claim = 2 * epsilon, min(1.0, (1 + math.exp(epsilon)) * delta)
        p = steinke_p_value(n_canaries, n_guesses, n_correct, *claim)
        return p <= significance

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, _LARGEST_EPSILON
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def refutes(
    n_canaries: int, n_guesses: int, n_correct: int, least: Least, significance: float
) -> bool:
    """Whether a claim makes so many right guesses less probable than that.

    Parameters
    ----------
    n_canaries, n_guesses, n_correct : int
    least : callable
        Of a `Tradeoff`: the inverse of G, :math:`1 - f` of the trade-off function f.
    significance : float
    """
    if n_correct == 0:
        return False
    right = significance * n_correct / n_canaries
    wrong = significance * (n_guesses - n_correct) / n_canaries
    most = n_guesses / n_canaries * (1 + 1e-12)
    for k in range(n_correct, 0, -1):
        needed = least(min(1.0, right))
        if needed <= wrong:  # and so it stays
            return False
        right += (needed - wrong) * (k - 1) / (n_guesses - k + 1)
        wrong = needed
        if right + wrong > most:
            return True
    return False


def most_allowed(
    n_canaries: int, n_guesses: int, least: Least, significance: float
) -> int:
    """Return the largest number of right guesses that does not refute a claim."""
    low, high = 0, n_guesses + 1  # never refuted; as if refuted
    while high - low > 1:
        middle = (low + high) // 2
        if refutes(n_canaries, n_guesses, middle, least, significance):
            high = middle
        else:
            low = middle
    return low


def gaussian_least(mu: float) -> Least:
    """Return the inverse of G of mu-Gaussian-DP, ``ndtr(ndtri(y) - mu)``."""

    def least(right: float) -> float:
        return float(ndtr(ndtri(right) - mu))

    return least


def curve_least(curve: PrivacyCurve) -> Least:
    r"""Return the inverse of G of a privacy curve that holds in both directions.

    :math:`y \le e^\varepsilon x + \delta(\varepsilon)` and
    :math:`1 - x \le e^\varepsilon (1 - y) + \delta(\varepsilon)` for each epsilon;
    those of a grid are looked at, so that the claim is, if anything, weaker than its
    curve.
    """
    top, smallest = 1.0, 1e-9
    while top < _LARGEST_EPSILON and curve.delta(top) > smallest:
        top *= 2
    grid = np.linspace(0.0, top, _CURVE_POINTS)
    deltas = np.array([curve.delta(float(epsilon)) for epsilon in grid])
    growth = np.exp(grid)

    def least(right: float) -> float:
        small = (right - deltas) / growth
        large = 1 - deltas - growth * (1 - right)
        return max(0.0, float(small.max()), float(large.max()))

    return least


@dataclasses.dataclass(frozen=True)
class Claim:
    """The claim of events, and the family of claims with more noise or less.

    Parameters
    ----------
    events : tuple of Event
    n_steps : {1, 2}, default=1
        Neighbouring steps from one value of a canary to the other.

    Notes
    -----
    **Guarantees.** The member `factor` of the family has the noise of every release
    divided by it; 1 is the claim. Privacy losses grow with the factor, so that refuting
    one member refutes all below it. Two steps of "replace_special" lead from one value
    to null and to another value: a sum with contributions of at most C moves by at most
    2 C, in every batch that holds the record, which is what an event of "replace_one"
    with sensitivity 2 C says.
    """

    events: tuple[Event, ...]
    n_steps: int = 1

    @property
    def mu(self) -> float | None:
        """Gaussian-DP parameter of one step, None where it is not Gaussian."""
        mus = [event.mu for event in self.events]
        sampled = any(mu is None for mu in mus)
        return None if sampled else math.hypot(*(mu or 0.0 for mu in mus))

    def epsilon(self, delta: float, factor: float = 1.0) -> float:
        """Return what one step costs at delta."""
        if self.mu is not None:
            return gdp_epsilon(delta, factor * self.mu)
        return cost(self._scaled(factor), delta).epsilon

    def least(self, factor: float = 1.0) -> Least:
        """Return the inverse of G between the two values of a canary."""
        if self.mu is not None:
            return gaussian_least(self.n_steps * factor * self.mu)
        events = self._scaled(factor)
        return _sampled_least(
            tuple(map(_doubled, events)) if self.n_steps == 2 else events
        )

    def bound(
        self,
        n_canaries: int,
        counts: Sequence[tuple[int, int]],
        *,
        delta: float,
        significance: float,
    ) -> list[float]:
        """Return the largest epsilon in the family that each count refutes, or 0.

        Parameters
        ----------
        n_canaries : int
        counts : sequence of (int, int)
            Numbers of guesses, and of right ones.
        delta, significance : float
            The significance is that of one count.
        """

        def refuted(factor: float, count: tuple[int, int]) -> bool:
            return refutes(n_canaries, *count, self.least(factor), significance)

        factors = [
            self._largest(functools.partial(refuted, count=count)) for count in counts
        ]
        return [self.epsilon(delta, one) if one > 0 else 0.0 for one in factors]

    def _largest(self, refuted: Callable[[float], bool]) -> float:
        """Return the largest factor that is refuted, 0 if none is."""
        if self.mu is not None:
            low, high = 0.0, 20.0 / self.mu
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                low, high = (middle, high) if refuted(middle) else (low, middle)
            return low
        low, high = -1, len(_FACTORS)  # of sampled releases each look takes a moment
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if refuted(_FACTORS[middle]) else (low, middle)
        return 0.0 if low < 0 else _FACTORS[low]

    def _scaled(self, factor: float) -> tuple[Event, ...]:
        return tuple(
            dataclasses.replace(
                event, noise_std=tuple(std / factor for std in event.noise_std)
            )
            for event in self.events
        )


@functools.lru_cache(maxsize=64)
def _sampled_least(events: tuple[Event, ...]) -> Least:
    return curve_least(compose(events))


def _doubled(event: Event) -> Event:
    """Return the event of two steps: one value becomes null, then another one."""
    return dataclasses.replace(
        event,
        neighboring_relation="replace_one",
        sensitivity=2 * event.clip_norm,
    )
