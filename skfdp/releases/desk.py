"""The one place where private sums meet noise."""

from __future__ import annotations

import numpy as np

from skfdp.queries import Query
from skfdp.releases.noise import add_integer_gaussian


def release(
    query: Query,
    theta: np.ndarray | None,
    *,
    noise_std: float,
    generator: np.random.Generator,
    batch: np.ndarray | None = None,
) -> np.ndarray:
    """Return ``sum of clipped contributions + N(0, noise_std**2 I)``, float64.

    Parameters
    ----------
    query : Query
        Bounds every contribution by its clip norm.
    theta : ndarray or None
        Where to take the gradients; a function of earlier releases and public facts.
    noise_std : float
        Standard deviation, in units of the sum.
    generator : Generator
        A private stream.
    batch : int64 ndarray, default=None
        Rows drawn by private coins; None means every row.

    Notes
    -----
    **Guarantees.** If neighbours move the exact sum by at most Delta, this is the
    Gaussian mechanism with sensitivity Delta and standard deviation `noise_std`,
    followed by rounding to a public grid: the sum and the noise are integers, so
    nothing depends on floating-point arithmetic on private data.
    """
    unit = query.unit(noise_std)
    total = query.exact_sum(theta, batch, unit)
    return add_integer_gaussian(total, noise_std / unit, generator) * unit
