"""The audit by replay: neighbours, frozen releases, and what differs nevertheless."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from skfdp.addresses import public
from skfdp.audit.replay import neighbours as tables
from skfdp.audit.replay.neighbours import Neighbour, Split
from skfdp.audit.replay.outcomes import Outcome, performed, private_parts, probe_of
from skfdp.audit.replay.rehearsing import Move, Recording, Release, Repeating
from skfdp.audit.replay.tracing import Trace
from skfdp.audit.results import AuditResult
from skfdp.privacy.assumptions import CLASSES_READ
from skfdp.privacy.composition import cost
from skfdp.privacy.curves import gdp_epsilon
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.plotting import new_axes
from skfdp.privacy.relations import Relation
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.reporting import report
from skfdp.records.checks import check_choice, check_number, shown
from skfdp.records.units import numbered

#: What a difference says, by its kind. Those of the second table do not leave the fit
#: by themselves; each breaks what the proof of the accounting rests on.
LEAVES = {
    "attribute": "{} differs in the fitted model",
    "prediction": "{} of the same rows differs",
    "release": "another release is asked for: {}",
    "charge": "{} is charged something else",
    "warning": "{} warns otherwise",
    "output": "{} prints something else",
    "log": "{} logs something else",
    "exception": "{} ends otherwise, by an exception or without one",
    "global generator": "{} leaves a global random generator in another state",
}
INSIDE = {
    "distance": "the sum of {} moves further than its sensitivity",
    "theta": "{} is asked for at another place, which no release had told",
    "batch": "{} sums other rows",
    "control flow": "the calls part in {}",
}


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference between neighbours that no release explains.

    Attributes
    ----------
    kind : str
        "attribute", "prediction", "release", "charge", "warning", "output", "log",
        "exception" or "global generator", which leave the fit; "distance", "theta",
        "batch" or "control flow", which do not.
    where : str
        A name or a place; never a value.
    first : str
        The first neighbour that shows it.
    n_replays : int
        How many do.
    """

    kind: str
    where: str
    first: str
    n_replays: int

    def __str__(self) -> str:
        told = (LEAVES | INSIDE)[self.kind].format(self.where)
        return f"{told} ({self.n_replays} replays, the first one with {self.first})."


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True)
class Moved:
    """Distance by which neighbours moved the releases of one label.

    Attributes
    ----------
    label : str
    n_releases : int
    sensitivity : float
        The largest one that a query of this label declares, in units of its sum.
    largest : float
        The largest distance over the sensitivity: at most 1, up to a rounding of 1e-9.
    """

    label: str
    n_releases: int
    sensitivity: float
    largest: float


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayResult(AuditResult):
    """Result of `audit_replay`: differences, and how far the sums moved.

    Attributes
    ----------
    subject, neighboring_relation, claimed_epsilon, delta
        See `AuditResult`. The claim is that of the report, or, where there is none,
        what the charged events cost together.
    lower_bound : float
        Infinite if something that leaves the fit tells two neighbours apart. Otherwise
        the epsilon, at `delta`, of the worst neighbour on the path that was recorded:
        of the Gaussian-DP parameter ``sqrt(sum (distance / std)**2)`` over the releases
        of full batches that were charged one by one. Where no sum depends on earlier
        releases it is exact for the two tables; in a loop it is that of this path, and
        a guide. Releases of Poisson batches, and the runs of a search, count as 0.
    confidence : float
        1: nothing is estimated.
    n_trials : int
        Number of replays.
    differences : tuple of Difference
    releases : tuple of Moved
    neighbours : tuple of str
        What was tried: one name for each replay.
    """

    audit = "replay"

    differences: tuple[Difference, ...] = ()
    releases: tuple[Moved, ...] = ()
    neighbours: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there is no difference."""
        return not self.differences

    def __str__(self) -> str:
        lines = [super().__str__(), *map(str, self.differences)]
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw the largest distance of each label over its sensitivity.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        ax : matplotlib Axes
        """
        ax = new_axes(ax, "ReplayResult.plot")
        labels = [one.label for one in self.releases]
        ax.barh(labels, [one.largest for one in self.releases], label="seen")
        ax.axvline(1.0, color="black", linestyle="--", label="declared")
        ax.set(xlabel="largest distance / sensitivity", title=self.subject)
        ax.invert_yaxis()
        ax.legend()
        return ax


