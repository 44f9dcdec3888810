"""Tables whose public parts are those of a case, and nothing else."""

from __future__ import annotations

import numpy as np
from golden_cases import rows, target
from scipy.sparse import csr_array, issparse

#: Ways to replace what is private that a fit takes. A plan takes two more.
FINITE = ("zeros", "others", "far away")


def public_columns(case):
    """Return the mask of the public columns, told from the parameters alone."""
    spec, width = case["params"].get("public_features"), rows(case).shape[1]
    if spec is None or isinstance(spec, str):
        return np.full(width, spec == "all")
    if spec == ["pub*"]:
        spec = [0, 1]
    mask = np.zeros(width, dtype=bool)
    mask[spec] = True
    return mask


def with_private_columns(X, private, values):
    """Return X with other values in its private columns, in the same form."""
    if issparse(X):
        dense = X.toarray()
        dense[:, private] = values[:, private]
        return csr_array(dense)
    X = X.copy()
    if hasattr(X, "iloc"):
        X.iloc[:, np.flatnonzero(private)] = values[:, private]
    else:
        X[:, private] = values[:, private].astype(X.dtype)
    return X


def replaced(case, kind):
    """Return the table of a case with every private value replaced.

    A private target keeps its set of labels; kinds that no fit takes leave it alone.
    """
    X, y, rng = rows(case), target(case), np.random.default_rng(1)
    integral = case.get("as") == "uint8"
    values = {
        "zeros": np.zeros(X.shape),
        "others": rng.integers(1, 255, X.shape) if integral else rng.random(X.shape),
        "far away": np.full(X.shape, 255) if integral else rng.normal(0, 1e6, X.shape),
        "missing": np.full(X.shape, 7 if integral else np.nan),
        "infinite": np.full(X.shape, 9 if integral else -np.inf),
    }[kind]
    X = with_private_columns(X, ~public_columns(case), values)
    if case["params"].get("public_target") or kind not in FINITE:
        return X, y
    if case["data"] in ("real", "counts", "wide"):
        return X, np.full(len(y), {"zeros": 0.0, "others": 2.0, "far away": 1e6}[kind])
    labels = np.unique(y)
    other = np.full(len(y), labels[-1])  # all of one class, but for one of each
    other[: len(labels)] = labels
    return X, other if kind in ("zeros", "far away") else y[::-1]
