"""Time what serves a fitted model, each beside its peer, in one run of five minutes.

    OPENBLAS_NUM_THREADS=1 python benchmarks/serving.py   # writes results/serving.txt

The table is generated: 14 raw columns, five of them numbers with 32 knots, one with
gaps, and 206 weights. The peer is a ColumnTransformer of SimpleImputer,
SplineTransformer and OneHotEncoder, with LogisticRegression. Times are of the CPU, the
least of some.
"""

import pickle
import time
import warnings
import zipfile
from functools import partial
from itertools import cycle, tee
from pathlib import Path

import numpy as np
import pandas as pd
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from skfdp import FeatureDPLogisticRegression, TableSchema
from skfdp.schema import Category, Label, Number

NUMBERS = [f"n{j}" for j in range(5)]
LEVELS = {f"c{j}": [*"abcd"[:k]] for j, k in enumerate((2, 2, 2, 2, 2, 3, 3, 3, 4))}


def table(n_rows: int) -> pd.DataFrame:
    """Return raw rows; a tenth of one column of each kind is missing."""
    rng = np.random.default_rng(0)
    found = {name: rng.gamma(2, 15, n_rows) for name in NUMBERS}
    found |= {name: rng.choice([*own, "?"], n_rows) for name, own in LEVELS.items()}
    found = pd.DataFrame(found)
    for name in ("n0", "c0"):
        found.loc[rng.random(n_rows) < 0.1, name] = None
    return found


def least(*calls, n_repeats: int = 15) -> list[float]:
    """Return the least milliseconds of CPU of each call, made in turn."""
    times = np.empty((n_repeats, len(calls)))
    for row in times:
        for k, call in enumerate(calls):
            start = time.process_time()
            call()
            row[k] = time.process_time() - start
    return [*1000 * times.min(axis=0)]


def onnx(pipeline, X: pd.DataFrame) -> tuple:
    """Return a call that predicts rows with onnxruntime, and the bytes of the file."""
    import onnxruntime
    from skl2onnx import to_onnx

    rows = {n: X[[n]].to_numpy("O" if n in LEVELS else np.float32) for n in X}
    raw = to_onnx(pipeline, X, options={"zipmap": False}).SerializeToString()
    session = onnxruntime.InferenceSession(raw)
    return partial(session.run, None, rows), len(raw)


def main() -> None:
    """Print the figures, and write them."""
    warnings.simplefilter("ignore")
    X = table(20_000)
    y = (X["n1"] + 10 * (X["c1"] == "a") > 35).astype(int).rename("y")
    columns = {name: Number(0, 150) for name in NUMBERS}
    columns |= {name: Category(own) for name, own in LEVELS.items()}
    columns["y"] = Label([0, 1])
    schema = TableSchema(columns, outcomes=["y"], interactions=None)
    model = FeatureDPLogisticRegression(8.0, schema=schema, random_state=0).fit(X, y)
    own, texts = model.to_sklearn(), (OneHotEncoder(handle_unknown="ignore"), [*LEVELS])
    spline = SplineTransformer(32, degree=1, extrapolation="constant")
    numbers = make_pipeline(SimpleImputer(), spline)
    peer = make_column_transformer((numbers, NUMBERS), texts)
    peer = make_pipeline(peer, LogisticRegression(max_iter=200)).fit(X, y)
    models = model, own, peer
    lines = [f"{model.coef_.size} weights{'skfdp':>37}{'to_sklearn':>12}{'peer':>12}"]

    def line(name: str, *figures: float | None) -> None:
        shown = ["-" if one is None else f"{one:,.2f}" for one in figures]
        lines.append(f"{name:36}" + "".join(f"{one:>12}" for one in shown))
        print(lines[-1], flush=True)

    print(lines[0])
    for n in (1, 4000, 20_000):  # others each time, as `predict` keeps the last
        rows = tee(cycle((X[:n], X[::-1][:n])), len(models))
        calls = [
            lambda model=model, some=some: model.predict_proba(next(some))
            for model, some in zip(models, rows, strict=True)
        ]
        line(f"predict_proba, {n:,} rows, ms", *least(*calls))
    gap = np.abs(own.predict_proba(X) - model.predict_proba(X)).max()
    line("to_sklearn(), ms", *least(model.to_sklearn), None, None)
    lines.append(f"largest difference of its probabilities: {gap:.0e}")
    for name, how in (("", {}), (", deflated", {"compression": zipfile.ZIP_DEFLATED})):
        sizes = [len(skops.io.dumps(one, **how)) / 1000 for one in (own, peer)]
        line(f"skops file{name}, kB", None, *sizes)
    line("pickle, kB", *(len(pickle.dumps(one)) / 1000 for one in models))
    types = skops.io.get_untrusted_types(data=skops.io.dumps(own))
    lines.append(f"to be trusted by skops: {', '.join(types)}")
    filled = X[:1].fillna({"c0": ""}).astype(dict.fromkeys(NUMBERS, "float32"))
    predict, size = onnx(model.to_sklearn(onnx=True), filled)
    gap = np.abs(predict()[1] - model.predict_proba(filled)).max()
    line("onnxruntime, one row, ms", *least(predict), None, None)
    line("ONNX file, kB", size / 1000, None, None)
    lines.append(f"largest difference of its probabilities: {gap:.0e}")
    # A plot of two columns has 100 x 100 points, and predicts as many times.
    how = {"X": X[:4000], "features": ["n1", "n2"], "grid_resolution": 20}
    models = *models, DummyClassifier().fit(X, y)
    calls = [partial(partial_dependence, one, **how) for one in models]
    *seconds, floor = [one / 40 for one in least(*calls, n_repeats=2)]
    line("25 x partial dependence, 400 points", *seconds)
    line("    of a constant", floor, None, None)
    result = Path(__file__).parent / "results" / "serving.txt"
    result.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
