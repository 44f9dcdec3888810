"""Fits that are killed at random moments and resumed: budget, accuracy, and cost.

    python benchmarks/reproduce/resume.py                    # ten minutes
    python benchmarks/reproduce/resume.py --trials 10        # a minute
    python benchmarks/reproduce/resume.py --output benchmarks/results/resume.txt

A trial is a fit in a process of its own, which is killed (SIGKILL) at a random moment,
and resumed in another process, which is killed with probability one half, and so on,
until one ends. Each process writes down, behind the mechanism, which release it was
given, and the digest of it. Counted are, over all processes of a trial: releases that
differ at one position (0 is wanted: each was drawn once), releases at positions that
were not charged, and what the ledger says afterwards. The accuracies of the models are
compared with those of as many fits that nobody stopped, by the two-sided test of
Kolmogorov and Smirnov.

Processes are forked from one that has imported everything, so that a trial takes a
second. Kills before a fit has begun, or after it has ended, are counted, too.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import hashlib
import json
import os
import platform
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from scipy.stats import ks_2samp  # noqa: E402

from skfdp import DPSGDFClassifier, PrivacyBudgetError, PrivacyLedger  # noqa: E402
from skfdp._version import __version__  # noqa: E402
from skfdp.mechanisms.checkpoint import checkpoint as keep  # noqa: E402
from skfdp.mechanisms.release import Mechanism  # noqa: E402
from skfdp.solvers import NoisySGD  # noqa: E402

EPSILON, DELTA, N_STEPS, SEED = 0.5, 1e-5, 40, 0
N_ROWS, N_COLUMNS, N_TEST = 1000, 10, 20_000


def make_table():
    """Return rows and labels to fit on, and others to score on."""
    rng = np.random.default_rng(SEED)
    X = rng.random((N_ROWS + N_TEST, N_COLUMNS))
    margins = 6 * (X - 0.5) @ rng.normal(size=N_COLUMNS)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-margins))).astype(int)
    return X[:N_ROWS], y[:N_ROWS], X[N_ROWS:], y[N_ROWS:]


TABLE = make_table()


def make_model(ledger=None):
    """Return the classifier of all fits: Poisson batches, noise that matters."""
    return DPSGDFClassifier(
        EPSILON,
        DELTA,
        bounds=(0, 1),
        classes=[0, 1],
        ledger=ledger,
        neighboring_relation="replace_special",
        solver=NoisySGD(max_iter=N_STEPS, batch_size=200),
    )


def fit(ledger=None, checkpoint=None):
    """Fit once, and return the weights."""
    X, y, *_ = TABLE
    within = contextlib.nullcontext() if checkpoint is None else keep(checkpoint)
    with within:
        model = make_model(ledger).fit(X, y)
    return [*model.coef_[0].tolist(), *model.intercept_.tolist()]


def accuracy(weights):
    """Return the accuracy on rows that were put aside."""
    *_, X, y = TABLE
    return float(np.mean((X @ weights[:-1] + weights[-1] > 0) == y))


# -- trials ---------------------------------------------------------------------------
def write_down(folder):
    """Let this process append to a file what its mechanism releases."""
    log = os.open(folder / "releases", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    give, number = Mechanism.release, [0]

    def release(self, label, *asked, **more):
        found = give(self, label, *asked, **more)
        digest = hashlib.sha256(found.tobytes()).hexdigest()
        os.write(log, f"{number[0]} {digest}\n".encode())
        number[0] += 1
        return found

    Mechanism.release = release


def work(folder, with_ledger):
    """Do what the process of a trial does: fit, and save the weights."""
    warnings.simplefilter("ignore")
    write_down(folder)
    ledger = None
    if with_ledger:
        ledger = PrivacyLedger(folder / "ledger.db", epsilon=EPSILON, delta=DELTA)
    try:
        told = {"weights": fit(ledger, folder / "checkpoint")}
    except PrivacyBudgetError as error:
        told = {"refused": str(error)}
    part = folder / "part"
    part.write_text(json.dumps(told))
    part.rename(folder / "end")


def run(folder, with_ledger, patience):
    """Run a process, kill it after a while, and return whether that was in time."""
    child = os.fork()
    if child == 0:
        try:
            work(folder, with_ledger)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                raise RuntimeError("a process of a trial ended by itself")
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def trial(folder, with_ledger, duration, rng):
    """Run processes until one ends; return what they have left."""
    kills, places = 0, []
    while not (folder / "end").exists():
        kill = kills == 0 or rng.random() < 0.5
        patience = rng.uniform(0, duration) if kill else float("inf")
        kills += run(folder, with_ledger, patience)
        places.append(len(positions(folder)))
    found = {"kills": kills, "places": places[:-1], **told_by(folder)}
    if with_ledger:
        ledger = PrivacyLedger(folder / "ledger.db")
        found["epsilon"], found["entries"] = ledger.spent(DELTA), len(ledger)
    return found


def positions(folder):
    """Return the digests that were released, by position."""
    found = collections.defaultdict(set)
    log = folder / "releases"
    for line in log.read_text().splitlines() if log.exists() else ():
        number, digest = line.split()
        found[int(number)].add(digest)
    return found


def told_by(folder):
    """Return how a trial ended, and how many releases it has seen."""
    released = positions(folder)
    return {
        **json.loads((folder / "end").read_text()),
        "positions": len(released),
        "twice": sum(len(digests) > 1 for digests in released.values()),
        "equal": len(set.union(*released.values())) < len(released),
    }


def trials(n_trials, with_ledger, rng):
    """Return the trials, each of which was killed once or more."""
    with tempfile.TemporaryDirectory(dir=".") as place:
        folder = Path(place).resolve()
        ledger = PrivacyLedger(folder / "warm.db") if with_ledger else None
        start = time.monotonic()
        fit(ledger, folder / "warm")
        duration = 1.1 * (time.monotonic() - start)
        found = []
        while len(found) < n_trials:
            own = folder / str(len(found))
            own.mkdir()
            one = trial(own, with_ledger, duration, rng)
            if one["kills"]:
                found.append(one)
            else:  # it had ended
                own.rename(folder / f"{len(found)}-{time.monotonic_ns()}")
    return found


def lines_of_trials(found, planned, with_ledger, whole):
    """Yield the lines that tell of trials."""
    ended = [one for one in found if "weights" in one]
    kills = sum(one["kills"] for one in found)
    inside = [p for one in found for p in one["places"] if 0 < p < planned]
    yield ("With a ledger" if with_ledger else "Without a ledger") + (
        f": {len(found)} trials, {kills} processes killed,"
    )
    yield f"{len(inside)} of them between their first and their last release"
    for text, count in (
        ("releases planned and charged in each fit", planned),
        ("largest number of positions in a trial", most(found, "positions")),
        ("positions with two different releases", total(found, "twice")),
        ("trials with equal noise at two positions", total(found, "equal")),
        ("trials that a ledger refused", len(found) - len(ended)),
    ):
        yield f"  {text:44}{count:10}"
    if with_ledger:
        text = f"largest epsilon in a ledger, of {EPSILON}"
        yield f"  {text:44}{most(found, 'epsilon'):10.6f}"
        text = f"most entries in a ledger, one charge has {N_EVENTS}"
        yield f"  {text:44}{most(found, 'entries'):10}"
    accuracies = [accuracy(one["weights"]) for one in ended]
    test = ks_2samp(accuracies, whole)
    for text, some in (
        ("accuracy, and its standard deviation", accuracies),
        (f"of {len(whole)} fits that nobody stopped", whole),
    ):
        yield f"  {text:44}{np.mean(some):10.4f}{np.std(some):10.4f}"
    yield f"  Kolmogorov-Smirnov distance {test.statistic:.3f}, p = {test.pvalue:.3f}"
    yield ""


def most(found, name):
    """Return the largest value of a name."""
    return max(one[name] for one in found)


def total(found, name):
    """Return the sum of the values of a name."""
    return sum(one[name] for one in found)


def check(found, planned, with_ledger):
    """Raise AssertionError if a budget was exceeded."""
    assert total(found, "twice") == total(found, "equal") == 0
    assert all("weights" in one for one in found)
    assert most(found, "positions") <= planned
    if with_ledger:
        assert most(found, "epsilon") <= EPSILON * (1 + 1e-9)
        assert most(found, "entries") == N_EVENTS


# ------------------------------------------------------------------------------------
def lines(n_trials):
    """Yield the lines of the file of results."""
    yield (
        f"skfdp {__version__}, python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores; "
        f"{datetime.date.today()}"
    )
    yield (
        f"DPSGDFClassifier, epsilon {EPSILON}, {N_STEPS} steps on Poisson batches of "
        f"200 of {N_ROWS:,} rows"
    )
    yield ""
    planned = sum(event.n_steps for event in make_model().plan(*TABLE[:2]).events)
    whole = [accuracy(fit()) for _ in range(n_trials)]
    rng = random.Random(SEED)
    for with_ledger in (True, False):
        found = trials(n_trials, with_ledger, rng)
        yield from lines_of_trials(found, planned, with_ledger, whole)
        check(found, planned, with_ledger)


N_EVENTS = 0


def main():
    """Run the trials, and print what was found."""
    global N_EVENTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    N_EVENTS = len(make_model().plan(*TABLE[:2]).events)
    text = ""
    for line in lines(given.trials):
        print(line)
        sys.stdout.flush()
        text += f"{line.rstrip()}\n"
    if given.output:
        given.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
