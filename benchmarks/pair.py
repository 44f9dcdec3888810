"""Two versions of the package against each other: paired, interleaved, in one run.

``python benchmarks/pair.py OLD NEW`` takes two checkouts and prints, for each case, the
median of the paired ratios NEW / OLD with its quartiles (below 1: NEW is faster), CPU
times, and peak memory. Compare a checkout with itself to see the noise of a machine.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
from _paired import CASES

WORKER = Path(__file__).with_name("_paired.py")
NEW = ("import", "first fit")


def command(kind, case):
    """Return the command line of a worker, which imports nothing from here."""
    return [sys.executable, "-P", str(WORKER), kind, case]


def environment(tree):
    """Return an environment in which a checkout is on the path."""
    path = os.pathsep.join([str(tree), str(tree / "benchmarks")])
    return os.environ | {"PYTHONPATH": path}


def new_process(tree, case):
    """Return what a new process pays."""
    done = subprocess.run(
        command("new", case),
        env=environment(tree),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


class Worker:
    """A process that fits when asked to."""

    def __init__(self, tree, case):
        self._process = subprocess.Popen(
            command("fit", case),
            env=environment(tree),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        if self._process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{tree} cannot fit {case!r}")

    def __call__(self):
        self._process.stdin.write("\n")
        return json.loads(self._process.stdout.readline())

    def close(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def interleaved(sides, rounds):
    """Return the answers of two sides, asked in random order: (rounds, 2, 3)."""
    rng, found = random.Random(0), []
    for _ in range(rounds):
        of_round = [None, None]
        for side in rng.sample([0, 1], 2):
            of_round[side] = sides[side]()
        found.append(of_round)
    return np.array(found)


def measured(trees, case, rounds):
    """Return CPU seconds, wall seconds and MB of each round and side."""
    if case in NEW:
        sides = [lambda tree=tree: new_process(tree, case) for tree in trees]
        for side in sides:  # caches on disk
            side()
        return interleaved(sides, rounds * (5 if case == "import" else 1))
    for tree in trees:  # compiles in a process of its own: LLVM takes memory
        Worker(tree, case).close()
    workers = [Worker(tree, case) for tree in trees]
    try:
        return interleaved(workers, rounds)
    finally:
        for worker in workers:
            worker.close()


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", choices=(*NEW, *CASES))
    given = parser.parse_args()
    trees = [given.old.resolve(), given.new.resolve()]
    print(f"load {os.getloadavg()[0]:.1f}, {given.rounds} rounds")
    print(f"{'':30}{'CPU ratio':>10}{'quartiles':>17}{'ms':>16}{'MB':>16}")
    for case in given.only or (*NEW, *CASES):
        found = measured(trees, case, given.rounds)
        ratio = found[:, 1, 0] / found[:, 0, 0]
        low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
        ms = 1e3 * np.median(found[:, :, 0], axis=0)
        # The peak of a worker only grows; new processes have one each.
        peak = np.median(found[:, :, 2], axis=0) if case in NEW else found[-1, :, 2]
        print(
            f"{case:30}{middle:10.3f}{f'({low:.3f} .. {high:.3f})':>17}"
            f"{ms[0]:8.3f}{ms[1]:8.3f}{peak[0]:8.0f}{peak[1]:8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
