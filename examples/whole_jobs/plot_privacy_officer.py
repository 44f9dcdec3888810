"""
Turn a CSV file into a statement to sign
========================================

A hospital wants to publish a model that predicts readmission. A privacy officer decides
whether it may. This page has every step: the file, the decisions to be taken *before*
anybody looks at the data, the fit, and the statement to be signed.
"""

# %%
# The file
# --------
#
# Each row is one patient, and each patient has one row. The records here are simulated;
# yours come from ``pandas.read_csv`` just the same.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
n = 6000
age = rng.integers(18, 95, n)
ward = rng.choice(["surgery", "internal", "cardiology"], n)
systolic = rng.normal(115 + 0.3 * (age - 50), 14, n).round()
drinks = rng.poisson(4, n)
risk = 0.04 * (age - 60) + 0.05 * (systolic - 125) + 0.25 * (drinks - 4)
readmitted = rng.random(n) < 1 / (1 + np.exp(-risk))
pd.DataFrame(
    {
        "age": age,
        "ward": ward,
        "systolic": systolic,
        "drinks_per_week": drinks,
        "readmitted": np.where(readmitted, "yes", "no"),
    }
).to_csv(folder / "patients.csv", index=False)

table = pd.read_csv(folder / "patients.csv")
table.head()

# %%
# What must be decided without the data
# -------------------------------------
#
# **Who is protected from what?** Age and ward are known to many people in the hospital
# and count as *public*: they are used exactly, and are not protected. Blood pressure,
# drinking habits and readmission are *private*.
#
# **Which values are possible?** Bounds come from medical knowledge. Minimum and maximum
# of the file would disclose two patients.
#
# **How much may be disclosed?** Epsilon 1 at delta one in a million, for all fits on
# this file together. The ledger stores this limit, and refuses a fit that would exceed
# it.

from skfdp import PrivacyLedger

public = ["age", "ward"]
private = ["systolic", "drinks_per_week"]
bounds = {
    "public__age": (0, 120),
    "private__systolic": (60, 220),
    "private__drinks_per_week": (0, 30),
}
ledger = PrivacyLedger(
    folder / "budget.sqlite", epsilon=1.0, delta=1e-6, dataset="patients 2026"
)

# %%
# The model
# ---------
#
# Steps before the model must learn nothing from private columns. Here the only step
# encodes the ward by *declared* names. The last rows are held out for a test inside the
# hospital.

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skfdp import FeatureDPLogisticRegression

wards = OneHotEncoder(
    categories=[["surgery", "internal", "cardiology"]], sparse_output=False
)
columns = ColumnTransformer(
    [
        ("ward", wards, ["ward"]),
        ("public", "passthrough", ["age"]),
        ("private", "passthrough", private),
    ]
).set_output(transform="pandas")
model = make_pipeline(
    columns,
    FeatureDPLogisticRegression(
        epsilon=0.8,
        delta=1e-6,
        public_features=["ward__*", "public__*"],
        bounds=bounds,
        classes=["no", "yes"],
        ledger=ledger,
    ),
)
train, test = table[:5000], table[5000:]
model.fit(train[public + private], train["readmitted"])

# %%
# This accuracy is an exact function of private records. Do not publish it:

accuracy = model.score(test[public + private], test["readmitted"])
print(f"accuracy on the held-out patients: {accuracy:.3f}")

# %%
# The statement
# -------------
#
# Without a guarantee the title would say VOID and the reason. If the package did not
# know a step, the title would say NOT CHECKED. Here it says neither: all categories of
# the encoder are declared, so the encoder learnt nothing. Below the title is what is
# protected, who is trusted, and how strong the protection is. The officer has to check
# each line of *Holds only if*.

from skfdp import report

statement = report(
    model,
    context={
        "data": "patients.csv, version 1",
        "date": "2026-11-25",
        "by": "R. Meyer, controlling",
        "purpose": "predict readmission",
    },
)
print(statement.statement())

# %%
# The same as a page for a browser or a printer, with the trade-off curve and an annex:

statement.to_html(folder / "statement.html")

# %%
# The same facts as a file for programs. Reading it checks that epsilon follows from the
# listed releases: an edited report is refused.

from skfdp.privacy import read_report

(folder / "report.json").write_text(statement.to_json(), encoding="utf-8")
received = read_report(folder / "report.json")
assert received == statement
received

# %%
# Delta against epsilon
# ---------------------
#
# Every point of this exact curve is a guarantee. The marked point is that of the
# statement.

from skfdp.privacy import compose

curve = compose(statement.events)
epsilons = np.linspace(0, 2 * statement.epsilon, 101)
plt.figure(figsize=(5.5, 3.8), layout="constrained")
plt.semilogy(epsilons, [curve.delta(epsilon) for epsilon in epsilons])
plt.plot(statement.epsilon, statement.delta, "o")
plt.xlabel("epsilon")
plt.ylabel("delta")

# %%
# What is left
# ------------
#
# A second fit at epsilon 0.8 would exceed the limit, a fit at 0.3 would not.
# ``what_if`` charges nothing.

from skfdp.privacy import calibrate

for epsilon in (0.8, 0.3):
    plan = calibrate(epsilon, 1e-6, n_steps=200)
    answer = ledger.what_if(plan)
    print(f"another fit at epsilon {epsilon}: allowed = {answer.allowed}")

# %%
# The ledger's own record, one row for each release:

record = pd.json_normalize([entry.to_dict() for entry in ledger.entries])
record[["date", "label", "event.label", "event.n_steps"]]
