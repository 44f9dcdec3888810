"""
Train a network, and when not to
================================

A straight line cannot separate two crescents. A small network could, but at a small
epsilon there is too much noise in its many weights. So the default network has random
neurons, which learn nothing and cost nothing, and fits a linear model to them.
"""

# %%
# Points that no line separates
# -----------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from skfdp import DPSGDFClassifier, FeatureDPMLPClassifier

X, y = make_moons(12_000, noise=0.15, random_state=0)
train, test = slice(0, 8000), slice(8000, None)
given = {"bounds": ([-1.5, -1.0], [2.5, 1.5]), "classes": [0, 1]}

# %%
# Three models
# ------------
#
# All have the same budget. DP-SGD trains all weights of the last one.

models = {
    "a line": DPSGDFClassifier(1.0, **given),
    "random neurons": FeatureDPMLPClassifier(1.0, **given),
    "all weights": FeatureDPMLPClassifier(1.0, solver="noisy-sgd", **given),
}

# %%
# What they learn
# ---------------

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
across, up = np.meshgrid(np.linspace(-1.5, 2.5, 80), np.linspace(-1, 1.5, 60))
places = np.column_stack([across.ravel(), up.ravel()])
some = X[:300]
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X[train], y[train])
    chance = model.predict_proba(places)[:, 1].reshape(across.shape)
    ax.contourf(across, up, chance, levels=np.linspace(0, 1, 9), cmap="RdBu", alpha=0.7)
    ax.scatter(*some.T, c=y[:300], cmap="RdBu", s=6, edgecolors="k", linewidths=0.2)
    ax.set_title(f"{name}: {model.score(X[test], y[test]):.1%}")
    ax.set_axis_off()

# %%
# On tables without interactions the network is as good as the line (:ref:`mlp`).
