"""
Handle missing values
=====================

A laboratory value that nobody asked for is missing for a reason. Here are the ways to
go on with such cells that learn nothing from private rows, and the one that is used
most and should not be.
"""

# %%
# A table with holes
# ------------------
#
# The second value is measured where somebody is suspected to be ill, so that its being
# there tells something.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skfdp import FeatureDPLogisticRegression, TableSchema, report
from skfdp.schema import Label, Number

rng, n = np.random.default_rng(0), 12_000
ill = rng.random(n) < 0.3
rows = pd.DataFrame({"age": rng.integers(18, 90, n).astype(float)})
rows["enzyme"] = np.clip(40 + 12 * ill + 20 * rng.normal(size=n), 0, 120).round()
measured = rng.random(n) < np.where(ill, 0.7, 0.3)
rows.loc[~measured, "enzyme"] = np.nan
train, test = slice(0, 8000), slice(8000, None)
print(rows.head(4).to_string())

# %%
# Three ways without learning
# ---------------------------
#
# A level of its own for "missing" (a schema), the middle of the bounds (what an
# estimator takes by itself), and a declared value in a Pipeline.

bounds = {"age": (18, 100), "enzyme": (0, 120)}
given = {"epsilon": 1.0, "classes": [False, True]}
columns = {name: Number(*pair) for name, pair in bounds.items()}
schema = TableSchema({**columns, "ill": Label([False, True])}, outcomes=["ill"])
normal = SimpleImputer(strategy="constant", fill_value=35.0, keep_empty_features=True)
normal.set_output(transform="pandas")
ways = {
    "a level of its own": FeatureDPLogisticRegression(schema=schema),
    "middle of the bounds": FeatureDPLogisticRegression(**given, bounds=bounds),
    "a declared value": make_pipeline(
        normal, FeatureDPLogisticRegression(**given, bounds=bounds)
    ),
}
areas = {}
for name, model in ways.items():
    model.fit(rows[train], ill[train])
    chance = model.predict_proba(rows[test])[:, 1]
    areas[name] = roc_auc_score(ill[test], chance)
    print(f"{name:22s} epsilon {report(model).epsilon:.2f}, area {areas[name]:.3f}")

figure, ax = plt.subplots(figsize=(5.5, 2.6), layout="constrained")
ax.barh(list(areas), list(areas.values()), color="tab:blue")
ax.set(xlim=(0.5, 0.8), xlabel="area under the ROC curve")
ax.invert_yaxis()

# %%
# And one that learns
# -------------------
#
# The mean of a private column is a release without noise. The fit cannot see it, since
# it happens before, but the report does:

leaky = make_pipeline(
    SimpleImputer().set_output(transform="pandas"),
    FeatureDPLogisticRegression(**given, bounds=bounds),
).fit(rows[train], ill[train])
print(report(leaky).statement()[:330])

# %%
# ``dropna()`` is no better: which rows are left then depends on private values, and the
# model learns from the suspected alone.
