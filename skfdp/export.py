"""Conversion of fitted linear models to Pipelines of scikit-learn."""

from __future__ import annotations

import itertools
import json
import math
import operator
import re
import unicodedata
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.utils import check_array

from skfdp.data._basis import Block
from skfdp.data.cells import DAY, PARTS, objects
from skfdp.data.column_types import number_form, pandas_for
from skfdp.data.target import NOWHEN, TAKEN_FOR_MISSING, as_number, text_of
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.schema import TableSchema

_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"
#: Patterns of text, and their replacements: a date loses nanoseconds and time zone, and
#: becomes the local time. Any other text becomes one that is not a date.
_LOCAL = {
    rf"^({_DATE}{_TIME})((?<=\.\d{{6}})\d+)?(Z|[+-]\d\d:?\d\d(:\d\d)?)?\Z": r"\1",
    rf"(?s)^(?!({_DATE}({_TIME})?)?\Z).*": "?",
}


def pipeline_of(model: Any) -> Any:
    """Return a fitted linear model as a Pipeline; see `LinearModel.to_sklearn`."""
    public_model = getattr(model, "public_model_", None)
    if public_model is not None and public_model.share:
        raise ValueError(
            f"public_model={public_model.name} is not linear, so no linear model of "
            "scikit-learn has these predictions: save this model with joblib, or fit "
            "it with public_model='linear' or None."
        )
    if hasattr(model, "interactions_"):
        raise ValueError(
            "the model has interactions, so no linear model of scikit-learn has these "
            "predictions: save this model with joblib, or declare interactions=None "
            "in the schema."
        )
    convert = _of_numbers if model._reader.declaration.schema is None else _of_schema
    columns, coef, intercept = convert(
        model, np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    )
    steps = [("columns", columns), ("model", _linear(model, coef, intercept))]
    found = Pipeline(steps)
    found.privacy_report_ = json.loads(model.privacy_.to_json())
    found.privacy_statement_ = model.privacy_.statement()
    return found


def _linear(model: Any, coef: np.ndarray, intercept: np.ndarray) -> Any:
    # A fit on rows of zeros sets the attributes other than the weights.
    classes = getattr(model, "classes_", None)
    rows = np.zeros((2 if classes is None else len(classes), coef.shape[1]))
    if classes is not None:
        loss = model._reader.declaration.parameters["loss"]
        found = own = LogisticRegression()
        if loss != "log_loss":
            found = own = LinearSVC(loss=loss, random_state=0)
        own.fit(rows, classes)
    else:
        units = model.target_map_
        found = PoissonRegressor() if units.log else LinearRegression()
        of_rates = model._reader.declaration.exposure is not None
        if of_rates:
            name = model._reader.declaration.exposure_name
            warn_caller(
                f"the Pipeline predicts the rate of one unit of {name!r}: multiply its "
                "predictions by this column.",
                UtilityWarning,
            )
        if math.isfinite(units.low) and not of_rates:
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
    made = partial(FunctionTransformer, feature_names_out="one-to-one")
    found = [
        made(one[0], kw_args=one[1]) if type(one) is tuple else one for one in steps
    ]
    return make_pipeline(*found).set_output(transform="default")


def _beside(transformers: list[tuple]) -> Any:

    return ColumnTransformer(transformers).set_output(transform="default")


def _imputer(value: Any) -> tuple:
    """Return the step that replaces missing and infinite numbers by `value`."""
    return np.nan_to_num, {"nan": value, "posinf": value, "neginf": value}


# First steps: every cell becomes text as pandas writes it, and a missing cell becomes
# empty text. Patterns then read the text as the schema reads the cell. What they cannot
# read in the same way raises an error that names the column. The steps are methods of
# pandas with positional arguments, because skops loses keywords.


def _method(name: str, *args: Any) -> tuple:
    return operator.methodcaller(name, *args), {}


_DATES = ["datetime", "datetimetz"]
_OTHERS = [*_DATES, "timedelta", "complexfloating"]


def _to_texts(names: Iterable, *selected: Any) -> list[tuple]:
    """Return the steps that convert columns to text; see `DataFrame.select_dtypes`.

    If a column is not selected, `astype` raises an error that names it.
    """
    return [
        _method("astype", "object"),
        _method("infer_objects"),
        _method("select_dtypes", *selected or (None, _OTHERS)),
        _method("astype", dict.fromkeys(names, "object")),
        _method("fillna", ""),
        _method("astype", "str"),
    ]


