"""
Handle missing values
=====================

Laboratory values are often missing for a reason. This page has three ways to treat
missing cells that learn nothing from private rows, and the usual way, which should not
be used.
"""

# %%
# A table with holes
# ------------------
#
# The enzyme is measured if a person is suspected to be ill, so it is informative
# whether a value is missing.

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
# The three ways are a separate level "missing" (with a schema), the middle of the
# bounds (the default of an estimator), and a declared value in a Pipeline.

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
# One way that learns
# -------------------
#
# The mean of a private column is a release without noise. The fit cannot see this
# earlier step, but the report does:

leaky = make_pipeline(
    SimpleImputer().set_output(transform="pandas"),
    FeatureDPLogisticRegression(**given, bounds=bounds),
).fit(rows[train], ill[train])
print(report(leaky).statement()[:330])

# %%
# ``dropna()`` is no better: which rows are left depends on private values, and these
# are the rows of suspected patients.
