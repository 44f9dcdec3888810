"""
Serve other people's pipelines
==============================

Analysts send pipelines as JSON and never see the rows. The server has the table, its
schema and a ledger. It refuses unknown code, steps that learn from private rows, and
requests beyond the budget, all *before* it reads a private row.
"""

# %%
# What the server has
# -------------------
#
# The schema is public. Age and ward may be disclosed, the other columns may not.

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skfdp import (
    DeclaredEncoder,
    FeatureDPLogisticRegression,
    PrivacyBudgetError,
    PrivacyLedger,
    TableSchema,
    report,
)
from skfdp.privacy import find_reports
from skfdp.schema import Category, Label, Number

rng = np.random.default_rng(0)
n = 6000
stays = pd.DataFrame(
    {
        "age": rng.integers(18, 95, n),
        "ward": rng.choice(["surgery", "internal"], n),
        "crp": rng.gamma(1.2, 40, n),
    }
)
risk = 0.04 * (stays["age"] - 60) + 0.02 * (stays["crp"] - 50)
stays["ill"] = np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "yes", "no")
schema = TableSchema(
    {
        "age": Number(18, 95, public=True),
        "ward": Category(["surgery", "internal"], public=True),
        "crp": Number(0, 300),
        "ill": Label(["no", "yes"]),
    },
    outcomes=["ill"],
)
ledger = PrivacyLedger(epsilon=2.0, delta=1e-6, dataset="stays")

# %%
# The server
# ----------
#
# The names of classes and parameters are lists, so that no code of an analyst runs.
# Everything that decides the guarantee is set by the server: declarations, delta, the
# ledger, and that there is no seed.
#
# A *rehearsal* shows what a request would disclose. It fits the pipeline to made-up
# private values, beside the public columns, and without a ledger. Plans depend on
# public facts alone, so the real fit has the same events.

STEPS = {"FunctionTransformer": FunctionTransformer, "StandardScaler": StandardScaler}
PARAMETERS = {"epsilon", "C", "class_weight"}


def build(request, charged_to):
    *steps, model = json.loads(request)
    if not {*steps} <= {*STEPS} or not {*model} <= PARAMETERS:
        raise PermissionError(f"only {sorted(STEPS)} and {sorted(PARAMETERS)}")
    encoder = DeclaredEncoder(schema).set_output(transform="pandas")
    steps = [STEPS[name]().set_output(transform="pandas") for name in steps]
    return make_pipeline(
        encoder,
        *steps,
        FeatureDPLogisticRegression(
            **model,
            delta=ledger.delta,
            bounds=(0, 1),
            classes=["no", "yes"],
            public_features=["age__*", "ward__*"],
            ledger=charged_to,
        ),
    )


def made_up():
    rows = stays[["age", "ward"]].assign(crp=rng.uniform(0, 300, n))
    return rows, pd.Series(rng.choice(["no", "yes"], n), name="ill")


def serve(request):
    rehearsed = report(build(request, None).fit(*made_up()))
    if not rehearsed.guarantee or rehearsed.unknown_steps:
        raise PermissionError(str(rehearsed).splitlines()[0])
    answer = ledger.what_if(rehearsed.events)
    if not answer.allowed:
        raise PrivacyBudgetError(answer.reason)
    pipeline = build(request, ledger).fit(stays[["age", "ward", "crp"]], stays["ill"])
    assert report(pipeline).events == rehearsed.events
    return pipeline


# %%
# Requests
# --------

requests = {
    "a model": [{"epsilon": 1.0}],
    "a scaler that learns": ["StandardScaler", {"epsilon": 0.5}],
    "another class": ["eval", {"epsilon": 0.5}],
    "a seed": [{"epsilon": 0.5, "random_state": 0}],
    "a step that learns nothing": ["FunctionTransformer", {"epsilon": 1.0, "C": 0.1}],
    "too much": [{"epsilon": 1.5}],
}
served, spent = [], []
for name, request in requests.items():
    try:
        served.append(serve(json.dumps(request)))
        answer = "served"
    except (PermissionError, PrivacyBudgetError) as refusal:
        answer = f"refused: {str(refusal)[:60]}"
    spent.append(ledger.spent())
    print(f"{name:27} {answer:70} {spent[-1]:.2f} spent")

assert len(served) == 2 and ledger.spent() < 2

# %%
# What the analyst gets
# ---------------------
#
# The fitted pipeline, without the ledger. Anybody can detect that it is private, and
# read its epsilon, wherever the model is inside:

pipeline = served[0].set_params(featuredplogisticregression__ledger=None)
for place, found in find_reports({"model": pipeline}).items():
    print(place, repr(found))
    print(found.to_registry({"data_curators": "Hospital of Cologne"})[:400])

# %%
# The budget after each request:

plt.barh([*requests][::-1], spent[::-1])
plt.axvline(ledger.epsilon, linestyle="--", color="black")
plt.xlabel("epsilon spent (dashed: limit)")
plt.tight_layout()
