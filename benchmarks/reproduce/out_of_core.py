"""Fits on a table larger than memory: rates of reading, and memory.

    python benchmarks/reproduce/out_of_core.py --gigabytes 20 --folder /scratch

Writes a float32 table, and fits it by full batches and by Poisson batches of several
rates.
Between steps it reads the very file of integer rows that the steps read, from its
beginning to its end and without skfdp, in blocks of 8 MiB. Before each step and before
each such reading the rows are taken out of the process and of the system's caches, if
the user may do that (root, Linux). The folder needs 1.5 times as much room as the
table.
"""

import argparse
import contextlib
import mmap
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn

from skfdp import DPSGDFClassifier
from skfdp.data import sources as files
from skfdp.solvers import NoisyGradientDescent, NoisySGD

RESULTS = Path(__file__).resolve().parents[1] / "results"
BLOCK = 2**23
#: Expected shares of the rows in a Poisson batch.
RATES = (0.001, 0.01, 0.1)


def make_table(path, n_rows, n_columns):
    """Write uniform numbers, and return the map of the file."""
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, n_columns))
    rng, size = np.random.default_rng(0), max(1, 2**25 // (4 * n_columns))
    block = rng.random((size, n_columns), dtype=np.float32)
    for start in range(0, n_rows, size):
        block = np.roll(block, 1, axis=1)
        X[start : start + size] = block[: n_rows - start]
    X.flush()
    return np.load(path, mmap_mode="r")


def drop_caches():
    """Let the system forget what it has read; return whether it does."""
    if FILES:  # what is mapped is in use
        FILES[-1][1].memory.madvise(mmap.MADV_DONTNEED)
    with contextlib.suppress(OSError):
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        return True
    return False


class Memory(threading.Thread):
    """The most anonymous memory of this process while it runs, in bytes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.running = 0, True
        self.before = self.now()

    @staticmethod
    def now():
        lines = Path("/proc/self/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith("RssAnon"))
        return 1024 * int(line.split()[1])

    def run(self):
        while self.running:
            self.most = max(self.most, self.now())
            time.sleep(0.01)

    def stop(self):
        self.running = False
        self.join()


class Rates:
    """Callback: times the steps of a fit, and plain readings of its rows between."""

    def __init__(self, reads):
        self.reads, self.steps, self.plain, self._began = reads, [], [], None

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **_):
        pass

    def on_fit_task_end(self, estimator, context, **_):
        if context.task_name != "step":
            return False
        if self._began is not None:
            self.steps.append(time.perf_counter() - self._began)
        if len(self.plain) < self.reads:
            self.plain.append(self.plain_reading())
        drop_caches()
        self._began = time.perf_counter()
        return False

    @staticmethod
    def plain_reading():
        """Return the seconds that the rows take without skfdp."""
        drop_caches()
        memory, place = bytearray(BLOCK), 0
        began = time.perf_counter()
        while got := os.preadv(FILES[-1][0], [memory], place):
            place += got
        return time.perf_counter() - began


#: A descriptor of each file of integer rows, and what reads it; made by a fit, it has
#: no name by which to open it again.
FILES = []


def keep_files():
    """Keep a descriptor of each file of rows that a fit makes."""
    read = files.RowFile.read

    def kept(file):
        descriptor = os.dup(file._file.fileno())
        values, reader = read(file)
        FILES.append((descriptor, reader))
        return values, reader

    files.RowFile.read = kept


def measured(X, y, rate, n_steps, reads, working_memory):
    """Fit once; return the times of steps and of plain readings, and the memory."""
    rates, n = Rates(reads), len(X)
    solver = NoisyGradientDescent(max_iter=n_steps + 1, normalize=True)
    if rate < 1:
        size = int(rate * n)
        solver = NoisySGD(max_iter=n_steps + 1, batch_size=size, normalize=True)
    model = DPSGDFClassifier(
        bounds=(0, 1),
        delta=1e-9,
        neighboring_relation="replace_special",
        solver=solver,
    )
    model.set_callbacks(rates)
    memory = Memory()
    memory.start()
    began = time.perf_counter()
    with sklearn.config_context(working_memory=working_memory):
        model.fit(X, y)
    whole = time.perf_counter() - began
    memory.stop()
    size = os.fstat(FILES[-1][0]).st_size
    os.close(FILES.pop()[0])
    held = 8 * n + 2 * n + 8 * n  # codes of y, once more in the loop, and norms
    before = whole - sum(rates.steps) - sum(rates.plain)
    return rates, memory, size, held, before


def line(rate, rates, memory, size, held, before):
    """Return one line of the table."""
    step, plain = np.median(rates.steps), np.median(rates.plain)
    used = (memory.most - memory.before) / 1e6
    cells = [
        f"{'full' if rate == 1 else rate:>6}",
        f"{size / 1e9:7.1f}",
        f"{size / plain / 1e9:9.2f}",
        f"{step:7.2f}",
        f"{rate * size / step / 1e9:9.2f}",
        f"{plain / step:6.2f}" if rate == 1 else "     -",
        f"{used:11.0f}",
        f"{held / 1e6:17.0f}",
        f"{before:15.0f}",
    ]
    return " ".join(cells)


HEAD = (
    "  rate rows GB read GB/s  step s rows GB/s  share MB in a fit labels, norms MB "
    "other passes s"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=0.2, help="of the table")
    parser.add_argument("--columns", type=int, default=512)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--working-memory", type=int, default=64, help="MiB")
    parser.add_argument("--rates", type=float, nargs="+", default=(1, *RATES))
    parser.add_argument("--out", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    tempfile.tempdir = str(folder)
    n_rows = int(arguments.gigabytes * 1e9 / 4 / arguments.columns)
    lines = []

    def say(text):
        lines.append(text)
        print(text, flush=True)

    try:
        rng = np.random.default_rng(1)
        small = rng.random((500, arguments.columns), dtype=np.float32)
        for solver in (NoisyGradientDescent, NoisySGD):  # compile
            DPSGDFClassifier(
                bounds=(0, 1),
                neighboring_relation="replace_special",
                solver=solver(max_iter=2, normalize=True),
            ).fit(small, rng.integers(0, 2, 500))
        X = make_table(folder / "X.npy", n_rows, arguments.columns)
        y = rng.integers(0, 2, len(X))
        keep_files()
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        say(
            f"float32 table of {len(X)} rows and {X.shape[1]} columns, "
            f"{arguments.gigabytes:g} GB; memory {total / 1e9:.0f} GB; "
            f"working_memory={arguments.working_memory} MiB; caches "
            f"{'dropped' if drop_caches() else 'kept'}; {platform.machine()}, "
            f"{os.cpu_count()} cores"
        )
        say(HEAD)
        for rate in arguments.rates:
            found = measured(
                X, y, rate, arguments.steps, arguments.steps, arguments.working_memory
            )
            say(line(rate, *found))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.out is not None:
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
