"""
A threshold from a private score
================================

One patient in twelve comes back within a month. A model that is asked "more likely than
not?" finds nobody. One private score of held-out patients tells how good the model is,
and where to put the threshold: two answers for one charge.
"""

# %%
# The model
# ---------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skfdp import DPSGDFClassifier, PrivacyLedger, private_score, report

rng, n = np.random.default_rng(0), 40_000
patients = pd.DataFrame(rng.random((n, 4)), columns=["age", "crp", "stays", "bmi"])
odds = 5 * patients["age"] + 3 * patients["crp"] + 2 * patients["stays"] - 8.5
back = pd.Series(rng.random(n) < 1 / (1 + np.exp(-odds)), name="back")
print(f"{back.mean():.1%} come back")

ledger = PrivacyLedger(epsilon=2.0, delta=1e-6)
fitted, scored, later = np.split(np.arange(n), [16_000, 30_000])
model = DPSGDFClassifier(
    0.1,
    1e-6,
    bounds=(0, 1),
    classes=[False, True],
    ledger=ledger,
).fit(patients.loc[fitted], back[fitted])

# %%
# One release
# -----------
#
# The score counts patients by label and by bin of the score, with noise. The threshold
# 1/2 finds nobody:

score = private_score(
    model, patients.loc[scored], back[scored], 0.5, 1e-6, ledger=ledger
)
print(score)

# %%
# What follows from it
# --------------------
#
# A patient who is missed costs ten times as much as one who is called in vain. The
# threshold with the least mean cost is among the edges of the bins, and its gain is
# beyond the noise. The interval holds whichever edge had been chosen:

cost = {"false_positive": 1.0, "false_negative": 10.0}
chosen = score.best_threshold(cost)
low, high = chosen.interval
print(f"above {chosen.threshold:.3f}: saves {chosen.gain:.2f} [{low:.2f}, {high:.2f}]")

# %%
# ``apply`` gives a classifier of scikit-learn, with the report of fit and score. The
# ledger was charged twice, and not for the choice:

careful = chosen.apply(model)
print(type(careful).__name__)
print(f"report {report(careful).epsilon:.3f}, ledger {ledger.spent():.3f}")

# %%
# On patients who came later
# --------------------------
#
# Simulated patients can be asked again, without noise: what did each choice bring?


def mean_cost(classifier):
    called, truth = classifier.predict(patients.loc[later]), back[later]
    return (called & ~truth).mean() + 10 * (~called & truth).mean()


for name, one in (("1/2", model), ("chosen", careful)):
    print(f"threshold {name}: mean cost {mean_cost(one):.3f}")

thresholds = np.linspace(0.02, 0.6, 30)
p = model.predict_proba(patients.loc[later])[:, 1]
truth = back[later].to_numpy()
costs = [((p > t) & ~truth).mean() + 10 * ((p <= t) & truth).mean() for t in thresholds]
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
axes.plot(thresholds, costs)
axes.axvline(chosen.threshold, color="grey", linewidth=0.8)
axes.set(xlabel="threshold", ylabel="mean cost")
plt.show()
