"""The package releases what `reference.py` releases, to the last bit of every integer.

A fit of the package is watched: which sums it releases, with which public facts and
numbers from earlier releases. The reference gets these and the raw table. It has to
find the same exact sums, the same released integers and the same weights.
"""

import dataclasses
import functools
import math
import runpy
import string
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, issparse

import skfdp
from skfdp.data.records import Records
from skfdp.mechanisms import release
from skfdp.mechanisms.descent import HeavyBall
from skfdp.mechanisms.release import Mechanism, Streams
from skfdp.queries import statistics
from skfdp.queries.linear import LinearQuery
from skfdp.schema import Category, Label, Number, TableSchema
from skfdp.solvers import (
    Huber,
    NoisyGradientDescent,
    NoisySGD,
    centring,
    descent,
    target_scales,
)

PATH = Path(__file__).with_name("reference.py")
reference = SimpleNamespace(**runpy.run_path(str(PATH)))

N, RNG = 60, np.random.default_rng(5)
FINITE = RNG.normal(size=(N, 4))
REAL = FINITE @ [1.0, -1.0, 0.5, 0.0] + 0.3 * RNG.normal(size=N)
TWO, THREE = (REAL > 0).astype(int), np.digitize(REAL, [-0.7, 0.7])
#: Two numbers are missing. Row 7 is null: its label is not declared, its number NaN.
X, Y = FINITE.copy(), np.where(np.arange(N) == 7, 9, TWO)
X[3, 1], X[4, 3], REAL[7] = np.nan, np.inf, np.nan
GROUPS = {"groups": RNG.integers(0, 25, N)}
WEIGHTS = {"sample_weight": RNG.integers(1, 4, N)}
LETTERS = [*string.ascii_letters]
CELLS = {
    "city": RNG.choice(LETTERS, N),
    "age": RNG.uniform(-5, 105, N),
    "size": RNG.normal(size=N),
}
COLUMNS = {"city": Category(LETTERS[:46]), "age": Number(0, 100), "size": Number(-2, 2)}
LOGISTIC, REGRESSOR = skfdp.FeatureDPLogisticRegression, skfdp.FeatureDPRegressor
GD, SGD = NoisyGradientDescent(max_iter=3), NoisySGD(batch_size=20, max_iter=3)


def fit_of(y, kind=LOGISTIC, X=X, of_rows=None, **more):
    """Return an estimator, X, y, and what `fit` gets for each row."""
    params = {"epsilon": 8.0, "bounds": (-2, 2), "solver": GD, "random_state": 0}
    return kind(**params | more), X, y, of_rows or {}


def classifier(y=Y, **more):
    return fit_of(y, **{"classes": [0, 1]} | more)


def regressor(**more):
    return fit_of(REAL, REGRESSOR, target_bounds=(-4, 4), **more)


def schema(y, **more):
    columns = {**COLUMNS, "ill": Label(np.unique(y).tolist())}
    known = {"schema": TableSchema(columns, outcomes=["ill"]), "bounds": None}
    return fit_of(y, X=pd.DataFrame(CELLS), **known, **more)


ALL, SOME = {"public_features": "all", "X": FINITE}, {"public_features": [0, 2]}
SETTINGS = {
    "nothing public": classifier(),
    "nulled records": classifier(neighboring_relation="replace_special"),
    "several classes": classifier(THREE, classes=[0, 1, 2]),
    "label-DP": classifier(**ALL, solver="auto"),
    "label-DP, descent": classifier(**ALL),
    "public target": classifier(TWO, public_target=True),
    "public columns": classifier(**SOME, epsilon=30.0),
    "public columns and target": classifier(TWO, **SOME, public_target=True),
    "regression": regressor(),
    "Huber's loss": regressor(loss=Huber(threshold=1.5)),
    "Poisson batches": classifier(solver=SGD),
    "CSR": classifier(X=csr_array(np.maximum(FINITE, 0.0)), bounds=(0, 2)),
    "groups": regressor(of_rows=GROUPS),
    "groups, Poisson batches": regressor(of_rows=GROUPS, solver=SGD),
    "weights": classifier(of_rows=WEIGHTS),
    "schema": schema(TWO),
    "schema, several classes": schema(THREE),
    "adaptive centring": classifier(
        X=X[:, :3], kind=skfdp.DPSGDFClassifier, centering="adaptive", epsilon=50.0
    ),
}


