"""
Patients with many visits
=========================

Real tables have several rows per person, columns whose bounds nobody knows, and at the
end somebody wants to publish a number. This page does all three on one budget: a model
of readmission from visits of patients, bounds released on the way, and the area under
the ROC curve by clinic, with intervals.
"""

# %%
# The visits
# ----------
#
# Simulated: 20,000 patients in four clinics, most with a visit or two and some with
# dozens. Visits of one patient are alike, so that they tell less than as many visits of
# different patients, and more about the one.

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
# With ``groups="patient"`` it is the patient: all visits of one patient together, with
# everything private in them, may be others, and hardly anybody could tell. The clinic
# and the age are public, and so is which visits belong together. Train and test hold
# different patients.

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
# One release tells the areas under the curves of all clinics. The intervals hold the
# noise and the chance of the patients.

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
# Here, and only here, the exact areas can be drawn beside them, because the patients
# are made up.

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
# Both releases are in one ledger, which says what they cost a patient together.

print(f"spent: {ledger.spent():.2f} of {ledger.epsilon}")
print(report(ledger).statement())
