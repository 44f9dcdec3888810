"""Kernels and their twins in NumPy: equal bits; a small first fit compiles nothing."""

import math
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from skfdp.data.codes import CodedGridRows
from skfdp.data.grid import GridRows
from skfdp.data.units import FULL_WEIGHT, Units
from skfdp.kernels import contributions, sampling
from skfdp.kernels.contributions import Clip, PerRow, limits_of
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION, loss_named
from skfdp.queries.linear import LinearQuery

N, D = 203, 21
ANY = st.floats(allow_nan=True, allow_infinity=True)
SEEDS = st.integers(0, 2**32 - 1)


def both(function, *arguments):
    """Call kernel and twin with copies of the arguments; return what each leaves."""
    found = []
    for call in (function.compiled, function.__wrapped__):
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        with np.errstate(all="ignore"):
            result = call(*own)
        own = [one for one in own if isinstance(one, np.ndarray)]
        found.append([*own, *(result if isinstance(result, tuple) else (result,))])
    return found


def same(function, *arguments):
    """Assert that kernel and twin leave and return the same; return what the twin does.

    NaN equals NaN, and 0 equals -0: both become the integer 0.
    """
    kernel, twin = both(function, *arguments)
    if kernel[-1] is None and twin[-1] is None:
        del kernel[-1], twin[-1]
    for one, other in zip(kernel, twin, strict=True):
        np.testing.assert_array_equal(one, other)
    return twin


