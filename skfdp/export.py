"""Conversion of fitted linear models to Pipelines of scikit-learn."""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import re
from typing import Any

import numpy as np

from skfdp.data._basis import OTHER, Block
from skfdp.data.arrays import DAY, PARTS, objects
from skfdp.data.target import NOWHEN, TAKEN_FOR_MISSING, number_in
from skfdp.schema import TableSchema

#: Limits of dates; nanoseconds can hold every date between them. Text, and dates with a
#: time zone, cannot be compared with these limits, so clipping raises an error.
_FIRST, _LAST = (np.datetime64(f"{year}-01-01", "us") for year in (1678, 2262))


def pipeline_of(model: Any) -> Any:
    """Return a fitted linear model as a Pipeline; see `LinearModel.to_sklearn`."""
    from sklearn.pipeline import Pipeline

    public_model = getattr(model, "public_model_", None)
    if public_model is not None and public_model.linear is None:
        kind = type(public_model.estimator).__name__
        raise ValueError(
            f"public_model={kind} is not linear, so no linear model of scikit-learn "
            "has these predictions: save this model with joblib, or fit it with "
            "public_model='auto' or None."
        )
    convert = _of_numbers if model._declared.schema is None else _of_schema
    columns, coef, intercept = convert(
        model, np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    )
    steps = [("columns", columns), ("model", _linear(model, coef, intercept))]
    found = Pipeline(steps)
    found.privacy_report_ = json.loads(model.privacy_.to_json())
    found.privacy_statement_ = model.privacy_.statement()
    return found


def _linear(model: Any, coef: np.ndarray, intercept: np.ndarray) -> Any:
    """Return a fitted linear model of scikit-learn with these weights."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import (
        LinearRegression,
        LogisticRegression,
        PoissonRegressor,
    )
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.svm import LinearSVC

    # A fit on rows of zeros sets the attributes other than the weights.
    classes = getattr(model, "classes_", None)
    rows = np.zeros((2 if classes is None else len(classes), coef.shape[1]))
    if classes is not None:
        loss = model._declared.parameters["loss"]
        logistic = loss == "log_loss"
        kind = (
            LogisticRegression() if logistic else LinearSVC(loss=loss, random_state=0)
        )
        found = own = kind.fit(rows, classes)
    else:
        units = model.target_map_
        found = PoissonRegressor() if units.log else LinearRegression()
        if math.isfinite(units.low):
            clip = FunctionTransformer(
                inverse_func=np.clip,
                inv_kw_args={"a_min": units.low, "a_max": units.high},
            )
            found = TransformedTargetRegressor(found, transformer=clip)
        own = found.fit(rows, np.ones(2))
        own = getattr(own, "regressor_", own)
        coef, intercept = coef[0], intercept[0]
    own.coef_, own.intercept_ = coef, intercept
    return found


def _steps(*steps: Any) -> Any:
    """Return a Pipeline. Each step is a transformer or a pair (function, keywords)."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    def step(one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        func, kw_args = one
        return FunctionTransformer(
            func, kw_args=kw_args, feature_names_out="one-to-one"
        )

    return make_pipeline(*map(step, steps)).set_output(transform="default")


def _numbers(*dtypes: str) -> tuple:
    """Return the step that converts cells to numbers, which may be NaN or infinite."""
    from sklearn.utils import check_array

    return check_array, {"dtype": list(dtypes), "ensure_all_finite": False}


def _filled(value: Any) -> tuple:
    """Return the step that replaces missing and infinite numbers by `value`."""
    return np.nan_to_num, {"nan": value, "posinf": value, "neginf": value}


def _fitted(transformers: list[tuple], rows: Any) -> Any:
    from sklearn.compose import ColumnTransformer

    found = ColumnTransformer(transformers).set_output(transform="default")
    return found.fit(rows)


# Models of numbers: columns are filled, clipped, and with `normalize` scaled.


