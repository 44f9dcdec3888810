"""
Train and serve a model for a year
==================================

A team trains the same model again every month, as new records of other people arrive,
and serves it without skfdp. Each fit costs privacy. There are two ways to keep the
budget. The team may train on all records each month, until the ledger refuses. Or it
may give the records of each quarter a ledger of their own. In month 6 a person asks for
deletion.
"""

# %%
# Records arrive
# --------------
#
# Three thousand records arrive each month. The day of arrival is a public fact.

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
arrival = np.repeat(np.arange(n_months), per_month)


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
    rows = arrival <= month
    try:
        model = new_model(PrivacyLedger(path)).fit(X[rows], y[rows])
    except PrivacyBudgetError as error:
        print(f"month {month + 1}: {error}")
        break
    put_into_service(model)
    spent.append(PrivacyLedger(path).spent())
    print(f"month {month + 1}: epsilon {spent[-1]:.2f} spent")

# %%
# A ledger for each quarter, and a request for deletion
# -----------------------------------------------------
#
# The model of a month is trained on the records that arrived in its quarter, and is
# charged to the ledger of this quarter. A record is in at most three fits, however long
# the team goes on. The price is that each model is trained on fewer records. A person
# with records in two quarters would spend the epsilons of both ledgers.
#
# In month 6 a person whose record arrived in month 5 asks for deletion. The record is
# removed, and the next model replaces the last one that used it. Nothing is refunded,
# because what was released stays known.

path = folder / "quarters.sqlite"
of_quarter = []
kept = np.ones(len(X), dtype=bool)

for month in range(n_months):
    if month == 5:
        kept[4 * per_month + 17] = False
    quarter = month // 3
    ledger = PrivacyLedger(path, epsilon=1.5, delta=1e-6, dataset=f"quarter {quarter}")
    rows = (arrival // 3 == quarter) & (arrival <= month) & kept
    model = new_model(ledger).fit(X[rows], y[rows])
    put_into_service(model)
    of_quarter.append(ledger.spent())
    print(f"month {month + 1}: epsilon {of_quarter[-1]:.2f} spent", end="")
    fresh = arrival == month + 1  # next month's records
    if fresh.any():  # exact numbers, for the team only
        accuracy = np.mean(serve(X[fresh]) == y[fresh])
        print(f", accuracy next month {accuracy:.3f}", end="")
    print()

assert (serve(X[-per_month:]) == model.predict(X[-per_month:])).all()

# %%
# Where the budget went
# ---------------------

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
ways = {"everything, every month": spent, "a ledger for each quarter": of_quarter}
for (name, epsilons), mark in zip(ways.items(), "os", strict=True):
    months = range(1, len(epsilons) + 1)
    ax.step(months, epsilons, where="post", marker=mark, label=name)
ax.axhline(ledger.epsilon, color="black", linestyle="--", label="budget limit")
ax.set(xlabel="month", ylabel="epsilon spent")
_ = figure.legend(loc="outside upper right", ncols=2)

# %%
# The statement of the last quarter's fits together
# -------------------------------------------------

from skfdp import report

print(report(ledger).statement())