def wild(seed, *shape):
    """Return numbers of every size, some of them not finite."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape) * 10.0 ** rng.uniform(-4, 4, shape)
    ends = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 5e-324]
    return np.where(rng.random(shape) < 0.1, rng.choice(ends, shape), found)


@settings(deadline=None)
@given(SEEDS, st.sampled_from([*CLASSIFICATION, *REGRESSION]), ANY)
def test_residuals(seed, name, margin):
    loss = loss_named(name)
    for n_outputs in (1, 2, 3, 10) if name in CLASSIFICATION else (1,):
        margins = wild(seed, n_outputs, 67)
        margins[0, 0], rng = margin, np.random.default_rng(seed)
        target = rng.integers(0, max(2, n_outputs), 67).astype(np.int16)
        target = target if name in CLASSIFICATION else wild(seed + 1, 67)
        for parameter in {loss.parameter, loss.averaged} - {None}:
            same(loss.leaf, margins, target, parameter)


@settings(deadline=None)
@given(SEEDS, st.integers(-30, 30), st.floats(1e-3, 1e6), st.integers(1, 11))
def test_clips(seed, log_unit, clip_norm, n_outputs):
    rng = np.random.default_rng(seed)
    rows, unit = rng.permutation(60)[:41], 2.0**log_unit
    squares = np.rint(10.0 ** rng.uniform(-1, 10, 60))
    clip = Clip(PerRow(squares, 1, 0), clip_norm, unit, 2.0**15 - 1)
    limits = PerRow(limits_of(clip, n_outputs), 1, 0)
    beside = np.stack([wild(seed, 60), squares], axis=1).ravel()
    residuals = wild(seed, n_outputs, 41)
    for one in (
        clip,
        clip._replace(limits=limits),
        clip._replace(squared_norms=PerRow(beside, 2, 1)),
    ):
        same(contributions.clip_residuals, residuals, rows, one)


@pytest.mark.parametrize("std", [0.0, 0.4, 777.7, 2.0**27, 2.0**40])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 600, 5_001])
def test_noise(std, n):
    words = np.random.default_rng(n).bit_generator.random_raw(n + n % 2)
    ends = np.array([0, 1, 2**32 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    words[: len(ends)] = ends[: len(words)]
    total = np.arange(n) * 2**40
    unsure = np.zeros(len(words) // 2, dtype=np.int64)
    *_, n_unsure = same(sampling.add_rounded_normals, total, std, words, unsure)
    assert n < 5_000 or std < 1e12 or n_unsure


@settings(deadline=None)
@given(SEEDS, st.sampled_from([0.0, 1e-15, 1e-4, 0.01, 0.7, 40.0, math.inf]))
def test_poisson_batches(seed, pace):
    words = np.random.default_rng(seed).bit_generator.random_raw(1_500)
    words[700:705] = np.array([0, 1, 2**32, 2**63, 2**64 - 1], dtype=np.uint64)
    for n_rows in (1, 300, 10**6, 2**53):
        for last in (-1, 150):
            given = words, pace, last, n_rows, np.zeros(1_500, dtype=np.int64)
            (*_, one, found, more), (*_, other, n, unsure) = both(
                sampling.poisson_members, *given
            )
            assert (found, bool(more)) == (n, bool(unsure))
            np.testing.assert_array_equal(one[:n], other[:n])


def rows_of(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * 10.0 ** rng.uniform(-2, 0.2, (N, 1))
    X *= rng.random((N, D)) < 0.5
    if kind in ("codes", "products"):
        own = np.arange(D) < (D if kind == "codes" else 12)
        levels = [rng.normal(size=(n, D)) * own for n in (3, 200, 9)]
        categories = [(one, rng.integers(0, len(one), N)) for one in levels[:2]]
        numbers = [(levels[2], rng.integers(0, 8, N), rng.random(N))]
        beside = () if kind == "codes" else (rng.normal(size=(N, D - 12)), 2.0**-11)
        built = CodedGridRows.build(categories, numbers, N, D, *beside)
        return built.moved(0.1 * rng.normal(size=D), 0.1, 1.0, 1.0)
    given = {"bias": 0.1, "centre": 0.1 * rng.normal(size=D)}
    if kind == "joined":
        given["target"] = rng.integers(0, 2, N)
    if kind == "narrow":
        X, given["centre"] = X[:, :9], None
    held = csr_array(X) if kind == "CSR" else X
    return GridRows.build(held, lambda block: block.astype(float), **given)


RNG = np.random.default_rng(1)
PERSONS = np.unique(RNG.integers(0, 60, N), return_inverse=True)[1]
UNITS = {
    "rows": None,
    "weights": Units(RNG.integers(0, FULL_WEIGHT + 1, N)),
    "persons": Units(RNG.integers(1, FULL_WEIGHT + 1, N), PERSONS),
}


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    "kind", ["short", "narrow", "joined", "CSR", "codes", "products"]
)
@pytest.mark.parametrize("name", [*CLASSIFICATION, *REGRESSION])
def test_sums(name, kind, units, monkeypatch):
    """Sums of every loss, over rows of every kind, with weights and with persons."""
    if kind in ("codes", "products") and units == "persons":
        pytest.skip("rows of persons are not coded")
    loss, rows = loss_named(name), rows_of(kind)
    for n_outputs in (1, 3, 7) if name in CLASSIFICATION else (1,):
        rng = np.random.default_rng(n_outputs)
        y = rng.integers(0, max(2, n_outputs), N)
        more = [{}]
        if name in CLASSIFICATION:
            offset = rng.normal(size=(N, n_outputs))
            weight = rng.random(max(2, n_outputs))
            more.append({"class_weight": weight, "offset": offset})
        else:
            y = rng.normal(size=N)
        if loss.sign_fixed and units != "persons":
            more.append({"orthant": True})
        if loss.averaged and units != "persons" and kind in ("short", "narrow"):
            values = rows.values // 2
            squares = np.square(values.astype(float)).sum(axis=1)
            padded = GridRows(values, squares, rows.scale)
            more += [{"padded": padded}, {"padded": rows}]
        for asked in more:
            for clip_norm in (0.05, 10.0):
                theta = rng.normal(size=(n_outputs, rows.n_columns))
                given = rows, y, loss, n_outputs, clip_norm, N
                sums = []
                for disabled in (0, 1):
                    monkeypatch.setattr(numba.config, "DISABLE_JIT", disabled)
                    query = LinearQuery(*given, **asked, units=UNITS[units])
                    unit = query.unit(1.0)
                    sums += [
                        [query.exact_sum(theta, batch, unit) for batch in (None, BATCH)]
                    ]
                np.testing.assert_array_equal(*sums)
                assert np.any(sums[0]) or clip_norm < 1


BATCH = np.sort(RNG.permutation(N)[:70])


FITS = """
import glob, hashlib, os, sys, warnings
import numpy as np
import skfdp
from skfdp import kernels
from skfdp.schema import Category, Label, Number
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD
warnings.simplefilter("ignore")
kernels.SMALL = float(os.environ.get("SMALL", kernels.SMALL))
rng = np.random.default_rng(0)
X = rng.random((300, 20))
y = (X[:, 0] > rng.random(300)).astype(int) + (X[:, 3] > 0.7)
numbers = {f"n{i}": Number(0, 1, public=i < 2) for i in range(2)}
schema = skfdp.TableSchema(
    {**numbers, "c": Category(["a", "b"]), "y": Label([0, 1, 2])}, outcomes=["y"]
)
import pandas as pd
table = pd.DataFrame({"n0": X[:, 0], "n1": X[:, 1], "c": np.where(y, "a", "b")})
steps, batches = NoisyGradientDescent(max_iter=3), NoisySGD(max_iter=3, batch_size=50)
given = {"bounds": (0, 1), "random_state": 0}
some, numeric = given | {"public_features": [0, 2]}, {"target_bounds": (0, 3)}
models = [
    skfdp.DPSGDFClassifier(solver=steps, **given),
    skfdp.DPSGDFClassifier(loss="squared_hinge", solver=batches, **given),
    skfdp.FeatureDPLogisticRegression(solver=FeatureDPSGD(max_iter=3), **some),
    skfdp.FeatureDPLogisticRegression(public_target=True, **some),
    skfdp.FeatureDPMLPClassifier(50.0, hidden_layer_sizes=(4,), solver=batches, **some),
    skfdp.DPSGDFRegressor(solver=steps, **numeric, **given),
    skfdp.FeatureDPRegressor(loss="poisson", solver=batches, **numeric, **some),
    skfdp.PrivateCenteringTransformer(**given),
    skfdp.FeatureDPLogisticRegression(schema=schema, random_state=0),
]
for model in models:
    more = {"groups": np.arange(300) // 3} if model is models[0] else {}
    model.fit(table if getattr(model, "schema", None) else X, y, **more)
    names = "coef_", "coefs_", "mean_"
    found = [getattr(model, name) for name in names if hasattr(model, name)]
    parts = [np.ravel(p) for f in found for p in (f if isinstance(f, list) else [f])]
    print(hashlib.blake2b(np.concatenate(parts).tobytes(), digest_size=8).hexdigest())
"""


def fits(folder, **settings):
    """Return a digest of each of several fits, in a process of its own."""
    given = os.environ | {"NUMBA_CACHE_DIR": str(folder)} | settings
    command = [sys.executable, "-c", FITS]
    return subprocess.check_output(command, env=given, text=True).split()


def test_a_small_first_fit_compiles_nothing(tmp_path):
    assert len(fits(tmp_path)) == 9 and not [*tmp_path.rglob("*.nb?")]


@pytest.mark.nightly
def test_fits_of_twins_are_those_of_kernels(tmp_path):
    """Also without a compiler; `test_sums` compares the sums each time."""
    twins = fits(tmp_path)
    assert fits(tmp_path, NUMBA_DISABLE_JIT="1") == twins
    cached = {k: v for k, v in os.environ.items() if k == "NUMBA_CACHE_DIR"}
    assert fits(tmp_path, SMALL="0", **cached) == twins


@pytest.mark.slow
def test_the_command_compiles_every_loop(tmp_path):
    given = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "skfdp", "compile"]
    subprocess.run(command, env=given, check=True)
    compiled = {*tmp_path.rglob("*.nbc")}
    fits(tmp_path, SMALL="0")
    assert {*tmp_path.rglob("*.nbc")} == compiled