def _of_numbers(model: Any, coef: np.ndarray, intercept: np.ndarray) -> tuple:
    """Convert a model without a schema to a transformer, weights and intercept.

    The weights and the intercept act on the output of the transformer.
    """
    from sklearn.preprocessing import Normalizer, StandardScaler

    scaler, width = model.input_scaler_, model.n_features_in_
    bounded = np.isfinite(
        np.full(width, np.inf) if scaler.span is None else scaler.span
    )
    low, high = scaler.offset, scaler.offset + scaler.factor
    middle = np.where(bounded, low + scaler.factor / 2, 0.0)
    # Missing public values stay missing, so that the linear model refuses them.
    middle = np.where(model._public_mask, np.nan, middle)
    ends = np.array([np.where(bounded, low, -np.inf), np.where(bounded, high, np.inf)])
    rows: Any = np.where(bounded, ends, [[0.0], [1.0]])
    parts = [("rows", np.arange(width), [])]
    if scaler.normalize and math.isfinite(scaler.feature_bound):
        public = np.zeros(width, bool) if scaler.public is None else scaler.public
        unit = StandardScaler()
        parts = [("private", np.flatnonzero(~public), [unit, Normalizer()])]
        parts += [("public", np.flatnonzero(public), [unit])] * bool(public.any())
        intercept = intercept + (coef * scaler.offset).sum(axis=1)
        coef = coef * (scaler.divisor * scaler.factor)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        rows = _frame(dict(zip(names, rows.T, strict=True)))
    transformers = []
    for part, places, more in parts:
        clip = np.clip, {"a_min": ends[0, places], "a_max": ends[1, places]}
        steps = _steps(_numbers("float64"), _filled(middle[places]), clip, *more)
        transformers.append((part, steps, places.tolist()))
    found = _fitted(transformers, rows)
    for part, places, more in parts:
        if more:
            unit = found.named_transformers_[part]["standardscaler"]
            unit.mean_ = np.where(bounded, low, 0.0)[places]
            unit.scale_ = np.where(bounded, scaler.factor, 1.0)[places]
            unit.var_ = unit.scale_**2
    order = np.concatenate([places for _, places, _ in parts])
    return found, coef[:, order], intercept


def _frame(columns: dict[str, Any]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "to_sklearn needs pandas for a model with column names: pip install pandas."
        ) from None
    return pd.DataFrame(columns)


# Models of raw tables: one transformer for each encoded raw column, or part of a date.


def _of_schema(model: Any, coef: np.ndarray, intercept: np.ndarray) -> tuple:
    """Convert a model with a schema, as `_of_numbers` converts one without."""
    schema, transformers, weights = model._declared.schema, [], []
    cells = {"number": 0.0, "category": ""}
    row = {}
    for block in model.encoder_.blocks_:
        own, name = coef[:, block.start : block.stop], schema.features[block.parent]
        convert = _categories if block.reads == "category" else _curve
        transformer, found, offset = convert(schema, name, block, own)
        # scikit-learn refuses "__" in names of transformers, and some reserved names.
        label = re.sub("__+", "_", f"{block.start}_{block.name}")
        transformers.append((label, transformer, [name]))
        weights.append(found)
        intercept = intercept + offset
        row[name] = [cells.get(block.reads, np.datetime64("2000-01-01", "us"))] * 2
    return _fitted(transformers, _frame(row)), np.hstack(weights), intercept


