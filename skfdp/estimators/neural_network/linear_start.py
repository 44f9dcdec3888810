"""A private linear model for a network to start from."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from skfdp.estimators.linear_model import FeatureDPLogisticRegression
from skfdp.estimators.linear_model.descent import Problem as LinearProblem
from skfdp.estimators.linear_model.descent import Training
from skfdp.privacy import Event, gdp_epsilon, gdp_mu
from skfdp.records.row_map import RowMap
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams

if TYPE_CHECKING:
    from skfdp.privacy.report import Assumption


#: Of the labels of its events among those of the network.
_PREFIX = "linear model"


@dataclasses.dataclass(frozen=True)
class LinearStart:
    """A planned fit of `FeatureDPLogisticRegression` on the rows of a network.

    Its events are charged with those of the network, by the network.

    Attributes
    ----------
    model : FeatureDPLogisticRegression
    problem : Problem
    training : Training
    events : tuple of Event
        What it will release, in the network's words.
    """

    model: FeatureDPLogisticRegression
    problem: LinearProblem
    training: Training
    events: tuple[Event, ...]

    @classmethod
    def plan(cls, estimator, problem, bound: float, share: float, facts) -> LinearStart:
        """Plan the fit; sees public facts alone.

        Parameters
        ----------
        estimator : FeatureDPMLPClassifier
        problem : Problem
            Of the network.
        bound : float
            L2 bound of the private columns of a row.
        share : float
            Share of ``mu**2``, in (0, 1].
        facts : dict
            What every event of the network says.
        """
        epsilon = estimator.epsilon
        if share < 1:
            mu = math.sqrt(share) * gdp_mu(epsilon, estimator.delta)
            epsilon = gdp_epsilon(estimator.delta, mu)
        if epsilon <= 0:
            raise ValueError(
                f"pretraining_share={estimator.pretraining_share!r} of "
                f"epsilon={estimator.epsilon!r} is nothing for the linear model: raise "
                "one of them."
            )
        model = FeatureDPLogisticRegression(
            epsilon,
            estimator.delta,
            public_features=problem.public,
            public_target=True,
            neighboring_relation=estimator.neighboring_relation,
            n_records=estimator.n_records,
            bounds=_bounds(problem.row_map),
            feature_bound=bound,
            class_weight=dict(enumerate(problem.class_weight.tolist())),
            classes=np.arange(len(problem.classes)),
            accountant=estimator.accountant,
            random_state=estimator.random_state,
            n_jobs=estimator.n_jobs,
        )
        linear = model._resolve(problem.X, problem.codes)
        training = model._plan(linear, facts["seeded"])
        events = tuple(
            dataclasses.replace(event, **facts, label=f"{_PREFIX}: {event.label}")
            for event in training.events
        )
        return cls(model, linear, training, events)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its sensitivity rests on."""
        return self.training.assumptions

    def run(self, streams: Streams, desk: Desk) -> FeatureDPLogisticRegression:
        """Release the model.

        Parameters
        ----------
        streams : Streams
            Of this model alone: a stream that serves two releases would be no noise.
        desk : Desk
            Of the network.
        """
        own = desk.within(_PREFIX, streams)
        return self.model._fit_private(self.problem, self.training, streams, own)


def on_bounded_columns(
    model: FeatureDPLogisticRegression,
) -> tuple[np.ndarray, np.ndarray]:
    """Return coef and intercept for columns that the declared bounds scaled to [0, 1].

    The margins are those of the model but for rows that its map shortens.
    """
    coef, intercept, row_map = model.coef_, model.intercept_, model.row_map_
    if row_map.span is None:
        return coef, intercept
    bounded = np.isfinite(row_map.span)
    return (
        coef * np.where(bounded, row_map.span, 1.0),
        intercept + coef @ np.where(bounded, row_map.low, 0.0),
    )


def _bounds(row_map: RowMap):
    """Return the declared bounds as a user would declare them."""
    if row_map.span is None:
        return False
    high = row_map.low + row_map.span
    pairs = zip(row_map.low.tolist(), high.tolist(), strict=True)
    return {j: pair for j, pair in enumerate(pairs) if math.isfinite(pair[1])}
