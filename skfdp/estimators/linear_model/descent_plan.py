"""The public start and the plan of a descent."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from skfdp.estimators.centring.conditional import Regressors
from skfdp.estimators.linear_model.centring import Moments
from skfdp.estimators.method import Plan, Prepared
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GridRows, SparseGridRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescentStart(Prepared):
    """The result of preparing a descent.

    Attributes
    ----------
    moments : Moments or None
        Of the public columns.
    public_model : PublicModel, PublicRegression or None
        Margins of a public model, in which the descent starts.
    offset : ndarray of shape (n_rows, n_outputs) or None
        Those margins for the training rows.
    coordinates : Coordinates or None
        Those of the loop, where every column is public.
    rows : GridRows, SparseGridRows or None
        The rows of the loop in them.
    regressors : Regressors or None
        Of a padding that predicts private columns.
    """

    moments: Moments | None = None
    public_model: Any = None
    offset: np.ndarray | None = None
    coordinates: Coordinates | None = None
    rows: GridRows | SparseGridRows | None = None
    regressors: Regressors | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescentPlan(Plan):
    """The plan of a descent.

    Attributes
    ----------
    learning_rate : float
        First step size, on the clipped sum over ``q n clip_norm``.
    norms : (float, float)
        Typical norms of the public and of the private part of a row.
    orthant : bool
        The signs of a contribution are public: ``sensitivity = sqrt(2) clip_norm``.
    label_bound : float or None
        How far a replaced label moves a sum, where every column is public.
    """

    learning_rate: float
    norms: tuple[float, float] = (1.0, 1.0)
    orthant: bool = False
    label_bound: float | None = None
