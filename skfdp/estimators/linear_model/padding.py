"""What stands in for private columns in the public loss of Algorithm 1."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from skfdp.estimators.centring.conditional import Blocks
from skfdp.privacy import Event, Relation
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GridRows
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams

if TYPE_CHECKING:
    from skfdp.estimators.linear_model.descent import Problem, Training

PADDINGS = ("zero", "gaussian", "impute")
#: Share of mu**2 for the cross moments of "impute".
IMPUTE_SHARE = 0.1


def cross_event(problem: Problem, mu: float, facts: dict) -> Event:
    """Return the event of the release that "impute" needs.

    Parameters
    ----------
    problem : Problem
    mu : float
        The budget's own Gaussian-DP parameter.
    facts : dict
        What every event of the fit says.
    """
    relation = Relation.of(facts["neighboring_relation"])
    sensitivity = _blocks(problem).sensitivity(relation)
    return Event(
        label="cross moments",
        noise_std=(sensitivity / (math.sqrt(IMPUTE_SHARE) * mu),),
        clip_norm=1.0,
        sensitivity=sensitivity,
        **facts,
    )


def padded_rows(
    kind: str,
    scale: float,
    problem: Problem,
    training: Training,
    coordinates: Coordinates,
    streams: Streams,
    desk: Desk,
) -> GridRows:
    """Return the rows of the loop with something public in place of private columns.

    **Guarantees.** A padded row depends on the public part of its record, on public
    coins, and for "impute" on one release, `cross_event`.
    """
    if kind == "impute":
        blocks = _blocks(problem)
        std = training.cross_event.noise_std[0]
        found = desk.release("cross moments", blocks.query)
        mean, coef, _ = blocks.centre(found, std)
        public = blocks.public

        def fill(rows: np.ndarray) -> np.ndarray:
            found = mean[~public] + (rows - mean[public]) @ coef
            return found * problem.row_map.feature_bound  # not yet divided out

        known = blocks.X[:, public]
        return coordinates.padded_grid(known, problem.public, fill)
    scale = scale if kind == "gaussian" else 0.0
    return coordinates.drawn_grid(
        problem.X, problem.public, scale, streams.public("padding")
    )


def _blocks(problem: Problem) -> Blocks:
    """Return the regression of the private columns on all that is public."""
    X, public = problem.X, problem.public
    row_map = dataclasses.replace(problem.row_map, public=None)
    if problem.public_target:
        classes = np.arange(problem.n_classes)
        labels = problem.target[:, None] == classes
        X = np.hstack([X, labels.astype(X.dtype)])
        public = np.r_[public, np.ones(len(classes), dtype=bool)]
        if row_map.span is not None:
            row_map = dataclasses.replace(
                row_map,
                low=np.r_[row_map.low, np.zeros(len(classes))],
                span=np.r_[row_map.span, np.ones(len(classes))],
            )
    return Blocks(X, row_map, public, exact=False)
