"""Write what one version of skfdp saves, and what it predicts.

From a checkout of that version, whose commit names the folder::

    python tests/golden/write_saved.py tests/golden/saved/COMMIT

Models are pickles, some also joblib and skops files. ``expected.npz`` holds the records
``X`` and what every model says of them, ``about.json`` the versions and the facts.
Seeds are fixed. Ledgers are at a path that does not exist, and never opened again.
"""

import argparse
import dataclasses
import json
import pickle
import tempfile
import warnings
import zipfile
from importlib import metadata
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import skops.io
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
    PrivateCompletionClassifier,
    PrivateSearchCV,
    calibrate,
)
from skfdp.cli import main

# Predictions are kept of so many records.
N = 12
NOWHERE = "/nowhere/ledger.db"
METHODS = ("predict", "predict_proba", "decision_function", "transform")
# The version before targets had names: a few files are enough.
OLDER = (
    "logistic-target-public",
    "dpsgdf",
    "centring-columns",
    "network",
    "regressor",
    "search-select",
)
# A joblib file names what a pickle names.
JOBLIB = ("logistic-target-public", "ledger")
SKOPS = (
    "logistic-target-public",
    "regressor",
    "network",
    "completion",
    "search-select",
    "centring-columns",
    "ledger",
)
SPLIT = {"public_features": [0, 1], "bounds": (0, 1)}
TARGET = SPLIT | {"public_target": True}
LABEL = {"public_features": "all", "bounds": (0, 1)}
SEED = {"random_state": 0, "epsilon": 3.0}
SHORT = SEED | {"max_iter": 3, "classes": [0, 1, 2]}
REGRESSION = {"bounds": (0, 1), "target_bounds": (0, 3)} | SEED
NETWORK = {"hidden_layer_sizes": (3,), "max_iter": 2, "batch_size": 20} | SEED


def records():
    """Return X in [0, 1], three classes and a numeric target."""
    rng = np.random.default_rng(20)
    X = rng.random((60, 5))
    y = (X[:, 0] + X[:, 3] > 1).astype(int) + (X[:, 2] > 0.5)
    return X, y, X @ np.arange(5) / 5


def logistic():
    """Return the parameters of the linear classifiers by name."""
    X, _, _ = records()
    fitted = LogisticRegression().fit(X[:9, :2], [0, 1, 2] * 3)
    everything = {key: value for key, value in SHORT.items() if key != "max_iter"}
    return {
        "public-none": SHORT | {"bounds": (0, 1)},
        "target-private": SHORT | SPLIT,
        "target-public": SHORT | TARGET,
        "target-public-alone": SHORT | {"bounds": (0, 1), "public_target": True},
        "no-public-model": SHORT | TARGET | {"public_model": None},
        "given-model": SHORT | SPLIT | {"public_model": fitted},
        "batches": SHORT | TARGET | {"solver": "dp-sgd", "batch_size": 20},
        "padded": SHORT | TARGET | {"public_loss": "gaussian"},
        "full": SHORT | TARGET | {"solver": "dp-gd"},
        "label-one-shot": everything | LABEL | {"solver": "one-shot"},
        "label-descent": SHORT | LABEL | {"solver": "dp-gd"},
        "infinite": SHORT | SPLIT | {"epsilon": float("inf")},
    }


def regressors():
    """Return the numeric models by name."""
    short = REGRESSION | {"max_iter": 3}
    one_shot = REGRESSION | {"solver": "one-shot"}
    return {
        "regressor": FeatureDPRegressor(**short | SPLIT),
        "regressor-target-public": FeatureDPRegressor(**short | TARGET),
        "regressor-one-shot": FeatureDPRegressor(**one_shot | SPLIT),
        "regressor-label": FeatureDPRegressor(**one_shot | LABEL),
        "regressor-label-poisson": FeatureDPRegressor(
            **one_shot | LABEL, loss="poisson"
        ),
        "dpsgdf-regressor": DPSGDFRegressor(**short),
        "dpsgdf-regressor-huber": DPSGDFRegressor(**short, loss="huber"),
        "dpsgdf-regressor-poisson": DPSGDFRegressor(**short, loss="poisson"),
    }


def others():
    """Return the other models by name."""
    inner = LogisticRegression()
    linear = DPSGDFClassifier(bounds=(0, 1), max_iter=3, classes=[0, 1, 2])
    public = FeatureDPLogisticRegression(**TARGET, max_iter=3)
    grid = {"clip_norm": [0.1, 0.5]}
    centring = PrivateCenteringTransformer(
        **SEED, bounds=(0, 1), neighboring_relation="replace_one"
    )
    unbounded = SPLIT | {"bounds": False, "covariance": True}
    classifier = DPSGDFClassifier(
        **SHORT, bounds=False, centering=None, neighboring_relation="replace_one"
    )
    return {
        "dpsgdf": DPSGDFClassifier(bounds=(0, 1), **SHORT),
        "dpsgdf-hinge": DPSGDFClassifier(bounds=False, loss="hinge", **SHORT),
        "network": FeatureDPMLPClassifier(bounds=(0, 1), **NETWORK),
        "network-target-public": FeatureDPMLPClassifier(**NETWORK | TARGET),
        "completion": PrivateCompletionClassifier(inner, **SEED, **SPLIT),
        "completion-unbounded": PrivateCompletionClassifier(inner, **SEED, **unbounded),
        "centring": PrivateCenteringTransformer(**SEED, bounds=(0, 1)),
        "centring-columns": PrivateCenteringTransformer(**SEED, **SPLIT),
        "search-select": PrivateSearchCV(linear, grid, **SEED),
        "search-compose": PrivateSearchCV(linear, grid, budget="compose", **SEED),
        "search-public": PrivateSearchCV(public, grid, **SEED),
        "pipeline": make_pipeline(centring, classifier),
    }


