"""Shells around a centre: the rule that counts distances by their size."""

from __future__ import annotations

import dataclasses

import numpy as np

#: Shells of a factor of 2, and how many there are.
PER_OCTAVE, N_SHELLS = 4, 64
#: Outer radii of the shells but the last, which has none.
RADII = 2.0 ** ((np.arange(N_SHELLS) - N_SHELLS + 1) / PER_OCTAVE)


@dataclasses.dataclass(frozen=True)
class Shells:
    """The rule of shells: radii in geometric sequence up to 1, and what is beyond.

    For `queries.bins.BinCounts` of one column, that of the distances over a length
    that is public or released.
    """

    n_bins: int = N_SHELLS + 1

    def bins(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the shell of each distance, int64; any float64 has exactly one.

        Parameters
        ----------
        values : float64 ndarray
            NaN and infinity are beyond every radius.
        columns : int ndarray
            Of no account.
        """
        return np.searchsorted(RADII, values, side="left").astype(np.int64)
