"""The public start and the plan of a descent."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skfdp.estimators.centring.conditional import Regressors
from skfdp.estimators.linear_model.centring import Moments
from skfdp.estimators.method import Plan
from skfdp.privacy import PrivacyPlan, assumptions
from skfdp.privacy.assumptions import enforced
from skfdp.queries.losses import Loss
from skfdp.queries.sensitivity import label_bound
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GridRows, SparseGridRows
from skfdp.records.records import PublicRecords

SIGNED_OR_CENTRED = enforced(assumptions.SIGNED_OR_CENTRED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescentStart:
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
    centred : DescentPlan or None
        The plan to follow instead if the released mean is long enough to be subtracted,
        which takes the signs away: of a smaller clip norm, at the same sensitivity.
        None: that is not decided by the mean.
    """

    learning_rate: float
    norms: tuple[float, float] = (1.0, 1.0)
    orthant: bool = False
    label_bound: float | None = None
    centred: DescentPlan | None = None

    @functools.cached_property
    def with_signs(self) -> DescentPlan:
        """The plan of rows that are centred by this one, or else keep public signs.

        With their signs they may be sqrt(2) times as long at the same sensitivity,
        hence noise.
        """
        root, schedule = math.sqrt(2), self.schedule
        clip_norm = root * schedule.clip_norm
        multipliers = tuple(one / root for one in schedule.noise_multipliers)
        *others, event = self.events
        return dataclasses.replace(
            self,
            events=(*others, dataclasses.replace(event, clip_norm=clip_norm)),
            schedule=dataclasses.replace(
                schedule, clip_norm=clip_norm, noise_multipliers=multipliers
            ),
            assumptions=(SIGNED_OR_CENTRED, *self.assumptions),
            orthant=True,
            centred=self,
        )


def bounded_by_labels(
    public: PublicRecords,
    loss: Loss,
    rows: GridRows | SparseGridRows | None,
    schedule: PrivacyPlan,
    calibrate: Callable[..., PrivacyPlan],
) -> tuple[PrivacyPlan, float | None]:
    """Return the schedule under the bound of labels, and that bound if it is of use.

    Parameters
    ----------
    public : PublicRecords
    loss : Loss
    rows : GridRows, SparseGridRows or None
        Of the loop, where they are public.
    schedule : PrivacyPlan
        Of any record.
    calibrate : callable
        ``calibrate(sensitivity=...)``: the schedule of another sensitivity.
    """
    if rows is None:
        return schedule, None
    bound = label_bound(public, loss, rows, schedule)
    if bound >= schedule.sensitivity:
        return schedule, None
    return calibrate(sensitivity=bound), bound