@dataclasses.dataclass(frozen=True)
class _Recorded:
    """A fit that was recorded, and what it was fitted to.

    Attributes
    ----------
    estimator : estimator
        Never fitted itself.
    X, y : array-like
    fit_params : mapping
    trace : str or None
    releases : list of Release
    baseline : Outcome
        Of a replay on the same table, by which all code is loaded and every cache
        full.
    """

    estimator: Any
    X: Any
    y: Any
    fit_params: Mapping[str, Any]
    trace: str | None
    releases: list[Release]
    baseline: Outcome | None = None

    @property
    def persons(self) -> np.ndarray | None:
        """The person of each row, None where each row is a record of its own."""
        return _persons(self.X, self.fit_params)

    def replay(
        self, X: Any, y: Any, changed: int | tuple[int, ...] | None
    ) -> tuple[Outcome, Repeating]:
        """Fit to another table, with the releases of this one."""
        trace = None
        if self.trace is not None:
            trace = Trace(_files(self.estimator), lines=self.trace == "lines")
        around = Repeating(self.releases, tables.n_records(self.X), changed, trace)
        outcome = performed(
            self.estimator,
            *(_own(X), _own(y), self.fit_params, probe_of(self.X)),
            around,
            trace,
        )
        if outcome.complete and outcome.error is None and around.n_left:
            around.differences.append(("release", "there are fewer of them"))
        return outcome, around


