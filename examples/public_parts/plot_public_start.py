"""
Start from a public model of other data
=======================================

A model of another country, of last decade, or of a public survey is wrong for this
table, but better than nothing. A private fit can start from what this model says about
the public columns, so the budget pays only for the difference.
"""

# %%
# Two tables
# ----------
#
# Eight columns are public; twelve columns and the label are private. The other table
# needs no protection. It has the same columns and somewhat different weights.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skfdp import FeatureDPLogisticRegression, UtilityWarning, report

# At the smallest epsilon the fits warn that there is little to learn.
warnings.simplefilter("ignore", UtilityWarning)

rng, d, public = np.random.default_rng(0), 20, list(range(8))
weights = 3 * rng.normal(size=d)
elsewhere = weights + rng.normal(size=d)


def table(weights, n):
    X = rng.random((n, d))
    return X, rng.random(n) < 1 / (1 + np.exp(-(X - 0.5) @ weights))


X_other, y_other = table(elsewhere, 5000)
X, y = table(weights, 2000)
X_test, y_test = table(weights, 10_000)

# %%
# With and without this model
# ---------------------------
#
# A ``public_model`` that is already fitted is not fitted again. Its inputs are the
# public columns, scaled as the private fit scales them: by their bounds, to [0, 1].

start = LogisticRegression(C=10).fit(X_other[:, public], y_other)
epsilons = (0.03, 0.1, 0.3, 1.0, 3.0)


def model(epsilon, **more):
    given = {"bounds": (0, 1), "classes": [False, True], "public_features": public}
    return FeatureDPLogisticRegression(epsilon, **given, **more).fit(X, y)


def scores(**more):
    fits = [
        [model(e, **more).score(X_test, y_test) for _ in range(3)] for e in epsilons
    ]
    return np.mean(fits, axis=1)


figure, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
ax.semilogx(epsilons, scores(public_model=start), "o-", label="from the other table")
ax.semilogx(epsilons, scores(), "s-", label="from class frequencies")
alone = start.score(X_test[:, public], y_test)
ax.axhline(alone, ls="--", color="gray", label="the other table's model alone")
free = LogisticRegression(C=10).fit(X, y).score(X_test, y_test)
ax.axhline(free, ls=":", color="k", label="no privacy")
ax.set(xlabel="epsilon", ylabel="test accuracy (three fits)")
_ = figure.legend(loc="outside upper right", ncols=2, fontsize="small")

# %%
# The start is a parameter like any other. The statement assumes that it was chosen
# without private rows:

for assumption in report(model(1.0, public_model=start)).assumptions:
    if "constructor parameter" in assumption.text:
        print("-", assumption.text)
