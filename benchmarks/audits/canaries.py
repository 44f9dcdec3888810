"""Canaries: the Gaussian-DP parameter claimed and seen, of every release and of plans.

``python benchmarks/audits/canaries.py`` releases the canaries of
``tests/audit/tight_canaries.py`` at the package's own mechanism, three times as often
as the tests, and then whole plans by `skfdp.audit.audit_mechanism`. ``--output FILE``
writes what it prints, ``--times`` and ``--trials`` say how much of it, and ``--seed``
makes it repeatable; without it noise is that of the operating system.
"""

import argparse
import dataclasses
import datetime
import math
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy

import skfdp
from skfdp.audit.mechanism import (
    audit_mechanism,
    log_ratio,
    moments_of_ratio,
    separation,
)
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event, calibrate
from skfdp.solvers import AdaptiveCentering, NoisySGD

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "audit"))

from tight_canaries import CANARIES  # noqa: E402
from tight_runs import MU, Pair  # noqa: E402

#: Releases of each table: of full batches, and of sampled ones.
N_FULL, N_SAMPLED = 4_000, 16_000
PRIVATE = np.full((1000, 6), np.nan)


def plans(trials: int):
    """Yield a name, a plan, and how often it is released."""
    yield "one release", calibrate(1.0, 1e-5, n_steps=1), 4 * trials
    loop = calibrate(4.0, 1e-5, n_steps=50, noise_decay=0.75)
    yield "full batches, 50 steps", loop, trials
    for relation in ("replace_one", "replace_special", "add_or_remove_one"):
        sampled = calibrate(
            4.0, 1e-5, n_steps=50, sampling_rate=0.1, neighboring_relation=relation
        )
        yield f"Poisson, 50 steps, {relation}", sampled, trials
    orthant = Event(
        label="steps",
        noise_std=(1.5,),
        clip_norm=1.0,
        sensitivity=2**0.5,
        n_steps=50,
        sampling_rate=0.1,
    )
    yield "Poisson, 50 steps, sqrt(2) clip norms", orthant, trials
    mean = Event(label="mean", noise_std=(3.0,), clip_norm=1.0, sensitivity=2.0)
    both = calibrate(4.0, 1e-5, n_steps=50, sampling_rate=0.1, other_events=[mean])
    yield "a mean and Poisson, 50 steps", both, trials
    bounded = {"bounds": (0, 1), "epsilon": 4.0}
    nulled = bounded | {"neighboring_relation": "replace_special"}
    two = {"classes": [0, 1]}
    batches = {"solver": NoisySGD(batch_size=100)}
    second = {"centering": AdaptiveCentering(clip_features=True)}
    sgd = skfdp.DPSGDFClassifier
    for name, model, share in (
        ("DPSGDFClassifier", sgd(**nulled, **two), 1),
        ("DPSGDFClassifier, batches of 100", sgd(**nulled, **two, **batches), 1),
        ("DPSGDFClassifier, Algorithm 2", sgd(**nulled, **two, **second), 1),
        (
            "FeatureDPLogisticRegression",
            skfdp.FeatureDPLogisticRegression(
                **bounded, **two, neighboring_relation="replace_one"
            ),
            1,
        ),
        ("PrivateCenteringTransformer", skfdp.PrivateCenteringTransformer(**nulled), 4),
    ):
        plan = model.plan(PRIVATE)
        most = max(500, 2_000_000 // sum(event.n_steps for event in plan.events))
        yield name, plan, min(share * trials, most)


class Seen(NamedTuple):
    """The parameter of a canary that was seen over that claimed, and its error."""

    ratio: float
    error: float
    n_releases: int


def seen_of(pair: Pair, seed: int | None, times: float = 1.0) -> Seen:
    """Release both tables of a canary, and measure how far they are apart."""
    sampled = pair.event.sampling_rate < 1
    n_releases = round(times * (N_SAMPLED if sampled else N_FULL))
    event = dataclasses.replace(
        pair.event,
        noise_std=(pair.event.sensitivity / pair.mu,),
        noise_decay=0.0,
        n_steps=n_releases,
    )
    one, other = pair.sums()
    apart = (one - other).ravel()
    apart = apart / (np.linalg.norm(apart) or 1.0)
    along = np.empty((2, n_releases))
    for side, found in enumerate(along):
        of_rows = {"is_null": pair.voids[side], "units": pair.asked.units}
        owner = f"tight/{pair.name}/table {side}"
        mechanism = Mechanism((event,), seed, owner, **of_rows)
        for step in range(n_releases):
            released = mechanism.release(
                event.label, pair.queries[side], pair.theta, stream=pair.asked.stream
            )
            found[step] = released.ravel() @ apart
    claimed = MU
    if sampled:  # the ratio of each release, a release being a trial
        one = dataclasses.replace(event, n_steps=1)
        gap, variance = moments_of_ratio(one)
        claimed = gap / math.sqrt(variance)
        along = log_ratio(one, along, event.noise_std[0])
    apart, *_, error = separation(along[1], along[0], gaussian=not sampled)
    return Seen(apart / claimed, error / claimed, n_releases)


def of_releases(times: float, seed: int | None):
    """Yield the lines of the table of releases."""
    yield (
        f"{'release':<50}{'times':>6}{'D/C':>6}{'reach':>6}{'seen':>8}{'s.e.':>8}"
        f"{'from':>8}{'to':>8}"
    )
    worst = []
    for canary in CANARIES:
        pair = canary.pair()
        seen = seen_of(pair, seed, times)
        ratio, error, _ = seen
        ends = ratio - 2 * error, ratio + 2 * error
        worst.append((ends[0] / canary.reach, ends[1] / canary.reach, error))
        moved = pair.event.sensitivity / pair.event.clip_norm
        yield (
            f"{canary.name:<50}{seen.n_releases:>6}{moved:>6.3f}{canary.reach:>6.3f}"
            f"{ratio:>8.4f}{error:>8.4f}{ends[0]:>8.4f}{ends[1]:>8.4f}"
        )
    low, high, error = (
        pick(column)
        for pick, column in zip((min, max, max), zip(*worst, strict=True), strict=True)
    )
    yield ""
    yield f"{len(worst)} releases. Over what is reached, the intervals lie within"
    yield f"[{low:.4f}, {high:.4f}]; the largest standard error is {error:.4f}."


def of_plans(trials: int, seed: int | None):
    """Yield the lines of the table of plans."""
    yield (
        f"{'plan':<40}{'trials':>7}{'mu':>8}{'seen':>8}{'from':>8}{'to':>8}"
        f"{'eps':>7}{'f-DP':>7}{'C-P':>7}"
    )
    for name, plan, often in plans(trials):
        found = audit_mechanism(
            plan, n_trials=often, confidence=0.99, random_state=seed
        )
        whole = found.whole
        yield (
            f"{name:<40}{often:>7}{whole.claimed:>8.4f}{whole.observed:>8.4f}"
            f"{whole.low:>8.4f}{whole.high:>8.4f}{found.claimed_epsilon:>7.3f}"
            f"{found.lower_bound:>7.3f}{found.clopper_pearson:>7.3f}"
            f"{'' if found.passed else '  REFUTED'}"
        )


RELEASES = """
Each release, claimed and seen
==============================
Two neighbours, each released `times` times. D/C: sensitivity over clip norm;
reach: the supremum of what neighbours move, over the sensitivity; seen: the
Gaussian-DP parameter in the outputs over the one claimed, its standard error,
and two of them on either side. Of Poisson batches, the distance of the
log-likelihood ratios, in standard deviations, over the one claimed.
"""
PLANS = """
Whole plans, claimed and seen
=============================
Everything released `trials` times on each of two tables; delta is 1e-5. mu: the
claimed Gaussian-DP parameter (with Poisson batches the distance of the ratios),
seen and its interval, jointly at 99 per cent; eps: claimed; f-DP and C-P: lower
bounds by the family of the claim, and by Clopper and Pearson alone.
"""


def report(times: float, trials: int, seed: int | None):
    """Yield all lines."""
    yield (
        f"skfdp {skfdp.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__},"
        f" Python {platform.python_version()}, {datetime.date.today()}"
    )
    yield f"Noise {'of the system' if seed is None else f'seeded by {seed}'}."
    yield from RELEASES.splitlines()
    yield ""
    yield from of_releases(times, seed)
    yield from PLANS.splitlines()
    yield ""
    yield from of_plans(trials, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--times", type=float, default=3.0, help="as often as the tests"
    )
    parser.add_argument("--trials", type=int, default=4_000, help="of a plan")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--output", type=Path, default=None)
    given = parser.parse_args()
    warnings.simplefilter("ignore", skfdp.UtilityWarning)
    start, lines = time.perf_counter(), []
    for line in report(given.times, given.trials, given.seed):
        print(line, flush=True)
        lines.append(line.rstrip())
    if given.output is not None:
        given.output.write_text("\n".join(lines) + "\n")
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
