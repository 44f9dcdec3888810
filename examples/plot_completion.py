"""
Trees, when the label is public
===============================

A boosted tree looks at the rows again and again, so noise in every look would drown it.
If the label is public, there is another way: release what the private columns are like
in each class, once, complete the records by drawing from that, and train whatever one
likes on the completed records.
"""

# %%
# A rule that is no line
# ----------------------
#
# Who churned is known to everybody, and so are two columns, which tell it by their
# product. Two more columns are private.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from skfdp import FeatureDPLogisticRegression, PrivateCompletionClassifier

rng, n = np.random.default_rng(0), 9000
churned = rng.integers(0, 2, n)
sign = np.where(churned == 1, 1, -1)
first = rng.uniform(-1, 1, n)
second = np.where(rng.random(n) < 0.75, sign, -sign) * np.sign(first) * rng.random(n)
private = 0.5 + 0.12 * sign[:, None] + 0.22 * rng.normal(size=(n, 2))
X = np.column_stack([first, second, np.clip(private, 0, 1)])
train, test = slice(0, 5000), slice(5000, None)
bounds = ([-1, -1, 0, 0], [1, 1, 1, 1])

# %%
# Four models
# -----------

trees = HistGradientBoostingClassifier(random_state=0)
given = {"public_features": [0, 1], "bounds": bounds}
models = {
    "lines, epsilon 1": FeatureDPLogisticRegression(1.0, public_target=True, **given),
    "trees, epsilon 1": PrivateCompletionClassifier(trees, epsilon=1.0, **given),
    "trees, public columns": trees,
    "trees, no privacy": trees,
    "lines, no privacy": LogisticRegression(),
}
scores = {}
for name, model in models.items():
    columns = slice(0, 2) if "public columns" in name else slice(None)
    model.fit(X[train][:, columns], churned[train])
    scores[name] = model.score(X[test][:, columns], churned[test])
    print(f"{name:24s}{scores[name]:.3f}")

figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
colours = ["tab:blue" if "epsilon" in name else "lightgray" for name in scores]
ax.barh(list(scores), list(scores.values()), color=colours)
ax.set(xlim=(0.5, 0.9), xlabel="test accuracy")
ax.invert_yaxis()

# %%
# The trees never met a private value, so that they could even be tuned on the completed
# records for nothing. :ref:`completion` says when this is better than a linear model,
# and when not.

print([event.label for event in models["trees, epsilon 1"].privacy_.events])