def _parse_steps(names: Iterable, dtype: str, patterns: dict[str, str]) -> list[tuple]:
    """Return the steps that replace patterns of text, and convert text to a type."""
    steps = [_method("map", partial(re.sub, *pair)) for pair in patterns.items()]
    return [*steps, _method("astype", dict.fromkeys(names, dtype))]


def _dates(names: Iterable, usual: bool) -> list[tuple]:
    """Return the steps that convert columns to dates in local time.

    Text is refused if it is not ISO text (not `usual`), as it may be read differently.
    """
    texts = _to_texts(names, *((None, ["timedelta"]) if usual else (_DATES,)))
    return [*texts, *_parse_steps(names, "datetime64[us]", _LOCAL)]


def _to_numbers(names: Iterable, usual: bool = True) -> list[tuple]:
    """Return the steps that convert columns to float64.

    Text is refused if it has other separators than Python's (not `usual`), because the
    text of a number would be read with these separators, too.
    """
    if not usual:
        return [
            _method("astype", "object"),
            _method("fillna", np.nan),
            _method("infer_objects"),
            _method("select_dtypes", ["number", "bool"], ["timedelta", "complex"]),
            _method("astype", dict.fromkeys(names, "float64")),
        ]
    patterns = {
        r"(?i)^\s*true\s*\Z": "1",
        r"(?i)^\s*false\s*\Z": "0",
        # Durations and complex numbers remain, and raise an error.
        rf"(?s)^(?!\s*{number_form('.', '').pattern}\s*\Z)(?!.*[:(/]).*": "nan",
    }
    return [*_to_texts(names), *_parse_steps(names, "float64", patterns)]


def _words(names: Iterable, *more: tuple) -> list[tuple]:
    ends = (np.asarray, {"dtype": "T"}), (np.strings.strip, {})
    return [*_to_texts(names), *ends, *more, (np.asarray, {"dtype": "object"})]


# Models of numbers: columns are filled, clipped, and with `normalize` scaled.


def _of_numbers(model: Any, coef: np.ndarray, intercept: np.ndarray) -> tuple:
    """Convert a model without a schema to a transformer, weights and intercept.

    The weights and the intercept act on the output of the transformer.
    """
    scaler, width = model.input_scaler_, model.n_features_in_
    bounded = np.isfinite(
        np.full(width, np.inf) if scaler.span is None else scaler.span
    )
    low, high = scaler.offset, scaler.offset + scaler.factor
    middle = np.where(bounded, low + scaler.factor / 2, 0.0)
    # Missing public values stay missing, so that the linear model refuses them.
    middle = np.where(model._reader.mask, np.nan, middle)
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
        frame = pandas_for("to_sklearn of a model with column names").DataFrame
        rows = frame(dict(zip(names, rows.T, strict=True)))
    transformers = []
    for part, places, more in parts:
        read = [(check_array, {"dtype": "float64", "ensure_all_finite": False})]
        if names is not None:
            own = names[places].tolist()
            read = [(frame, {"columns": own}), *_to_numbers(own)]
        clip = np.clip, {"a_min": ends[0, places], "a_max": ends[1, places]}
        steps = _steps(*read, _imputer(middle[places]), clip, *more)
        transformers.append((part, steps, places.tolist()))
    found = _beside(transformers).fit(rows)
    for part, places, more in parts:
        if more:
            unit = found.named_transformers_[part]["standardscaler"]
            unit.mean_ = np.where(bounded, low, 0.0)[places]
            unit.scale_ = np.where(bounded, scaler.factor, 1.0)[places]
            unit.var_ = unit.scale_**2
    order = np.concatenate([places for _, places, _ in parts])
    return found, coef[:, order], intercept


