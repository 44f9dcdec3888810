"""Hypothesis strategies of tables, targets, parameters and calls of estimators.

They are for tests of skfdp and of your own subclasses. They need hypothesis, which the
extra ``test`` brings, and draw frames of pandas, polars and pyarrow where these are
installed. The rule for every call is `check_call`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib.util
import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sklearn.base import clone

from skfdp.audit.fuzz.columns import COLUMNS, PANDAS_COLUMNS
from skfdp.audit.fuzz.expressions import ODD, value_of
from skfdp.audit.fuzz.parameters import BY_NAME, SENSIBLE
from skfdp.audit.fuzz.rule import check_call
from skfdp.audit.fuzz.tables import FORMS, FRAMES, NAMES, Table
from skfdp.audit.fuzz.targets import HOLDERS, TARGETS, Target
from skfdp.estimators.base import PrivateEstimator
from skfdp.estimators.parameters import parameters_of
from skfdp.privacy.reporting import report

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError(
        "skfdp.audit.strategies needs hypothesis: pip install 'skfdp[test]'."
    ) from error

__all__ = [
    "check_call",
    "estimator_calls",
    "expressions",
    "parameters",
    "tables",
    "targets",
]

_LIBRARIES = {"frame": "pandas", "series": "pandas", "arrow": "pyarrow"}
_USUAL_FORMS = (
    "array",
    "array",
    "fortran",
    "csr_array",
    "float32 array",
    "objects array",
)
_USUAL_KINDS = ("unit", "unit", "0/1", "float32", "some nan", "wide", "int", "objects")
_USUAL_NAMES = ("strings", "strings", "strings", "counted", "digits")
_USUAL_TARGETS = ("0/1", "three", "letters", "numbers", "counts", "bool")
_SIZES = (30, 30, 30, 60, 12, 3, 2, 1, 0)


def _installed(names: Sequence[str]) -> list[str]:
    """Return the forms whose libraries are there."""
    found = (importlib.util.find_spec(_LIBRARIES.get(name, name)) for name in names)
    return [name for name, spec in zip(names, found, strict=True) if spec is not None]


_FRAMES = _installed(FRAMES)
_HOLDERS = [
    name
    for name in HOLDERS
    if name == "array" or _installed(["polars" if name == "polars" else "frame"])
]


def _often(usual: Sequence, rest: Sequence, share: float = 0.85) -> st.SearchStrategy:
    """Return one of the usual values, or, less often, one of all of them."""
    most = round(share * 20)
    return st.sampled_from([0] * most + [1] * (20 - most)).flatmap(
        lambda odd: st.sampled_from(list(rest) if odd else list(usual))
    )


@st.composite
def table_specs(
    draw: Callable, n_rows: int | None = None, n_columns: int | None = None
) -> Table:
    """Draw tables as `skfdp.audit.fuzz.tables.Table`, whose repr reproduces them.

    Parameters
    ----------
    draw : callable
        Hypothesis passes it.
    n_rows, n_columns : int, default=None
        None: drawn, mostly 30 and 3.

    Returns
    -------
    table : strategy of Table
    """
    form = draw(_often((*_USUAL_FORMS, *_FRAMES[:2]), (*FORMS, *_FRAMES)))
    kinds = [*COLUMNS, *PANDAS_COLUMNS] if form in FRAMES else [*COLUMNS]
    if n_columns is None:
        n_columns = draw(st.sampled_from((3, 3, 3, 3, 2, 1, 4, 0)))
    one = _often(_USUAL_KINDS, kinds, share=0.9)
    drawn = draw(st.lists(one, min_size=n_columns, max_size=n_columns))
    named = form in FRAMES
    return Table(
        form=form,
        kinds=tuple(drawn),
        n_rows=draw(_often((30,), _SIZES)) if n_rows is None else n_rows,
        names=draw(_often(_USUAL_NAMES, list(NAMES))) if named else "strings",
        seed=draw(st.integers(0, 999)),
    )


@st.composite
def target_specs(draw: Callable, n_rows: int = 30) -> Target:
    """Draw targets as `skfdp.audit.fuzz.targets.Target`, whose repr reproduces them.

    Parameters
    ----------
    draw : callable
        Hypothesis passes it.
    n_rows : int, default=30

    Returns
    -------
    target : strategy of Target
    """
    return Target(
        kind=draw(_often(_USUAL_TARGETS, list(TARGETS))),
        holder=draw(_often(("array", "series", "named")[: len(_HOLDERS)], _HOLDERS)),
        n_rows=n_rows,
        seed=draw(st.integers(0, 999)),
    )


def tables(n_rows: int | None = None, n_columns: int | None = None):
    """Return a strategy of tables: arrays, frames, sparse ones, lists and others.

    Parameters
    ----------
    n_rows, n_columns : int, default=None
        None: drawn.

    Returns
    -------
    X : strategy of object
        Values that no message may quote have `skfdp.audit.fuzz.rule.SECRETS` in them.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> from skfdp import DPSGDFClassifier
    >>> from skfdp.audit.fuzz.rule import check_call
    >>> from skfdp.audit.strategies import tables
    >>> @settings(max_examples=5, derandomize=True, deadline=None, database=None)
    ... @given(tables(n_rows=30))
    ... def test(X):
    ...     model = DPSGDFClassifier(bounds=(0, 1), max_iter=2, classes=[0, 1])
    ...     assert not check_call(lambda: model.fit(X, [0, 1] * 15)).faults
    >>> test()
    """
    return table_specs(n_rows, n_columns).map(Table.build)


def targets(n_rows: int = 30):
    """Return a strategy of targets: labels, numbers, missing ones, and wrong shapes.

    Parameters
    ----------
    n_rows : int, default=30

    Returns
    -------
    y : strategy of object
    """
    return target_specs(n_rows).map(Target.build)


def _accepted(estimator_class: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters that a constructor takes.

    A subclass may take those of its bases as ``**parameters``, or leave some out.
    """
    own = inspect.signature(estimator_class).parameters
    if any(one.kind is one.VAR_KEYWORD for one in own.values()):
        return parameters_of(estimator_class)
    return own


