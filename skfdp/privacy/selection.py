r"""Private selection: the privacy of publishing only the best of several private runs.

**Theorem.** A mechanism runs K times, and only the best output is published. The order
that defines "best" is fixed beforehand and depends on outputs only. Let
:math:`\delta_1(\cdot)` bound the hockey-stick divergences of one run, in both
directions. Let K be geometric with mean :math:`1/\gamma`, and let
:math:`\varepsilon_1 \ge 0` satisfy
:math:`\delta_1(\varepsilon_1) \le (e^{\varepsilon_1} - 1) \gamma/(1 - \gamma)`. Then
for every :math:`\varepsilon \ge 2 \varepsilon_1` the published output has

.. math:: \delta(\varepsilon) \le
   E[K]\, \delta_1(\varepsilon - 2 \varepsilon_1) .

The proof is in the documentation (theory, "Private selection"). The theorem sharpens
Theorem 2 of Papernot and Steinke (2022) in the manner of Koskela, Redberg and Wang
(2024).
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.optimize import brentq

from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.accounting import PrivacyCurve, check_delta, check_epsilon, compose
from skfdp.privacy.events import Event

# Relative step by which calibration lowers mu of a run, to stay within the budget.
_MARGIN = 1e-9
_LARGEST_EXPONENT = 700.0  # exp of a larger number overflows
_MOST_RUNS = 100_000  # largest mean number of runs
_LEFT_OUT = 1e-17  # probability of the numbers of runs that are left out


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Selection(Event, kind="selection"):
    """The best of a random number of runs; the number is not published.

    The fields inherited from `Event` describe Gaussian releases that reveal at least as
    much as one :term:`run`. A run is a full-batch fit on one part of the records and a
    score on the other part.

    Parameters
    ----------
    gamma : float, default=1.0
        Parameter, in (0, 1], of the geometric distribution of the number of runs. The
        mean number of runs is ``1 / gamma``. With ``gamma=1`` there is exactly one run.
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = "a number in (0, 1]"
        gamma = checks.number("gamma", self.gamma, expected, 0, 1, closed="right")
        vars(self)["gamma"] = gamma
        if not self.mean_runs <= _MOST_RUNS:
            raise ValueError(
                f"gamma={self.gamma!r} makes {self.mean_runs:.3g} runs on average, but "
                f"at most {_MOST_RUNS} can be accounted for: raise gamma."
            )
        if self.sampling_rate < 1 or len(self.noise_std) > 1 or self.noise_decay:
            raise ValueError(
                "a Selection needs sampling_rate=1, one noise_std and noise_decay=0, "
                f"got sampling_rate={self.sampling_rate!r}, {len(self.noise_std)} "
                f"entries of noise_std and noise_decay={self.noise_decay!r}."
            )

    @property
    def run_mu(self) -> float:
        """Gaussian-DP parameter of one run."""
        return math.sqrt(self.n_steps) * self.sensitivity / self.noise_std[0]

    @property
    def mu(self) -> float | None:
        """Gaussian-DP parameter if there is exactly one run, otherwise None."""
        return self.run_mu if self.gamma == 1 else None

    @property
    def mean_runs(self) -> float:
        """Expected number of runs."""
        return 1 / self.gamma

    def run_event(self, label: str, clip_norm: float) -> Event:
        """Return the event of a full-batch release that costs as much as one run.

        Parameters
        ----------
        label : str
        clip_norm : float
            L2 bound of a contribution, and sensitivity of the sum.
        """
        return Event(
            label=label,
            noise_std=(clip_norm / self.run_mu,),
            clip_norm=clip_norm,
            sensitivity=clip_norm,
            seeded=self.seeded,
            **self.fit_facts,
            neighboring_relation=self.neighboring_relation,
        )

    def run_probabilities(self) -> np.ndarray:
        """Return the probabilities of 1, 2, ... runs, until the rest is below 1e-17."""
        if self.gamma == 1:
            return np.ones(1)
        stays = math.log1p(-self.gamma)
        k = np.arange(math.ceil(math.log(_LEFT_OUT) / stays))
        return self.gamma * np.exp(k * stays)

    def own_curve(self) -> SelectionCurve:
        """Return the privacy curve of the published best run."""
        return SelectionCurve(self)


class SelectionCurve:
    """Privacy curve of a `Selection`, by the theorem of this module."""

    mu = None

    def __init__(self, event: Selection) -> None:
        names = ("label", "noise_std", "clip_norm", "sensitivity", "n_steps")
        facts = {name: getattr(event, name) for name in names}
        run = Event(**facts, neighboring_relation=event.neighboring_relation)
        self._run: PrivacyCurve = compose([run])
        self.accountant = (
            "best of a random number of runs (geometric), one run by: "
            f"{self._run.accountant}"
        )
        self._mean = event.mean_runs
        #: ``2 * epsilon_1`` of the theorem.
        self.shift = 2 * self._first_epsilon(event.gamma)

    def _first_epsilon(self, gamma: float) -> float:
        """Return the smallest epsilon_1 of the theorem, rounded up."""
        if gamma == 1:
            return 0.0
        odds = gamma / (1 - gamma)

        def excess(epsilon: float) -> float:
            growth = math.expm1(min(epsilon, _LARGEST_EXPONENT))
            return self._run.delta(epsilon) - growth * odds

        high = 1e-3
        while excess(high) > 0:
            high *= 2
            if high == math.inf:  # no such epsilon: the theorem gives no bound
                return math.inf
        root, step = brentq(excess, 0.0, high, xtol=1e-12, maxiter=5_000), 1e-12
        while excess(root) > 0:
            root, step = root * (1 + step) + step, 2 * step
        return root

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon known to hold at delta."""
        delta = check_delta(delta)
        share = delta / self._mean
        if share == 0:  # the quotient is below the smallest float
            return math.inf
        return self.shift + self._run.epsilon(share)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta known to hold at epsilon."""
        epsilon = check_epsilon(epsilon)
        if epsilon < self.shift:
            return 1.0
        return min(1.0, self._mean * self._run.delta(epsilon - self.shift))


def calibrate_run(event: Selection, epsilon: float, delta: float) -> Selection:
    """Return the selection with the least noise per run that meets (epsilon, delta).

    The noise of the given `event` is ignored.

    Notes
    -----
    **Guarantees.** ``SelectionCurve(result).epsilon(delta) <= epsilon``.
    """

    def with_mu(log_mu: float) -> Selection:
        noise = (event.sensitivity / math.exp(log_mu),)
        return dataclasses.replace(event, noise_std=noise, n_steps=1)

    def excess(log_mu: float) -> float:
        return SelectionCurve(with_mu(log_mu)).epsilon(delta) - epsilon

    low, high = math.log(1e-6), math.log(100.0)
    for end, wrong, change in ((low, "small", "raise"), (high, "large", "lower")):
        if (excess(end) > 0) == (end == low):
            raise ValueError(
                f"epsilon={epsilon!r} and delta={delta!r} are too {wrong} for a search "
                f"of {event.mean_runs:.3g} runs: {change} them."
            )
    found = brentq(excess, low, high, xtol=1e-12) - _MARGIN
    while excess(found) > 0:  # round mu down, to stay within the budget
        found -= _MARGIN
    return with_mu(found)
