"""The plan of a fit: all that it would release, and what that costs."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from skfdp.addresses import public
from skfdp.privacy.assumptions import Assumption
from skfdp.privacy.composition import cost
from skfdp.privacy.events import Event
from skfdp.privacy.plan import PrivacyPlan
from skfdp.privacy.store import dumps


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class FitPlan:
    """Releases and cost of one fit in advance; ``estimator.plan(X, y)`` returns it.

    Nothing is released or charged by making a plan. It is a function of public facts
    alone, equal for all values of the private part. `PrivacyLedger.what_if` says what
    it would do to a ledger.

    Attributes
    ----------
    subject : str
        The estimator.
    events : tuple of Event
        Everything that a fit would charge; empty for ``epsilon=inf``.
    delta : float
    target_epsilon : float
        The budget asked for.
    n_records : int
        Number of records, of persons where these are protected; nominal where it is
        private.
    n_rows : int or None
        Number of rows of the table, rows of weight 0 included; None if it is private.
    assumptions : tuple of Assumption
        What the guarantee of this plan rests on, beyond its events.
    schedule : PrivacyPlan or None
        The plan of the last releases (of the loop, where there is one), with those
        before it among its `other_events`. Of a search, that of one run. None for
        ``epsilon=inf``.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import DPSGDFClassifier
    >>> model = DPSGDFClassifier(epsilon=0.5, bounds=(0, 1), classes=["no", "yes"])
    >>> private = np.full((1000, 3), np.nan)  # only its shape is looked at
    >>> plan = model.plan(private)
    >>> plan
    <FitPlan of DPSGDFClassifier: epsilon=0.5, delta=1e-05; class counts x 1, mean x 1,
    temperature x 1, descent x 200>
    >>> [round(event.mu, 3) for event in plan.events], round(plan.mu, 3)
    ([0.02, 0.02, 0.02, 0.138], 0.142)
    """

    subject: str
    events: tuple[Event, ...]
    delta: float
    target_epsilon: float
    n_records: int
    n_rows: int | None = None
    assumptions: tuple[Assumption, ...] = ()
    schedule: PrivacyPlan | None = None

    @property
    def epsilon(self) -> float:
        """What the events cost at `delta`, exactly composed."""
        return cost(self.events, self.delta).epsilon if self.events else math.inf

    @property
    def mu(self) -> float | None:
        """Gaussian-DP parameter of the whole, None where it is not Gaussian."""
        return cost(self.events, self.delta).mu if self.events else None

    def to_dict(self) -> dict[str, Any]:
        """Return strictly JSON-able values; infinite numbers are the string "inf"."""
        values = {
            "subject": self.subject,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "target_epsilon": self.target_epsilon,
            "n_records": self.n_records,
            "n_rows": self.n_rows,
            "mu": self.mu,
            "events": [event.to_dict() for event in self.events],
            "assumptions": [dataclasses.asdict(one) for one in self.assumptions],
            "schedule": None if self.schedule is None else self.schedule.to_dict(),
        }
        infinite = {name for name, value in values.items() if value == math.inf}
        return json.loads(dumps(values | dict.fromkeys(infinite, "inf")))

    def __repr__(self) -> str:
        releases = [f"{event.label} x {event.n_steps}" for event in self.events]
        return (
            f"<FitPlan of {self.subject}: epsilon={self.epsilon:.6g}, "
            f"delta={self.delta:g}; {', '.join(releases) or 'without privacy'}>"
        )
