"""
Survival by age
===============

Free light chains of the immune system in 7,874 persons of Olmsted County, and 14 years
of follow-up (``pip install scikit-survival``). Time is split into periods, each with
the days at risk as its exposure; see :ref:`time-to-event`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sksurv.datasets import load_flchain

from skfdp import FeatureDPRegressor, TableSchema
from skfdp.schema import Category, Number

people, outcome = load_flchain()
years = np.array([0, 1, 2, 4, 6, 8, 10, 14])
names, ends = years[:-1].astype(str).tolist(), years * 365.25
last = outcome["futime"][:, None]
died = outcome["death"][:, None] & (last > ends[:-1]) & (last <= ends[1:])
days = np.clip(last - ends[:-1], 0, np.diff(ends))
rows = people[["age", "sex"]].loc[people.index.repeat(len(names))]
rows = rows.assign(
    person=np.repeat(people.index, len(names)),
    period=np.tile(names, len(people)),
    days=days.ravel(),
    died=died.ravel().astype(int),
)
schema = TableSchema(
    {
        "age": Number(50, 101),
        "sex": Category(["F", "M"]),
        "period": Category(names, public=True),
        "days": Number(0, 4 * 365.25),
        "died": Number(0, 1),
    },
    outcomes=["died"],
    group="person",
    exposure="days",
)
model = FeatureDPRegressor(2.0, schema=schema, loss="poisson").fit(rows, rows["died"])

# %%
# The share of women of an age who are alive
# ------------------------------------------
#
# The steps are those that happened, without privacy, of ages up to 3 years apart.

figure, ax = plt.subplots(figsize=(5, 3.8), layout="constrained")
for age, colour in zip((55, 65, 75, 85), ("C0", "C1", "C2", "C3"), strict=True):
    new = pd.DataFrame({"age": age, "sex": "F", "period": names, "days": np.diff(ends)})
    alive = np.exp(-np.r_[0, model.predict(new).cumsum()])
    ax.plot(years, alive, "o-", color=colour, label=f"{age} years", markersize=4)
    near = (abs(people["age"] - age) < 3).to_numpy() & (people["sex"] == "F").to_numpy()
    time, event = outcome["futime"][near] / 365.25, outcome["death"][near]
    order = np.argsort(time, kind="stable")
    left = 1 - event[order] / (len(order) - np.arange(len(order)))
    ax.step(time[order], left.cumprod(), where="post", color=colour, alpha=0.5)
ax.set(xlabel="years", ylabel="share alive", ylim=(0, 1.02), xlim=(0, 14))
_ = ax.legend(title="epsilon 2", loc="lower left")
figure.savefig("time_to_event.png", dpi=110)
