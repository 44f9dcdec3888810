"""
Search for parameters within the budget
=======================================

A setting that was chosen by its results on private rows reveals something about them.
There are three ways to choose one: trust the defaults, search within the budget, or fit
all candidates and pay for all of them.
"""

# %%
# The task
# --------

import matplotlib.pyplot as plt
import numpy as np

from skfdp import DPSGDFClassifier, report
from skfdp.experimental import PrivateSearchCV
from skfdp.privacy import gdp_epsilon, gdp_mu
from skfdp.solvers import NoisyGradientDescent

rng, n, epsilon, delta = np.random.default_rng(0), 8000, 1.0, 1e-5
X = rng.random((n, 10))
y = rng.random(n) < 1 / (1 + np.exp(-12 * (X[:, :3].mean(axis=1) - 0.5)))
train, test = slice(0, 6000), slice(6000, None)
clips = [0.05, 0.2, 0.8, 3.2]
settings = {"solver__clip_norm": clips, "solver__normalize": [True, False]}
given = {"bounds": (0, 1), "classes": [False, True]}

# %%
# Three ways
# ----------
#
# The search makes a random number of runs, three on average here, and publishes only
# the best one. The grid publishes eight models, so each gets an eighth of the squared
# Gaussian-DP parameter.


def defaults():
    return DPSGDFClassifier(epsilon, delta, **given)


def search():
    return PrivateSearchCV(
        DPSGDFClassifier(**given, solver=NoisyGradientDescent()),
        settings,
        epsilon=epsilon,
        delta=delta,
        mean_runs=3,
    )


each = gdp_epsilon(delta, gdp_mu(epsilon, delta) / np.sqrt(8))


def one_of_eight():
    clip, normalize = rng.choice(clips), rng.choice([True, False])
    solver = NoisyGradientDescent(clip_norm=float(clip), normalize=bool(normalize))
    return DPSGDFClassifier(each, delta, **given, solver=solver)


scores = {}
for name, make in {
    "defaults": defaults,
    "private search": search,
    "any of eight fits": one_of_eight,
}.items():
    models = [make().fit(X[train], y[train]) for _ in range(8)]
    scores[name] = [model.score(X[test], y[test]) for model in models]
    spent = models[0].privacy_.epsilon
    print(f"{name:18s} {np.mean(scores[name]):.3f}, epsilon {spent:.2f}")

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.boxplot(list(scores.values()), orientation="horizontal")
ax.set_yticks([1, 2, 3], list(scores))
ax.set_xlabel("test accuracy, eight repetitions")
ax.invert_yaxis()

# %%
# The label depends on a sum of columns, so the length of a row is informative, and
# ``normalize=True`` discards it. The search has to find this out, with fewer rows and
# less budget for each run. The defaults keep the length, and spend nothing on a search.
# A search is useful if the best setting is far from the defaults (:ref:`tuning`).

found = search().fit(X[train], y[train])
print(found.best_params_, f"noisy score {found.best_score_:.3f}")
print(f"one statement for all: epsilon {report(found).epsilon:.2f}")