def _values(name: str, usual: Sequence[str]) -> st.SearchStrategy:
    """Return expressions for one parameter."""
    if name == "ledger":  # text is a path there, and makes a file
        return st.sampled_from(usual)
    return _often(usual, ODD, share=0.8)


def expressions(
    estimator_class: type,
    base: Mapping[str, str] | None = None,
    domains: Mapping[str, Sequence[str]] | None = None,
):
    """Return a strategy of parameters, spelled as expressions for `value_of`.

    Parameters
    ----------
    estimator_class : type
        Its parameters are those of its signature and of its bases'.
    base : mapping from str to str, default=None
        Expressions of parameters that are given in every call, unless they are drawn;
        beside `skfdp.audit.fuzz.parameters.SENSIBLE`, which makes small fits.
    domains : mapping from str to sequence of str, default=None
        Expressions to draw from, by name; beside those of this package. Any other
        parameter gets the odd values alone.

    Returns
    -------
    parameters : strategy of dict from str to str
        At most three of them differ from the base.
    """
    names = list(_accepted(estimator_class))
    known = BY_NAME | {name: tuple(each) for name, each in (domains or {}).items()}
    start = {name: SENSIBLE[name] for name in names if name in SENSIBLE} | {
        **(base or {})
    }
    one = st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), _values(name, known.get(name, ODD)))
    )
    size = st.sampled_from((0, 0, 0, 1, 1, 1, 1, 2, 2, 3))
    drawn = size.flatmap(lambda n: st.lists(one, min_size=n, max_size=n))
    return drawn.map(lambda given: start | dict(given))


def parameters(
    estimator_class: type,
    base: Mapping[str, str] | None = None,
    domains: Mapping[str, Sequence[str]] | None = None,
):
    """Return a strategy of parameters of an estimator, valid ones and others.

    Parameters
    ----------
    estimator_class : type
    base, domains : mapping, default=None
        As in `expressions`.

    Returns
    -------
    parameters : strategy of dict
    """
    spelled = expressions(estimator_class, base, domains)
    return spelled.map(
        lambda drawn: {name: value_of(text) for name, text in drawn.items()}
    )


