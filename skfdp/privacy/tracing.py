"""The columns before a step that each column behind it comes from.

Guarantees
----------
* Of a step that `steps` knows, every value of an output column is a function of the
  same row's values in the columns that are named here, and of what the step learnt.
  What cannot be followed is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from skfdp.privacy.facts import spelling
from skfdp.privacy.steps import (
    is_class,
    is_container,
    is_encoder,
    known,
    members,
    verdict,
)

#: For every output column the positions of the input columns that it comes from.
Sources = tuple[frozenset[int], ...]
# Tables that are wider than this are not followed.
_WIDEST = 20_000


def sources(step: Any, n_features: int) -> Sources | None:
    """Return where the columns behind a fitted step come from, None if unknown.

    Parameters
    ----------
    step : transformer, "passthrough", "drop" or None
    n_features : int
        Number of columns before it.
    """
    if step is None or isinstance(step, str):
        return () if step == "drop" else _same(step, n_features)
    followed = is_container(step) or verdict(step) is not None
    if n_features > _WIDEST or not known(step) or not followed:
        return None
    if getattr(step, "n_features_in_", n_features) != n_features:
        return None
    try:
        found = _of_known(step, n_features)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # it is not fitted, or it is of a version that is otherwise
    return None if found is None or len(found) > _WIDEST else found


def input_names(step: Any) -> list[str] | None:
    """Return the names of the columns that a fitted step was given, if they differ."""
    names = [spelling(str(one)) for one in getattr(step, "feature_names_in_", ())]
    return names if names and len(set(names)) == len(names) else None


def _of_known(step: Any, n_features: int) -> Sources | None:
    if is_encoder(step):
        return tuple(
            frozenset(block.parents)
            for block in sorted(step.blocks_, key=lambda block: block.start)
            for _ in range(block.start, block.stop)
        )
    name = type(step).__name__
    if name == "ColumnTransformer":
        return _of_columns(step, n_features)
    if is_container(step):
        return _of_parts(step, n_features)
    if name in _FOLLOWED:
        return _FOLLOWED[name](step, n_features)
    if hasattr(step, "get_support"):
        return tuple(frozenset({int(j)}) for j in step.get_support(indices=True))
    return _mixed(step, n_features)


def _same(step: Any, n_features: int) -> Sources:
    return tuple(frozenset({j}) for j in range(n_features))


def _mixed(step: Any, n_features: int) -> Sources:
    return (frozenset(range(n_features)),) * len(step.get_feature_names_out())


def _none(step: Any, n_features: int) -> None:
    return None


def _repeated(counts: Iterable[int]) -> Sources:
    return tuple(
        frozenset({j}) for j, count in enumerate(counts) for _ in range(int(count))
    )


def _one_hot(step: Any, n_features: int) -> Sources:
    counts = [len(one) for one in step.categories_]
    for j, rare in enumerate(getattr(step, "infrequent_categories_", ())):
        counts[j] -= 0 if rare is None else len(rare) - 1
    if step.drop_idx_ is not None:
        for j, dropped in enumerate(step.drop_idx_):
            counts[j] -= dropped is not None
    return _repeated(counts)


def _splines(step: Any, n_features: int) -> Sources:
    return _repeated([step.n_features_out_ // n_features] * n_features)


def _bins(step: Any, n_features: int) -> Sources:
    if step.encode == "ordinal":
        return _same(step, n_features)
    return _repeated(step.n_bins_)


def _products(step: Any, n_features: int) -> Sources:
    return tuple(frozenset(map(int, np.flatnonzero(powers))) for powers in step.powers_)


def _imputed(step: Any, n_features: int) -> Sources | None:
    if any(isinstance(one, float) and math.isnan(one) for one in step.statistics_):
        return None  # columns without a value may be left out
    marked = [] if step.indicator_ is None else step.indicator_.features_
    marks = tuple(frozenset({int(j)}) for j in marked)
    return (*_same(step, n_features), *marks)


def _marked(step: Any, n_features: int) -> Sources:
    return tuple(frozenset({int(j)}) for j in step.features_)


def _encoded_target(step: Any, n_features: int) -> Sources:
    if step.target_type_ != "multiclass":
        return _same(step, n_features)
    return _repeated([len(step.classes_)] * n_features)


def _rowwise(step: Any, n_features: int) -> Sources:
    return (frozenset(range(n_features)),) * n_features


#: Of those that do not give a mixture of all columns, and do not select columns.
_FOLLOWED: dict[str, Callable[[Any, int], Sources | None]] = {
    **dict.fromkeys(
        [
            *("Binarizer", "FunctionTransformer", "OrdinalEncoder", "MaxAbsScaler"),
            *("MinMaxScaler", "PowerTransformer", "QuantileTransformer"),
            *("RobustScaler", "StandardScaler"),
        ],
        _same,
    ),
    "KBinsDiscretizer": _bins,
    "MissingIndicator": _marked,
    "Normalizer": _rowwise,
    "TfidfTransformer": _rowwise,
    "OneHotEncoder": _one_hot,
    "PolynomialFeatures": _products,
    "SimpleImputer": _imputed,
    "SplineTransformer": _splines,
    "TargetEncoder": _encoded_target,
    **dict.fromkeys(
        [
            *("FrozenEstimator", "HashingVectorizer", "FeatureHasher"),
            *("CountVectorizer", "DictVectorizer", "TfidfVectorizer"),
            *("AdditiveChi2Sampler", "_ConstantPredictor"),
        ],
        _none,
    ),
}


def _of_parts(step: Any, n_features: int) -> Sources | None:
    """Follow a FeatureUnion, or a Pipeline as a part of something."""
    parts = [part for _, part, _ in members(step)]
    if is_class(step, "Pipeline"):
        found: Sources | None = _same(step, n_features)
        for part in parts:
            found = found and then(found, sources(part, len(found)))
        return found
    each = [sources(part, n_features) for part in parts]
    return None if None in each else sum((one for one in each if one), ())


def _of_columns(step: Any, n_features: int) -> Sources | None:
    found: list[frozenset[int] | None] = []
    for name, part, chosen in members(step):
        place = step.output_indices_[name]
        if place.stop == place.start:
            continue
        positions = chosen_positions(chosen, input_names(step), n_features)
        own = sources(part, len(positions))
        if own is None or len(own) != place.stop - place.start:
            return None
        found.extend([None] * (place.stop - len(found)))
        found[place] = then(tuple(frozenset({j}) for j in positions), own) or ()
    return None if None in found else tuple(one for one in found if one is not None)


def then(first: Sources, second: Sources | None) -> Sources | None:
    """Return the sources behind two steps, in columns before the first."""
    if second is None:
        return None
    return tuple(
        frozenset().union(*(first[middle] for middle in one)) for one in second
    )


def chosen_positions(
    chosen: Any, names: Sequence[str] | None, n_features: int
) -> list[int]:
    """Return the positions of what a ColumnTransformer was told to choose."""
    if isinstance(chosen, str) or np.isscalar(chosen):
        chosen = [chosen]
    if isinstance(chosen, slice):
        ends = [chosen.start, chosen.stop]
        if any(isinstance(end, str) for end in ends):
            if names is None:
                raise ValueError("labels without names")
            first, last = (
                None if end is None else names.index(spelling(end)) for end in ends
            )
            # Both ends of a slice of labels are inside.
            chosen = slice(first, None if last is None else last + 1, chosen.step)
        return list(range(n_features))[chosen]
    listed = list(chosen)
    if listed and all(isinstance(one, bool | np.bool_) for one in listed):
        return [int(j) for j in np.flatnonzero(listed)]
    if any(isinstance(one, str) for one in listed):
        if names is None:
            raise ValueError("labels without names")
        return [names.index(spelling(one)) for one in listed]
    everything = list(range(n_features))
    return [everything[int(one)] for one in listed]
