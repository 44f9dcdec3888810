"""Public rules of the moments: reaches, and how two releases share the budget."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.records.records import PublicRecords

#: What an error of the projection of the private columns counts, over one of weights.
PROJECTION = 0.2


@dataclasses.dataclass(frozen=True)
class MomentRules:
    """Public numbers of a fit by moments, in units of mean lengths and spreads.

    All reaches grow with the signal, more slowly than the noise falls: nothing is cut
    at last, and the limit is unbiased.

    Attributes
    ----------
    signal : float
        ``mu n``: records over the noise of a sum of unit vectors; n is the number
        whose plain sum is as noisy, where rows have weights.
    n_private, n_public : int
        Columns; a constant counts as a public one.
    has_target : bool
        Whether the target is public.
    """

    signal: float
    n_private: int
    n_public: int
    has_target: bool = False

    @classmethod
    def of(cls, public: PublicRecords, mu: float, intercept: bool) -> MomentRules:
        """Return the rules of a table; mu is that of releases that move by 1."""
        n_public = int(public.mask.sum()) + bool(intercept)
        signal = mu * public.n_effective
        return cls(signal, public.n_private, n_public, public.has_target)

    @property
    def hope(self) -> float:
        """What the second moments may tell of the private columns, from 0 to 1.

        Where it is small, the mean of the target is all that the budget can buy: what
        serves the private columns then gets little of it.
        """
        return min(1.0, self.signal / (10 * self.n_private)) ** 2

    @property
    def scale_share(self) -> float:
        """Share of the budget for each scale.

        An error of about 1/16 of half of the bounds, where it pays: they may be wide.
        """
        return self.hope * min(0.15, max(0.02, (16 / self.signal) ** 2))

    @property
    def target_share(self) -> float:
        """Share of the squared norm of the first release that a private target has."""
        return 1 - 0.5 * self.hope

    @property
    def row_reach(self) -> float:
        """Length beyond which private rows are shortened in the first release."""
        return max(2.0, (self.signal / (100 * self.n_private)) ** (1 / 3))

    @property
    def square_reach(self) -> float:
        """Length of what is left of a row beyond which its record counts less."""
        return max(1.0, (self.signal / (30 * self.n_private**1.5)) ** (1 / 3))

    @property
    def target_reach(self) -> float:
        """Distance from the mean, in spreads, beyond which targets are cut."""
        return max(1.5, math.sqrt(self.signal / (20 * self.n_private)))

    @property
    def cross_share(self) -> float:
        """Share of the first release in what is left of the budget.

        It minimises a bound of the risk: of the mean of the target, which nothing
        limits; of the weights on public columns, and of those on private ones, either
        of which can be left out. With a public target the first release only projects
        the private columns, and its error matters less.
        """
        share = np.linspace(0.05, 0.99, 95)
        unit = (2 * 2 / self.signal) ** 2
        constant, columns = unit, (self.n_public - 1) ** 2 * unit
        if self.has_target:
            columns *= PROJECTION
        rest = self.n_private**2 * unit
        risk = constant / share + columns / (share + columns)
        risk += rest / (1 - share + rest)
        return float(share[np.argmin(risk)])