def watched(model, X, y, of_rows):
    """Fit, and return what was asked of the mechanism, with the integers."""
    asked, made, latest = [], {}, {"moved": None, "loop": None}
    noisy, moved = release.add_integer_gaussian, centring.moved_rows
    released, loop, updated = Mechanism.release, descent.descent, HeavyBall.update

    def query(records, recipe, **per_row):
        found = recipe(records, **per_row)
        made[id(getattr(found, "rows", found))] = (
            records,
            getattr(recipe, "keywords", {}),
            found,
        )
        return found

    def release_of(mechanism, label, query, theta=None, *, stream=None):
        event = mechanism.event(label)
        inner = getattr(query, "query", query)  # that of the descent
        inner = getattr(inner, "rows", inner)  # the slopes have another loss
        records, keywords, _ = made.get(id(inner), (None, {}, None))
        facts = {"event": event, "query": query, "theta": None, "records": records}
        facts |= {"step": mechanism._released[event.label], "keywords": keywords}
        facts |= {"stream": stream or label, "units": mechanism._units}
        asked.append(SimpleNamespace(**facts, **latest))
        return released(mechanism, label, query, theta, stream=stream)

    def noise(total, std, generator):
        exact = total.copy()
        noisy(total, std, generator)
        if asked:  # before the first release, only the loops are compiled
            vars(asked[-1]).update(exact=exact, std=std, released=total.copy())
        return total

    def moved_of(rows, *given):
        latest["moved"] = given
        return moved(rows, *given)

    def update_of(rule, *given):
        asked[-1].theta = updated(rule, *given).copy()
        return asked[-1].theta

    def descent_of(mechanism, query, rule, **more):
        latest["loop"] = rule, more
        return loop(mechanism, query, rule, **more)

    with (
        mock.patch.object(Records, "query", query),
        mock.patch.object(Mechanism, "release", release_of),
        mock.patch.object(release, "add_integer_gaussian", noise),
        mock.patch.object(centring, "moved_rows", moved_of),
        mock.patch.object(descent, "descent", descent_of),
        mock.patch.object(HeavyBall, "update", update_of),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        model.fit(X, y, **of_rows)
    return asked


def of_rule(rule, n_columns):
    """Return the edges of bins in each column, and the bin between each two of them."""
    if isinstance(rule, centring.Shells):
        edges = [centring.RADII]
    elif isinstance(rule, statistics.Binades):
        sizes = 2.0 ** np.arange(statistics.FIRST - 1, statistics.LAST)
        # A negative number at an edge is in the bin above it.
        edges = [np.r_[np.nextafter(-sizes[::-1], -np.inf), sizes]] * n_columns
    else:
        zero = np.nextafter(0.0, -1.0), 0.0
        edges = [np.sort(np.r_[rule.edges(j), zero]) for j in range(n_columns)]
    places = []
    for j, own in enumerate(edges):
        inside = np.r_[own[0] - 1, (own[:-1] + own[1:]) / 2, own[-1] + 1]
        places.append(rule.bins(inside, np.full(len(inside), j)).tolist())
    return {"edges": edges, "places": places}


def of_gradients(one, query, model):
    """Return the centring, the loss and the offsets of a descent."""
    known, weights = one.keywords["coordinates"], one.records.public.class_weight
    assert query.padded is None and (weights is None or (weights == 1).all())
    assert known.longest is None or math.isinf(known.longest)
    none = np.zeros((query.n_rows, query.n_outputs))
    return {
        **{"mean": known.mean, "scale": known.scale, "bias": known.bias},
        "divisor": known.input_scaler.divisor_of_integers,
        "adapts": known.longest is not None,
        **{"loss": query.loss.name, "threshold": query.loss.parameter},
        "offset": none if query.offset is None else query.offset,
        "rescaled": getattr(model, "target_map_", lambda y: y),
    }


def of_loop(one, query):
    """Return the start of a descent and the size of an update."""
    rule, loop = one.loop
    assert not loop["exact"] and rule.curvature is rule.radius is None
    assert loop["private_weight"] == 1
    return {
        **{"starts_descent": one.step == 0, "start": loop["start"]},
        **{"momentum": rule.momentum, "learning_rate": rule.rates()[one.step]},
    }


def facts_of(one, model):
    """Return the public and the released facts of one release, for the reference."""
    query, known, event = one.query, one.keywords, one.event
    linear, step = isinstance(query, LinearQuery), 1.0
    if one.units is not None:
        query = query.of_units(one.units) if linear else query
        step = step if linear else one.units.step
    std = event.step_stds[one.step]
    unit = float(query.unit(std / step))
    facts = {"event": event.label, "stream": one.stream, "shape": query.shape}
    facts |= {"rate": event.sampling_rate, "replaces": event.relation.replaces}
    facts |= {"multiplier": std / event.sensitivity, "starts_descent": False}
    facts |= {"unit": unit, "noise": float(std / (unit * step)), "same_signs": False}
    if one.moved is not None:
        centre, length, *turn = one.moved
        facts |= {"centre": centre, "length": length}
        facts["signs"] = turn[0] if turn else None
    if linear:
        facts |= of_gradients(one, query, model) | of_loop(one, query)
        facts |= {"sum": reference.gradient, "clip_norm": query.clip_norm}
        facts["same_signs"] = query.orthant
    elif isinstance(query, statistics.TemperatureSum):
        own = dataclasses.replace(query.query, loss=query.loss)
        facts |= of_gradients(one, own, model) | {"sum": reference.slopes}
        facts |= {"start": query.start, "along": query.step, "reach": query.reach}
        facts["points"] = query.points
    elif isinstance(query, statistics.LabelSum):
        assert query.n_outputs > 1 and not query.centred
        facts |= {"sum": reference.label, "rows": query.rows.values}
        facts |= {"clip_norm": query.row_bound, "same_signs": True}
    elif isinstance(query, statistics.GridRowSum):
        facts |= {"sum": reference.private_row, "bound": query.bound}
        facts["same_signs"] = query.nonnegative
    elif isinstance(query, statistics.BinCounts):
        facts |= {"sum": reference.bins, "one": round(1 / unit), "same_signs": True}
        facts["of"] = "length" if query.rule.n_bins == 65 else "entries"
        facts |= of_rule(query.rule, query.shape[0])
    elif "values" in known:
        values, ends = known["values"], {key: known[key] for key in ("low", "high")}
        of = {"_targets": "target", "_distances": "distance"}
        facts |= {"sum": reference.number, "of": of.get(values.func.__name__, "length")}
        facts |= {"power": 1, "centre": 0.0} | values.keywords | ends
    elif one.records is not None:  # the histogram of targets
        edges = target_scales.edges(one.records.public.target_map)[1:-1]
        # A target at an edge is in the bin above it.
        facts |= {"edges": [np.nextafter(edges, -np.inf)], "of": "target"}
        facts |= {"places": [range(len(edges) + 1)], "one": int((1 - 1e-9) / unit)}
        facts |= {"sum": reference.bins, "same_signs": True}
    else:
        facts["sum"] = reference.moved_row
    return SimpleNamespace(**facts)


def columns_of(records):
    """Return the public vectors of the levels of each column of a schema."""
    source, found = records.X.source, []
    for part in source.parts:
        vectors = part.term(source.blocks, np.ones(source.shape[1]))[0]
        vectors = vectors.toarray() if issparse(vectors) else vectors
        block = source.blocks[part.block]
        names = None if block.knots is not None else block.levels
        found.append(SimpleNamespace(names=names, knots=block.knots, vectors=vectors))
    return found


def table_of(asked, model, X, y, of_rows):
    """Return the raw table, with what was declared of it."""
    units, classes, n = asked[0].units, getattr(model, "classes_", None), len(y)
    public, given = np.zeros(X.shape[1], dtype=bool), model.public_features
    public[slice(None) if given == "all" else given or []] = True
    persons = np.arange(n) if "groups" not in of_rows else units.persons
    low, high = model.bounds or (None, None)
    return SimpleNamespace(
        X=X.toarray() if issparse(X) else np.asarray(X),
        y=y,
        **{"public": public, "low": low, "high": high},
        columns=columns_of(asked[0].records) if isinstance(X, pd.DataFrame) else None,
        classes=None if classes is None else classes.tolist(),
        target_bounds=getattr(model, "target_bounds", None),
        persons=[np.flatnonzero(persons == k) for k in range(persons.max() + 1)],
        weight=np.ones(n, dtype=int) if units is None else units.weights,
        share=np.ones(n) if units is None else units.shares,
        joint=units is not None and units.joint,
    )


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_reference_releases_the_same_integers(setting):
    model, asked = setting[0], watched(*setting)
    facts, table = [facts_of(one, model) for one in asked], table_of(asked, *setting)
    stream = functools.cache(Streams(model.random_state, type(model)).private)
    found = reference.fit(table, facts, lambda *of: stream(*of).bit_generator)
    for one, ask, (exact, released, theta) in zip(asked, facts, found, strict=True):
        assert ask.noise == one.std
        np.testing.assert_array_equal(exact, one.exact, ask.event)
        np.testing.assert_array_equal(released, one.released, ask.event)
        np.testing.assert_array_equal(theta, one.theta)
        norm, change = reference.bounds(table, ask)
        assert one.event.clip_norm > norm / change * one.event.sensitivity * (1 - 1e-9)


def test_the_reference_stays_short():
    assert len(PATH.read_text().splitlines()) <= 250
