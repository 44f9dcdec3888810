"""How large the package is, and how much of it a call enters.

Prints lines, files and statements; the files and functions that a second call enters
(first thread); calls and changes of file in one step of the loop; import cycles.
"""

import ast
import graphlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

# From Python 3.12 on, numba shows calls of kernels only if asked to.
os.environ.setdefault("NUMBA_ENABLE_SYS_MONITORING", "1")

import numpy as np
import pandas as pd

import skfdp
from skfdp.schema import Label, Number
from skfdp.solvers import NoisyGradientDescent, NoisySGD

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGE = Path(skfdp.__file__).resolve().parent
BESIDE = ("tests", "benchmarks", ".ci", "docs", "examples")
BOUNDS = {"bounds": (0, 1)}
X = np.random.default_rng(0).random((150, 6))
Y = (X[:, 0] + X[:, 3] > 1).astype(int)
COLUMNS = [f"x{j}" for j in range(6)]
SCHEMA = skfdp.TableSchema(
    {**dict.fromkeys(COLUMNS, Number(0, 1)), "y": Label([0, 1])}, outcomes=["y"]
)
CLASSIFIER, MLP = skfdp.FeatureDPLogisticRegression, skfdp.FeatureDPMLPClassifier
FITS = {
    "FeatureDPLogisticRegression, nothing public": (CLASSIFIER, BOUNDS),
    "    label-DP": (CLASSIFIER, BOUNDS | {"public_features": "all"}),
    "    public target": (CLASSIFIER, BOUNDS | {"public_target": True}),
    "    with a schema": (CLASSIFIER, {"schema": SCHEMA}),
    "DPSGDFClassifier": (skfdp.DPSGDFClassifier, BOUNDS),
    "FeatureDPMLPClassifier": (
        MLP,
        BOUNDS | {"solver": NoisySGD(max_iter=3)},
    ),
    "PrivateCenteringTransformer": (skfdp.PrivateCenteringTransformer, BOUNDS),
}


def calls_of(function) -> list[tuple[str, str]]:
    """Return the file and function of every call within the package, in order."""
    seen = []

    def watch(frame, event, _):
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and file.startswith(f"{PACKAGE}/") and name != "<module>":
            seen.append((file, name))

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


def fit_calls(kind, parameters, **more) -> list[tuple[str, str]]:
    """Return the calls of a second fit; another epsilon, so that no plan is known."""
    first, second = (kind(**parameters, **more, epsilon=e) for e in (2.0, 2.5))
    rows = pd.DataFrame(X, columns=COLUMNS) if "schema" in parameters else X
    first.fit(rows, Y)
    return calls_of(lambda: second.fit(rows, Y))


def charge_calls() -> list[tuple[str, str]]:
    """Return the calls of a second charge to a file."""
    event = skfdp.privacy.calibrate(1.0, 1e-5, n_steps=3).event
    with tempfile.TemporaryDirectory() as folder:
        ledger = skfdp.PrivacyLedger(Path(folder, "a.sqlite"), epsilon=9, delta=1e-5)
        ledger.charge([event])
        return calls_of(lambda: ledger.charge([event]))


def of_step(few=10, more=60) -> np.ndarray:
    """Return the calls and the changes of file in one step of the loop."""

    def totals(n_steps):
        files = [
            file
            for file, _ in fit_calls(
                CLASSIFIER, BOUNDS, solver=NoisyGradientDescent(max_iter=n_steps)
            )
        ]
        return np.array([len(files), sum(map(str.__ne__, files, files[1:]))])

    return (totals(more) - totals(few)) / (more - few)


def cycle() -> list[str]:
    """Return modules that import each other in turn; none if there is no cycle."""
    import grimp  # comes with import-linter

    graph = grimp.build_graph("skfdp", cache_dir=None)
    imported = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    try:
        graphlib.TopologicalSorter(imported).prepare()
        return []
    except graphlib.CycleError as error:
        return error.args[1]


def code(folder: Path) -> list[str]:
    """Return the text of the files of Python below a folder; of .ci all files."""
    paths = filter(Path.is_file, folder.rglob("*" if folder.name == ".ci" else "*.py"))
    return [p.read_text("utf-8") for p in paths if "auto_examples" not in p.parts]


def main() -> None:
    warnings.simplefilter("ignore")
    own = code(PACKAGE)
    nodes = [node for text in own for node in ast.walk(ast.parse(text))]
    statements = sum(isinstance(node, ast.stmt) for node in nodes)
    print(f"skfdp: {len(own)} files, {statements:,} statements")
    for folder in (PACKAGE, *map(CHECKOUT.joinpath, BESIDE)):
        print(f"{folder.name}: {''.join(code(folder)).count(chr(10)):,} lines")
    entered = {name: fit_calls(*given) for name, given in FITS.items()}
    entered |= {"charge to a ledger file": charge_calls()}
    print(f"\n{'entered by':<46}{'files':>6}{'functions':>11}")
    for name, seen in entered.items():
        print(f"{name:<46}{len({file for file, _ in seen}):>6}{len({*seen}):>11}")
    print("\none step of the loop, calls and changes of file:", *of_step())
    print("import cycle:", " -> ".join(cycle()) or "none")


if __name__ == "__main__":
    main()
