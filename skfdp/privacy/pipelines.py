"""Reports of what consists of several steps or fits: Pipelines, and tools around them.

Guarantees
----------
* All events of all parts are composed; one record enters every part.
* A part without a report is listed: as what `steps` knows of it, or as unseen. What it
  learnt from public columns alone is free; what it learnt from others voids the report.
* A column behind a Pipeline that is public, and another one that is private, never come
  from the same columns of its table as far as they can be followed (`tracing`).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skfdp.privacy.assumptions import (
    CLASSES_READ,
    COLUMNS_ASSUMED,
    COLUMNS_FOLLOWED,
    Assumption,
    enforced,
    implied_assumptions,
    is_enforced,
    unseen_assumption,
)
from skfdp.privacy.checks import shown, spelling
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.preprocessing_steps import (
    Learns,
    Lesson,
    is_class,
    is_container,
    is_encoder,
    known,
    members,
    verdict,
)
from skfdp.privacy.public_sets import set_text
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_facts import plain_names
from skfdp.privacy.store import LedgerEntry

# The table of scikit-learn's tools around estimators: which only fit their members.
#
# By name, since this package does not import scikit-learn. A tool of the first table
# uses the data through its members alone, so that the releases of all members are all
# that there is; one record enters every member. A tool of the second one uses private
# values beside the fits that it makes.


_RESAMPLED = "its bootstrap repeats records, and each must appear once"
_OUTSIDE = {
    "CalibratedClassifierCV": (
        "its calibrator is fitted to the target without noise (private_score and "
        "best_temperature calibrate by a release)"
    ),
    "StackingClassifier": "its final estimator is fitted to the target without noise",
    "StackingRegressor": "its final estimator is fitted to the target without noise",
    "TunedThresholdClassifierCV": (
        "its threshold is tuned on the target without noise (private_score and "
        "best_threshold choose one by a release)"
    ),
    "BaggingClassifier": _RESAMPLED,
    "BaggingRegressor": _RESAMPLED,
    "AdaBoostClassifier": "its weights depend on which records are misclassified",
    "OneVsOneClassifier": (
        "each of its members is fitted to the records of two labels, so that the "
        "private target decides who is in which fit"
    ),
}

Members = list[tuple[str, Any]]


def refusal(obj: Any) -> str | None:
    """Return why no report of a fitted tool can vouch for it, None if it can."""
    for kind in type(obj).__mro__:
        if kind.__name__ in _OUTSIDE:
            return _OUTSIDE[kind.__name__]
    return None


def members_of(obj: Any) -> Members | None:
    """Return the fitted members of a tool that does nothing else with the data.

    Returns
    -------
    members : list of (str, object), or None
        None for other objects, and where it is not fitted.

    Raises
    ------
    ValueError
        If the members treat the target of another one as public, or name it.
    """
    if not is_class(obj, *_WRAPPERS):
        return None
    try:
        return _WRAPPERS[type(obj).__name__](obj)
    except AttributeError:
        return None


def reads_classes(obj: Any) -> bool:
    """Whether a tool reads the label set from the target before its members do."""
    return is_class(obj, "OneVsRestClassifier", "VotingClassifier")


def _listed(obj: Any) -> Members:
    return [(f"estimators_[{j}]", one) for j, one in enumerate(obj.estimators_)]


def _voting(obj: Any) -> Members:
    names = [name for name, one in obj.estimators if not isinstance(one, str)]
    return list(zip(names, obj.estimators_, strict=True))


def _one_vs_rest(obj: Any) -> Members:
    found = _listed(obj)
    if obj.multilabel_:
        _check_targets_have_no_name(obj, found)
    return found


def _outputs(obj: Any) -> Members:
    found = _listed(obj)
    _check_targets_have_no_name(obj, found)
    return found


def _chain(obj: Any) -> Members:
    found = _outputs(obj)
    if obj.cv is not None:
        raise ValueError(
            f"report() cannot count the private fits inside {type(obj).__name__}: "
            f"cv={obj.cv!r} makes fits that it does not keep; pass cv=None."
        )
    for one in leaves(found):
        if one.privacy_.public_features:
            raise ValueError(
                f"report() cannot vouch for {type(obj).__name__}: its later members "
                "see the earlier targets as columns, which public_features may "
                "disclose; treat no column as public, or use MultiOutputClassifier."
            )
    return found


def _fixed(obj: Any) -> Members:
    """Return the member that predicts: a fitted one, if it was not fitted again."""
    if hasattr(obj, "estimator_"):
        return [("estimator_", obj.estimator_)]
    return [("estimator", obj.estimator)]


def _check_targets_have_no_name(obj: Any, found: Members) -> None:
    named = [one.privacy_.target_name for one in leaves(found)]
    if any(name is not None for name in named):
        raise ValueError(
            f"report() cannot vouch for {type(obj).__name__}: its members have "
            "different targets, but the same target_name; leave target_name out."
        )


def leaves(found: Members) -> Iterator[Any]:
    """Yield the estimators with a report among members, those in Pipelines too."""
    for _, one in found:
        if hasattr(one, "privacy_"):
            yield one
        else:
            inner = getattr(one, "steps", None) or members_of(one) or []
            yield from leaves([(name, step) for name, step in inner])


_WRAPPERS: dict[str, Callable[[Any], Members]] = {
    "OneVsRestClassifier": _one_vs_rest,
    "VotingClassifier": _voting,
    "VotingRegressor": _voting,
    "MultiOutputClassifier": _outputs,
    "MultiOutputRegressor": _outputs,
    "ClassifierChain": _chain,
    "RegressorChain": _chain,
    "TransformedTargetRegressor": lambda obj: [("regressor_", obj.regressor_)],
    "FixedThresholdClassifier": _fixed,
}


# The columns before a step that each column behind it comes from.
#
# Guarantees
# ----------
# * Of a step that `steps` knows, every value of an output column is a function of the
#   same row's values in the columns that are named here, and of what the step learnt.
#   What cannot be followed is None.


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


# The public columns of a Pipeline's table, step by step from its end.
#
# Guarantees
# ----------
# * What the last report of a Pipeline calls public fixes what is public before each
#   step. A column is public if a public column behind the step comes from it.
# * Refused is a public column that comes from all that a private one comes from: either
#   it tells of a private column, or that one is not private.
# * A column that cannot be followed is not called public.


Mask = tuple[bool, ...]


@dataclasses.dataclass
class Part:
    """A step or a member: its report, or what is known of it without one."""

    name: str
    step: Any
    report: PrivacyReport | None
    #: Which columns before it are public; None if that is not known.
    public: Mask | None = None

    @property
    def passes(self) -> bool:
        """Whether it does nothing ("passthrough")."""
        return self.step is None or isinstance(self.step, str)


def follow(parts: list[Part]) -> Mask | None:
    """Find which columns before each part are public, from the last report backwards.

    Returns
    -------
    mask : tuple of bool, or None
        The public columns of the table; None if they cannot be followed.
    """
    last = max(j for j, part in enumerate(parts) if part.report is not None)
    mask = parts[last].public = own_mask(parts[last].step, parts[last].report)
    for j in reversed(range(last)):
        part = parts[j]
        if mask is None:
            return None
        if part.report is not None:
            # What keeps its public columns apart has as many columns behind it.
            own = own_mask(part.step, part.report)
            mask = own if own == mask or not any(mask) else None
        elif not part.passes:
            mask = _before(part, mask, parts[last].name, _output_names(parts, j))
        part.public = mask
    return mask


def _before(
    part: Part, mask: Mask, reader: str, names: list[str] | None
) -> Mask | None:
    """Return which columns before a step are public, or refuse a contradiction."""
    n_features = getattr(part.step, "n_features_in_", 0)
    found = sources(part.step, n_features) if n_features else None
    if found is None or len(found) != len(mask):
        return None
    shown = {one: j for j, one in enumerate(found) if mask[j] and one}
    hidden = {one: j for j, one in enumerate(found) if not mask[j] and one}
    for one, j in shown.items():
        other = next(_inside_of(one, hidden), None)
        if other is None:
            continue
        open_, closed = ((names[i] if names else i) for i in (j, hidden[other]))
        raise PrivacyBudgetError(
            f"step {reader} treats column {open_!r} as public and {closed!r} as "
            f"private, but step {part.name} computed the public one from all that the "
            f"private one comes from ({_columns_text(part.step, other)}): treat both "
            "as public, or neither."
        )
    public = frozenset().union(*shown) if shown else frozenset()
    return tuple(j in public for j in range(n_features))


def _inside_of(
    whole: frozenset[int], others: Mapping[frozenset[int], int]
) -> Iterator[frozenset[int]]:
    """Yield those of many sets that are subsets of one."""
    if 2 ** len(whole) > len(others):
        yield from (other for other in others if other <= whole)
        return
    for size in range(1, len(whole) + 1):
        subsets = map(frozenset, itertools.combinations(sorted(whole), size))
        yield from (one for one in subsets if one in others)


def _columns_text(step: Any, positions: frozenset[int]) -> str:
    names = input_names(step)
    return set_text([names[j] if names else j for j in positions])


def _output_names(parts: list[Part], j: int) -> list[str] | None:
    following = (part for part in parts[j + 1 :] if not part.passes)
    return input_names(next(following).step)


def own_mask(step: Any, found: PrivacyReport | None) -> Mask | None:
    """Return which columns a step with a report treats as public."""
    n_features = getattr(step, "n_features_in_", None)
    if found is None or n_features is None:
        return None
    if not found.public_features:
        return (False,) * n_features
    inner = members_of(step)
    if inner is not None:
        masks = {own_mask(one, getattr(one, "privacy_", None)) for _, one in inner}
        return masks.pop() if len(masks) == 1 else None
    if getattr(step, "names", None) is not None or hasattr(step, "best_estimator_"):
        return None
    keys: list[Any] = input_names(step) or list(range(n_features))
    public = set(found.public_features)
    mask = tuple(key in public for key in keys)
    return mask if sum(mask) == len(public) else None


def named(first: Any, mask: Mask) -> tuple[str | int, ...]:
    """Return the public columns before a step by name, or by position without one."""
    names: list[Any] = input_names(first) or list(range(len(mask)))
    return tuple(name for name, public in zip(names, mask, strict=True) if public)


def check_columns_stay_public(seen: list[Part]) -> None:
    """Refuse public columns that an earlier private fit made out of private ones.

    A step with public columns keeps those, and only those, apart from the private ones;
    one without privacy promises nothing that could break.
    """
    for j, part in enumerate(seen):
        for before in seen[:j]:
            _check_kept_apart(before, part)


def _check_kept_apart(before: Part, part: Part) -> None:
    found, theirs = part.report, before.report
    if found is None or theirs is None:
        return
    if not found.public_features or math.isinf(theirs.epsilon):
        return
    shown = found.public_features[:5]
    if not theirs.public_features:
        raise PrivacyBudgetError(
            f"step {part.name} treats columns {shown!r} as public, "
            f"but step {before.name} scaled every row by a norm of all its columns, so "
            "that they depend on private ones: leave that step out (the estimator "
            "centres by itself), give it the same public_features, or treat no "
            "column as public."
        )
    if set(theirs.public_features) != set(found.public_features):
        raise PrivacyBudgetError(
            f"step {part.name} treats columns {shown!r} as public, but step "
            f"{before.name} kept {theirs.public_features[:5]!r} apart, and together "
            "they protect less than either promises: give both steps the same "
            "public_features; if they differ in names and positions alone, "
            "set_output(transform='pandas') on the Pipeline hands on the names."
        )


# Lessons of steps without a report, and whether they were public.
#
# Guarantees
# ----------
# * A step is listed as what `steps` knows of it, or else as unseen; so are its parts.
# * What was learnt from public columns alone, and from a public target, is a function
#   of what neighbours agree in, and is free. All else that was learnt voids a report.


@dataclasses.dataclass
class Learnt:
    """Lessons of parts without a report, and parts of which nothing is known."""

    lessons: list[Lesson] = dataclasses.field(default_factory=list)
    unseen: list[str] = dataclasses.field(default_factory=list)
    assumes: list[str] = dataclasses.field(default_factory=list)

    @property
    def assumptions(self) -> list[Assumption]:
        """What was taken for granted, each once."""
        return [
            enforced(text) if is_enforced(text) else Assumption(text, False)
            for text in dict.fromkeys(self.assumes)
        ]

    @property
    def private(self) -> bool:
        """Whether any of it is private."""
        return any(lesson.private for lesson in self.lessons)


def judge(
    learnt: Learnt,
    name: str,
    step: Any,
    came: Sources | None,
    public: Mask | None,
    public_target: bool,
) -> None:
    """Add what a step and its parts learnt.

    Parameters
    ----------
    learnt : Learnt
    name : str
    step : transformer or estimator
    came : tuple of frozenset or None
        For each column before it the columns that it comes from, of which
    public : tuple of bool or None
        says whether they are public.
    public_target : bool
    """
    if step is None or isinstance(step, str):
        return
    title = f"{name} ({type(step).__name__})"
    found = verdict(step)
    if found is None:
        learnt.unseen.append(title)
    else:
        learns, reason = found.learns, found.reason
        if learns in ("rows", "target") and _is_free(
            came, public, learns != "target" or public_target
        ):
            learns = "public columns"
        learnt.lessons.append(Lesson(title, learns, reason))
        if found.assumes is not None:
            learnt.assumes.append(found.assumes)
    if is_container(step):
        for label, part, before in _inside(step, came):
            judge(learnt, f"{name}__{label}", part, before, public, public_target)


def _is_free(came: Sources | None, public: Mask | None, target_is_free: bool) -> bool:
    if came is None or public is None or not target_is_free:
        return False
    return all(public[j] for one in came for j in one)


def _inside(
    step: Any, came: Sources | None
) -> Iterator[tuple[str, Any, Sources | None]]:
    """Yield name, part and sources of the columns before each part of a container."""
    for name, part, chosen in members(step):
        before = came
        if is_class(step, "ColumnTransformer"):
            before = _chosen(step, chosen, came)
        yield name, part, before
        if is_class(step, "Pipeline") and came is not None:
            came = then(came, sources(part, len(came)))


def _chosen(step: Any, chosen: Any, came: Sources | None) -> Sources | None:
    if came is None:
        return None
    try:
        positions = chosen_positions(chosen, input_names(step), len(came))
    except (TypeError, ValueError, IndexError):
        return None
    return tuple(came[j] for j in positions)


def judge_target(learnt: Learnt, transformer: Any, public_target: bool) -> None:
    """Add what the transformer of a target learnt from it."""
    own = Learnt()
    judge(own, "transformer_", transformer, None, None, False)
    learnt.unseen += own.unseen
    learnt.assumes += own.assumes
    for lesson in own.lessons:
        learns: Learns = "public columns" if public_target else "target"
        if lesson.learns != "nothing":
            reason = f"{lesson.reason}, of the target"
            lesson = Lesson(lesson.step, learns, reason)
        learnt.lessons.append(lesson)


def report_of(obj: Any, name: str) -> PrivacyReport | None:
    """Return the report of a fitted object, None if it has none; refuse hidden ones."""
    own = getattr(obj, "privacy_", None)
    if isinstance(own, PrivacyReport):
        return own
    steps = getattr(obj, "steps", None)
    if isinstance(steps, list):  # a Pipeline; sklearn is not imported for this
        return _of_pipeline(obj)
    if not _hides_private_fit(obj, set()):
        return None
    if (why := refusal(obj)) is not None:
        raise ValueError(
            f"report() cannot vouch for {name} ({type(obj).__name__}): {why}, which no "
            "private fit inside it makes up for; see the guide on budgets for what to "
            "do instead."
        )
    inner = members_of(obj)
    if inner is not None:
        return _of_wrapper(obj, inner)
    raise ValueError(
        f"report() cannot count the private fits inside {name} "
        f"({type(obj).__name__}): give them one ledger and report that."
    )


def of_releases(
    obj: Any, reports: Iterable[tuple[str, PrivacyReport]]
) -> PrivacyReport:
    """Return the report of what was made from several releases, and nothing else.

    Parameters
    ----------
    obj : object
        The subject.
    reports : iterable of (str, PrivacyReport)
        Names and reports of the releases, in their order.
    """
    parts = [Part(name, None, found) for name, found in reports]
    return _joined(obj, parts, Learnt(), None)


def _hides_private_fit(obj: Any, visited: set[int]) -> bool:
    """Whether an estimator holds another one with a report, at any depth."""
    if id(obj) in visited:
        return False
    visited.add(id(obj))
    if isinstance(getattr(obj, "privacy_", None), PrivacyReport):
        return True
    if isinstance(obj, Mapping):
        items: Iterable[Any] = obj.values()
    elif isinstance(obj, list | tuple):
        items = obj
    elif any(hasattr(obj, name) for name in ("fit", "predict", "predict_proba")):
        items = vars(obj).values() if hasattr(obj, "__dict__") else ()
    else:
        return False
    return any(_hides_private_fit(item, visited) for item in items)


def _parts(pipeline: Any) -> list[Part]:
    """Return the steps of a Pipeline, and the Pipeline itself if it is a user's."""
    return [*_opaque("pipeline", pipeline), *_flat(pipeline.steps, "")]


