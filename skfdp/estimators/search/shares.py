"""What each run of a private search may spend, solved for before the first one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from skfdp.estimators.search.candidates import (
    MARGIN,
    Holdout,
    Share,
    dry_events,
    plain,
    prepared,
)
from skfdp.privacy import Event, gdp_epsilon
from skfdp.privacy.selection import Selection, SelectionCurve


def plan_each(
    settings: Sequence[Mapping],
    estimator: Any,
    holdout: Holdout,
    event: Selection,
    budget: tuple[float, float],
) -> tuple[Selection, list[Share]]:
    """Return the event of a search, and what a run of each candidate may release.

    Parameters
    ----------
    settings : sequence of mappings
        All candidates, or one of them where they cannot be listed.
    estimator
        The search's own.
    holdout : Holdout
    event : Selection
        Its noise is that of a full-batch run. Poisson-sampled candidates get a budget
        at which the event with their releases is still within the whole one.
    budget : tuple
        Epsilon and delta of the whole search.
    """
    delta = budget[1] / event.mean_runs
    share = Share(
        mu=event.run_mu,
        epsilon=gdp_epsilon(delta, event.run_mu * (1 - MARGIN)),
        delta=delta,
        promise=event,
    )
    shares, alternatives = [], []
    for params in settings:
        own = _affordable([params], estimator, holdout, event, share, budget)
        shares.append(own[0])
        alternatives += own[0].sampled
    return _with_sampled(event, alternatives), shares


def plan_together(
    settings: Sequence[Mapping],
    estimator: Any,
    holdout: Holdout,
    event: Selection,
    budget: tuple[float, float],
) -> tuple[Selection, list[Share]]:
    """Return the event of all candidates, each of them charged, and their shares.

    Parameters
    ----------
    settings, estimator, holdout, budget
        See `plan_each`.
    event : Selection
        One run, which is the composition of all fits on one part of the records, and
        of all scores on the other one.
    """
    mu = event.run_mu / math.sqrt(len(settings)) * (1 - MARGIN)
    share = Share(
        mu=mu,
        epsilon=gdp_epsilon(budget[1], mu * (1 - MARGIN)),
        delta=budget[1],
        promise=event,
    )
    shares = _affordable(settings, estimator, holdout, event, share, budget)
    together: tuple[Event, ...] = ()
    if any(own.sampled for own in shares):
        full = plain([_gaussian(event, mu)])
        together = tuple(
            release
            for own in shares
            for release in (own.sampled[0] if own.sampled else full)
        )
    return _with_sampled(event, [together] if together else []), shares


def _affordable(
    settings: Sequence[Mapping],
    estimator: Any,
    holdout: Holdout,
    event: Selection,
    share: Share,
    budget: tuple[float, float],
) -> list[Share]:
    """Return shares whose releases, composed, are one affordable run."""
    factor = 1.0
    for _ in range(40):
        epsilon = share.epsilon * factor
        planned = [
            dry_events(
                prepared(estimator, params, holdout.classes, None),
                holdout,
                epsilon,
                share.delta,
            )
            for params in settings
        ]
        sampled = [any(e.mu is None for e in events) for events in planned]
        if not any(sampled):
            return [share] * len(settings)
        together = plain(release for events in planned for release in events)
        spent = SelectionCurve(_with_sampled(event, [together])).epsilon(budget[1])
        if spent <= budget[0]:
            return [
                dataclasses.replace(share, epsilon=epsilon, sampled=(plain(events),))
                if poisson
                else share
                for events, poisson in zip(planned, sampled, strict=True)
            ]
        factor *= min(0.999, (budget[0] / spent) ** 1.5)
    raise ValueError(
        f"epsilon={budget[0]!r} and delta={budget[1]!r} are too small for Poisson "
        "batches in a search: raise them, or use full batches."
    )


def _gaussian(event: Selection, mu: float) -> Event:
    return Event(
        label="fit",
        noise_std=(1 / mu,),
        clip_norm=1.0,
        sensitivity=1.0,
        neighboring_relation=event.neighboring_relation,
    )


def _with_sampled(event: Selection, alternatives: list) -> Selection:
    if not alternatives:
        return event
    return dataclasses.replace(
        event,
        label=f"{event.label}, or a schedule of Poisson batches",
        sampled=tuple(dict.fromkeys(alternatives)),
    )
