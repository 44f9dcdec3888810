"""
Protect patients with many visits
=================================

Real tables have several rows per person, and columns with unknown bounds. In the end
somebody wants to publish a score. This page handles all three on one budget: a model of
readmission from visits of patients, bounds released within the fit, and the area under
the ROC curve by clinic, with intervals.
"""

# %%
# The visits
# ----------
#
# Simulated: 20,000 patients in four clinics. Most have a visit or two, and some have
# dozens. Visits of one patient are similar. So they teach a model less than as many
# visits of different patients, and reveal more about this patient.

import numpy as np
import pandas as pd

rng, n_patients = np.random.default_rng(0), 20_000
n_visits = 1 + np.minimum(rng.geometric(0.3, n_patients) - 1, 30)
patient = np.repeat(np.arange(n_patients), n_visits)
n = len(patient)
clinic = rng.choice(["east", "north", "south", "west"], n_patients)[patient]
frailty = rng.normal(size=n_patients)[patient]
visits = pd.DataFrame(
    {
        "patient": patient,
        "clinic": clinic,
        "age": np.clip(rng.normal(58, 16, n_patients)[patient], 18, 99).round(),
        "glucose": np.exp(4.6 + 0.2 * frailty + 0.15 * rng.normal(size=n)).round(1),
        "enzyme": np.exp(3 + 0.9 * frailty + 0.5 * rng.normal(size=n)).round(1),
    }
)
hidden = {"east": 0.6, "north": 0.6, "south": 0.6, "west": 2.5}  # noise in the labels
risk = 1.2 * frailty + 0.03 * (visits["age"] - 58) - 0.5
readmitted = risk + visits["clinic"].map(hidden) * rng.logistic(size=n) > 0
readmitted = readmitted.rename("readmitted")
print(visits.head(4).to_string(index=False))
print(f"{n} visits of {n_patients} patients, one of them with {n_visits.max()}")

# %%
# Who is protected
# ----------------
#
# ``groups="patient"`` protects patients. If all private values in all visits of one
# patient were different, hardly anybody could tell from the results. Clinic and age are
# public, and so is which visits belong together. Training and test sets have different
# patients.

from skfdp import FeatureDPLogisticRegression, PrivacyLedger, private_score, report

table = visits.drop(columns="clinic")
train, test = patient < 12_000, patient >= 12_000

# %%
# The model
# ---------
#
# Nobody knows the bounds of the enzyme. ``bounds="private"`` finds them within the
# budget of the fit.

ledger = PrivacyLedger(epsilon=2.0, delta=1e-6, public=["age", "clinic"])
model = FeatureDPLogisticRegression(
    epsilon=1.0,
    delta=1e-6,
    bounds="private",
    public_features=["age"],
    classes=[False, True],
    ledger=ledger,
)
model.fit(table[train], readmitted[train], groups="patient")
for event in model.privacy_.events:
    print(f"{event.label:<14} of each {event.unit}")

# %%
# The number to publish
# ---------------------
#
# One release gives the areas under the ROC curves of all clinics. The intervals account
# for the noise and for the sampling of patients.

score = private_score(
    model,
    table[test],
    readmitted[test],
    epsilon=1.5,
    delta=1e-6,
    metrics="roc_auc",
    by=pd.Series(clinic[test], name="clinic"),
    groups="patient",
    ledger=ledger,
)
print(score)

# %%
# The exact areas can be drawn beside the released ones, because these patients are made
# up.

import matplotlib.pyplot as plt
from sklearn.metrics import roc_auc_score

margins = model.decision_function(table[test])
names = sorted(set(clinic))
figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
for place, name in enumerate(names):
    own, part = clinic[test] == name, score.by_value[name]
    low, high = part.intervals["roc_auc"]
    axes.plot([low, high], [place, place], color="C0", lw=3, solid_capstyle="round")
    axes.plot(part.values["roc_auc"], place, "o", color="C0")
    exact = roc_auc_score(readmitted[test][own], margins[own])
    axes.plot(exact, place, "|", color="black", ms=16)
axes.set_yticks(range(len(names)), names)
axes.set(xlabel="area under the ROC curve", title="released (dot, 95 %), exact (line)")
axes.set_ylim(-0.6, len(names) - 0.4)

# %%
# The statement
# -------------
#
# The fit and the score are charged to one ledger, which computes their total epsilon
# for a patient.

print(f"spent: {ledger.spent():.2f} of {ledger.epsilon}")
print(report(ledger).statement())
