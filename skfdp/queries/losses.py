"""The losses by name; each is one file of `kernels.losses`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from types import ModuleType

from skfdp.kernels.losses import CLASSIFICATION, REGRESSION
from skfdp.kernels.losses.loss import Loss

__all__ = ["LOSSES", "REGRESSION_LOSSES", "Loss", "huber"]


class _Losses(Mapping[str, Loss]):
    """Losses that load when they are asked for.

    They bring numba, which loads with the first fit and not with `import skfdp`.
    """

    def __init__(self, names: tuple[str, ...]):
        self._names = names

    def __getitem__(self, name: str) -> Loss:
        if name not in self._names:
            raise KeyError(name)
        return _file(name).LOSS

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _file(name: str) -> ModuleType:
    return importlib.import_module(f"skfdp.kernels.losses.{name}")


#: Every loss of the linear classifiers, by the name that users pass.
LOSSES = _Losses(CLASSIFICATION)

#: Every loss of the linear regressors, for targets of any unit. Half of scikit-learn's
#: squared error and half of the Poisson deviance, up to constants; a log link.
REGRESSION_LOSSES = _Losses(REGRESSION)


def huber(threshold: float) -> Loss:
    """Return the Huber loss: squared up to the threshold, linear beyond it."""
    return _file("huber").huber(threshold)
