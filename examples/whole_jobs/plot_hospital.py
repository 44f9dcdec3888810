"""
Turn a messy table into a private model
=======================================

A hospital exports its stays as they are: decimal commas, dates, wards, empty cells, and
column names with umlauts. This page goes from that file to a private model of
readmission, its privacy statement and a picture of each column's effect, in forty
lines.
"""

# %%
# The file
# --------
#
# These stays are simulated. Yours come from ``pandas.read_csv`` just the same.

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

rng, n = np.random.default_rng(0), 20_000
age, crp = rng.integers(18, 100, n), rng.gamma(1.2, 40, n).round(1)
ward = rng.choice(["Chirurgie", "Innere", "Kardiologie", "Überwachung"], n)
day = np.datetime64("2023-01-01") + rng.integers(0, 1095, n)
risk = ((age - 55) / 25) ** 2 - 2.5 + 1.2 * np.minimum(crp / 60, 2)
risk += (ward == "Überwachung") + 0.6 * np.cos(day.astype(int) / 58)
again = np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "ja", "nein")
stays = pd.DataFrame({"Alter": age, "Größe (cm)": rng.normal(170, 10, n).round(1)})
stays = stays.assign(Station=ward, Aufnahme=day, **{"CRP (mg/l)": crp}, Rückkehr=again)
stays["Raucher"] = rng.choice(["ja", "nein", "k. A."], n, p=[0.2, 0.6, 0.2])
stays.loc[rng.random(n) < 0.1, "CRP (mg/l)"] = None
stays.loc[rng.random(n) < 0.02, "Größe (cm)"] = 1.7  # metres, by mistake
path = Path(tempfile.mkdtemp()) / "Aufenthalte.csv"
stays.to_csv(path, sep=";", decimal=",", index_label="Fallnummer")
print(path.read_text(encoding="utf-8")[:240])

# %%
# The model
# ---------
#
# The values of each column are declared, never taken from the rows: bounds of numbers
# and dates, and categories. Any other value of a cell becomes "missing" or "other", or
# is clipped. Here age, ward and the day of admission are public. All other columns are
# private.

from skfdp import FeatureDPLogisticRegression, TableSchema, report
from skfdp.schema import Boolean, Category, Date, Label, Number

schema = TableSchema(
    {
        "Alter": Number(18, 100, public=True),
        "Größe (cm)": Number(100, 220),
        "CRP (mg/l)": Number(0, 300),
        "Aufnahme": Date("2023-01-01", "2025-12-31", public=True),
        "Station": Category(
            ["Chirurgie", "Innere", "Kardiologie", "Überwachung"], public=True
        ),
        "Raucher": Boolean(true=["ja"], false=["nein"], missing=["k. A."]),
        "Rückkehr": Label(["nein", "ja"]),
    },
    outcomes=["Rückkehr"],
    delimiter=";",
    decimal=",",
)
table = schema.read(path)
model = FeatureDPLogisticRegression(epsilon=2.0, delta=1e-6, schema=schema)
train, test = table[:15_000], table[15_000:]
model.fit(*schema.split(train))

# %%
# This accuracy is an exact function of private records. Do not publish it:

accuracy = model.score(*schema.split(test))
print(f"held-out stays: {accuracy:.3f}, always 'nein': {(again == 'nein').mean():.3f}")

# %%
# What each column does
# ---------------------
#
# The curves are released with the model, so looking at them is free. The bands show the
# noise of the release (:ref:`effects`).

from skfdp.inspection import EffectsDisplay

age = EffectsDisplay.from_estimator(model, columns=["Alter"], target="ja")

# %%
# All six columns. The day has three effects: the trend, the month and the weekday.

display = EffectsDisplay.from_estimator(model, target="ja")

# %%
# The same effects as numbers, one row for each weight:

model.coefficients_table().head(8)

# %%
# The statement
# -------------

print(report(model).statement())
