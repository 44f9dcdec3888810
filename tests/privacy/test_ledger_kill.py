"""Processes that are killed while they charge: the file stays truthful.

A worker charges, and only then writes its label into a file of releases, as a fit that
publishes after it was charged. Both survive ``kill -9``: what a process has written is
the kernel's.
"""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import skfdp
from skfdp.privacy import Event, PrivacyLedger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

# Forks workers that charge, kills them all at a random moment, again and again; the
# first one creates the file. Prints the labels that it killed workers under.
SCRIPT = """
import os, random, signal, sys, time, traceback
from skfdp.privacy import Event, PrivacyLedger, ledger_file

path, releases, trials, workers, seed = sys.argv[1:3] + list(map(int, sys.argv[3:]))
rng = random.Random(seed)
events = [
    Event(label=part, noise_std=(200.0,), clip_norm=1, sensitivity=1)
    for part in ("mean", "steps")
]
PrivacyLedger(epsilon=9.0, delta=1e-5).charge(events)  # imports what composes
output = os.open(releases, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def work(name):
    ledger = PrivacyLedger(path, epsilon=1000.0, delta=1e-5)
    number = 0
    while True:
        label = f"{name}-{number}"
        ledger.charge(events, label=label)
        os.write(output, (label + chr(10)).encode())
        number += 1


for trial in range(trials):
    children = []
    for worker in range(workers):
        child = os.fork()
        if child == 0:
            try:
                work(f"{trial}-{worker}")
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        children.append(child)
    time.sleep(rng.uniform(0.0, 0.25))
    rng.shuffle(children)
    for child in children:
        os.kill(child, signal.SIGKILL)
        time.sleep(rng.choice((0.0, 0.01)))
    for child in children:
        os.waitpid(child, 0)
"""


def run(path, releases, trials, workers, seed):
    environment = os.environ | {"PYTHONPATH": str(Path(skfdp.__file__).parents[1])}
    arguments = [path, releases, trials, workers, seed]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no worker ended by itself


@pytest.mark.parametrize(
    "trials", [10, pytest.param(200, marks=pytest.mark.slow)], ids=str
)
def test_no_release_without_its_charge(tmp_path, trials):
    path, releases = tmp_path / "l.db", tmp_path / "releases"
    run(path, releases, trials, 3, seed=trials)
    ledger = PrivacyLedger(path)
    charged = {}
    for entry in ledger.entries:
        charged.setdefault((entry.charge, entry.label), []).append(entry.event.label)
    assert set(map(tuple, charged.values())) == {("mean", "steps")}  # no half charge
    numbers = [number for number, _ in charged]
    assert numbers == list(range(1, len(numbers) + 1))
    labels = [label for _, label in charged]
    assert len(set(labels)) == len(labels)
    released = releases.read_text().splitlines()
    assert len(released) > trials / 5
    assert set(released) <= set(labels)
    # A worker may die between the charge and the release, once.
    assert len(labels) - len(released) <= 3 * trials
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    event = Event(label="e", noise_std=(9.0,), clip_norm=1.0, sensitivity=1.0)
    ledger.charge([event])
