"""
Train a model every month on one budget
=======================================

A team trains the same model again every month, as new records arrive. Each fit costs
privacy. Two ways to keep the budget: to train on everything each time, until the
limit stops it; or to train on a window of the last months, so that each record takes
part in a bounded number of fits.
"""

# %%
# Records arrive
# --------------
#
# Three thousand records a month, in the order of their arrival. A record keeps its
# position for ever: that order depends on nothing private, which is what makes
# positions usable for accounting.

import tempfile
from pathlib import Path

import numpy as np

from skfdp import DPSGDFClassifier, PrivacyBudgetError, PrivacyLedger

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
per_month, n_months, d = 3000, 12, 6
weights = rng.normal(size=d)
X = rng.random((per_month * n_months, d))
y = (X - 0.5) @ weights + 0.1 * rng.normal(size=len(X)) > 0


def new_model(ledger):
    return DPSGDFClassifier(epsilon=0.5, delta=1e-6, bounds=(0, 1), ledger=ledger)


# %%
# Everything, every month
# -----------------------
#
# The ledger is a file, so that each month's job finds what earlier ones spent. When the
# limit is reached, the fit is refused before it looks at the data. The model of the
# month before stays in service.

path = folder / "everything.sqlite"
PrivacyLedger(path, epsilon=1.5, delta=1e-6)  # once: the limit is kept in the file
spent = []

for month in range(n_months):
    rows = slice(0, per_month * (month + 1))
    try:
        new_model(PrivacyLedger(path)).fit(X[rows], y[rows])
    except PrivacyBudgetError as error:
        print(f"month {month + 1}: {error}")
        break
    spent.append(PrivacyLedger(path).spent())
    print(f"month {month + 1}: epsilon {spent[-1]:.2f} spent")

# %%
# A window of three months
# ------------------------
#
# ``ledger.part(rows=...)`` charges the records of the window alone. No record is in
# more than three fits, so the data set never spends more than three fits cost, however
# long the team goes on. Each model sees fewer records: that is the price.

window = PrivacyLedger(folder / "window.sqlite", epsilon=1.5, delta=1e-6)
of_window = []

for month in range(n_months):
    rows = range(per_month * max(0, month - 2), per_month * (month + 1))
    chosen = slice(rows.start, rows.stop)
    model = new_model(window.part(rows=rows)).fit(X[chosen], y[chosen])
    of_window.append(window.spent())
    print(f"month {month + 1}: epsilon {of_window[-1]:.2f} spent", end="")
    fresh = slice(rows.stop, rows.stop + per_month)  # next month's records
    if month + 1 < n_months:  # exact numbers, for the team only
        print(f", accuracy next month {model.score(X[fresh], y[fresh]):.3f}", end="")
    print()

# %%
# Where the budget went
# ---------------------

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
ways = {"everything, every month": spent, "a window of three months": of_window}
for (name, epsilons), mark in zip(ways.items(), "os", strict=True):
    months = range(1, len(epsilons) + 1)
    ax.step(months, epsilons, where="post", marker=mark, label=name)
ax.axhline(window.epsilon, color="black", linestyle="--", label="budget limit")
ax.set(xlabel="month", ylabel="epsilon spent")
_ = ax.legend()

# %%
# Planning ahead
# --------------
#
# ``what_if`` asks without charging. How many monthly fits would the first ledger have
# admitted at a smaller budget each?

from skfdp.privacy import calibrate

for epsilon in (0.5, 0.3, 0.2):
    plan = calibrate(epsilon, 1e-6, n_steps=200)
    ledger = PrivacyLedger(epsilon=1.5, delta=1e-6)
    times = 1
    while ledger.what_if(plan, times=times + 1).allowed:
        times += 1
    print(f"epsilon {epsilon} a month: {times} months")

# %%
# The statement of all fits together
# ----------------------------------

from skfdp import report

print(report(window).statement())
