"""
Choose bounds of private columns
================================

Every private column needs bounds that are known beforehand. Bounds that are too narrow
clip values that matter. With bounds that are too wide, rescaled values differ little,
and noise hides the differences. This page measures both, and shows what to do if nobody
knows bounds.
"""

# %%
# A column with a long tail
# -------------------------
#
# The other column has well-known bounds.

import matplotlib.pyplot as plt
import numpy as np

from skfdp import FeatureDPLogisticRegression, private_bounds

rng, n = np.random.default_rng(0), 12_000
X = np.column_stack([rng.lognormal(3, 0.6, n), rng.normal(100, 15, n)])
y = 0.8 * np.log(X[:, 0]) + X[:, 1] / 30 + 0.5 * rng.normal(size=n) > 5.7
train, test = slice(0, 8000), slice(8000, None)
largest = np.quantile(X[:, 0], 0.99)  # for this page: the truth is made up


def accuracy(bounds, epsilon=1.0):
    model = FeatureDPLogisticRegression(epsilon, bounds=bounds, classes=[False, True])
    return model.fit(X[train], y[train]).score(X[test], y[test])


# %%
# From far too narrow to far too wide
# -----------------------------------

factors = np.array([0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32])
bounds = [([0, 50], [factor * largest, 150]) for factor in factors]
scores = [[accuracy(one) for _ in range(3)] for one in bounds]

# %%
# If nobody knows bounds
# ----------------------
#
# ``private_bounds`` releases bounds for a budget of its own, here a fifth of epsilon.

found = [private_bounds(X[train], epsilon=0.2) for _ in range(3)]
for column, (low, high) in found[0].bounds.items():
    print(f"column {column}: {low:.1f} to {high:.1f}")
released = np.mean([accuracy(one.bounds, epsilon=0.8) for one in found])

figure, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
ax.semilogx(factors, np.mean(scores, axis=1), "o-", label="declared, epsilon 1")
ax.axhline(released, color="tab:orange", linestyle="--", label="released, 0.2 of 1")
ax.axvline(1, color="gray", linestyle=":", label="1 % of the values are cut")
ax.set(xlabel="upper bound / what holds 99 %", ylabel="accuracy (three fits)")
_ = ax.legend()

# %%
# Bounds that are eight times too wide cost next to nothing, bounds that are thirty
# times too wide cost much accuracy. Narrow bounds may clip a few values, but not half
# of them. So the range in a textbook is good enough. ``X.max()`` is never needed, and
# would be the value of one person.
