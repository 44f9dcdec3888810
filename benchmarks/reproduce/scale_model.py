"""How long a fit takes on w workers, for tables that nobody has here: a small model.

    python benchmarks/reproduce/scale_model.py
    python benchmarks/reproduce/scale_model.py --quick --output /tmp/scale.txt

Constants are measured on two workers of this machine, by fits of `dask_overhead` to one
small table and to partitions of next to no rows:

* *work*: seconds of a step for each row and column, in one thread;
* *spread*: the standard deviation of the logarithm of a step's time on one worker;
* *call*: seconds that this process takes for one more worker in a step;
* *latency*: seconds of a step beside the work and the calls;
* *before*: seconds a row and column, once: drawing the rows, checking them, the grid.

A fit of T steps is then simulated: each step takes the longest of w lognormal times,
and the calls and the latency. Real fits of three larger tables on two workers are
compared with what the model says of them. What it says of w > 2 is extrapolation: it
knows no slow network, whose bytes it counts, no machine that is slower than others, and
no failures.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from dask_overhead import RESULTS, fitted, overhead, table, undisturbed

#: Of the tables that are predicted: columns and steps; and what a worker costs.
D, STEPS = 100, 200
DOLLARS = 0.05
#: Bytes of a worker that are for rows, and of an entry: float32, and int16 on the grid.
ROOM, ENTRY = 6e9, 6
SIZES = (200_000, 400_000, 800_000)
ROWS, WORKERS = (1e8, 1e9, 1e10), (1, 4, 16, 64, 256, 1024)


@dataclasses.dataclass(frozen=True)
class Constants:
    """What is measured; see the docstring of the file."""

    work: float
    spread: float
    call: float
    latency: float
    before: float

    def step(self, n_rows: float, n_columns: int, n_workers: int) -> float:
        """Return the expected time of a step, in seconds."""
        coins = np.random.default_rng(0)
        times = coins.lognormal(0.0, self.spread, size=(400, n_workers)).max(axis=1)
        work = self.work * n_rows * n_columns / n_workers
        return work * float(times.mean()) + self.call * n_workers + self.latency

    def fit(self, n_rows: float, n_columns: int, n_workers: int, n_steps: int) -> float:
        """Return the expected time of a fit, in seconds."""
        before = self.before * n_rows * n_columns / n_workers
        return before + n_steps * self.step(n_rows, n_columns, n_workers)


def measured(n_rows: int, n_steps: int, few: int = 2, many: int = 10) -> Constants:
    """Return the constants of this machine; a cluster of two workers is current."""
    found = fitted(*table(n_rows, D, 2), n_steps)
    logs = np.log(found["works"])
    work = np.exp(np.median(logs)) * 2 / (n_rows * D)
    spread = float(np.median(np.abs(logs - np.median(logs))) / 0.6745)
    beside = [fitted(*table(16 * k, D, k), n_steps) for k in (few, many)]
    calls = [float(np.median(one["walls"])) for one in beside]
    call = max(0.0, (calls[1] - calls[0]) / (many - few))
    latency = max(0.0, float(np.median(overhead(found))) - 2 * call)
    start = beside[0]["before"]
    before = max(0.0, found["before"] - start) * 2 / (n_rows * D)
    return Constants(float(work), spread, call, latency, before)


def compared(constants: Constants, sizes: tuple, n_steps: int) -> list[str]:
    """Return the lines of real fits beside what the model says of them."""
    cells = "{:>12}{:>14}{:>14}{:>10}"
    lines = [cells.format("rows", "step ms", "predicted", "ratio")]
    for n in sizes:
        found = float(np.median(fitted(*table(n, D, 2), n_steps)["walls"]))
        told = constants.step(n, D, 2)
        times = f"{1e3 * found:.1f}", f"{1e3 * told:.1f}", f"{told / found:.2f}"
        lines.append(cells.format(n, *times))
    return lines


def predicted(constants: Constants) -> list[str]:
    """Return the lines of tables that nobody has here."""
    cells = "{:>10}{:>10}{:>12}{:>12}{:>12}{:>12}{:>14}"
    head = ("rows", "workers", "GB each", "step s", "fit min", "dollars", "MB a step")
    lines = [cells.format(*head)]
    for n in ROWS:
        for w in WORKERS:
            each = n * D * ENTRY / w
            step, fit = constants.step(n, D, w), constants.fit(n, D, w, STEPS)
            told = f"{each / 1e9:.1f}" + ("" if each <= ROOM else " !")
            cost = DOLLARS * w * fit / 3600
            sent = 2 * 8 * (D + 1) * w / 1e6
            times = f"{step:.3f}", f"{fit / 60:.1f}", f"{cost:.2f}", f"{sent:.3f}"
            lines.append(cells.format(f"{n:.0e}", w, told, *times))
    return lines


def leaving(constants: Constants) -> str:
    """Return from which size on a second machine pays, by the model."""
    # Two workers halve the work and add what is beside it: worth it from a tenth on.
    beside = constants.latency + 2 * constants.call
    pays = 10 * beside / (constants.work * D / 2)
    fits = ROOM / (D * ENTRY)
    return (
        f"What is beside the work is a tenth of it from {_rounded(pays):,.0f} rows of "
        f"{D} columns on; {_rounded(fits):,.0f} rows fill the {ROOM / 1e9:.0f} GB of "
        "one worker."
    )


def _rounded(value: float) -> float:
    power = 10 ** math.floor(math.log10(max(value, 1.0)))
    return round(value / power) * power


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small tables, few steps")
    parser.add_argument(
        "--undisturbed", action="store_true", help="with real-time priority, as root"
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "scale_model.txt")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    from distributed import Client, LocalCluster

    sizes = (4_000, 8_000, 16_000) if args.quick else SIZES
    n_steps = 10 if args.quick else 60
    settings = {"processes": True, "dashboard_address": None, "silence_logs": 50}
    with (
        LocalCluster(2, threads_per_worker=1, **settings) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        fitted(*table(2_000, D, 2), 5)  # compiles
        with undisturbed(client, args.undisturbed):
            constants = measured(sizes[0] // 2, n_steps)
            lines = compared(constants, sizes, n_steps)
    told = ", ".join(f"{k} {v:.3g}" for k, v in dataclasses.asdict(constants).items())
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    lines = [
        f"Constants: {told}.",
        f"Measured on {os.cpu_count()} cores, load {load} at the end; Python "
        f"{sys.version.split()[0]}, NumPy {np.__version__}.",
        "",
        "Real steps on two workers, and what the model says of them",
        *lines,
        "",
        f"Predicted: {D} columns, {STEPS} full-batch steps, {DOLLARS} dollars an hour "
        "and worker",
        *predicted(constants),
        "!: more than the memory of a worker: more workers are needed.",
        "",
        leaving(constants),
    ]
    args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
