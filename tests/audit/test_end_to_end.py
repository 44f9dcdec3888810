"""End to end: what fitted models show of a record stays below what they claim.

Whole fits on two neighbours, many times each. A direction is learnt from one half of
the fitted numbers, and tells the tables apart by the other half.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))

from tight_canaries import BRIGHT, FAR, X, Y

import skfdp
from skfdp.audit import mechanism as bounds
from skfdp.mechanisms import release
from skfdp.privacy.accounting import cost

BOUNDED = {"bounds": (0, 1), "epsilon": 10.0}
LABELS = {"public_features": "all"}
SHORT = {"max_iter": 4, "clip_norm": 0.05}
#: Estimator, table, target, and two private parts of record 0: a value for each column,
#: or None where they are public, and a label.
FITS = {
    "a mean": (
        lambda: skfdp.PrivateCenteringTransformer(
            10.0, bounds=False, neighboring_relation="replace_one"
        ),
        *(X, None, (FAR, None), (-FAR, None)),
    ),
    "a label statistic": (
        lambda: skfdp.FeatureDPLogisticRegression(
            **BOUNDED, **LABELS, solver="one-shot"
        ),
        *(BRIGHT, Y["two"], (None, 0), (None, 1)),
    ),
    "a label loop": (
        lambda: skfdp.FeatureDPLogisticRegression(
            **BOUNDED, **LABELS, **SHORT, solver="dp-gd"
        ),
        *(BRIGHT, Y["two"], (None, 0), (None, 1)),
    ),
    "full batches": (
        lambda: skfdp.FeatureDPLogisticRegression(**BOUNDED, **SHORT),
        *(X, Y["two"], (1.0, 0), (1.0, 1)),
    ),
    "full batches, regression": (
        lambda: skfdp.FeatureDPRegressor(
            **BOUNDED, **SHORT, target_bounds=(-2, 6), alpha=1.0
        ),
        *(X, Y["real"], (1.0, -2.0), (1.0, 6.0)),
    ),
    "Poisson batches": (
        lambda: skfdp.DPSGDFClassifier(
            **BOUNDED, **SHORT, batch_size=10, neighboring_relation="replace_one"
        ),
        *(X, Y["two"], (1.0, 0), (1.0, 1)),
    ),
    "Poisson batches, regression": (
        lambda: skfdp.DPSGDFRegressor(
            **BOUNDED,
            **SHORT,
            batch_size=10,
            target_bounds=(-2, 6),
            neighboring_relation="replace_one",
        ),
        *(X, Y["real"], (1.0, -2.0), (1.0, 6.0)),
    ),
}
#: Of one release next to nothing is lost on the way to the fitted numbers.
WHOLE = "a mean"


def numbers_of(model):
    """Return what a fit publishes, as one vector."""
    names = ("mean_", "coef_", "intercept_", "coefs_", "intercepts_")
    parts = [getattr(model, name, ()) for name in names]
    flat = [
        np.ravel(one)
        for part in parts
        for one in (part if isinstance(part, list) else [part])
    ]
    return np.concatenate(flat)


def fitted(name, n_fits):
    """Return the numbers of fits on both tables, and the events of one of them."""
    make, X, y, *parts = FITS[name]
    sides = []
    for values, label in parts:
        table, target = X.copy(), None if y is None else y.copy()
        if values is not None:
            table[0] = values
        if label is not None:
            target[0] = label
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [make().fit(table, target) for _ in range(n_fits)]
        sides.append(np.array([numbers_of(model) for model in models]))
    return sides, models[0].privacy_


def projected(sides):
    """Return the second half of each side, along the direction of the first."""
    middle = len(sides[0]) // 2
    first, rest = zip(*((side[:middle], side[middle:]) for side in sides), strict=True)
    within = np.mean([np.cov(side.T) for side in first], axis=0)
    within = np.atleast_2d(within)
    within += 1e-9 * np.trace(within) * np.eye(len(within))
    apart = first[1].mean(axis=0) - first[0].mean(axis=0)
    direction = np.linalg.solve(within, apart)
    threshold = np.median(np.concatenate(first) @ direction)
    return [side @ direction for side in rest], threshold


def check_below(name, n_fits):
    """Return the distance that is seen, over the claim; no bound is above its claim."""
    sides, report = fitted(name, n_fits)
    (without, with_it), threshold = projected(sides)
    claim = cost(report.events, report.delta)
    rates = bounds.largest_rates(without, with_it, threshold, 0.999)
    assert bounds.epsilon_lower_bound(*rates, report.delta) <= report.epsilon
    shown = bounds.epsilon_of_family(
        report.events, report.delta, lambda least: least(1 - rates[0]) > rates[1]
    )
    assert shown <= report.epsilon
    found = bounds.separation(without, with_it, 0.999, gaussian=False)
    if claim.mu is None:  # no number of the claim is a distance
        return found.value
    assert found.low <= claim.mu
    return found.value / claim.mu


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_whole_fits_show_less_than_they_claim(name):
    seen = check_below(name, 600)
    assert seen > (0.8 if name == WHOLE else 0.2)


@pytest.mark.slow
def test_half_the_noise_of_a_whole_fit_is_noticed(monkeypatch):
    honest = release._noisy_sum

    def half(*query, noise_std, **more):
        return honest(*query, noise_std=noise_std / 2, **more)

    monkeypatch.setattr(release, "_noisy_sum", half)
    with pytest.raises(AssertionError):
        check_below(WHOLE, 600)
