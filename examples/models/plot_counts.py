"""
Predict counts and rates
========================

How many claims does a contract have in a year? Most have none, some have many, and a
linear regression would predict negative numbers. The Poisson loss models the logarithm
of the rate. Contracts run for 1 to 365 days, which are declared as the exposure. Here
one column is public; the others and the number of claims are private.
"""

# %%
# Contracts
# ---------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score

from skfdp import FeatureDPRegressor, TableSchema
from skfdp.schema import Number

rng, n = np.random.default_rng(0), 30_000
contracts = pd.DataFrame(
    {
        "power": rng.integers(40, 200, n),
        "age": rng.integers(18, 90, n),
        "distance": rng.gamma(2, 8, n).clip(0, 60).round(1),
        "days": rng.integers(1, 366, n),
    }
)
log_rate = -1.9 + 0.006 * contracts["power"] - 0.012 * contracts["age"]
log_rate += 0.03 * contracts["distance"]
days = contracts["days"]
claims = pd.Series(rng.poisson(np.exp(log_rate) * days / 365), name="claims")
print(claims.value_counts().head(5).to_string())

# %%
# Two fits
# --------
#
# Nobody has more than thirty claims. This is known without the data.

train, test = slice(0, 20_000), slice(20_000, None)
schema = TableSchema(
    {
        "power": Number(0, 250, public=True),
        "age": Number(18, 100),
        "distance": Number(0, 60),
        "days": Number(0, 366),
        "claims": Number(0, 30),
    },
    outcomes=["claims"],
    exposure="days",
)
model = FeatureDPRegressor(epsilon=1.0, schema=schema, loss="poisson")
model.fit(contracts[train], claims[train])
free = PoissonRegressor(alpha=1e-6, max_iter=500)
scaled = contracts[["power", "age", "distance"]] / [250, 100, 60]
free.fit(scaled[train], (365 * claims / days)[train], sample_weight=days[train])
rates = {
    "epsilon 1": model.predict(contracts[test]),
    "no privacy": free.predict(scaled[test]) * days[test] / 365,
}
for name, rate in rates.items():
    rate = np.asarray(rate)
    explained = d2_tweedie_score(claims[test], rate, power=1)
    print(f"{name}: D2 {explained:.3f}, {rate.mean():.3f} claims a contract")
print(f"happened: {claims[test].mean():.3f}")

# %%
# Predicted and observed claims
# -----------------------------
#
# Contracts are in ten groups, from the smallest to the largest prediction.

figure, ax = plt.subplots(figsize=(5, 3.8), layout="constrained")
for (name, rate), style in zip(rates.items(), ("o-", "s:"), strict=True):
    groups = np.array_split(np.argsort(rate := np.asarray(rate)), 10)
    said = [rate[group].mean() for group in groups]
    happened = [claims[test].to_numpy()[group].mean() for group in groups]
    ax.plot(said, happened, style, label=name)
ax.axline((0, 0), slope=1, color="gray", linewidth=0.8)
ax.set(xlabel="claims predicted", ylabel="claims that happened")
_ = ax.legend()
