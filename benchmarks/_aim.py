"""AIM (McKenna et al. 2022, algorithm 4) on the inference of mbi, for `rivals.py`."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import brentq

#: Bins of a number; the largest model in MB (80 in the paper, which takes hours); rows
#: of the model that tell its tables, with an error that is small beside the noise.
N_BINS, MOST_MB, N_DRAWN = 16, 1.0, 100_000


def concentrated(epsilon: float, delta: float) -> float:
    """Return the rho of zero-concentrated privacy that gives (epsilon, delta)."""
    orders = 1 + np.geomspace(1e-3, 1e4, 4000)

    def excess(rho: float) -> float:
        power = (orders - 1) * (orders * rho - epsilon)
        power += orders * np.log1p(-1 / orders) - np.log(orders - 1)
        return power.min() - math.log(delta)

    return brentq(excess, 1e-12, 10 * epsilon + 1)


def synthetic(
    codes: np.ndarray, sizes: list[int], epsilon: float, delta: float, seed: int
) -> np.ndarray:
    """Return synthetic rows of codes, the last column being the label.

    The workload are the tables of two columns and the label. Adding or removing a row
    moves a table by 1. A round picks the table that the model has worst, measures it
    with Gaussian noise, and fits the model to all noisy tables.
    """
    from mbi import Dataset, Domain, LinearMeasurement
    from mbi.clique_utils import downward_closure
    from mbi.estimation import MirrorDescent
    from mbi.junction_tree import hypothetical_model_size

    rng = np.random.default_rng([seed, 28])
    np.random.seed(seed)  # noqa: NPY002 (mbi draws from NumPy's global state)
    *columns, label = names = [f"c{k:02}" for k in range(len(sizes))]
    domain = Domain(names, sizes)
    data = Dataset(dict(zip(names, codes.T, strict=True)), domain)
    workload = [(*pair, label) for pair in itertools.combinations(columns, 2)]
    weight = {
        table: sum(len({*table} & {*wanted}) for wanted in workload)
        for table in downward_closure(workload)
    }
    truth = {table: data.project(table).datavector() for table in weight}
    total, measured, before, model = concentrated(epsilon, delta), [], {}, None
    bias: dict[tuple, float] = {}
    rounds, chosen = 16 * len(names), [(name,) for name in names]
    std, choice = math.sqrt(rounds / 1.8 / total), math.sqrt(0.8 * total / rounds)
    used = len(names) / 2 / std**2

    def told(tables: list[tuple]) -> dict[tuple, np.ndarray]:
        rows, share = model.synthetic_data(N_DRAWN), float(model.total) / N_DRAWN
        return {t: share * rows.project(t).datavector() for t in tables}

    while True:
        for table in chosen:
            noisy = truth[table] + std * rng.normal(size=len(truth[table]))
            measured.append(LinearMeasurement(noisy, table, std))
        steps = 100 if before else 1000
        model = MirrorDescent().estimate(
            domain, measured, iters=steps, warm_start=model
        )
        for table in before.keys() & {*chosen}:
            if np.abs(told(chosen)[table] - before[table]).sum() <= bias[table]:
                std, choice = std / 2, 2 * choice
        left = total - used
        if left < 1e-9 * total:
            break
        if left < 2 * (choice**2 / 8 + 0.5 / std**2):  # the last round
            std, choice = math.sqrt(1 / 1.8 / left), math.sqrt(0.8 * left)
        used += choice**2 / 8 + 0.5 / std**2
        known, small = [m.clique for m in measured], MOST_MB * used / total
        tables = [
            table
            for table in weight
            if any({*table} <= {*own} for own in known)
            or hypothetical_model_size(domain, [*known, table]) <= small
        ]
        before = told(tables)
        bias = {t: math.sqrt(2 / math.pi) * std * len(truth[t]) for t in tables}
        gain = [
            weight[t] * (np.abs(truth[t] - before[t]).sum() - bias[t]) for t in tables
        ]
        scores = choice / 2 / max(weight[t] for t in tables) * np.array(gain)
        chosen = [tables[int(np.argmax(scores + rng.gumbel(size=len(scores))))]]
    rows = model.synthetic_data().to_dict()
    return np.column_stack([rows[name] for name in names])
