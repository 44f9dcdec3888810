"""Write one small file of each format of this version, for `test_formats.py`.

From the checkout, before the release of a new minor version::

    python tests/formats/formats_record.py tests/formats/0.1

Files of released versions are never written again. Tables and parameters are fixed;
the random numbers of a ledger are fresh, and so is the noise in the model.
"""

import json
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skfdp import FeatureDPLogisticRegression, PrivacyLedger, TableSchema, report
from skfdp.privacy import Event
from skfdp.privacy.events import ASSUMED
from skfdp.schema import Boolean, Category, Date, Ignore, Label, Number
from skfdp.solvers import NoisyGradientDescent

DELTA = 1e-5
SCHEMA = TableSchema(
    {
        "age": Number(17, 90, public=True),
        "hour": Number(0, 24, knots=6, cyclic=True),
        "paid": Number(0, 1e5, basis="linear", missing=("", "NA", -1)),
        "ward": Category(["A", "B", "Ä"], public=True),
        "smoker": Boolean(true=["yes"], false=["no"]),
        "admitted": Date("2020-01-01", "2025-12-31", format="%d.%m.%Y"),
        "zip": Ignore(),
        "severity": Label(["mild", "severe", "critical"]),
        "cost": Number(0, 100_000),
    },
    outcomes=["severity", "cost"],
    group="patient",
    max_rows_per_group=4,
    missing=["", "?"],
)


def table(n_rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return three columns within [0, 1], and two classes."""
    rng = np.random.default_rng(1)
    X = rng.random((n_rows, 3))
    return X, (X[:, 0] > 0.5).astype(int)


def event(**changes) -> Event:
    facts = {"label": "mean", "noise_std": (20.0,), "clip_norm": 1.0}
    known = {"public_features": ("age",), "sensitivity": 1.0, "target_name": "ill"}
    return Event(**{**facts, **known, **changes})


def classifier(**parameters) -> FeatureDPLogisticRegression:
    return FeatureDPLogisticRegression(
        bounds=(0, 1),
        classes=[0, 1],
        solver=NoisyGradientDescent(max_iter=5),
        **parameters,
    )


def spent(path: Path) -> dict[str, float | str]:
    """Return the sum of each data set of a ledger file."""
    return {
        ledger.dataset: str(ledger.spent(DELTA))
        for ledger in PrivacyLedger.open_all(path)
    }


def record(folder: Path) -> None:
    """Write all files; the folder must not hold any."""
    folder.mkdir(parents=True)
    X, y = table()
    path = folder / "ledger.db"
    ledger = PrivacyLedger(path, epsilon=3.0, delta=DELTA, dataset="fits")
    model = classifier(epsilon=0.5, ledger=ledger).fit(X, y)
    classifier(epsilon=0.4, ledger=ledger).fit(X, y)
    (folder / "report.json").write_text(model.privacy_.to_json(), encoding="utf-8")

    public = PrivacyLedger(
        path, public=["age", "ill"], neighboring_relation="replace_one", dataset="batch"
    )
    steps = event(label="steps", n_steps=20, sampling_rate=0.1)
    public.charge([event(), steps], label="batches")
    PrivacyLedger(path, dataset="open").charge_nonprivate(label="no privacy")
    (folder / "ledger.json").write_text(public.to_json(), encoding="utf-8")

    steps = FunctionTransformer(), FunctionTransformer(np.flip), StandardScaler()
    piped = make_pipeline(*steps, classifier(epsilon=0.5)).fit(X, y)
    found = report(piped, context={"purpose": "a file of this version"})
    (folder / "pipeline.json").write_text(found.to_json(), encoding="utf-8")

    SCHEMA.save(folder / "schema.toml")
    model.set_params(ledger=None)
    (folder / "model.pickle").write_bytes(pickle.dumps(model, protocol=5))
    expected = {
        "spent": spent(path),
        "predict_proba": model.predict_proba(X)[:, 1].tolist(),
        "enforced": sorted(key for key, one in ASSUMED.items() if one.enforced),
    }
    text = json.dumps(expected, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    record(Path(sys.argv[1]))
