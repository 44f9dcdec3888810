"""Statistics of the Purchase100 stand-in that its documentation quotes."""

import argparse
import warnings

import numpy as np
from sklearn.neural_network import MLPClassifier

from skfdp.datasets import make_purchase100

TEST = 4000


def main(argv: list[str] | None = None) -> None:
    """Print baskets, class sizes and accuracies without privacy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000, help="training rows")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    n = options.rows
    X, y = make_purchase100(n + TEST, random_state=0)
    baskets = X.sum(axis=1)
    shares = np.sort(np.bincount(y, minlength=100)) / len(y)
    print(f"basket: mean {baskets.mean():.1f}, percentiles 1, 50, 99:", end=" ")
    print(np.quantile(baskets, [0.01, 0.5, 0.99]))
    print(f"class shares: {shares[0]:.4f} to {shares[-1]:.4f}")
    rows = X.astype(np.float32)
    public = np.random.default_rng(0).permutation(600)[:100]
    for name, columns in (("all columns", slice(None)), ("100 columns", public)):
        model = MLPClassifier((300,), max_iter=10, random_state=0)
        model.fit(rows[:n, columns], y[:n])
        print(f"{name}: {100 * model.score(rows[n:, columns], y[n:]):.1f} %")


if __name__ == "__main__":
    main()
