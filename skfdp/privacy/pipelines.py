"""Reports of Pipelines, ensembles and ledgers, which consist of several fits.

A part of such an object is a step of a Pipeline, or a member of an ensemble.

Guarantees
----------
* The events of all parts are composed, because every part may use every record.
* A part without a report is listed with its data dependence (what it learnt from), or
  as unknown. The steps inside such a part are listed in the same way. Learning from
  public columns and a public target costs no privacy, because these are equal in
  neighbours. Learning from private values voids the report.
* The last step with a report declares its public input columns. They are traced
  backwards: an input column of an earlier step is public if a public output column of
  that step is computed from it.
* Let a private column be computed from some input columns. A public column that is
  computed from all of these input columns is refused, because it might reveal the
  private column.
* A column that cannot be traced does not count as public.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from skfdp.privacy.accounting import set_text
from skfdp.privacy.checks import spelling
from skfdp.privacy.events import ASSUMED, Assumption, PrivacyBudgetError
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.preprocessing_steps import (
    REFUSES,
    StepDependence,
    columns_of,
    dependence,
    is_class,
    members,
    sources,
)
from skfdp.privacy.report import PrivacyReport, check_context

# The table of scikit-learn's meta-estimators.
#
# Keys are class names, because this package does not import scikit-learn. If a
# meta-estimator uses the data only to fit its members, its entry is a function that
# returns the fitted members: the releases of the members are then all releases. If a
# meta-estimator uses private values in other ways too, its entry is a text that
# explains why it and its subclasses have no report.

Members = list[tuple[str, Any]]


def _members(obj: Any) -> Members:
    return [(f"estimators_[{j}]", one) for j, one in enumerate(obj.estimators_)]


def _outputs(obj: Any) -> Members:
    """Return the members, each for one target; refuse targets that share one name."""
    if any(one.target_name is not None for one in find_reports(obj).values()):
        raise ValueError(
            f"report() cannot cover {type(obj).__name__}, because its members have "
            "different targets of the same name: fit it again, without the parameter "
            "target of its members."
        )
    return _members(obj)


def _voting(obj: Any) -> Members:
    names = [name for name, one in obj.estimators if not isinstance(one, str)]
    return list(zip(names, obj.estimators_, strict=True))


_RESAMPLED = "its bootstrap repeats records, and each must appear once"
_STACKED = "its final estimator is fitted to the target without noise"
_TOOLS: dict[str, str | Callable[[Any], Members]] = {
    "OneVsRestClassifier": lambda obj: (_outputs if obj.multilabel_ else _members)(obj),
    "VotingClassifier": _voting,
    "VotingRegressor": _voting,
    "MultiOutputClassifier": _outputs,
    "MultiOutputRegressor": _outputs,
    # The member that predicts is `estimator_`, or a prefitted `estimator`.
    "FixedThresholdClassifier": lambda obj: [
        (name, getattr(obj, name))
        for name in ("estimator_", "estimator")
        if hasattr(obj, name)
    ][:1],
    "CalibratedClassifierCV": (
        "its calibrator is fitted to the target without noise (calibrate on public "
        "data, with FrozenEstimator around the model)"
    ),
    "TransformedTargetRegressor": (
        "its transformer may learn from the target without noise (transform y by a "
        "fixed function before the fit)"
    ),
    "StackingClassifier": _STACKED,
    "StackingRegressor": _STACKED,
    "TunedThresholdClassifierCV": (
        "its threshold is tuned on the target without noise (choose a threshold by "
        "its costs, or compare some by private_score)"
    ),
    "BaggingClassifier": _RESAMPLED,
    "BaggingRegressor": _RESAMPLED,
    "AdaBoostClassifier": "its weights depend on which records are misclassified",
    "OneVsOneClassifier": (
        "each of its members is fitted to the records of two labels, so that the "
        "private target decides which records enter which fit"
    ),
}


def _members_of(obj: Any) -> Members | None:
    """Return the fitted members of a meta-estimator.

    The result is None if `_TOOLS` has no function for the class, or if the
    meta-estimator is not fitted.
    """
    found = _TOOLS.get(type(obj).__name__)
    if not callable(found) or not is_class(obj, type(obj).__name__):
        return None
    try:
        return found(obj)
    except AttributeError:
        return None  # it is not fitted


# Public columns, traced backwards from the last step with a report.


@dataclasses.dataclass
class Part:
    """A Pipeline step or ensemble member, and its privacy report if it has one."""

    name: str
    step: Any
    report: PrivacyReport | None
    #: Whether each input column of the step is public; None if unknown.
    public: tuple[bool, ...] | None = None
    #: Whether the step is a Pipeline of a user's own class. Its steps are the parts
    #: after this one.
    opaque: bool = False


def _follow(parts: list[Part]) -> tuple[bool, ...] | None:
    """Trace public columns back to the table, and return the mask of its columns.

    The mask of each part's input columns is stored in `public` of the part. None means
    that columns cannot be traced.
    """
    last = max(j for j, part in enumerate(parts) if part.report is not None)
    mask = parts[last].public = _own_mask(parts[last].step, parts[last].report)
    for j in reversed(range(last)):
        part = parts[j]
        if mask is None:
            return None
        if part.report is not None:
            # A step with a report has one output column for each input column, at the
            # same position. So its output must have the same public columns as its
            # input, or none. Otherwise columns cannot be traced.
            own = _own_mask(part.step, part.report)
            mask = own if own == mask or not any(mask) else None
        else:
            mask = _before(part, mask, parts[last].name, parts[j + 1].step)
        part.public = mask
    return mask


def _before(
    part: Part, mask: tuple[bool, ...], reader: str, behind: Any
) -> tuple[bool, ...] | None:
    """Return the mask of the public input columns of a step; None if unknown.

    `mask` states which output columns the later step named `reader` declares public.
    Raise PrivacyBudgetError if a public output column might reveal a private output
    column. The message gets the names of these columns from `behind`, the next step.
    """
    n_features = getattr(part.step, "n_features_in_", 0)
    found = sources(part.step, n_features) if n_features else None
    if found is None or len(found) != len(mask):
        return None
    open_to = {one: j for j, one in enumerate(found) if mask[j] and one}
    hidden = {one: j for j, one in enumerate(found) if not mask[j] and one}
    by_first = collections.defaultdict(list)
    for other in hidden:
        by_first[min(other)].append(other)
    for one, j in open_to.items():
        inside = (other for i in one for other in by_first[i] if other <= one)
        other = next(inside, frozenset())
        if not other:
            continue
        open_, closed = (_input_names(behind, len(mask))[i] for i in (j, hidden[other]))
        origin = [_input_names(part.step, n_features)[i] for i in other]
        raise PrivacyBudgetError(
            f"step {reader} treats column {open_!r} as public and {closed!r} as "
            f"private, but step {part.name} computed both from {set_text(origin)}: "
            "treat both as public, or both as private."
        )
    public = frozenset().union(*open_to)
    return tuple(j in public for j in range(n_features))


def _input_names(step: Any, n_features: int) -> list[Any]:
    """Return the names of the input columns of a step, or positions without names."""
    names = [spelling(str(one)) for one in getattr(step, "feature_names_in_", ())]
    distinct = names and len(set(names)) == len(names)
    return names if distinct else list(range(n_features))


def _own_mask(step: Any, found: PrivacyReport | None) -> tuple[bool, ...] | None:
    """Return the mask of the input columns that a step's report declares public.

    None if there is no report, or if its columns cannot be found in the input.
    """
    n_features = getattr(step, "n_features_in_", None)
    if found is None or n_features is None:
        return None
    if not found.public_features:
        return (False,) * n_features
    if (inner := _members_of(step)) is not None:
        masks = {_own_mask(one, getattr(one, "privacy_", None)) for _, one in inner}
        return masks.pop() if len(masks) == 1 else None
    public = set(found.public_features)
    mask = tuple(key in public for key in _input_names(step, n_features))
    return mask if sum(mask) == len(public) else None


def _check_columns_stay_public(seen: list[tuple[str, PrivacyReport]]) -> None:
    """Refuse public columns that an earlier private step treats as private.

    In the output of a private step, only its own public columns are computed without
    private values. A later step must therefore have the same public columns, or none.
    An earlier step with epsilon=inf is not checked, because it has no guarantee that
    could be violated.
    """
    for (before, theirs), (name, found) in itertools.combinations(seen, 2):
        if not found.public_features or math.isinf(theirs.epsilon):
            continue
        if set(theirs.public_features) != set(found.public_features):
            theirs_public = theirs.public_features[:5] or "none"
            raise PrivacyBudgetError(
                f"step {name} treats columns {found.public_features[:5]!r} as public, "
                f"but the public columns of step {before} are {theirs_public!r}, so "
                "that a public column may hold private values: give both steps the "
                "same public_features. If one has names and the other positions, "
                "set_output(transform='pandas') on the Pipeline passes the names on."
            )


# Data dependence of steps without a report.


#: Facts for `PrivacyReport.from_events`: what parts without a report learnt, the names
#: of unknown parts, and assumptions.
_Learnt = collections.defaultdict[str, Any]


def _add(
    learnt: _Learnt,
    name: str,
    step: Any,
    public: tuple[bool, ...] | None,
    public_target: bool,
) -> None:
    """Add the data dependence of a step and of its parts.

    `public` says whether each input column is computed from public columns only; None
    if unknown.
    """
    if step is None or isinstance(step, str):
        return
    title = f"{name} ({type(step).__name__})"
    found = dependence(step)
    if found is None:
        learnt["unknown_steps"].append(title)
    else:
        own = StepDependence(title, found.learns, found.reason)
        free = public is not None and all(public)
        if own.private and free and (found.learns == "rows" or public_target):
            own = dataclasses.replace(own, learns="public columns")
        learnt["learnt"].append(own)
        assumed = (one for one in found.assumes if one != REFUSES or not free)
        learnt["assumptions"].extend(assumed)
    for label, part in members(step):
        before = public
        try:
            if before is not None:
                before = columns_of(step, label, before)
        except (AttributeError, IndexError, KeyError):
            before = None
        _add(learnt, f"{name}__{label}", part, before, public_target)
        if is_class(step, "Pipeline") and public is not None:
            came, mask = sources(part, len(public)), public
            public = None
            if came is not None:
                public = tuple(all(mask[j] for j in one) for one in came)


def _learnt(parts: list[Part]) -> tuple[_Learnt, tuple[str | int, ...] | None]:
    """Return the data dependence of steps without a report, and the public columns.

    The public columns are those of the table that the first step gets; None if they are
    unknown.
    """
    table = _follow(parts)
    if any(part.opaque for part in parts):
        # A user's own Pipeline class may pass any columns to its steps.
        table, parts = None, [dataclasses.replace(one, public=None) for one in parts]
    reports = [part.report for part in parts if part.report is not None]
    public_target = any(found.public_target for found in reports)
    learnt = _Learnt(list)
    for part in parts:
        if part.report is None:
            _add(learnt, part.name, part.step, part.public, public_target)
    if len(parts) == 1 or not any(found.public_features for found in reports):
        return learnt, None
    private = any(one.private for one in learnt["learnt"])
    followed = table is not None and not private and not learnt["unknown_steps"]
    assumed = (
        ASSUMED["public_columns_followed"]
        if followed
        else ASSUMED["public_columns_assumed"]
    )
    learnt["assumptions"].insert(0, assumed)
    if table is None:
        return learnt, None
    names = _input_names(parts[0].step, len(table))
    return learnt, tuple(itertools.compress(names, table))


# Reports of objects: find the reports inside them, and compose these.


def find_reports(obj: Any) -> dict[str, PrivacyReport]:
    """Return the privacy reports inside a fitted object, each by its place.

    A place is what follows the object in Python, such as ``".steps[1][1]"``; "" is the
    object itself. The search enters estimators, mappings, lists, tuples and arrays of
    objects, but no object with a report. An empty dict means that nothing in the object
    was fitted by skfdp. Other parts may have learnt from private data: `report`
    composes the reports, or refuses.

    Reports are returned as they are stored. If the object comes from somebody else,
    ``PrivacyReport.from_dict(found.to_dict())`` computes epsilon again.
    """
    found: dict[str, PrivacyReport] = {}
    visited = set()

    def visit(place: str, one: Any) -> None:
        if id(one) in visited:
            return
        visited.add(id(one))
        inner: Iterable[tuple[str, Any]] = ()
        if isinstance(own := getattr(one, "privacy_", None), PrivacyReport):
            found[place] = own
        elif isinstance(one, Mapping):
            inner = ((f"[{key!r}]", each) for key, each in one.items())
        elif isinstance(one, list | tuple):
            inner = ((f"[{j}]", each) for j, each in enumerate(one))
        elif isinstance(one, np.ndarray) and one.dtype == object:
            inner = ((f".flat[{j}]", each) for j, each in enumerate(one.flat))
        elif any(hasattr(one, name) for name in ("fit", "predict", "predict_proba")):
            fields = getattr(one, "__dict__", {})
            inner = ((f".{name}", each) for name, each in fields.items())
        for step, each in inner:
            visit(place + step, each)

    visit("", obj)
    return found


def report(
    obj: Any, *, delta: float | None = None, context: Mapping[str, str] | None = None
) -> PrivacyReport:
    """Return the privacy report of a fitted estimator, a Pipeline or a ledger.

    Parameters
    ----------
    obj : estimator, Pipeline, meta-estimator or PrivacyLedger
        The report of a Pipeline composes the releases of all steps that have a report,
        at the largest of their deltas. It lists the other steps in
        `PrivacyReport.learnt` with what they learnt, or in
        `PrivacyReport.unknown_steps`. The same holds for the meta-estimators
        OneVsRestClassifier, VotingClassifier, VotingRegressor, MultiOutputClassifier,
        MultiOutputRegressor and FixedThresholdClassifier, whose members all learn from
        one table.
    delta : float, default=None
        Delta of the report. None takes the delta of the fits, or of the ledger's limit.
        A ledger without a limit needs a number.
    context : dict of str to str, default=None
        Facts to print in the statement: ``"data"``, ``"date"``, ``"by"`` (who made the
        fit) and ``"purpose"``. They are marked as stated by the owner of the data, are
        not checked, and do not affect the numbers.

    Raises
    ------
    PrivacyBudgetError
        If steps have relations or public sets that do not compose
        (see `skfdp.privacy.composed_guarantee`), or if an earlier step computed a
        public column of a later step from private columns.
    ValueError
        If nothing inside the object has a report, or if it contains private fits that
        cannot be counted.
    """
    is_ledger = isinstance(obj, PrivacyLedger)
    found = _of_ledger(obj, delta) if is_ledger else _report_of(obj, type(obj).__name__)
    if found is None:
        raise ValueError(
            f"report() got {type(obj).__name__}, which has no privacy_ inside: pass a "
            "fitted estimator of skfdp, a Pipeline with one, or the ledger that the "
            "fits inside were charged to."
        )
    if context is not None:
        found = dataclasses.replace(found, context=check_context(context))
    return found if delta is None else found.at_delta(delta)


def _of_ledger(ledger: PrivacyLedger, delta: float | None) -> PrivacyReport:
    entries = ledger.entries
    delta = ledger.delta if delta is None else delta
    if delta is None:
        raise ValueError(
            "delta=None needs a ledger with a limit: pass report(ledger, delta=1e-5)."
        )
    fits = {e.charge: f"fit {e.charge}: {e.label or 'unnamed fit'}" for e in entries}
    private = [one.event for one in entries if one.event is not None]
    return PrivacyReport.from_events(
        subject=f"data set {ledger.dataset!r} of a PrivacyLedger",
        events=private,
        delta=delta,
        target_epsilon=ledger.epsilon,
        public=None if ledger.public is None else frozenset(ledger.public),
        released=fits.values(),
        assumptions=[
            Assumption(
                "parameters_chosen", "No parameter of a fit was read from private data."
            ),
            *(ASSUMED["limit_counts"],)
            * (len(fits) > 1 and ledger.epsilon is not None),
            *(ASSUMED["no_limit"],) * (ledger.epsilon is None),
        ],
        nonprivate=len(private) < len(entries),
        n_fits=len(fits),
        receipts=[ledger.receipt],
    )


def _report_of(obj: Any, name: str) -> PrivacyReport | None:
    """Return the report of a fitted object, or None if it contains no private fit.

    Raise ValueError if it contains private fits that cannot be counted.
    """
    own = getattr(obj, "privacy_", None)
    if isinstance(own, PrivacyReport):
        return own
    if isinstance(getattr(obj, "steps", None), list):  # a Pipeline
        parts = [*_flat("pipeline", obj, "")]
        seen = [(part.name, part.report) for part in parts if part.report is not None]
        if not seen:
            return None
        _check_columns_stay_public(seen)
        return of_releases(obj, seen, *_learnt(parts))
    if not find_reports(obj):
        return None
    known = type(obj).__name__
    known = name if name == known else f"{name} ({known})"
    for kind in type(obj).__mro__:
        if isinstance(why := _TOOLS.get(kind.__name__), str):
            raise ValueError(
                f"report() cannot cover {known}, even though it "
                f"contains a private fit: {why}; see the guide on budgets for "
                "alternatives."
            )
    inner = _members_of(obj)
    if inner is None:
        raise ValueError(
            f"report() cannot count the private fits inside {known}: give them one "
            "ledger, and pass this ledger to report()."
        )
    # The meta-estimator only fits its members, and fits all of them to one table.
    learnt, seen = _Learnt(list), []
    for label, one in inner:
        if (found := _report_of(one, label)) is not None:
            seen.append((label, found))
        else:
            _add(learnt, label, one, None, False)
    if not seen:
        raise ValueError(
            f"report() finds no report in the members of {type(obj).__name__}: fit it "
            "first."
        )
    # One column position must not mean different public columns in two members.
    ways = {(found.public_features, found.public_sources) for _, found in seen}
    for label, found in seen:
        counted = any(isinstance(one, int) for one in found.public_features)
        alike = len(ways) == 1 and found.public_sources is not None
        if found.steps and counted and not alike and len(seen) > 1:
            raise PrivacyBudgetError(
                f"member {label} of {type(obj).__name__} has public columns without "
                "names, whose positions may mean other columns in other members: call "
                "set_output(transform='pandas') on this member."
            )
    public_target = all(found.public_target for _, found in seen)
    # These two classes read the label set from the target before they fit members.
    if not public_target and is_class(obj, "OneVsRestClassifier", "VotingClassifier"):
        learnt["assumptions"].append(ASSUMED["classes_public"])
    return of_releases(obj, seen, learnt)


def _flat(name: str, pipeline: Any, prefix: str) -> Iterator[Part]:
    """Yield the steps of a Pipeline, including those of nested Pipelines.

    A Pipeline of a user's own class is itself yielded first, without a report.
    """
    inner = pipeline
    while is_class(inner, "FrozenEstimator"):
        inner = inner.estimator
    if not is_class(inner, "Pipeline"):
        yield Part(name, inner, None, opaque=True)
    for label, step in pipeline.steps:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        name = prefix + label
        own = isinstance(getattr(step, "privacy_", None), PrivacyReport)
        # A FrozenEstimator was fitted earlier, so its steps learnt nothing in this fit.
        frozen = is_class(step, "FrozenEstimator") and not find_reports(step)
        if isinstance(getattr(step, "steps", None), list) and not own and not frozen:
            yield from _flat(name, step, f"{name}__")
            continue
        yield Part(name, step, _report_of(step, label))


def of_releases(
    obj: Any,
    seen: list[tuple[str, PrivacyReport]],
    learnt: _Learnt,
    public_sources: tuple[str | int, ...] | None = None,
) -> PrivacyReport:
    """Return the report that composes all events of these named reports.

    A public target that another step protects as a private column is refused.
    """
    for (name, found), (other, theirs) in itertools.product(seen, seen):
        if found.public_target and found.target_name in (theirs.private_features or ()):
            raise PrivacyBudgetError(
                f"step {name} discloses its target {found.target_name!r}, which is a "
                f"private column of step {other}: leave that column out of X."
            )
    reports = [found for _, found in seen]
    events = tuple(event for found in reports for event in found.events)
    found = PrivacyReport.from_events(
        subject=type(obj).__name__,
        events=events,
        delta=max(found.delta for found in reports),
        n_records=next((r.n_records for r in reports if r.n_records is not None), None),
        released=[f"{name}: {what}" for name, found in seen for what in found.released],
        nonprivate=False,
        **learnt,
        steps=seen,
        receipts=(receipt for one in reports for receipt in one.receipts),
    )
    # Take the column names from the step with the largest public set.
    namer = max(reports, key=lambda one: len(one.public_features) + one.public_target)
    private = None
    if namer.private_features is not None and found.neighboring_relation is not None:
        public = found.public_features
        private = tuple(one for one in namer.private_features if one not in public)
    return dataclasses.replace(
        found, public_sources=public_sources, private_features=private
    )
