"""What a step of a fit costs on workers of Dask, beside the work of the workers.

    python benchmarks/reproduce/dask_overhead.py
    python benchmarks/reproduce/dask_overhead.py --quick --output /tmp/overhead.txt

`FeatureDPLogisticRegression` is fitted to a Dask array of normals in two partitions on
two workers, each a process with one thread. The rows are as many as make a step of
about 40 ms on one worker. In every step of these fits two times are taken: that of the
whole step here, from the iterate to the sum of all partitions, and that of the exact
sum in each partition, by its worker's clock. The overhead of a step is the first less
the longest of the second: what the scheduler, pickling, sockets, the operating system
and other processes take. Both are of the same step, so that whatever else the machine
does is in both.

*direct*: ``Client(direct_to_workers=True)``, which asks the workers themselves.
*by scheduler*: the default client, whose scheduler passes questions and answers on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skfdp.solvers import NoisyGradientDescent, NoisySGD

RESULTS = Path(__file__).resolve().parents[1] / "results"
#: Wanted share of the work, and the work that it is of.
MARK, WORK = 0.15, 0.040
D = 100
#: The solver of a number of rows.
KINDS = {
    "full batch": lambda n: NoisyGradientDescent(),
    "Poisson, q = 1/4": lambda n: NoisySGD(batch_size=n // 4),
}


def timed_partition() -> type:
    """Return a partition that notes how long its sums take."""
    from skfdp.dask_tables import Partition

    class TimedPartition(Partition):
        def total(self, *args: Any) -> np.ndarray:
            start = time.perf_counter()
            found = super().total(*args)
            self._kept.setdefault("times", []).append(time.perf_counter() - start)
            return found

    return TimedPartition


def table(n_rows: int, n_columns: int, n_parts: int) -> tuple[Any, Any]:
    """Return rows and labels that workers draw, deterministic in every partition."""
    import dask.array as da

    chunks = (-(-n_rows // n_parts), n_columns)
    rows = da.random.default_rng(0).random((n_rows, n_columns), chunks=chunks)
    return rows.astype(np.float32), (rows[:, 0] + rows[:, 1] > 1).astype(np.int64)


class Watch:
    """Takes the times of every step of the fits inside."""

    def __enter__(self):
        from skfdp import dask_tables as cluster

        self._cluster, self._partition = cluster, cluster.Partition
        self._total = cluster.Partitions.total
        self._close = cluster.WorkerPartitions.close
        self.walls, self.works, self.prepared = [], np.empty((0, 0)), None
        watch, total, close = self, self._total, self._close

        def timed(partitions: Any, name: str, theta: Any, *rest: Any) -> np.ndarray:
            start = time.perf_counter()
            if watch.prepared is None:
                watch.prepared = start
            found = total(partitions, name, theta, *rest)
            watch.walls.append(time.perf_counter() - start)
            watch.thetas.append(theta is not None)
            return found

        def closing(partitions: Any) -> None:
            if len(partitions) and watch.walls:
                watch.works = np.array(partitions.ask("times", list)).T
            close(partitions)

        self.thetas: list[bool] = []
        cluster.Partition = timed_partition()
        cluster.WorkerPartitions.total, cluster.WorkerPartitions.close = timed, closing
        return self

    def __exit__(self, *error: Any) -> None:
        del self._cluster.WorkerPartitions.total
        self._cluster.WorkerPartitions.close = self._close
        self._cluster.Partition = self._partition

    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the time of each step of a descent, and of its partitions."""
        chosen = np.array(self.thetas)
        # The first steps compile, or load what was compiled.
        return np.array(self.walls)[chosen][3:], self.works[chosen][3:]


def fitted(rows: Any, labels: Any, n_steps: int, solver: Any) -> dict[str, Any]:
    """Fit once on the current cluster; return the times of its steps, in seconds."""
    from skfdp import FeatureDPLogisticRegression

    settings = {"epsilon": 1.0, "delta": 1e-8, "bounds": (0, 1), "classes": [0, 1]}
    model = FeatureDPLogisticRegression(
        neighboring_relation="replace_one",
        solver=solver.set_params(max_iter=n_steps),
        **settings,
    )
    start = time.perf_counter()
    with Watch() as watch:
        model.fit(rows, labels)
    walls, works = watch.steps()
    return {
        "walls": walls,
        "works": works,
        "fit": time.perf_counter() - start,
        "before": watch.prepared - start,
    }


