"""Wide encoded tables are held without their zeros, and are fitted as dense ones."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, TableSchema, report
from skfdp.data import encoder, records
from skfdp.schema import Category, Date, Label, Number
from skfdp.solvers import FeatureDPSGD

N = 400
TOWNS = [f"town {k}" for k in range(40)]


def table(seed=0):
    """Return a raw table with a target of two classes, one of three, and a number."""
    rng = np.random.default_rng(seed)
    town = rng.choice(TOWNS, N, p=np.arange(1, 41) / np.arange(1, 41).sum())
    frame = pd.DataFrame(
        {
            "town": np.where(rng.random(N) < 0.03, None, town),
            "age": np.where(rng.random(N) < 0.03, np.nan, rng.uniform(15, 95, N)),
            "day": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 700, N)),
        }
    )
    score = np.nan_to_num(frame["age"], nan=50) / 40 + rng.normal(size=N)
    frame["two"] = (score > 1.4).astype(int)
    frame["three"] = np.digitize(score, [0.9, 1.9])
    frame["number"] = np.clip(score, 0, 3)
    return frame


def schema(outcome, *public):
    """Return the declarations of a table, some columns of which are public."""
    columns = {
        "town": Category(TOWNS, public="town" in public),
        "age": Number(18, 90, public="age" in public),
        "day": Date("2024-01-01", "2025-12-31", public="day" in public),
    }
    kinds = {"two": Label([0, 1]), "three": Label([0, 1, 2]), "number": Number(0, 3)}
    return TableSchema(columns | {outcome: kinds[outcome]}, outcomes=[outcome])


def fitted(monkeypatch, most_dense, outcome, *public, fit_params=(), **given):
    """Return a fit of a table that is dense up to so many encoded columns."""
    monkeypatch.setattr("skfdp.base.MOST_DENSE", most_dense)
    # Rows that are kept as codes have other integers.
    monkeypatch.setattr("skfdp.data.encoder.CodedRows.saves", lambda *_: False)
    make = FeatureDPRegressor if outcome == "number" else FeatureDPLogisticRegression
    frame, own = table(), schema(outcome, *public)
    model = make(3.0, schema=own, random_state=0, **given)
    return model.fit(frame, frame[outcome], **dict(fit_params)), frame


ALL = "town", "age", "day"
#: Outcome, public columns, and what is said of the rows.
SOME = ((), ("town",), ("age", "day"))
FITS = [(kind, some, {}) for kind in ("two", "three", "number") for some in SOME]
FITS += [("two", (), {"sample_weight": np.arange(N) % 3 + 1})]
FITS += [("two", (), {"groups": np.arange(N) // 2})]


@pytest.mark.parametrize(("outcome", "public", "of_rows"), [*FITS, ("two", ALL, {})])
def test_rows_without_zeros_give_the_model_of_dense_rows(
    monkeypatch, outcome, public, of_rows
):
    dense, frame = fitted(monkeypatch, 10**6, outcome, *public, fit_params=of_rows)
    sparse, _ = fitted(monkeypatch, 10, outcome, *public, fit_params=of_rows)
    assert sparse.encoder_.sparse_output
    assert not dense.encoder_.sparse_output
    if public == ALL:  # the noise has another name, and so another stream
        (event,) = report(sparse).events
        assert event.label == "first model: label statistic"
        apart = np.abs(sparse.coef_ - dense.coef_).mean()
        assert apart < 2 * dense.coef_noise_.std[:, :-1].mean()
        return
    np.testing.assert_array_equal(sparse.coef_, dense.coef_)
    np.testing.assert_array_equal(sparse.intercept_, dense.intercept_)
    np.testing.assert_allclose(sparse.predict(frame), dense.predict(frame), rtol=1e-12)
    assert report(sparse).events == report(dense).events


def test_a_first_model_takes_the_most_frequent_categories(monkeypatch):
    monkeypatch.setattr("skfdp.base.MOST_DENSE", 10)
    monkeypatch.setattr(records, "MOST_NARROWED", 12)
    frame = table()
    model = FeatureDPLogisticRegression(3.0, schema=schema("two", "town"))
    public = model._on_records(lambda found: found.public, frame, frame["two"])

    counts = frame["town"].value_counts()
    kept = model.encoder_.get_feature_names_out()[: len(TOWNS)][
        public.kept[: len(TOWNS)]
    ]
    assert public.kept.sum() == 12
    least = min(counts.get(name.removeprefix("town__"), 0) for name in kept)
    assert least >= counts.iloc[13]
    own = public.of_public()
    assert own.X.shape == (N, 12) and not own.sparse and own.mask.all()


def test_the_plan_of_a_wide_table_depends_on_no_private_value(monkeypatch):
    monkeypatch.setattr("skfdp.base.MOST_DENSE", 10)
    monkeypatch.setattr(records, "MOST_NARROWED", 12)
    model = FeatureDPLogisticRegression(3.0, schema=schema("two", "town"))
    frame, other = table(), table()
    changed = table(seed=1)
    for name in ("age", "day", "two"):
        other[name] = changed[name]
    plans = [model.plan(one, one["two"]).to_dict() for one in (frame, other)]
    assert json.dumps(plans[0], default=str) == json.dumps(plans[1], default=str)


@pytest.mark.parametrize(
    ("public", "given"),
    [((), {"centering": "adaptive"}), (("age",), {"solver": FeatureDPSGD()})],
)
def test_what_needs_dense_rows_gets_them(monkeypatch, public, given):
    sparse, _ = fitted(monkeypatch, 10, "two", *public, **given)
    assert not sparse.encoder_.sparse_output


def test_thousands_of_categories_take_no_memory_for_zeros():
    levels = [f"z{k}" for k in range(encoder.MOST_DENSE + 1000)]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"zip": rng.choice(levels, 3000), "x": rng.random(3000)})
    declared = {"zip": Category(levels), "x": Number(0, 1)}
    own = TableSchema(declared | {"y": Label([0, 1])}, outcomes=["y"])
    model = FeatureDPLogisticRegression(1.0, schema=own)
    tracemalloc.start()
    with pytest.warns(UserWarning, match="declared levels"):
        model.fit(frame, rng.integers(0, 2, 3000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert issparse(model.encoder_.transform(frame))
    assert peak < 0.5 * 8 * 3000 * len(levels)