def _opaque(name: str, pipeline: Any) -> Iterator[Part]:
    """Yield a Pipeline as a step of its own, unless its class is scikit-learn's."""
    while is_class(pipeline, "FrozenEstimator"):
        pipeline = pipeline.estimator
    if not is_class(pipeline, "Pipeline"):
        yield Part(name, pipeline, None)


def _is_own_pipeline(part: Part) -> bool:
    """Whether a part stands for a user's Pipeline (`_opaque`)."""
    steps = getattr(part.step, "steps", None)
    frozen = is_class(part.step, "FrozenEstimator")
    return part.report is None and not frozen and isinstance(steps, list)


def _of_pipeline(pipeline: Any) -> PrivacyReport | None:
    parts = _parts(pipeline)
    seen = [part for part in parts if part.report is not None]
    if not seen:
        return None
    check_columns_stay_public(seen)
    return _joined(pipeline, seen, *_learnt(parts))


def _learnt(parts: list[Part]) -> tuple[Learnt, tuple[str | int, ...] | None]:
    """Return what steps without a report learnt, and the table's public columns."""
    table = follow(parts)
    if any(_is_own_pipeline(part) for part in parts):
        table = None  # it may hand any columns to its steps
        for part in parts:
            part.public = None
    reports = [part.report for part in parts if part.report is not None]
    public_target = any(found.public_target for found in reports)
    learnt = Learnt()
    for part in parts:
        if part.report is None and not part.passes:
            n_features = getattr(part.step, "n_features_in_", None)
            came = None if n_features is None else sources(None, n_features)
            judge(learnt, part.name, part.step, came, part.public, public_target)
    if len(parts) == 1 or not any(found.public_features for found in reports):
        return learnt, None
    followed = table is not None and not learnt.private and not learnt.unseen
    learnt.assumes.insert(0, COLUMNS_FOLLOWED if followed else COLUMNS_ASSUMED)
    head = next(part for part in parts if not part.passes)
    return learnt, None if table is None else named(head.step, table)


