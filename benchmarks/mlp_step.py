"""One step of a 600-300-100 network at an expected batch of 12,332: time and memory.

Ours (clipped, exact integer sum with noise) against torch without privacy and Opacus'
ghost clipping, one thread, alternating, medians of the ratios within each round:

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/mlp_step.py

Memory is how far the peak of a fresh process rises in its first full step, after steps
on small batches. Opacus' hooks, which hold a gradient for each record, would need about
12,332 * 210,400 * 4 bytes = 10 GB at least and are not run.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

WIDTHS, BATCH, CLIP, NOISE = (600, 300, 100), 12_332, 0.01, 1.0
METHODS = ("numpy", "torch", "no privacy", "ghost")


def records(n_rows):
    """Return sparse binary rows and labels of the shape of Purchase100."""
    rng = np.random.default_rng(0)
    X = (rng.random((n_rows, WIDTHS[0])) < 0.09).astype(np.float32)
    return X, rng.integers(0, WIDTHS[-1], n_rows)


def ours(X, y, backend, dtype="float32"):
    """Return a step of skfdp: sum of clipped gradients, noise, update."""
    from skfdp.data.grid import GridRows
    from skfdp.mechanisms.release import _noisy_sum as release
    from skfdp.queries.linear import LOSSES
    from skfdp.queries.network import MLPQuery, Rows, precision

    bits = precision(dtype, WIDTHS[0] + 1)
    bound = WIDTHS[0] ** 0.5
    grid = GridRows.build(X, lambda block: block / bound, bias=1 / bound)
    query = MLPQuery(
        rows=Rows.build(grid, bound, bits.activation),
        target=y,
        loss=LOSSES["log_loss"],
        widths=(WIDTHS[0] + 1, *WIDTHS[1:]),
        bias=1.0,
        clip_norm=CLIP,
        capacity=16 * len(X),
        class_weight=np.ones(WIDTHS[-1]),
        precision=bits,
        backend=backend,
    )
    rng = np.random.default_rng(1)
    theta = 0.05 * rng.normal(size=query.shape)

    def step(n_rows):
        nonlocal theta
        total = release(
            query,
            theta,
            noise_std=NOISE * CLIP,
            generator=rng,
            batch=np.arange(n_rows),
        )
        theta = theta - 0.1 / n_rows / CLIP * total

    return step


def torch_step(X, y, ghost):
    """Return a step of torch, with Opacus' ghost clipping or without privacy."""
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Linear(a, b) for a, b in zip(WIDTHS, WIDTHS[1:], strict=False)]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
    rows, labels = torch.from_numpy(X), torch.from_numpy(y)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if ghost:
        from opacus import PrivacyEngine

        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(rows, labels), batch_size=BATCH
        )
        model, optimizer, criterion, _ = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            criterion=criterion,
            noise_multiplier=NOISE,
            max_grad_norm=CLIP,
            grad_sample_mode="ghost",
        )

    def step(n_rows):
        optimizer.zero_grad()
        criterion(model(rows[:n_rows]), labels[:n_rows]).backward()
        optimizer.step()

    return step


def make(method, X, y):
    """Return the step function of a method."""
    if method in ("numpy", "torch"):
        return ours(X, y, method)
    return torch_step(X, y, method == "ghost")


def memory(method) -> float:
    """Return by how many MB the peak of this process rises in a full step."""
    step = make(method, *records(BATCH))
    for _ in range(2):
        step(600)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew (Linux)
    before = _status("VmRSS")
    step(BATCH)
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    """Return a number of kB of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def main():
    """Print times, ratios and memory, as text and as one line of JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.memory_of:
        print(memory(options.memory_of))
        return
    X, y = records(BATCH)
    steps = {method: make(method, X, y) for method in options.methods}
    times = {method: [] for method in steps}
    for turn in range(options.rounds + 1):
        for method, step in steps.items():
            start = time.process_time()
            step(BATCH)
            if turn:  # the first round warms up
                times[method].append(time.process_time() - start)
    found = {}
    for method, seconds in times.items():
        ratios = np.asarray(seconds) / np.asarray(times[options.methods[0]])
        command = [sys.executable, __file__, "--memory-of", method]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[method] = {
            "ms": round(1000 * float(np.median(seconds)), 1),
            "over_ours": round(float(np.median(ratios)), 2),
            "extra_mb": round(float(done.stdout.split()[-1])),
        }
        print(f"{method:12} {found[method]}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