@dataclasses.dataclass(frozen=True)
class EstimatorCall:
    """A fit of an estimator, and what is asked of it afterwards.

    Parameters
    ----------
    estimator_class : type
    spelled : mapping from str to str
        Its parameters, as expressions.
    table : Table
    target : Target
    steps : tuple of str
        Names of `STEPS`.
    other : Table
        The rows of these steps.

    Attributes
    ----------
    parameters : dict
    X, y : object
        New ones each time that they are read.
    """

    estimator_class: type
    spelled: Mapping[str, str]
    table: Table
    target: Target
    steps: tuple[str, ...] = ()
    other: Table = Table()

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the values of the parameters."""
        return {name: value_of(text) for name, text in self.spelled.items()}

    @property
    def X(self) -> Any:
        """Return the table."""
        return self.table.build()

    @property
    def y(self) -> Any:
        """Return the target."""
        return self.target.build()

    def calls(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield the name of each call and the call, the fit first.

        Objects are made before a call is yielded, so that the call is skfdp's alone.
        Calls after a fit that failed are those of an estimator that is not fitted.
        """
        model = self.estimator_class(**self.parameters)
        X, y = self.X, self.y
        yield "fit", lambda: model.fit(X, y)
        for step in self.steps:
            rows, copied = self.other.build(), copy.copy(model)
            yield step, functools.partial(STEPS[step], copied, rows, y)

    def simpler(self) -> Iterator[EstimatorCall]:
        """Yield calls with one thing less, to reduce one that has a fault."""
        for step in self.steps:
            left = tuple(one for one in self.steps if one != step)
            yield dataclasses.replace(self, steps=left)
        known = _accepted(self.estimator_class)
        for name, text in self.spelled.items():
            left = {k: v for k, v in self.spelled.items() if k != name}
            if name in SENSIBLE and text != SENSIBLE[name]:
                yield dataclasses.replace(self, spelled=left | {name: SENSIBLE[name]})
            elif name not in SENSIBLE and known[name].default is not known[name].empty:
                yield dataclasses.replace(self, spelled=left)
        n_rows = self.table.n_rows
        kinds = ("unit",) * len(self.table.kinds)
        plain = Table(kinds=kinds, n_rows=n_rows)
        for name, value in (
            ("table", plain),
            ("other", plain),
            ("table", dataclasses.replace(self.table, kinds=kinds)),
            ("target", Target(n_rows=n_rows)),
            ("target", dataclasses.replace(self.target, holder="array")),
        ):
            if value != getattr(self, name):
                yield dataclasses.replace(self, **{name: value})

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={text}" for name, text in self.spelled.items())
        steps = f", {', '.join(self.steps)} of {self.other}" if self.steps else ""
        return (
            f"{self.estimator_class.__name__}({given}), fit({self.table}, "
            f"{self.target}){steps}"
        )


def _of_rows(name: str) -> Callable:
    return lambda model, X, y: getattr(model, name)(X)