def _flat(steps: Iterable[Any], prefix: str) -> Iterator[Part]:
    """Yield the steps of a Pipeline, those of a Pipeline inside it among them."""
    for name, step in steps:
        own = isinstance(getattr(step, "privacy_", None), PrivacyReport)
        # A FrozenEstimator was fitted before: its steps did not learn in this fit.
        frozen = is_class(step, "FrozenEstimator") and not _hides_private_fit(
            step, set()
        )
        steps_inside = isinstance(getattr(step, "steps", None), list)
        if steps_inside and not own and not frozen:
            yield from _opaque(prefix + name, step)
            yield from _flat(step.steps, f"{prefix}{name}__")
        elif step is None or isinstance(step, str):
            yield Part(prefix + name, step, None)
        else:
            yield Part(prefix + name, step, report_of(step, name))


def _of_wrapper(obj: Any, inner: Members) -> PrivacyReport:
    """Return the report of what only fits its members, all of them to one table."""
    learnt, seen = Learnt(), []
    for name, one in inner:
        part = Part(name, one, report_of(one, name))
        if part.report is None:
            judge(learnt, name, one, None, None, False)
        else:
            seen.append(part)
    if not seen:
        raise ValueError(
            f"report() finds no report in the members of {type(obj).__name__}: fit it."
        )
    _check_positions(obj, seen)
    public_target = all(part.report.public_target for part in seen if part.report)
    if is_class(obj, "TransformedTargetRegressor"):
        if report_of(obj.transformer_, "transformer_") is not None:
            raise ValueError(
                "report() cannot count the private fit of transformer_, whose columns "
                "are a target: give a fixed function."
            )
        judge_target(learnt, obj.transformer_, public_target)
    if reads_classes(obj) and not public_target:
        learnt.assumes.append(CLASSES_READ)
    return _joined(obj, seen, learnt, None)