def _of_schema(model: Any, coef: np.ndarray, intercept: np.ndarray) -> tuple:
    """Convert a model with a schema, as `_of_numbers` converts one without."""
    schema, transformers, weights = model._reader.declaration.schema, [], []
    row: dict[str, list] = {}
    for place, own in itertools.groupby(model.encoder_.blocks_, lambda b: b.parent):
        name, blocks = schema.features[place], list(own)
        column = schema.columns[name]
        if not column.is_exported:
            raise ValueError(
                f"column {name!r} is of the type {type(column).__name__}, which reads "
                "or encodes cells in its own way: save this model with joblib."
            )
        if column.cells is None:
            is_date = column.axis == "date"
            row[name] = [np.datetime64("2000-01-01", "us") if is_date else 0.0] * 2
            missing = column.points(objects(column.gone(schema)), schema)
            pairs = [_curve_steps(missing, name, block, coef) for block in blocks]
            curves, found = zip(*pairs, strict=True)
            usual = column.reads_usual_text(schema)
            steps = (_dates if is_date else _to_numbers)([name], usual)
            named = [(f"part{j}", one, [name]) for j, one in enumerate(curves)]
            parts = [("axis", [*steps, _beside(named)], np.hstack(found))]
        else:
            row[name] = [""] * 2
            parts, undeclared = _tables(schema, name, blocks, coef)
            intercept = intercept + undeclared
        for kind, steps, found in parts:
            # scikit-learn refuses "__" in names of transformers.
            label = re.sub("__+", "_", f"{place}_{name}_{kind}")
            transformers.append((label, _steps(*steps), [name]))
            weights.append(found)
    columns = _beside(transformers).fit(pandas_for().DataFrame(row))
    return columns, np.hstack(weights), intercept