def _length(X: Any) -> int:
    """Return the number of rows of a table, 30 of what is none."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[0], int):
        return shape[0]
    return len(X) if isinstance(X, list) else 30


def _fours(X: Any) -> list[int]:
    """Return four persons, each with every fourth row."""
    return [place % 4 for place in range(_length(X))]


#: What may be asked of an estimator: functions of it, rows and a target.
STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "predict": _of_rows("predict"),
    "predict_proba": _of_rows("predict_proba"),
    "predict_log_proba": _of_rows("predict_log_proba"),
    "decision_function": _of_rows("decision_function"),
    "transform": _of_rows("transform"),
    "fit_transform": lambda model, X, y: model.fit_transform(X, y),
    "score": lambda model, X, y: model.score(X, y),
    "plan": lambda model, X, y: model.plan(X, y),
    "plan without y": lambda model, X, y: model.plan(X),
    "fit again": lambda model, X, y: model.fit(X, y),
    "fit without y": lambda model, X, y: model.fit(X),
    "fit with weights": lambda model, X, y: model.fit(X, y, sample_weight=[1.0]),
    "fit with weights of rows": lambda model, X, y: model.fit(
        X, y, sample_weight=list(range(_length(X)))
    ),
    "fit with odd weights": lambda model, X, y: model.fit(X, y, sample_weight=y),
    "fit with groups": lambda model, X, y: model.fit(X, y, groups=_fours(X)),
    "fit with groups and weights": lambda model, X, y: model.fit(
        X, y, groups=_fours(X), sample_weight=1.0
    ),
    "fit with a column of groups": lambda model, X, y: model.fit(X, y, groups="c0"),
    "fit with odd groups": lambda model, X, y: model.fit(X, y, groups=y),
    "plan with groups": lambda model, X, y: model.plan(X, y, groups=_fours(X)),
    "clone": lambda model, X, y: clone(model),
    "repr": lambda model, X, y: repr(model),
    "html": lambda model, X, y: model._repr_html_(),
    "get_params": lambda model, X, y: model.get_params(),
    "set_params": lambda model, X, y: model.set_params(epsilon=2.0),
    "set_params of nobody": lambda model, X, y: model.set_params(nobody=1),
    "get_feature_names_out": lambda model, X, y: model.get_feature_names_out(),
    "names of others": lambda model, X, y: model.get_feature_names_out(["a", "b"]),
    "set_output": lambda model, X, y: model.set_output(transform="pandas"),
    "pickle": lambda model, X, y: pickle.loads(pickle.dumps(model)),
    "report": lambda model, X, y: report(model),
    "statement": lambda model, X, y: report(model).statement(),
    "json": lambda model, X, y: report(model).to_json(),
    "coefficients_table": lambda model, X, y: model.coefficients_table(),
}


def _has(estimator_class: type, step: str) -> bool:
    """Whether an estimator has the method that a step calls, if it is one of some."""
    if " with " in step:  # a subclass may have another signature
        method = getattr(estimator_class, step.split()[0], None)
        own = () if method is None else inspect.signature(method).parameters
        needed = [name for word, name in _OF_ROWS.items() if word in step]
        base = estimator_class.fit is PrivateEstimator.fit  # refuses weights itself
        refused = base and needed == ["sample_weight"]
        return refused or all(name in own for name in needed)
    name = {"names of others": "get_feature_names_out"}.get(step, step.split()[0])
    return name not in _METHODS or hasattr(estimator_class, name)


#: Arguments of `fit` and `plan` beside X and y, by the word of the steps with them.
_OF_ROWS = {"groups": "groups", "weights": "sample_weight"}
_METHODS = (
    *("predict", "predict_proba", "predict_log_proba", "decision_function", "score"),
    *("transform", "fit_transform", "get_feature_names_out", "set_output", "plan"),
    "coefficients_table",
)


@st.composite
def estimator_calls(
    draw: Callable,
    estimator_class: type,
    base: Mapping[str, str] | None = None,
    domains: Mapping[str, Sequence[str]] | None = None,
) -> EstimatorCall:
    """Draw an estimator with parameters, a table, a target, and methods to call.

    Parameters
    ----------
    draw : callable
        Hypothesis passes it.
    estimator_class : type
        An estimator of skfdp, or a subclass of one.
    base, domains : mapping, default=None
        As in `expressions`.

    Returns
    -------
    call : strategy of EstimatorCall
        With ``parameters``, ``X`` and ``y``; ``calls()`` yields what to check.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> from skfdp import FeatureDPRegressor
    >>> from skfdp.audit.strategies import check_call, estimator_calls
    >>> class Mine(FeatureDPRegressor):
    ...     pass
    >>> @settings(max_examples=5, derandomize=True, deadline=None, database=None)
    ... @given(estimator_calls(Mine, base={"solver": "'one-shot'"}))
    ... def test(drawn):
    ...     for name, call in drawn.calls():
    ...         assert not check_call(call).faults, drawn
    >>> test()
    """
    table = draw(table_specs())
    spelled = draw(expressions(estimator_class, base, domains))
    target = draw(target_specs(table.n_rows))
    steps = [one for one in STEPS if _has(estimator_class, one)]
    if any("lambda" in text for text in spelled.values()):
        steps = [one for one in steps if one != "pickle"]  # nobody can
    asked = draw(st.lists(st.sampled_from(steps), max_size=3, unique=True))
    same = draw(st.sampled_from((True, True, False)))
    other = table if same else draw(table_specs(n_columns=len(table.kinds)))
    return EstimatorCall(estimator_class, spelled, table, target, tuple(asked), other)
