"""
Train and serve a model for a year on one budget
================================================

A team trains the same model again every month, as new records arrive, and serves it
without skfdp. Each fit costs privacy. There are two ways to keep the budget. The team
may train on all records each month, until the ledger refuses. Or it may train on a
window of the last months, so that each record takes part in a bounded number of fits.
In month 7 a person asks for deletion.
"""

# %%
# Records arrive
# --------------
#
# Three thousand records a month are appended in the order of their arrival. A record
# keeps its position for ever. Positions can be used for accounting, because this order
# does not depend on private values.

import pickle
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
y = y.astype(object)  # so that a label may be missing later


def new_model(ledger):
    facts = {"bounds": (0, 1), "classes": [False, True]}
    return DPSGDFClassifier(epsilon=0.5, delta=1e-6, ledger=ledger, **facts)


# %%
# The model in service
# --------------------
#
# ``to_sklearn`` returns a Pipeline of scikit-learn. The service loads it without skfdp,
# and a new model replaces the old one in one step.

in_service = folder / "model.pickle"


def put_into_service(model):
    fresh = folder / "fresh.pickle"
    fresh.write_bytes(pickle.dumps(model.to_sklearn()))
    fresh.replace(in_service)


def serve(rows):
    return pickle.loads(in_service.read_bytes()).predict(rows)


# %%
# Everything, every month
# -----------------------
#
# The ledger is a file, so each month's job knows what earlier jobs spent. A fit that
# would exceed the limit is refused before it reads the data. The model of the month
# before stays in service.

path = folder / "everything.sqlite"
PrivacyLedger(path, epsilon=1.5, delta=1e-6)  # once: the limit is kept in the file
spent = []

for month in range(n_months):
    rows = slice(0, per_month * (month + 1))
    try:
        model = new_model(PrivacyLedger(path)).fit(X[rows], y[rows])
    except PrivacyBudgetError as error:
        print(f"month {month + 1}: {error}")
        break
    put_into_service(model)
    spent.append(PrivacyLedger(path).spent())
    print(f"month {month + 1}: epsilon {spent[-1]:.2f} spent")

# %%
# A window of three months, and a request for deletion
# ----------------------------------------------------
#
# ``ledger.part(rows=...)`` charges only the records of the window. No record is in more
# than three fits, so the data set never spends more than three fits cost, however long
# the team goes on. The price is that each model is trained on fewer records.
#
# In month 7 a person whose record arrived in month 5 asks for deletion. The values are
# removed at once. The row stays, because all later records would otherwise change their
# positions. A record without a label contributes nothing to a fit. The next model
# replaces the last one that used the record. Nothing is refunded, because what was
# released stays known.

window = PrivacyLedger(folder / "window.sqlite", epsilon=1.5, delta=1e-6)
of_window = []
asked = 4 * per_month + 17

for month in range(n_months):
    if month == 6:
        X[asked], y[asked] = np.nan, None
    rows = range(per_month * max(0, month - 2), per_month * (month + 1))
    chosen = slice(rows.start, rows.stop)
    model = new_model(window.part(rows=rows)).fit(X[chosen], y[chosen])
    put_into_service(model)
    of_window.append(window.spent())
    print(f"month {month + 1}: epsilon {of_window[-1]:.2f} spent", end="")
    fresh = slice(rows.stop, rows.stop + per_month)  # next month's records
    if month + 1 < n_months:  # exact numbers, for the team only
        accuracy = np.mean(serve(X[fresh]) == y[fresh])
        print(f", accuracy next month {accuracy:.3f}", end="")
    print()

assert (serve(X[-per_month:]) == model.predict(X[-per_month:])).all()

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
# The statement of all fits together
# ----------------------------------

from skfdp import report

print(report(window).statement())
