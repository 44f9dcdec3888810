"""Totals and D2 of claims, and their costs, from known rates over 1 to 365 days.

    python benchmarks/reproduce/exposure.py    # writes results/exposure.txt

The errors of the total are root mean squares over tables and fits, and those of D2 are
means, both relative to a fit without privacy. Rows are new.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import d2_tweedie_score

from skfdp import FeatureDPRegressor, TableSchema
from skfdp.schema import Category, Number

RESULTS = Path(__file__).parents[1] / "results" / "exposure.txt"
AREAS = list("ABCD")
OUTCOMES = {"claims": ("poisson", 1, (0, 10)), "cost": ("gamma", 2, (0.001, 20_000))}


def table(seed, n=40_000):
    """Return contracts with claims and costs; half of the rows are for testing."""
    rng = np.random.default_rng(seed)
    age, power = rng.uniform(18, 80, n), rng.uniform(40, 200, n)
    area, days = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]), rng.integers(1, 366, n)
    log = 0.8 * np.exp((18 - age) / 12) + (power - 100) / 150
    mean = 0.3 / 365 * days * np.exp(log + np.array([0, 0.2, 0.4, 0.7])[area])
    found = {"age": age, "power": power, "area": np.array(AREAS)[area], "days": days}
    cost = rng.gamma(days / 90, 3000 * mean / (days / 90)) + 1e-3
    return pd.DataFrame(found | {"claims": rng.poisson(mean), "cost": cost})


def main(n_seeds=12):
    """Write one row for each outcome and kind of exposure."""
    warnings.simplefilter("ignore")
    lines = [f"epsilon 1, 20,000 rows, {n_seeds} tables; D2 without privacy, lost"]
    for outcome, (loss, power, bounds) in OUTCOMES.items():
        for public in (False, True):
            found = []
            for seed in range(n_seeds):
                rows = table(seed)
                fitted, new = rows[:20_000], rows[20_000:]
                columns = {"age": Number(18, 80), "power": Number(40, 200)}
                columns["area"] = Category(AREAS)
                columns["days"] = Number(0, 366, public=public)
                columns[outcome] = Number(*bounds)
                schema = TableSchema(columns, outcomes=[outcome], exposure="days")
                given = {"schema": schema, "loss": loss, "random_state": seed}
                free = FeatureDPRegressor(np.inf, alpha=1e-4, **given)
                y, days = fitted[outcome], new["days"]
                sums = [
                    m.fit(fitted, y).predict(new)
                    for m in (free, FeatureDPRegressor(1.0, **given))
                ]
                weighted = {"sample_weight": days, "power": power}
                scores = [
                    d2_tweedie_score(new[outcome] / days, one / days, **weighted)
                    for one in sums
                ]
                total = sums[1].sum() / sums[0].sum() - 1
                found.append((total**2, scores[0], scores[0] - scores[1]))
            square, best, lost = np.mean(found, axis=0)
            kind = "public" if public else "private"
            text = f"{outcome:7}{kind:8} total +-{100 * np.sqrt(square):.1f} %"
            lines.append(f"{text}   D2 {best:.3f}, lost {lost:+.4f}")
            print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
