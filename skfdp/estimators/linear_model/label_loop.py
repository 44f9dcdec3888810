"""Label-DP by noisy descent: the plan, tightened by what is public."""

from __future__ import annotations

import dataclasses

from skfdp.estimators.linear_model.centring import public_coordinates
from skfdp.estimators.linear_model.descent import Problem, Training, calibrated_loop
from skfdp.estimators.linear_model.sensitivity import LABEL, label_sensitivity


def with_label_sensitivity(estimator, problem: Problem, training: Training) -> Training:
    """Return the training with the smaller sensitivity of public rows, if it is one.

    A larger clip norm no longer costs more noise once twice the clip norm exceeds what
    a replaced label can move.
    """
    coordinates = public_coordinates(problem, training, estimator.fit_intercept)
    rows = coordinates.grid(problem.X)
    training = dataclasses.replace(training, rows=rows)
    plan = training.plan
    bound = label_sensitivity(problem, rows, plan)
    if bound >= plan.sensitivity:
        return training
    plan = calibrated_loop(
        estimator,
        n_steps=plan.n_steps,
        sampling_rate=plan.sampling_rate,
        clip_norm=plan.clip_norm,
        sensitivity=bound,
        other_events=plan.other_events,
    )
    # The label and the facts are those of the fit; the numbers are the new plan's.
    (loop,) = training.events
    found = plan.event
    event = dataclasses.replace(
        loop,
        noise_std=found.noise_std,
        noise_decay=found.noise_decay,
        sensitivity=found.sensitivity,
    )
    return dataclasses.replace(
        training,
        plan=plan,
        label_bound=bound,
        events=(event,),
        assumptions=(*training.assumptions, LABEL),
    )
