"""The candidates of a private search: what is drawn, and what may not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid

from skfdp.records.checks import shown

# What a candidate must not change: the search sets it, or the event promises it.
FIXED = (
    "epsilon",
    "delta",
    "neighboring_relation",
    "public_features",
    "public_target",
    "n_records",
    "target_name",
    "names",
    "classes",
    "ledger",
    "random_state",
)
# What decides, beside the number of records, whether batches are drawn.
_BATCHING = ("batch_size", "solver", "trained_layers", "pretraining")


class Candidates:
    """The settings that a search draws from, uniformly and with replacement.

    Parameters
    ----------
    distributions : dict or list of dicts
        From parameter names to lists, or to distributions with ``rvs``. If all are
        lists, a candidate is a point of the grid; otherwise a dict of the list is
        drawn, then each of its values.
    """

    def __init__(self, distributions: Mapping | Sequence[Mapping]):
        given = [distributions] if isinstance(distributions, Mapping) else distributions
        self._dicts = list(given) if isinstance(given, list | tuple) else []
        if not self._dicts or not all(
            isinstance(d, Mapping) and d for d in self._dicts
        ):
            raise ValueError(
                f"param_distributions={shown(distributions)} must be a dict, or a list "
                "of dicts, from parameter names to lists or distributions."
            )
        for one in self._dicts:
            for name, values in one.items():
                self._check(name, values)
        self.grid = None
        if not any(hasattr(v, "rvs") for d in self._dicts for v in d.values()):
            self.grid = list(ParameterGrid([dict(d) for d in self._dicts]))

    @staticmethod
    def _check(name: Any, values: Any) -> None:
        if str(name).rsplit("__", 1)[-1] in FIXED:
            raise ValueError(
                f"param_distributions holds {name!r}, which a candidate cannot change: "
                "the search sets the budget, and what is protected must be the same "
                "for all candidates."
            )
        if hasattr(values, "rvs"):
            return
        listed = isinstance(values, Sequence | np.ndarray)
        if not listed or isinstance(values, str) or len(values) == 0:
            raise ValueError(
                f"param_distributions[{name!r}]={shown(values)} must be a non-empty "
                "list of values, or a distribution with rvs."
            )

    def draw(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return one candidate."""
        if self.grid is not None:
            return dict(self.grid[int(generator.integers(len(self.grid)))])
        return self._point(generator.integers(len(self._dicts)), generator)

    def probes(self, generator: np.random.Generator) -> list[dict[str, Any]]:
        """Return the candidates to look at before the charge: all of a grid.

        Without a grid one is drawn of each dict, and repeated with every listed value
        of what decides whether batches are drawn.
        """
        if self.grid is not None:
            return self.grid
        found = []
        for number, one in enumerate(self._dicts):
            point = self._point(number, generator)
            listed = {
                name: values
                for name, values in one.items()
                if name.rsplit("__", 1)[-1] in _BATCHING and not hasattr(values, "rvs")
            }
            found += [point | other for other in ParameterGrid(listed)]
        return found

    def _point(self, number: int, generator: np.random.Generator) -> dict[str, Any]:
        return {
            name: values.rvs(random_state=generator)
            if hasattr(values, "rvs")
            else values[generator.integers(len(values))]
            for name, values in sorted(self._dicts[number].items())
        }