def _private_features(
    found: PrivacyReport, namer: PrivacyReport
) -> tuple[str | int, ...] | None:
    """Return the private columns as one part knows them, but for the public ones."""
    if namer.private_features is None or found.neighboring_relation is None:
        return None
    public = set(found.public_features)
    return tuple(name for name in namer.private_features if name not in public)


def _check_positions(obj: Any, seen: list[Part]) -> None:
    """Refuse members that count columns each in its own way."""
    reports = [part.report for part in seen if part.report is not None]
    ways = {(found.public_features, found.public_sources) for found in reports}
    for part, found in zip(seen, reports, strict=True):
        counted = any(isinstance(name, int) for name in found.public_features)
        alike = len(ways) == 1 and found.public_sources is not None
        if found.steps and counted and not alike and len(seen) > 1:
            raise PrivacyBudgetError(
                f"member {part.name} of {type(obj).__name__} names its public columns "
                "by positions behind a step of its own, which other members may count "
                "otherwise: name them, by set_output(transform='pandas') on it."
            )


def _joined(
    obj: Any,
    parts: list[Part],
    learnt: Learnt,
    public_sources: tuple[str | int, ...] | None,
) -> PrivacyReport:
    """Return the composition of all events, with all that is known beside them."""
    seen = [(part.name, part.report) for part in parts if part.report is not None]
    reports = [found for _, found in seen]
    events = tuple(event for found in reports for event in found.events)
    weakest = max(events, key=lambda event: len(event.disclosed), default=None)
    _check_targets_stay_public(seen)
    # Columns have the names that the step with the public set knows them by.
    namer = next(
        (r for r in reports if weakest and _leaves_public(r, weakest)), reports[0]
    )
    given = [a for found in reports for a in found.shared_assumptions]
    given += learnt.assumptions
    hidden = [*learnt.unseen, *(f"{n}__{u}" for n, r in seen for u in r.unseen)]
    given += map(unseen_assumption, hidden)
    inner = [(name, lesson) for name, r in seen for lesson in r.learnt]
    lessons = [
        *learnt.lessons,
        *(dataclasses.replace(one, step=f"{name}__{one.step}") for name, one in inner),
    ]
    n_fits = sum(found.n_fits for found in reports)
    seeded = any(found.seeded for found in reports)
    implied = {a.text for a in implied_assumptions(events, seeded, n_fits)}
    found = PrivacyReport.from_events(
        subject=type(obj).__name__,
        events=events,
        delta=max(found.delta for found in reports),
        n_records=next((r.n_records for r in reports if r.n_records is not None), None),
        released=[f"{name}: {what}" for name, found in seen for what in found.released],
        assumptions=[a for a in dict.fromkeys(given) if a.text not in implied],
        seeded=seeded,
        nonprivate=any(math.isinf(found.epsilon) for found in reports),
        n_fits=n_fits,
        unseen=hidden,
        steps=seen,
        receipts=(receipt for one in reports for receipt in one.receipts),
    )
    return dataclasses.replace(
        found,
        learnt=tuple(lessons),
        public_sources=public_sources,
        private_features=_private_features(found, namer),
    )