def overhead(found: dict[str, Any]) -> np.ndarray:
    """Return what each step takes beside its longest partition, in seconds."""
    return found["walls"] - found["works"].max(axis=1)


@contextlib.contextmanager
def undisturbed(client: Any, wanted: bool) -> Iterator[None]:
    """Let nothing else run before the client and the workers, which needs root."""
    pids = [os.getpid(), *client.run(os.getpid).values()] if wanted else []
    _prioritise(pids, os.SCHED_RR, 1)
    try:
        yield
    finally:
        _prioritise(pids, os.SCHED_OTHER, 0)


def _prioritise(pids: list[int], policy: int, priority: int) -> None:
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                found = os.sched_param(priority)
                os.sched_setscheduler(int(thread.name), policy, found)


def n_rows_for(work: float, n_parts: int, solver_of: Callable[[int], Any]) -> int:
    """Return how many rows make a step of so long a work on each worker."""
    n = 100_000 * n_parts
    for _ in range(2):
        found = fitted(*table(n, D, n_parts), 12, solver_of(n))
        seconds = float(np.median(found["works"].max(axis=1)))
        n = int(np.clip(n * work / seconds, n / 10, n * 10))
        n -= n % n_parts
    return n


def line(cells: tuple) -> str:
    """Return a line of the table."""
    return "{:<20}{:<14}{:>10}{:>10}{:>10}{:>12}{:>10}".format(*cells)


def measure(work: float, n_steps: int, alone: bool = False) -> list[str]:
    """Return the table of all kinds, and its conclusion."""
    from distributed import Client, LocalCluster

    head = ("batches", "client", "rows", "work ms", "step ms", "beside ms", "percent")
    lines, met = [line(head)], []
    settings = {"processes": True, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(2, threads_per_worker=1, **settings) as cluster:
        for kind, solver_of in KINDS.items():
            with Client(cluster, direct_to_workers=True) as client:
                fitted(*table(2_000, D, 2), 5, solver_of(2_000))  # compiles
                with undisturbed(client, alone):
                    n = n_rows_for(work, 2, solver_of)
            rows, labels = table(n, D, 2)
            for name, direct in (("direct", True), ("by scheduler", False)):
                with (
                    Client(cluster, direct_to_workers=direct) as client,
                    undisturbed(client, alone),
                ):
                    found = fitted(rows, labels, n_steps, solver_of(n))
                longest = float(np.median(found["works"].max(axis=1)))
                beside = float(np.median(overhead(found)))
                share = float(np.median(overhead(found) / found["works"].max(axis=1)))
                times = longest, float(np.median(found["walls"])), beside
                cells = [f"{1e3 * seconds:.1f}" for seconds in times]
                lines.append(line((kind, name, n, *cells, f"{100 * share:.1f}")))
                if direct:
                    met.append(share <= MARK)
    told = "kept" if all(met) else "NOT kept"
    lines.append(
        f"\nMedians over {n_steps - 3} steps of one fit each. Mark: direct, at most "
        f"{100 * MARK:.0f} percent of the work of a step of {1e3 * WORK:.0f} ms: "
        f"{told}."
    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short steps, and few")
    parser.add_argument(
        "--undisturbed", action="store_true", help="with real-time priority, as root"
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "dask_overhead.txt")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    size = (0.003, 12) if args.quick else (WORK, 63)
    lines = measure(*size, args.undisturbed)
    if args.undisturbed:
        lines.append("With real-time priority, on a machine that others use.")
    import dask

    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    lines.append(
        f"{os.cpu_count()} cores, load {load} at the end; Python "
        f"{sys.version.split()[0]}, NumPy {np.__version__}, Dask {dask.__version__}."
    )
    args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
