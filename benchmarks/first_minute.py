"""What a new installation pays: the bundled example with an empty cache of kernels.

``python benchmarks/first_minute.py OLD NEW`` takes checkouts in turn, and prints for
each the wall seconds, the CPU seconds of the process and of its helper, and the kernels
that were kept; then the same once more with the cache as the first run has left it. On
a machine that others use CPU seconds tell more than the clock.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_RUN = """
import contextlib, io, json, resource, sys
from skfdp.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    status = main(["--seed", "0"])
own, helper = (
    sum(resource.getrusage(who)[:2])
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
)
print(json.dumps([status, own, helper]))
"""


def run(tree, folder):
    """Return wall, own and helper's CPU seconds of one run."""
    changes = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": folder}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        env=os.environ | changes,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - start
    status, own, helper = json.loads(done.stdout)
    if status:
        raise SystemExit(done.stderr)
    return wall, own, helper


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="JSON")
    given = parser.parse_args()
    found = {f"{tree}, {kind}": [] for tree in given.trees for kind in ("cold", "warm")}
    kernels = {}
    loads = [os.getloadavg()[0]]
    for _ in range(given.rounds):
        for tree in given.trees:
            with tempfile.TemporaryDirectory() as folder:
                for kind in ("cold", "warm"):
                    found[f"{tree}, {kind}"].append(run(tree.resolve(), folder))
                kernels[str(tree)] = len(list(Path(folder).rglob("*.nbc")))
        loads.append(os.getloadavg()[0])
    print(f"load {min(loads):.1f} to {max(loads):.1f}, {os.cpu_count()} cores")
    print(f"{'medians':40}{'wall s':>8}{'CPU s':>8}{'helper':>8}")
    for name, rows in found.items():
        wall, own, helper = np.median(rows, axis=0)
        print(f"{name:40}{wall:8.1f}{own:8.1f}{helper:8.1f}")
    for tree, count in kernels.items():
        print(f"{tree}: {count} kernels kept")
    if given.output:
        facts = {
            "loads": loads,
            "cores": os.cpu_count(),
            "kernels": kernels,
            "wall, CPU, CPU of the helper in seconds": found,
        }
        given.output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