@public("skfdp.audit")
def audit_replay(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    neighbours: Iterable[tuple[Any, Any]] | None = None,
    n_neighbours: int = 24,
    trace: str | None = "calls",
    fit_params: Mapping[str, Any] | None = None,
    random_state: int = 0,
) -> ReplayResult:
    """Record a fit, and repeat it on neighbours with the released numbers frozen.

    What a private fit tells of a record, it tells by noisy sums. Coins are fixed, and
    every fit on a neighbouring table is given the numbers that were released for the
    recorded one: then nothing at all may differ, whatever the private part of the
    record, but the exact sums, and these by no more than their sensitivity.

    Parameters
    ----------
    estimator : estimator
        Of this package, a subclass of one, a Pipeline with some of them, or a tool of
        scikit-learn around them. It is cloned, its ledgers are replaced by one that
        forgets, integer seeds of its private parts are left out, and it is never
        fitted itself.
    X, y
        What `fit` takes. Made-up records do: what is checked holds for any.
    neighbours : iterable of (X, y), default=None
        Tables that differ from X and y in the private part of one record, or, with
        `groups` in `fit_params`, in those of the rows of one person; under
        "add_or_remove_one" in the last record, which is there or not. None makes some:
        of numbers, other records' values, random, extreme, missing and infinite ones;
        of labels, other ones, and undeclared ones if `classes` are declared.
    n_neighbours : int, default=24
        How many to make.
    trace : {"calls", "lines", None}, default="calls"
        Compare which functions of this package, and of a subclass, are called in which
        order; or every line of them, which is slower; or neither.
    fit_params : dict, default=None
        Further arguments of `fit`. With `groups` (of a step of a Pipeline:
        ``step__groups``) neighbours differ in all rows of one person, or in some of
        them.
    random_state : int, default=0
        Of the neighbours that are made.

    Returns
    -------
    result : ReplayResult

    Raises
    ------
    TypeError
        If nothing in the estimator is of this package.
    ValueError
        If a part has ``epsilon=inf``; if two fits on one table differ, because another
        part draws from no fixed seed; if private parts run in other threads or
        processes; if a table that is given is no neighbour; or if the public columns
        behind a Pipeline are not known, so that `neighbours` are needed.
    Exception
        What the fit itself raises.

    Notes
    -----
    **Checked**, in each replay: the labels, streams, queries, shapes, bounds, units and
    noise of all releases, in their order, and where they are asked for (frozen numbers
    make this equal); the rows of each batch; the distance of the exact sums, in
    integers; the attributes of the fitted model with everything below them, its report
    and predictions; charges, warnings, text, log records, exceptions, and the global
    generators; the sequence of calls.

    Under "replace_special" the neighbour's record is null: the distance is what the
    record adds, in either table. For Poisson batches the sum over every row is compared
    as well. Under "add_or_remove_one" the rows of the first batch of each event are
    compared, and no later ones: the room for a batch, and by it the order in which
    words are drawn, depends on the number of rows.

    **Not seen.** Time and memory. The law of noise and coins, and whether their keys
    are secret: `audit_mechanism` looks at the first, and nothing from outside at the
    second. Values that were not tried, and paths that were not taken: frozen numbers
    follow one. What is written to files, to a network, or by compiled code. The inside
    of compiled code, where a trace is concerned. What `fit` is given by other means
    than the rows (parameters that were chosen by looking at them).

    **Frozen fits are not private**: anybody can compute their coins. Their models are
    thrown away; events inside say that they are seeded. Other threads draw real noise
    all the while, but what they print or warn of is taken for that of the fit.

    References
    ----------
    In the spirit of the grey-box audits of Cebere et al. (2026), arXiv:2602.17454.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import DPSGDFClassifier
    >>> from skfdp.audit import audit_replay
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.random((50, 3)), rng.integers(2, size=50)
    >>> model = DPSGDFClassifier(bounds=(0, 1), classes=[0, 1], max_iter=2)
    >>> result = audit_replay(model, X, y, n_neighbours=4)
    >>> result.passed, result.differences
    (True, ())

    A step that learns from private rows is found:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> leaky = make_pipeline(StandardScaler(), model)
    >>> result = audit_replay(leaky, X, y, n_neighbours=4)
    >>> result.passed, result.lower_bound
    (False, inf)
    >>> result.differences[0].where
    'steps[0][1].mean_'
    """
    check_choice("trace", trace, ("calls", "lines", None))
    check_number("n_neighbours", n_neighbours, integral=True)
    check_number(
        "random_state", random_state, include_low=True, integral=True, also=(None,)
    )
    if not (hasattr(X, "shape") or isinstance(X, list | tuple)):
        raise TypeError(f"X={shown(X)} must be a table: an array, a frame or a list.")
    if not isinstance(fit_params, Mapping | None):
        raise TypeError(
            f"fit_params={shown(fit_params)} must be None or a dict of arguments by "
            "name."
        )
    if neighbours is not None and not isinstance(neighbours, Iterable):
        raise TypeError(
            f"neighbours={shown(neighbours)} must be None or a list of pairs (X, y)."
        )
    _check(estimator)
    whole = any(
        not Relation.of(part.neighboring_relation).counts_are_public
        for part in private_parts(estimator).values()
        if hasattr(part, "neighboring_relation")
    )
    base = X, y
    if whole and neighbours is None:
        base = tables.without_last(X), tables.without_last(y)
    recorded = _recorded(estimator, *base, dict(fit_params or {}), trace)
    told = _told(recorded.baseline)
    if neighbours is None:
        split = _split(recorded, X, y, told, whole)
        rng = np.random.default_rng(random_state)
        split = dataclasses.replace(split, persons=recorded.persons)
        found = tables.neighbours(X, y, split, rng, int(n_neighbours))
    else:
        public = None if told is None else _public(recorded, X, told)
        found = tables.checked(neighbours, *base, public, whole, recorded.persons)
    return _result(recorded, told, found)


def _check(estimator: Any) -> None:
    """Raise unless there is something private to audit."""
    made = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    parts = private_parts(estimator) if made else {}
    if not parts:
        raise TypeError(
            f"estimator={shown(estimator)} must be an estimator of this package, or "
            "hold one: nothing else releases at a desk."
        )
    for prefix, part in parts.items():
        if math.isinf(part.epsilon):
            raise ValueError(
                f"{prefix}epsilon=inf: a fit without privacy makes no claim that could "
                "be audited; give it a finite epsilon."
            )


