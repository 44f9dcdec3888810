"""
Protect the label alone (label-DP)
==================================

A shop knows what its customers looked at. What they bought afterwards is private. If
every column is public and only the label is private (*label-DP*), one noisy release of
a statistic of the labels is enough. Everything after it is free: iterations, penalties,
intervals.
"""

# %%
# The same rows, two guarantees
# -----------------------------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from skfdp import FeatureDPLogisticRegression

rng, n = np.random.default_rng(0), 6000
names = ["minutes", "pages", "returning", "hour", "age", "banner"]
X = pd.DataFrame(rng.random((n, 6)), columns=names)
log_odds = 4 * X["minutes"] - 3 * X["pages"] + 1.5 * X["returning"] - 1.5
bought = rng.random(n) < 1 / (1 + np.exp(-log_odds.to_numpy()))
train, test = slice(0, 3000), slice(3000, None)
given = {"bounds": (0, 1), "classes": [False, True]}
ways = {
    "the label alone": lambda e: FeatureDPLogisticRegression(
        e, public_features="all", **given
    ),
    "everything": lambda e: FeatureDPLogisticRegression(e, **given),
}
epsilons = (0.05, 0.1, 0.3, 1.0, 3.0)
figure, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
for name, make in ways.items():
    scores = [
        [
            make(e).fit(X[train], bought[train]).score(X[test], bought[test])
            for _ in "123"
        ]
        for e in epsilons
    ]
    ax.semilogx(epsilons, np.mean(scores, axis=1), "o-", label=f"private: {name}")
free = LogisticRegression(C=1e4).fit(X[train], bought[train])
score = free.score(X[test], bought[test])
ax.axhline(score, color="k", linestyle=":", label="no privacy")
ax.set(xlabel="epsilon", ylabel="test accuracy (three fits)")
_ = ax.legend()

# %%
# Coefficients with intervals
# ---------------------------
#
# If every column is public, both errors of a weight can be computed: that of the noise,
# and that of sampling. So each weight has an interval.

model = ways["the label alone"](0.3).fit(X[train], bought[train])
table = model.coefficients_table().set_index("feature").drop("intercept")
print(table[["estimate", "std_error", "noise_std", "low", "high"]].round(2).to_string())

figure, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
middle = table["estimate"]
errors = [middle - table["low"], table["high"] - middle]
ax.errorbar(middle, table.index, xerr=errors, fmt="o", label="epsilon 0.3, 95 %")
ax.plot([4, -3, 1.5, 0, 0, 0], table.index, "kx", label="true")
ax.axvline(0, color="gray", linewidth=0.8)
ax.invert_yaxis()
_ = ax.legend()