def _check_targets_stay_public(steps: list[tuple[str, PrivacyReport]]) -> None:
    """Refuse a target that one step discloses and another one says to protect."""
    for name, found in steps:
        for other, theirs in steps:
            if found.public_target and found.target_name in (
                theirs.private_features or ()
            ):
                raise PrivacyBudgetError(
                    f"step {name} discloses its target {found.target_name!r}, which "
                    f"step {other} has among its private columns: leave that column "
                    "out of X."
                )


def _leaves_public(found: PrivacyReport, weakest: Event) -> bool:
    own = found.public_features, found.public_target
    return own == (plain_names(weakest.public_features), weakest.public_target)


# Reports of fitted objects, Pipelines and ledgers, and of files.


def read_report(path: str | os.PathLike[str]) -> PrivacyReport:
    """Read a report that was written as ``Path(path).write_text(report.to_json())``.

    Raises
    ------
    ValueError
        If the file is not a report, has another schema, or was edited.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path={shown(path)} must be the path of a file.")
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # of JSON, UTF-8, a path; deep, or too long
        raise ValueError(
            f"path={str(path)!r} is not a JSON file: pass what to_json wrote."
        ) from None
    return PrivacyReport.from_dict(values)


def report(obj: Any, *, delta: float | None = None) -> PrivacyReport:
    """Return the privacy report of a fitted estimator, a Pipeline or a ledger.

    Parameters
    ----------
    obj : estimator, Pipeline, tool around estimators, or PrivacyLedger
        The report of a Pipeline composes the releases of all its steps that have a
        report, at the largest of their deltas, and says what it knows of the others:
        what they learnt (`PrivacyReport.learnt`), or that it cannot see them. So do
        those of OneVsRestClassifier, VotingClassifier, VotingRegressor,
        MultiOutputClassifier, MultiOutputRegressor, ClassifierChain, RegressorChain,
        TransformedTargetRegressor and FixedThresholdClassifier, whose members all
        learn from one table.
    delta : float, default=None
        Report at this delta instead; needed for a ledger without a ceiling.

    Raises
    ------
    PrivacyBudgetError
        If steps are under different relations or public sets
        (`skfdp.privacy.promise` states which compose), or if a public column of one
        step was computed from private columns by a step before it.
    ValueError
        If nothing in it has a report, or if it hides private fits that cannot be
        counted.
    """
    if isinstance(obj, PrivacyLedger):
        return _ledger_report(obj, delta)
    found = report_of(obj, type(obj).__name__)
    if found is None:
        raise ValueError(
            f"report() got {type(obj).__name__}, in which nothing has privacy_: fit "
            "it first, or pass an estimator of skfdp, a Pipeline of them or a ledger."
        )
    return found if delta is None else found.at_delta(delta)


def _ledger_report(ledger: PrivacyLedger, delta: float | None) -> PrivacyReport:
    entries = ledger.entries
    delta = ledger.delta if delta is None else delta
    if delta is None:
        raise ValueError(
            "delta=None needs a ledger with a ceiling: pass report(ledger, delta=1e-5)."
        )
    fits = {entry.charge: entry for entry in entries}
    private = [entry for entry in entries if entry.event is not None]
    events = [entry.event for entry in private if entry.event is not None]
    return PrivacyReport.from_events(
        subject=f"data set {ledger.dataset!r} of a PrivacyLedger",
        events=events,
        delta=delta,
        target_epsilon=ledger.epsilon,
        public=ledger.public,
        released=[_fit_text(charge, entry) for charge, entry in fits.items()],
        assumptions=[
            Assumption("Every use of the data set was charged to this ledger.", False)
        ],
        nonprivate=len(private) < len(entries),
        parts=[entry.part for entry in private],
        n_fits=len(fits),
        receipts=[ledger.receipt],
    )


def _fit_text(charge: int, entry: LedgerEntry) -> str:
    where = "" if entry.part is None else f", on {entry.part} only"
    return f"fit {charge}: {entry.label or 'unnamed fit'}{where}"