def _curve_steps(missing: Any, name: str, block: Block, coef: np.ndarray) -> tuple:
    """Return the transformer of a number or a part of a date, and its weights.

    The transformer returns a spline basis, and a one-hot column for each value that
    means missing. The weights act on these columns.
    """
    period, own = 0, coef[:, block.start : block.stop]
    if block.reads == "number":
        exact, places = (_steps(_imputer(one)) for one in (np.nan, block.knots[0]))
        cells, knots = np.append(missing, np.nan), block.knots
    else:
        unit, period, first = PARTS.get(block.reads, ("us", 0, 0))
        exact, places = (
            _steps(
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
    return union, np.hstack([weights, of_missing])


def _tables(
    schema: TableSchema, name: str, blocks: list[Block], coef: np.ndarray
) -> tuple[list[tuple], np.ndarray]:
    """Return look-up tables for text, true and false, and numbers, and a default.

    The default is the weight of an undeclared cell. The tables have weights relative to
    it. A cell may be in two tables: true is the number 1, and text may spell a number.
    Its weights are added, so the tables of text and of true and false have differences.
    """

    def absolute(cells: list) -> np.ndarray:
        read = schema.converted(name, objects(cells))[0]
        rows = np.hstack([block.encode(read) for block in blocks])
        return rows @ coef[:, blocks[0].start : blocks[-1].stop].T

    def weights(cells: list) -> dict:
        return dict(zip(cells, absolute(cells) - undeclared, strict=True))

    undeclared = absolute([object()])[0]
    column = schema.columns[name]
    declared = [*column.cells, *column.gone(schema)]
    numbers = {as_number(cell) for cell in declared} | {0.0, 1.0}
    for kind in (np.float32, np.float16):  # as columns of these types hold them
        numbers |= {float(kind(one)) for one in numbers}
    codes = weights(sorted(filter(math.isfinite, numbers)))
    words = weights([False, True])
    words = {str(one).lower(): own - codes[one] for one, own in words.items()}
    spelt = {"", *TAKEN_FOR_MISSING, *filter(None, map(text_of, declared))}
    spelt |= {unicodedata.normalize("NFD", text) for text in spelt}
    texts = weights(sorted(text for text in spelt if text.lower() not in words))
    texts = {text: own - codes.get(as_number(text), 0.0) for text, own in texts.items()}
    found = []
    for kind, table, steps in (
        ("text", texts, _words([name])),
        ("word", words, _words([name], (np.strings.lower, {}))),
        ("code", codes, [*_to_numbers([name]), _imputer(np.nan)]),
    ):
        known = [cell for cell, own in table.items() if own.any()]
        if known:
            dtype = float if kind == "code" else object
            levels = [np.array(known, dtype=dtype)]
            listed = OneHotEncoder(categories=levels, handle_unknown="ignore")
            own = np.column_stack([table[cell] for cell in known])
            found.append((kind, [*steps, listed], own))
    return found, undeclared


#: Quantile of the normal distribution for a two-sided interval of 95 %.
QUANTILE = float(ndtri(0.975))


def names(model: Any, n_features: int) -> list[str]:
    """Return the names of the columns of `coef_`."""
    if hasattr(model, "encoder_"):
        return [*map(str, model.encoder_.get_feature_names_out())]
    numbered = [f"x{j}" for j in range(n_features)]
    return [*map(str, getattr(model, "feature_names_in_", numbered))]


def _places(encoder: Any) -> dict[str, np.ndarray]:
    columns, values = [], []
    for block in encoder.blocks_:
        own = list(block.levels)
        if block.kind == "spline":
            own[: len(block.knots)] = list(block.raw(block.knots))
        columns += [block.name] * len(own)
        values += own
    return {
        "column": np.array([*columns, "intercept"], dtype=object),
        "value": objects([*values, ""]),
    }


def coefficients(model: Any) -> dict[str, np.ndarray]:
    """Return the columns of `LinearModel.coefficients_table`, by name."""
    coef = np.atleast_2d(model.coef_)
    weights = np.column_stack([coef, np.atleast_1d(model.intercept_)])
    noise = getattr(model, "coef_noise_", None)
    # The size of the noise of a private fit may be unknown.
    std = np.full(weights.shape, np.nan if math.isfinite(model.epsilon) else 0.0)
    std = std if noise is None else noise.std
    features = np.array([*names(model, coef.shape[1]), "intercept"], dtype=object)
    places = _places(model.encoder_) if hasattr(model, "encoder_") else {}
    n_outputs, n_weights = weights.shape
    # What `coef_` does not include: the factor of margins of a public model, and the
    # sizes of interactions, whose noise is unknown.
    share = getattr(getattr(model, "public_model_", None), "share", 0.0)
    more = {"public model": np.full(n_outputs, share)} if share else {}
    interactions = getattr(model, "interactions_", None)
    if interactions is not None:
        more |= dict(zip(interactions.names, interactions.sizes.T, strict=True))
    sizes = np.reshape([*more.values()], (-1, n_outputs)).T

    def inserted(values: np.ndarray, own: Any) -> np.ndarray:
        """Return values with those of `more` before the last one, the intercept's."""
        own = np.broadcast_to(own, (*values.shape[:-1], len(more)))
        return np.concatenate([values[..., :-1], own, values[..., -1:]], axis=-1)

    weights = inserted(weights, sizes)
    std = inserted(std, [0.0 if name == "public model" else np.nan for name in more])
    features = inserted(features, [*more])
    places = {
        name: inserted(each, [*more] if name == "column" else "")
        for name, each in places.items()
    }
    found: dict[str, np.ndarray] = {}
    if n_outputs > 1:
        found["class"] = np.repeat(model.classes_, weights.shape[1])
    found["feature"] = np.tile(features, n_outputs)
    found |= {name: np.tile(each, n_outputs) for name, each in places.items()}
    found |= {"coef": weights.ravel(), "noise_std": std.ravel()}
    if noise is None or noise.estimate is None:
        return found
    estimate, error = noise.error_of(np.eye(n_weights - 1))
    # The data determine the intercept only if they determine all other coefficients.
    last = np.sqrt(np.maximum(noise.error[:, -1, -1], 0.0))
    last = np.where(np.isfinite(estimate).all(axis=1), last, np.nan)
    intercept = np.where(np.isfinite(last), noise.estimate[:, -1], np.nan)
    estimate = np.column_stack([estimate, intercept]).ravel()
    error = np.column_stack([error, last]).ravel()
    found |= {
        "estimate": estimate,
        "std_error": error,
        "z": estimate / error,
        "p": 2 * ndtr(-np.abs(estimate / error)),
        "low": estimate - QUANTILE * error,
        "high": estimate + QUANTILE * error,
    }
    ends = {"ratio": "estimate", "ratio_low": "low", "ratio_high": "high"}
    with np.errstate(over="ignore"):
        return found | {name: np.exp(found[end]) for name, end in ends.items()}
