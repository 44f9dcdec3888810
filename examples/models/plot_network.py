"""
Train a network, and when not to
================================

A straight line cannot separate two crescents. A small network could, but at a small
epsilon there is too much noise in its many weights. A linear model on fixed non-linear
features can: features that learn nothing from private rows cost nothing.
"""

# %%
# Points that no line separates
# -----------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfdp import DPSGDFClassifier, FeatureDPMLPClassifier, report

X, y = make_moons(12_000, noise=0.15, random_state=0)
train, test = slice(0, 8000), slice(8000, None)
bounds = ([-1.5, -1.0], [2.5, 1.5])

# %%
# Three models
# ------------
#
# The features are 60 smooth bumps. They are fitted on random positions, drawn without
# the data, so they are public.

grid = np.random.default_rng(1).uniform(*bounds, (400, 2))
bumps = Nystroem(gamma=3.0, n_components=60, random_state=0).fit(grid)


def bumped(X):
    return bumps.transform(np.clip(X, *bounds))


given = {"classes": [0, 1]}
models = {
    "a line": DPSGDFClassifier(1.0, bounds=bounds, **given),
    "a network": FeatureDPMLPClassifier(
        1.0, hidden_layer_sizes=(50,), bounds=bounds, **given
    ),
    "bumps and a line": make_pipeline(
        FunctionTransformer(bumped), DPSGDFClassifier(1.0, bounds=False, **given)
    ),
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
# All three have the same budget. A report cannot see what your own function learns, and
# says so. Networks are useful if a public target gives them a start (:ref:`mlp`).

found = report(models["bumps and a line"])
print(f"epsilon {found.epsilon:.2f}; cannot see into: {found.unknown_steps[0]}")
