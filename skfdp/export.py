"""Conversion of fitted linear models to Pipelines of scikit-learn.

Every effect is a sum of ramps, ``clip((x - offset) / width, 0, 1)``, which skl2onnx can
convert. A step is a ramp of almost no width. Pipelines have types of scikit-learn and
functions of NumPy alone.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import unicodedata
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from skfdp.data.cells import DAY, PARTS, objects
from skfdp.data.column_types import pandas_for
from skfdp.data.target import NOWHEN, TAKEN_FOR_MISSING, as_number, text_of
from skfdp.data.validation import UtilityWarning, warn_caller


def pipeline_of(model: Any, onnx: bool) -> Any:
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
    weights = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    steps, coef, intercept = convert(model, *weights, onnx)
    if onnx and _clips(model):
        steps, coef, intercept = _clipped(model, steps, coef, intercept)
    found = Pipeline([*steps, ("model", _linear(model, coef, intercept, onnx))])
    found.privacy_report_ = json.loads(model.privacy_.to_json())
    found.privacy_statement_ = model.privacy_.statement()
    return found


def _clips(model: Any) -> bool:
    units = getattr(model, "target_map_", None)
    of_rates = model._reader.declaration.exposure is not None
    return units is not None and math.isfinite(units.low) and not of_rates


def _clipped(model: Any, steps: list, coef: np.ndarray, intercept: np.ndarray) -> tuple:
    """Return steps that also clip the margin, and weights of the clipped one."""
    ends = np.array([model.target_map_.low, model.target_map_.high])
    if model.target_map_.log:  # exp(-87) is the smallest number of float32
        ends = np.log(np.maximum(ends, np.exp(-87.0)))
    margin, clip = TruncatedSVD(1), MinMaxScaler(clip=True)
    margin.components_ = coef
    clip.fit(ends[:, None] - intercept)
    steps = [*steps, ("margin", margin), ("bounds", clip)]
    return steps, np.diff(ends)[None], ends[:1]


def _linear(model: Any, coef: np.ndarray, intercept: np.ndarray, onnx: bool) -> Any:
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
        if model._reader.declaration.exposure is not None:
            name = model._reader.declaration.exposure_name
            warn_caller(
                f"the Pipeline predicts the rate of one unit of {name!r}: multiply its "
                "predictions by this column.",
                UtilityWarning,
            )
        if _clips(model) and not onnx:
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


def _beside(*parts: tuple) -> Any:
    """Return a ColumnTransformer of the parts that have columns."""
    some = [(n, step, np.asarray(own).tolist()) for n, step, own in parts if len(own)]
    return ColumnTransformer(some).set_output(transform="default")


# Models of numbers: columns are filled, clipped, and with `normalize` scaled.


def _of_numbers(model: Any, coef: Any, intercept: np.ndarray, onnx: bool) -> tuple:
    """Convert a model without a schema to transformers, weights and intercept.

    The weights and the intercept act on the output of the transformers.
    """
    scaler, width = model.input_scaler_, model.n_features_in_
    spans = np.full(width, np.inf) if scaler.span is None else scaler.span
    bounded, offset = np.isfinite(spans), np.zeros(width) + scaler.offset
    middle = np.where(bounded, offset + scaler.factor / 2, 0.0)
    rows: Any = np.where(bounded, [offset, offset + scaler.factor], [[0.0], [1.0]])
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        frame = pandas_for("to_sklearn of a model with column names").DataFrame
        rows = frame(dict(zip(names, rows.T, strict=True)))
    # Missing public values stay missing, so that the linear model refuses them.
    private = ~model._reader.mask
    parts = [
        (f"{kind}_{how}", [kind == "private", how == "bounded"], own & limited)
        for kind, own in (("private", private), ("public", ~private))
        for how, limited in (("bounded", bounded), ("free", ~bounded))
    ]
    steps = ("fill", SimpleImputer()), ("clip", MinMaxScaler(clip=True))
    read = [
        (n, [*itertools.compress(steps, own)], np.flatnonzero(m)) for n, own, m in parts
    ]
    found = _beside(*((n, Pipeline(s) if s else "passthrough", m) for n, s, m in read))
    found.fit(rows)
    for name, some, places in read:
        if len(places) and some[:1] == [steps[0]]:
            found.named_transformers_[name]["fill"].statistics_ = middle[places]
    order, steps = np.concatenate([places for *_, places in read]), [("columns", found)]
    unit = scaler.normalize and math.isfinite(scaler.feature_bound)
    if unit:
        public = (
            np.zeros(width, bool) if scaler.public is None else scaler.public[order]
        )
        own, norm = [np.flatnonzero(mask) for mask in (~public, public)], Normalizer()
        if public.any():
            norm = _beside(("private", norm, own[0]), ("public", "passthrough", own[1]))
        steps.append(("normalize", norm.fit(found.transform(rows))))
        order = order[np.concatenate(own)]
    intercept = intercept + (coef * offset).sum(axis=1)
    coef = coef * ((scaler.divisor if unit else 1.0) * scaler.factor)
    return steps, coef[:, order], intercept


# Models of raw tables. The first transformer reads cells: `_GONE` replaces missing
# numbers, a date becomes microseconds, and a cosine for each of its cyclic parts, and
# text the number of a level. Then all columns become ramps.

#: What replaces missing numbers; and what only such numbers, or dates, are below.
_GONE, _NO_NUMBER, _NEVER = -1e37, -1e36, -9.2e18
#: Width of a ramp that is a step, also in float32.
_STEP = 1e-30
_REFIT = "a refit is refused: fit the model of skfdp, and call its to_sklearn()"
#: Shift of the angles of a cyclic part of a date, so that no two cosines are equal.
_PHASE = 0.25


def _applied(function: Any, **given: Any) -> Any:
    return FunctionTransformer(function, kw_args=given)


def _readers(onnx: bool, levels: list[np.ndarray], n: int) -> dict[str, Any]:
    """Return the transformers of the parts of the first transformer; n read texts."""
    numbers, number = SimpleImputer(), _applied(np.asarray, dtype="float64")
    how = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    codes = OrdinalEncoder(categories=levels, **how)
    if onnx:
        return {"texts": codes, "numbers": numbers}
    # pandas takes twice as long for text that it does not hand over as objects, and the
    # encoder has a cost for each column, so it reads all as one.
    cells, text = (_applied(np.asarray, dtype=kind) for kind in ("O", "T"))
    one = _applied(np.split, indices_or_sections=n, axis=1), _applied(np.concatenate)
    apart = _applied(np.split, indices_or_sections=n), _applied(np.concatenate, axis=1)
    strip = text, _applied(np.strings.strip), cells
    found = {
        "texts": make_pipeline(cells, *one, *strip, codes, *apart),
        # Only numbers have conjugates, so text with other separators is refused.
        "marked": make_pipeline(_applied(np.conjugate), numbers),
        "dates": _applied(np.isnat),  # refuses other cells
        "date": make_pipeline(_applied(np.asarray, dtype="datetime64[us]"), number),
    }
    for part, (unit, _, _) in PARTS.items():
        count = _applied(np.asarray, dtype=f"datetime64[{unit}]"), number
        found[part] = make_pipeline(*count, StandardScaler(), _applied(np.cos))
    # Only numbers and objects have it, so that durations are not read as counts.
    zeros = _applied(np.logical_not), _applied(np.zeros_like, dtype="float64")
    return found | {"numbers": make_union(numbers, make_pipeline(*zeros))}


@dataclasses.dataclass
class _Curves:
    """Ramps: what the columns add to the margins, of shape (n_outputs,) for a row."""

    constant: np.ndarray
    onnx: bool
    #: Columns of the table that each part of the first transformer reads.
    parts: dict[str, list[str]]
    #: Part and column, offset, width and weights of each ramp.
    ramps: list[tuple] = dataclasses.field(default_factory=list)
    #: Weights of texts beyond an undeclared one, by column, of each encoder's columns.
    texts: list[dict[str, dict]] = dataclasses.field(default_factory=list)

    def add(
        self, part: str, name: str, offsets: Any, widths: Any, heights: np.ndarray
    ) -> None:
        """Add a curve that rises on each ramp to the next of the heights."""
        if name not in self.parts[part]:
            self.parts[part].append(name)
        self.constant = self.constant + heights[:, 0]
        for ramp in zip(offsets, widths, np.diff(heights).T, strict=True):
            self.ramps.append(((part, name), *ramp))

    def add_below(self, part: str, name: str, end: float, weight: np.ndarray) -> None:
        """Add a weight if the number is below the end."""
        self.add(part, name, [end], [-_STEP], np.outer(weight, [0, 1]))

    def add_at(self, part: str, name: str, value: float, weight: np.ndarray) -> None:
        """Add a weight if the number is this value, or this value as float32."""
        with np.errstate(over="ignore"):
            stored = value if part == "date" else float(np.float32(value))
        ends, heights = sorted((value, stored)), np.outer(weight, [1, 0, -1])
        self.add(part, name, ends, [-_STEP, _STEP], heights)

    def add_texts(self, texts: dict[str, dict]) -> np.ndarray:
        """Add weights of texts; return levels, whose places are codes from 0."""
        levels = [*dict.fromkeys(["", *itertools.chain(*texts.values())])]
        none = 0 * self.constant
        found = np.array([[own.get(n, none) for n in levels] for own in texts.values()])
        # Equal weights are adjacent. An undeclared text has the code -1.
        order = np.lexsort(found.swapaxes(1, 2).reshape(-1, len(levels)))
        for name, own in zip(texts, found[:, order], strict=True):
            heights = np.vstack([none, own])
            rises = np.union1d(0, np.diff(heights, axis=0).any(axis=1).nonzero())
            heights = heights[[0, *rises + 1]].T
            self.add("texts", name, rises - 0.5, [_STEP] * len(rises), heights)
        return np.array(levels)[order]

    def transformers(self, row: dict[str, list]) -> tuple:
        """Return the fitted transformers, weights and intercept, given two rows."""
        parts, levels = self.parts, [self.add_texts(texts) for texts in self.texts]
        readers = _readers(self.onnx, levels, len(parts["texts"]))
        row |= dict.fromkeys(parts["texts"], [""] * 2)
        first = _beside(*((name, readers[name], parts[name]) for name in readers))
        encoded = first.fit_transform(pandas_for().DataFrame(row))
        first.sparse_threshold = _REFIT  # which scikit-learn's error of a refit quotes
        for part, (_, period, _) in PARTS.items():
            if parts[part]:
                angle = first.named_transformers_[part][-2]
                angle.mean_[:], angle.scale_[:] = -_PHASE, period / (2 * np.pi)
        columns = [(part, own) for part in readers for own in parts[part]]
        of, offset, width, weights = zip(*self.ramps, strict=True)
        places = [columns.index(column) for column in of]
        repeat: Any = _applied(np.take, indices=np.array(places), axis=1)
        shift = StandardScaler(copy=False).fit(encoded[:, places])
        clip: Any = _applied(np.clip, a_min=0, a_max=1)
        if self.onnx:  # which has no function
            repeat, clip = TruncatedSVD(len(places)), MinMaxScaler(clip=True)
            repeat.components_ = np.eye(len(columns))[places]
        shift.mean_, shift.scale_ = np.array(offset), np.array(width)
        shift.var_ = shift.scale_**2
        clip.fit(np.outer([0.0, 1.0], np.ones(len(places))))
        steps = [("columns", first), ("repeat", repeat), ("shift", shift)]
        return [*steps, ("clip", clip)], np.transpose(weights), self.constant


def _of_schema(model: Any, coef: Any, intercept: np.ndarray, onnx: bool) -> tuple:
    """Convert a model with a schema, as `_of_numbers` converts one without."""
    schema = model._reader.declaration.schema
    curves = _Curves(intercept, onnx, collections.defaultdict(list))
    row: dict[str, list] = {}
    for place, own in itertools.groupby(model.encoder_.blocks_, lambda b: b.parent):
        name, blocks = schema.features[place], list(own)
        column = schema.columns[name]
        if not column.is_exported:
            raise ValueError(
                f"column {name!r} is of the type {type(column).__name__}, which reads "
                "or encodes cells in its own way: save this model with joblib."
            )
        if onnx and column.axis == "date":
            raise ValueError(
                f"column {name!r} holds dates, whose parts ONNX cannot compute: use "
                "onnx=False, or fit a model without this column."
            )
        gone = column.points(objects(column.gone(schema)), schema)
        row[name] = [_GONE] * 2
        if column.cells is not None:
            _add_levels(curves, schema, name, blocks, coef)
        elif column.axis == "date":
            row[name] = [np.datetime64("2000-01-01", "us")] * 2
            _add_date(curves, name, blocks, gone, coef)
        else:
            (block,) = blocks
            usual = onnx or column.reads_usual_text(schema)
            number = "numbers" if usual else "marked", name
            knots, heights = block.curve(coef[:, block.start : block.stop])
            missing = coef[:, block.start + block.missing]
            curves.add(*number, knots[:-1], np.diff(knots), heights)
            curves.add_below(*number, _NO_NUMBER, missing - heights[:, 0])
            for value in np.unique(gone[np.isfinite(gone)]):
                curves.add_at(*number, value, missing - _at(value, knots, heights))
    return curves.transformers(row)


def _at(value: float, knots: np.ndarray, heights: np.ndarray) -> np.ndarray:
    return np.array([np.interp(value, knots, own) for own in heights])


def _add_date(
    curves: _Curves, name: str, blocks: Any, gone: np.ndarray, coef: np.ndarray
) -> None:
    """Add the curves of a column of dates; those in `gone` count as missing."""
    moments = np.append(np.unique(gone[~np.isnat(gone)]), NOWHEN)
    curves.add("dates", name, [], [], np.zeros((len(coef), 1)))
    missing = np.zeros((len(moments), len(coef)))  # beyond the curves
    for block in blocks:
        missing += coef[:, block.start + block.missing]
        if block.reads == "date":
            days, heights = block.curve(coef[:, block.start : block.stop])
            knots = days * DAY
            curves.add("date", name, knots[:-1], np.diff(knots), heights)
            missing -= [_at(one, knots, heights) for one in moments.astype(np.int64)]
            continue
        unit, period, first = PARTS[block.reads]
        counts = moments.astype(f"datetime64[{unit}]").astype(np.float64)
        angles = np.append(np.arange(period), counts) + _PHASE
        cosines, found = np.split(np.cos(angles / (period / (2 * np.pi))), [period])
        order = np.argsort(cosines)
        heights = coef[:, block.start + (order + first) % period]
        ends = (cosines[order][1:] + cosines[order][:-1]) / 2
        curves.add(block.reads, name, ends, [_STEP] * (period - 1), heights)
        missing -= heights[:, np.searchsorted(ends, found)].T
    curves.add_below("date", name, _NEVER, missing[-1])
    for value, own in zip(moments[:-1].astype(np.float64), missing, strict=False):
        curves.add_at("date", name, value, own)


def _add_levels(
    curves: _Curves, schema: Any, name: str, blocks: Any, coef: np.ndarray
) -> None:
    """Add the weights of the levels of a column, as texts or as numbers."""

    def weights(cells: list) -> np.ndarray:
        read = schema.converted(name, objects(cells))[0]
        return sum(b.margins(read, coef[:, b.start : b.stop]) for b in blocks)

    other, missing = weights([object(), None])
    curves.constant = curves.constant + other
    column = schema.columns[name]
    declared = [*column.cells, *column.gone(schema)]
    numbers = {as_number(cell) for cell in declared}
    numbers = sorted(filter(math.isfinite, numbers))
    if all(isinstance(cell, Real) for cell in column.cells):
        curves.add_below("numbers", name, _NO_NUMBER, missing - other)
        for value, own in zip(numbers, weights(numbers), strict=True):
            curves.add_at("numbers", name, value, own - other)
        return
    # The cell that each text means; a text that is declared means itself.
    cells: dict[str, Any] = dict.fromkeys(("", "NaT", *sorted(TAKEN_FOR_MISSING)))
    for word in ("True", "False"):
        cells |= dict.fromkeys((word, word.lower(), word.upper()), word == "True")
    for value in numbers:  # as columns of numbers hold them
        stored = np.float32(value)
        cells |= dict.fromkeys((str(stored), repr(float(stored))), value)
    cells |= {repr(value): value for value in numbers}
    cells |= {f"{value:.0f}": value for value in numbers if value.is_integer()}
    texts = [*filter(None, map(text_of, declared))]
    for form in ("NFC", "NFD"):
        cells |= {unicodedata.normalize(form, text): text for text in texts}
    cells |= dict(zip(texts, texts, strict=True))
    found = zip(cells, weights([*cells.values()]) - other, strict=True)
    if curves.onnx or not curves.texts:
        curves.texts.append({})
    curves.texts[-1][name] = {text: own for text, own in found if own.any()}


#: Quantile of the normal distribution for a two-sided interval of 95 %.
QUANTILE = float(ndtri(0.975))


def names(model: Any, n_features: int) -> list[str]:
    """Return the names of the columns of `coef_`."""
    if hasattr(model, "encoder_"):
        return [*map(str, model.encoder_.get_feature_names_out())]
    numbered = [f"x{j}" for j in range(n_features)]
    return [*map(str, getattr(model, "feature_names_in_", numbered))]


def coefficients(model: Any) -> dict[str, np.ndarray]:
    """Return the columns of `LinearModel.coefficients_table`, by name."""
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    n_outputs, n_features = coef.shape
    noise = getattr(model, "coef_noise_", None)
    # The size of the noise of a private fit may be unknown.
    unknown = np.nan if math.isfinite(model.epsilon) else 0.0
    std = np.full((n_outputs, n_features + 1), unknown) if noise is None else noise.std
    # What `coef_` does not include: the factor of margins of a public model, and the
    # sizes of interactions, whose noise is unknown.
    share = getattr(getattr(model, "public_model_", None), "share", 0.0)
    own = "public model (public_model_)"  # where to find it
    more = {own: np.full(n_outputs, share)} if share else {}
    interactions = getattr(model, "interactions_", None)
    if interactions is not None:
        more |= dict(zip(interactions.names, interactions.sizes.T, strict=True))
    sizes = np.reshape([*more.values()], (-1, n_outputs)).T
    errors = np.where([name == own for name in more], 0.0, np.full(sizes.shape, np.nan))
    named = {"feature": [*names(model, n_features), *more, "intercept"]}
    if hasattr(model, "encoder_"):
        columns, values = [], []
        for block in model.encoder_.blocks_:
            levels = list(block.levels)
            if block.kind == "spline":
                levels[: len(block.knots)] = list(block.raw(block.knots))
            columns += [block.name] * len(levels)
            values += levels
        named["column"] = [*columns, *more, "intercept"]
        named["value"] = [*values, *[""] * (len(more) + 1)]
    found: dict[str, np.ndarray] = {}
    if n_outputs > 1:
        found["class"] = np.repeat(model.classes_, n_features + len(more) + 1)
    found |= {name: np.tile(objects(own), n_outputs) for name, own in named.items()}
    found["coef"] = np.column_stack([coef, sizes, intercept]).ravel()
    found["noise_std"] = np.column_stack([std[:, :-1], errors, std[:, -1]]).ravel()
    kinds = np.full(std.shape, "") if noise is None else noise.kinds()
    none = np.full(sizes.shape, "")
    found["noise_kind"] = np.column_stack([kinds[:, :-1], none, kinds[:, -1]]).ravel()
    if noise is None or noise.estimate is None:
        return found
    estimate, error = noise.error_of(np.eye(n_features))
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
