"""Time of a training step of a network, by backend, and whether the results are equal.

    python benchmarks/reproduce/network_devices.py

DP-SGD of the network of Purchase100 (600 binary columns, 100 classes, 256 neurons) on
60,000 generated rows, in Poisson batches. The time of a step is the difference between
a fit of many steps and a fit of few, so it includes sampling, noise and exact sums, but
not what a fit does once. "cuda" is measured if PyTorch finds a device.
"""

import platform
import time
import warnings
from importlib.metadata import version

import numpy as np
import torch

from skfdp import FeatureDPMLPClassifier
from skfdp.solvers import NoisySGD, NumpyBackend, TorchBackend

ROWS, COLUMNS, CLASSES, NEURONS = 60_000, 600, 100, 256
BATCHES = (2_048, 16_384)
FEW, MANY, REPEATS = 4, 24, 3


def table():
    """Return binary columns, and classes that depend on them."""
    rng = np.random.default_rng(0)
    X = (rng.random((ROWS, COLUMNS)) < 0.3).astype(np.float32)
    return X, (X @ rng.normal(size=(COLUMNS, CLASSES)).astype(np.float32)).argmax(1)


def fit(X, y, backend, batch, steps):
    """Return the weights of a network, and the seconds of the fit."""
    model = FeatureDPMLPClassifier(
        epsilon=8.0,
        hidden_layer_sizes=(NEURONS,),
        bounds=(0, 1),
        classes=range(CLASSES),
        solver=NoisySGD(batch_size=batch, max_iter=steps, clip_norm=0.5),
        backend=backend,
        random_state=0,
    )
    start = time.perf_counter()
    model.fit(X, y)
    return model.coefs_, time.perf_counter() - start


def step(X, y, backend, batch):
    """Return the weights after many steps, and the least time of a step."""
    coefs, many = min(
        (fit(X, y, backend, batch, MANY) for _ in range(REPEATS)), key=lambda f: f[1]
    )
    few = min(fit(X, y, backend, batch, FEW)[1] for _ in range(REPEATS))
    return coefs, (many - few) / (MANY - FEW)


def main():
    warnings.simplefilter("ignore")
    X, y = table()
    devices = ["cpu"]
    print(f"{platform.machine()}, {torch.get_num_threads()} threads", end="")
    for name in ("numpy", "torch"):
        print(f", {name} {version(name)}", end="")
    if torch.cuda.is_available():
        devices.append("cuda")
        print(f", {torch.cuda.get_device_name()}", end="")
    print(f"\n{ROWS:,} rows, {COLUMNS}-{NEURONS}-{CLASSES} neurons; ms of a step")
    print(f"{'':24}" + "".join(f"{f'batch {batch:,}':>16}" for batch in BATCHES))
    for dtype in ("float32", "float64"):
        backends = {"numpy": NumpyBackend(dtype=dtype)}
        for device in devices:
            backends[f"torch {device}"] = TorchBackend(dtype=dtype, device=device)
        fits = {
            name: [step(X, y, backend, batch) for batch in BATCHES]
            for name, backend in backends.items()
        }
        for name, found in fits.items():
            equal = all(
                np.array_equal(a, b)
                for (coefs, _), (expected, _) in zip(found, fits["numpy"], strict=True)
                for a, b in zip(coefs, expected, strict=True)
            )
            times = "".join(f"{1e3 * seconds:16.1f}" for _, seconds in found)
            verdict = "" if name == "numpy" else f"  same weights: {equal}"
            print(f"{f'{name}, {dtype}':24}{times}{verdict}")


if __name__ == "__main__":
    main()
