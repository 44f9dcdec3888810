"""
Choose epsilon from made-up rows
================================

How large epsilon has to be depends mainly on the number of rows. You can find out from
made-up rows of the same shape. Do not use the table itself: trying several epsilons on
it is a search, which costs budget.
"""

# %%
# Made-up rows
# ------------
#
# The rows have as many columns as the real table, and a label that is about as hard to
# predict as you expect. They belong to nobody.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold, cross_val_score

from skfdp import FeatureDPLogisticRegression, UtilityWarning

# Fits warn if a budget is too small for a table. This page includes such fits.
warnings.simplefilter("ignore", UtilityWarning)

rng = np.random.default_rng(0)


def made_up(n, d=12):
    X = rng.random((n, d))
    margin = 10 * (X[:, :4].mean(axis=1) - 0.5)
    return X, rng.random(n) < 1 / (1 + np.exp(-margin))


# %%
# Accuracy against epsilon
# ------------------------
#
# There are three sizes, five budgets, and a fit for each of four folds, which do not
# depend on labels. Dashed lines are without privacy. The scores are exact, so use only
# rows that need no protection.

epsilons = (0.03, 0.1, 0.3, 1, 3)


def scores(X, y, epsilon):
    model = FeatureDPLogisticRegression(epsilon, bounds=(0, 1), classes=[False, True])
    return cross_val_score(model, X, y, cv=KFold(4))


figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for n, colour in zip((1000, 4000, 16_000), ("C0", "C1", "C2"), strict=True):
    X, y = made_up(n)
    found = np.array([scores(X, y, epsilon) for epsilon in epsilons])
    mean, spread = found.mean(axis=1), found.std(axis=1)
    ax.errorbar(epsilons, mean, spread, color=colour, marker="o", label=f"{n:,} rows")
    ax.axhline(scores(X, y, np.inf).mean(), color=colour, linestyle="--")
ax.set(xlabel="epsilon", ylabel="accuracy", xscale="log")
_ = ax.legend(loc="lower right")

# %%
# A line reaches its dashed line at an epsilon that falls with the number of rows: with
# ten times the rows, a tenth of the epsilon is enough. :ref:`choosing-epsilon` says
# what each epsilon guarantees to a person. Take the smallest epsilon with an acceptable
# accuracy.
#
# From other tables
# -----------------
#
# :func:`skfdp.metrics.expected_gap` returns the median and the quartiles of the loss of
# default fits on other tables: 0 means as good as a model without privacy, 1 only as
# good as a constant. It does not need your table. ``plan`` shows the same for a fit.

from skfdp.metrics import expected_gap

sizes = np.geomspace(100, 100_000, 61).astype(int)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
titles = ("nothing public", "the target alone is private")
for ax, public, title in zip(axes, ("nothing", "columns"), titles, strict=True):
    for epsilon in (0.1, 0.3, 1.0, 3.0):
        gaps = np.array([expected_gap(epsilon, n, public=public) for n in sizes])
        ax.plot(sizes, gaps[:, 1], label=f"epsilon {epsilon:g}")
        ax.fill_between(sizes, gaps[:, 0], gaps[:, 2], alpha=0.15)
    ax.set(title=title, xlabel="records", xscale="log", ylim=(0, 1.2))
axes[0].set_ylabel("lost share of the gain")
axes[1].legend()

# %%
# A table of half the records needs twice the epsilon for the same result.