def _recorded(
    estimator: Any, X: Any, y: Any, fit_params: Mapping[str, Any], trace: str | None
) -> _Recorded:
    """Record a fit, and replay it once on the same table."""
    around = Recording()
    first = performed(
        estimator, _own(X), _own(y), fit_params, probe_of(X), around, None
    )
    if first.error is not None:
        raise first.error
    charged = [one for one in first.charges.events if type(one) is Event]
    asked = [one.asked.event for one in around.releases]
    if not around.releases or any(event not in asked for event in charged):
        raise ValueError(
            "a charged release was not asked for in this thread: let every private "
            "part run with n_jobs=None, which changes no result."
        )
    found = _Recorded(estimator, X, y, fit_params, trace, around.releases)
    baseline, again = found.replay(X, y, None)
    differ = [*again.differences, *first.differences(baseline)]
    if not baseline.complete or any(kind in _REPEATED for kind, _ in differ):
        places = ", ".join(dict.fromkeys(place for _, place in differ))
        raise ValueError(
            f"two fits on one table differ ({places}): fix the random_state of every "
            "part that is not of this package."
        )
    return dataclasses.replace(found, baseline=baseline)


#: What a first fit may do otherwise than a second one is to load code, and to warn or
#: log of that; neither is a random choice.
_REPEATED = frozenset(LEAVES | INSIDE) - {"warning", "log", "output", "control flow"}


def _told(outcome: Outcome) -> PrivacyReport | None:
    """Return the report of a fitted model, None where nobody can vouch for it."""
    try:
        return report(outcome.model)
    except (ValueError, PrivacyBudgetError):
        return None


def _persons(X: Any, fit_params: Mapping[str, Any]) -> np.ndarray | None:
    """Return the person of each row, as a fit is told of it."""
    for groups in _groups(fit_params):
        return numbered(X[groups] if isinstance(groups, str) else groups)
    return None


