"""Calibration, imports, and the first fit of a process."""

import subprocess
import sys
import time

from skfdp.privacy import calibrate

FIT = """
import time, warnings
import numpy as np
warnings.simplefilter("ignore")
X = np.random.default_rng(0).random((500, 20))
y = np.arange(500) % 2
start = time.perf_counter()
from skfdp import DPSGDFClassifier
from skfdp.solvers import NoisyGradientDescent
DPSGDFClassifier(bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2)).fit(X, y)
print(time.perf_counter() - start)
"""


class Calibration:
    params = [1.0, 0.05]
    param_names = ["sampling_rate"]

    def setup(self, sampling_rate):
        self.number = 0

    def time_calibrate(self, sampling_rate):
        # Never the same budget twice: results are memoised.
        self.number += 1
        epsilon = 1.0 + 1e-6 * self.number + 1e-3 * (time.time() % 1)
        calibrate(epsilon, 1e-5, n_steps=1000, sampling_rate=sampling_rate)

    time_calibrate.number = 1
    time_calibrate.repeat = 5


class ColdStart:
    """Seconds in a new process; caches on disk are warm."""

    unit = "s"

    def setup(self):
        self.run(FIT)

    @staticmethod
    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    def best_import(self, module):
        code = (
            "import time; start = time.perf_counter(); "
            f"import {module}; print(time.perf_counter() - start)"
        )
        return min(self.run(code) for _ in range(3))

    def track_import(self):
        return self.best_import("skfdp")

    def track_import_of_sklearn_base(self):
        return self.best_import("sklearn.base")

    def track_first_fit(self):
        return min(self.run(FIT) for _ in range(3))