def _curve(schema: TableSchema, name: str, block: Block, own: np.ndarray) -> tuple:
    """Return the transformer of a number or a part of a date, its weights, and 0.

    The transformer returns a spline basis, and a one-hot column for each value that
    means missing. The weights act on these columns. The third result is the change of
    the intercept, as in `_categories`.
    """
    from sklearn.pipeline import FeatureUnion
    from sklearn.preprocessing import OneHotEncoder, SplineTransformer

    missing, period = schema.missing_values(name), 0
    if block.reads == "number":
        read = _numbers("float64")
        exact = _steps(read, _filled(np.nan))
        places = _steps(read, _filled(block.knots[0]))
        cells, knots = np.append(missing, np.nan), block.knots
    else:
        unit, period, first = PARTS.get(block.reads, ("us", 0, 0))
        exact, places = (
            _steps(
                (np.asarray, {}),
                (np.clip, {"a_min": _FIRST, "a_max": _LAST}),
                (np.asarray, {"dtype": f"datetime64[{one}]"}),
                (np.asarray, {"dtype": "float64"}),
            )
            for one in ("us", unit)
        )
        cells = np.append(missing, NOWHEN)
        knots = np.arange(period + 1.0) if period else block.knots * DAY
    if period:
        heights = own[:, (np.arange(period + 1) + first) % period]
    elif block.kind == "linear":
        heights = own[:, :1] * [0.0, 1.0]
    else:
        heights = own[:, : len(knots)]
    if block.end is not None:
        knots, heights = np.append(knots, block.end), np.c_[heights, heights[:, 0]]
    if not (np.diff(knots) > 0).all():
        raise ValueError(
            f"the bounds of {name!r} are so close that knots coincide, which "
            "SplineTransformer refuses: declare knots or wider bounds, and fit again."
        )
    spline = SplineTransformer(
        degree=1,
        knots=knots[:, None],
        extrapolation="periodic" if period else "constant",
    )
    marks, order = np.unique(
        exact.fit_transform(cells[:, None])[:, 0], return_index=True
    )
    at = places.fit_transform(cells[order, None])[:, 0]
    curve = [np.interp(at % period if period else at, knots, one) for one in heights]
    of_missing = own[:, [block.missing]] - curve
    listed = OneHotEncoder(categories=[marks], handle_unknown="ignore")
    union = FeatureUnion(
        [("spline", _steps(places, spline)), ("missing", _steps(exact, listed))]
    )
    weights = heights[:, :-1] if period else heights
    return union, np.hstack([weights, of_missing]), 0.0


def _categories(schema: TableSchema, name: str, block: Block, own: np.ndarray) -> tuple:
    """Return the transformer of categories, its weights, and the weight of "other".

    Each text or number that the schema reads as a category, or as missing, gets a
    one-hot column. The schema reads any other value as the level "other". All one-hot
    columns are 0 for such a value, so the weight of "other" is added to the intercept.
    """
    from sklearn.pipeline import FeatureUnion
    from sklearn.preprocessing import OneHotEncoder

    column = schema.columns[name]
    declared = [*column.values, *schema.missing_values(name), "", *TAKEN_FOR_MISSING]
    declared += [*getattr(column, "true", ()), *getattr(column, "false", ())]
    cells = list(dict.fromkeys(cell for one in declared for cell in _spellings(one)))
    other = block.levels.index(OTHER)
    rows = block.encode(schema.converted(name, objects(cells))[0])
    weights = own - own[:, [other]]
    encoders, found = [], []
    # A OneHotEncoder takes text or numbers, not both.
    for kind, more in (("text", [None, np.nan]), ("number", [])):
        chosen = [
            j
            for j, cell in enumerate(cells)
            if rows[j, other] == 0 and isinstance(cell, str) == (kind == "text")
        ]
        known = objects([*(cells[j] for j in chosen), *more])
        if len(known):
            encoder = OneHotEncoder(categories=[known], handle_unknown="ignore")
            encoders.append((kind, encoder))
            found.append(weights @ rows[chosen].T)
            found.append(weights[:, [block.missing] * len(more)])
    steps = _steps((np.asarray, {"dtype": object}), FeatureUnion(encoders))
    return steps, np.hstack(found), own[:, other]


def _spellings(level: Any) -> list:
    """Return values of a table that may stand for a level: text, number or boolean."""
    text = str(level)
    cells = [level, text, text.lower(), text.upper(), number_in(text)]
    # As a column of floats holds it, and its text. Too large numbers are left out.
    with contextlib.suppress(OverflowError, TypeError):
        cells += [float(cells[-1]), str(float(cells[-1]))]
    words = {"true": True, "false": False}
    cells.append(words.get(text.lower()))
    kinds = (str, numbers.Real)
    found = [cell for cell in cells if isinstance(cell, kinds)]
    return [cell for cell in found if isinstance(cell, str) or not math.isnan(cell)]