def _groups(fit_params: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what a fit, or a step of one, is given as groups."""
    for name, value in fit_params.items():
        if name.rsplit("__", 1)[-1] == "groups" and value is not None:
            yield value


def _split(
    recorded: _Recorded,
    X: Any,
    y: Any,
    told: PrivacyReport | None,
    whole: bool,
) -> Split:
    """Return what is private of a table."""
    estimator, outcome = recorded.estimator, recorded.baseline
    public = None if told is None else _public(recorded, X, told)
    if public is None:
        raise ValueError(
            "neighbours=None needs a report that names the public columns of X, and "
            "there is none for this estimator: give pairs (X, y) that differ in the "
            "private part of one record."
        )
    events, target = outcome.charges.events, None
    if y is not None and not told.public_target:
        if is_classifier(estimator):
            target = "labels"
        elif is_regressor(estimator):
            target = "numbers"
    read = any(event.classes_source == "data" for event in events)
    read = read or any(one.text == CLASSES_READ for one in told.assumptions)
    refuses = any(
        value == "raise"
        for name, value in estimator.get_params(deep=True).items()
        if name.endswith("on_invalid")
    )
    return Split(~public, target, not read, not refuses, whole)


def _public(recorded: _Recorded, X: Any, told: PrivacyReport) -> np.ndarray | None:
    """Return the mask of the public columns of X, None where it is not known.

    Who is whose is public, and so is a column that tells.
    """
    estimator = recorded.estimator
    names = told.public_sources
    if names is None:
        steps = [estimator, *estimator.get_params(deep=True).values()]
        if told.public_features and any(isinstance(one, Pipeline) for one in steps):
            return None
        names = told.public_features
    known: list[Any] = list(range(tables.n_columns(X)))
    places = {name: place for place, name in enumerate(known)}
    for part in private_parts(estimator).values():
        if getattr(part, "names", None) is not None:
            places |= {name: place for place, name in enumerate(part.names)}
    if hasattr(X, "columns"):
        places |= {str(name): place for place, name in enumerate(X.columns)}
    if not all(name in places for name in names):
        return None
    names = [*names, *(g for g in _groups(recorded.fit_params) if isinstance(g, str))]
    mask = np.zeros(len(known), dtype=bool)
    mask[[places[name] for name in names]] = True
    return mask


def _result(
    recorded: _Recorded,
    told: PrivacyReport | None,
    found: Iterable[Neighbour],
) -> ReplayResult:
    """Replay every neighbour, and put together what was seen."""
    assert recorded.baseline is not None
    seen: dict[tuple[str, str], list[str]] = {}
    moves: list[list[Move]] = []
    names: list[str] = []
    for neighbour in found:
        outcome, around = recorded.replay(neighbour.X, neighbour.y, neighbour.changed)
        moves.append(around.moves)
        names.append(neighbour.name)
        differ = [*around.differences, *recorded.baseline.differences(outcome)]
        for key in dict.fromkeys(differ):
            seen.setdefault(key, []).append(neighbour.name)
    if not moves:
        raise ValueError("neighbours is empty: give at least one pair (X, y).")
    order = [*LEAVES, *INSIDE]
    differences = tuple(
        Difference(kind, where, shown_by[0], len(shown_by))
        for (kind, where), shown_by in sorted(
            seen.items(), key=lambda item: order.index(item[0][0])
        )
    )
    events = recorded.baseline.charges.events
    delta = told.delta if told is not None else _delta(recorded.estimator)
    relation = recorded.releases[0].asked.event.neighboring_relation
    bound = max(gdp_epsilon(delta, _mu(one, events)) for one in moves)
    if any(one.kind in LEAVES for one in differences):
        bound = math.inf
    return ReplayResult(
        subject=type(recorded.estimator).__name__ if told is None else told.subject,
        neighboring_relation=(told and told.neighboring_relation) or relation,
        claimed_epsilon=cost(events, delta).epsilon if told is None else told.epsilon,
        delta=delta,
        lower_bound=bound,
        confidence=1.0,
        n_trials=len(moves),
        differences=differences,
        releases=tuple(_moved(recorded.releases, moves)),
        neighbours=tuple(names),
    )


def _mu(moves: list[Move], charged: tuple[Event, ...]) -> float:
    """Return the Gaussian-DP parameter of two tables on the path of a replay."""
    full = [
        one for one in moves if one.event.sampling_rate == 1 and one.event in charged
    ]
    return math.sqrt(math.fsum((m.distance / m.noise_std) ** 2 for m in full))


def _moved(releases: list[Release], moves: list[list[Move]]) -> Iterator[Moved]:
    """Yield how far each label moved at most."""
    labels = list(dict.fromkeys(one.asked.event.label for one in releases))
    every = [one for replay in moves for one in replay]
    for label in labels:
        mine = [one for one in every if one.event.label == label]
        yield Moved(
            label=label,
            n_releases=sum(one.asked.event.label == label for one in releases),
            sensitivity=max((one.sensitivity for one in mine), default=math.nan),
            largest=max((one.distance / one.sensitivity for one in mine), default=0.0),
        )


def _delta(estimator: Any) -> float:
    return max(part.delta for part in private_parts(estimator).values())


def _own(values: Any) -> Any:
    """Return a copy: a step that works in place would change what comes after."""
    if values is None:
        return None
    return values.copy() if hasattr(values, "iloc") else copy.deepcopy(values)


#: Whose classes are no user's.
_KNOWN_ROOMS = {"skfdp", "sklearn", *sys.stdlib_module_names}


def _files(estimator: Any) -> set[str]:
    """Return the files of users' classes in an estimator, as their code names them."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    kinds = {
        kind for part in parts if hasattr(part, "fit") for kind in type(part).__mro__
    }
    found = set()
    for kind in kinds:
        if kind.__module__.partition(".")[0] in _KNOWN_ROOMS:
            continue
        functions = [inspect.unwrap(v) for v in vars(kind).values() if callable(v)]
        found |= {f.__code__.co_filename for f in functions if hasattr(f, "__code__")}
    return found