def fitted_models(older):
    """Return the fitted models, and the table that each predicts for, by name."""
    X, y, numbers = records()
    classifiers = {
        f"logistic-{name}": FeatureDPLogisticRegression(**parameters)
        for name, parameters in logistic().items()
    }
    models = {**classifiers, **others()}
    if older:
        models = {name: model for name, model in models.items() if name in OLDER}
    found = {name: (model.fit(X, y), X) for name, model in models.items()}
    for name, model in regressors().items():
        if not older or name in OLDER:
            found[name] = model.fit(X, numbers), X
    if not older:
        named = FeatureDPLogisticRegression(**SHORT | TARGET, target_name="kind")
        frame = pd.DataFrame(X, columns=list("abcde"))
        found["logistic-names"] = named.fit(frame, y), frame
        sparse = FeatureDPLogisticRegression(**SHORT | SPLIT)
        found["logistic-sparse"] = sparse.fit(csr_array(X), y), csr_array(X)
    return found


def at_nowhere(ledger):
    """Return a handle like this one of a file that does not exist."""
    handle = PrivacyLedger.__new__(PrivacyLedger)
    handle.__setstate__(ledger.__getstate__() | {"path": NOWHERE})
    return handle


def charged(folder):
    """Return a model that charged a file, its ledger's handle and an entry."""
    X, y, _ = records()
    ledger = PrivacyLedger(folder / "ledger.db", dataset="people", epsilon=9, delta=0.1)
    half = ledger.part(rows=range(0, 60))
    named = SHORT | {"public_features": ["a", "b"], "bounds": (0, 1)}
    model = FeatureDPLogisticRegression(**named, ledger=half)
    model.fit(pd.DataFrame(X, columns=list("abcde")), y)
    handle = at_nowhere(half)
    return model.set_params(ledger=handle), handle, ledger.entries[-1]


def cli_models(folder, to):
    """Let the command line write its Pipelines; return their margins by name."""
    X, y, _ = records()
    rows = pd.DataFrame({"age": (X[:, 0] * 60).round()})
    rows["hours"] = (X[:, 1] * 80).round()
    rows["town"] = np.where(X[:, 2] > 0.5, "Rome", "Oslo")
    rows["sector"] = np.where(X[:, 3] > 0.5, "state", "private")
    table = folder / "rows.csv"
    rows.assign(income=np.where(y > 1, "high", "low")).to_csv(table, index=False)
    rows = rows[:N]
    rows.to_csv(to / "rows.csv", index=False)
    found = {}
    for suffix in ("joblib", "skops"):
        options = ["--public", "age", "town", "--no-evaluate", "--epsilon", "3"]
        options += ["--bounds", "hours=0:80", "--categories", "sector=private,state"]
        path = to / f"command-line.{suffix}"
        status = main(
            [str(table), "--target", "income", *options, "--model", str(path)]
        )
        assert status == 0
        if suffix == "skops":
            compress(path)
        model = joblib.load(path) if suffix == "joblib" else trusting(path)
        found[path.name] = model.decision_function(rows)
    return found


def compress(path):
    """Write a skops file again, compressed: the command line stores it as it is."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def trusting(path):
    return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))


def values(fact):
    """Return the fields of a fact as JSON knows them."""
    found = fact.to_dict() if hasattr(fact, "to_dict") else dataclasses.asdict(fact)
    return json.loads(json.dumps(found))


def facts_of(models, entry):
    """Return facts to save by name."""
    report = models["logistic-target-public"][0].privacy_
    found = {
        "report": report,
        "plan": calibrate(1.0, 1e-5, n_steps=3),
        # Without the curve that calibrate kept in it, which is large.
        "plan-sampled": dataclasses.replace(
            calibrate(1.0, 1e-5, sampling_rate=0.5, n_steps=3)
        ),
        "event": report.events[0],
        "selection": models["search-select"][0].privacy_.events[0],
        "entry": entry,
    }
    if report.__class__.__dataclass_fields__.keys() >= {"receipts"}:
        found["receipt"] = models["ledger"][0].privacy_.receipts[0]
    return found


def write(to, older):
    to.mkdir(parents=True)
    expected = {"X": records()[0][:N]}
    with tempfile.TemporaryDirectory() as name:
        models = fitted_models(older)
        model, handle, entry = charged(Path(name))
        models["ledger"] = model, pd.DataFrame(expected["X"], columns=list("abcde"))
        expected |= cli_models(Path(name), to)
    for name, (model, table) in models.items():
        (to / f"{name}.pickle").write_bytes(pickle.dumps(model))
        if name in JOBLIB:
            joblib.dump(model, to / f"{name}.joblib", compress=3)
        if name in SKOPS:
            skops.io.dump(model, to / f"{name}.skops", compresslevel=9, compression=8)
        for method in METHODS:
            if hasattr(model, method):
                expected[f"{name}/{method}"] = getattr(model, method)(table[:N])
    facts = facts_of(models, entry)
    for name, fact in {**facts, "handle": handle}.items():
        (to / f"fact-{name}.pickle").write_bytes(pickle.dumps(fact))
    np.savez_compressed(to / "expected.npz", **expected)
    packages = ("scikit-learn", "numpy", "joblib", "skops")
    about = {
        "skfdp": f"{skfdp.__version__}, commit {to.name}",
        "packages": {name: metadata.version(name) for name in packages},
        "facts": {name: values(fact) for name, fact in facts.items()},
        "epsilon": {
            name: skfdp.report(model).epsilon for name, (model, _) in models.items()
        },
    }
    (to / "about.json").write_text(json.dumps(about, sort_keys=True) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--older", action="store_true", help="a few models only")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of seeds, and of few records
    write(arguments.folder, arguments.older)
