"""Calls of estimators, drawn by hypothesis: parameters, tables, targets and methods."""

import copy
import dataclasses
import functools
import inspect
import pickle
import re

from fuzz_tables import (
    COLUMNS,
    FORMS,
    FRAMES,
    HOLDERS,
    NAMES,
    PANDAS_COLUMNS,
    TARGETS,
    Table,
    Target,
)
from fuzz_values import ALGORITHMS, BY_NAME, ODD, SENSIBLE, value_of
from hypothesis import strategies as st
from sklearn.base import clone

from skfdp import solvers
from skfdp.base import PrivateEstimator
from skfdp.privacy.pipelines import report

_USUAL_FORMS = ("array", "array", "csr_array", "float32 array", "objects array")
_USUAL_KINDS = ("unit", "unit", "0/1", "float32", "some nan", "wide", "int", "objects")
_USUAL_NAMES = ("strings", "strings", "strings", "counted", "digits")
_USUAL_TARGETS = ("0/1", "three", "letters", "numbers", "counts", "bool")
_SIZES = (30, 30, 30, 60, 12, 3, 2, 1, 0)
#: What may be asked of an estimator: expressions of it, rows X and a target y.
STEPS = """
    model.predict(X) | model.predict_proba(X) | model.predict_log_proba(X) |
    model.decision_function(X) | model.transform(X) | model.fit_transform(X, y) |
    model.score(X, y) | model.plan(X, y) | model.plan(X) | model.fit(X, y) |
    model.fit(X) | model.fit(X, y, sample_weight=[1.0]) |
    model.fit(X, y, sample_weight=list(range(length(X)))) |
    model.fit(X, y, sample_weight=y) | model.fit(X, y, groups=fours(X)) |
    model.fit(X, y, groups=fours(X), sample_weight=1.0) |
    model.fit(X, y, groups='c0') | model.fit(X, y, groups=y) |
    model.plan(X, y, groups=fours(X)) | clone(model) | repr(model) |
    model._repr_html_() | model.get_params() | model.set_params(epsilon=2.0) |
    model.set_params(nobody=1) | model.get_feature_names_out() |
    model.get_feature_names_out(['a', 'b']) | model.set_output(transform='pandas') |
    pickle.loads(pickle.dumps(model)) | report(model) | report(model).statement() |
    report(model).to_json() | model.coefficients_table() | model.to_sklearn()
"""
STEPS = tuple(" ".join(one.split()) for one in STEPS.split("|"))


def _often(usual, rest, share=0.85):
    """Return one of the usual values, or, less often, one of all of them."""
    most = round(share * 20)
    return st.sampled_from([0] * most + [1] * (20 - most)).flatmap(
        lambda odd: st.sampled_from(list(rest) if odd else list(usual))
    )


@st.composite
def table_specs(draw, n_columns=None):
    """Draw tables as `Table`."""
    form = draw(_often((*_USUAL_FORMS, *FRAMES[:2]), (*FORMS, *FRAMES)))
    named = form in FRAMES
    kinds = [*COLUMNS, *PANDAS_COLUMNS] if named else [*COLUMNS]
    if n_columns is None:
        n_columns = draw(st.sampled_from((3, 3, 3, 3, 2, 1, 4, 0)))
    one = _often(_USUAL_KINDS, kinds, share=0.9)
    return Table(
        form=form,
        kinds=tuple(draw(st.lists(one, min_size=n_columns, max_size=n_columns))),
        n_rows=draw(_often((30,), _SIZES)),
        names=draw(_often(_USUAL_NAMES, list(NAMES))) if named else "strings",
        seed=draw(st.integers(0, 999)),
    )


def target_specs(n_rows):
    """Return a strategy of targets as `Target`."""
    return st.builds(
        Target,
        kind=_often(_USUAL_TARGETS, list(TARGETS)),
        holder=_often(("array", "series", "named"), HOLDERS),
        n_rows=st.just(n_rows),
        seed=st.integers(0, 999),
    )


def expressions(estimator_class):
    """Return a strategy of parameters, spelled as expressions for `value_of`.

    At most three of them differ from `SENSIBLE`.
    """
    names = list(inspect.signature(estimator_class).parameters)
    start = {name: SENSIBLE[name] for name in names if name in SENSIBLE}

    def values(name):
        usual = BY_NAME.get(name, ODD)
        # A text that is a ledger is a path, and makes a file.
        drawn = st.sampled_from(usual) if name == "ledger" else _often(usual, ODD, 0.8)
        if name in ALGORITHMS:
            drawn = st.one_of(drawn, _algorithms(name))
        return st.tuples(st.just(name), drawn)

    one = st.sampled_from(names).flatmap(values)
    size = st.sampled_from((0, 0, 0, 1, 1, 1, 1, 2, 2, 3))
    drawn = size.flatmap(lambda n: st.lists(one, min_size=n, max_size=n))
    return drawn.map(lambda given: _base(dict(given), start) | dict(given))


def _base(given, start):
    """Return the other parameters: beside a schema none that it declares."""
    if given.get("schema", "None") == "None":
        return start
    return {n: one for n, one in start.items() if n not in ("bounds", "target_bounds")}


def _algorithms(name):
    """Return a strategy of objects for a parameter, one of whose own is drawn."""

    def of(kind):
        own = list(inspect.signature(getattr(solvers, kind)).parameters)
        few = "max_iter=2, " * ("max_iter" in own)

        def with_one(name):
            start = kind + ("(" if name == "max_iter" else f"({few}") + name
            values = _often(BY_NAME.get(name, ODD), ODD, 0.8)
            return values.map(lambda value: f"{start}={value})")

        return st.sampled_from(own).flatmap(with_one)

    return st.sampled_from(ALGORITHMS[name]).flatmap(of)


@dataclasses.dataclass(frozen=True)
class EstimatorCall:
    """A fit of an estimator, and what is asked of it afterwards."""

    estimator_class: type
    spelled: dict[str, str]
    table: Table
    target: Target
    steps: tuple[str, ...] = ()
    other: Table = Table()

    def calls(self):
        """Yield the name of each call and the call, the fit first.

        Objects are made before a call is yielded, so that the call is skfdp's alone.
        Calls after a fit that failed are those of an estimator that is not fitted.
        """
        parameters = {name: value_of(text) for name, text in self.spelled.items()}
        model = self.estimator_class(**parameters)
        X, y = self.table.build(), self.target.build()
        yield "fit", lambda: model.fit(X, y)
        for step in self.steps:
            own = {"model": copy.copy(model), "X": self.other.build(), "y": y}
            yield step, functools.partial(value_of, step, **own, **_TOOLS)

    def __repr__(self):
        given = ", ".join(f"{name}={text}" for name, text in self.spelled.items())
        steps = f", {', '.join(self.steps)} of {self.other}" if self.steps else ""
        return (
            f"{self.estimator_class.__name__}({given}), fit({self.table}, "
            f"{self.target}){steps}"
        )


def _length(X):
    """Return the number of rows of a table, 30 of what is none."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[0], int):
        return shape[0]
    return len(X) if isinstance(X, list) else 30


def _fours(X):
    """Return four persons, each with every fourth row."""
    return [place % 4 for place in range(_length(X))]


#: What expressions of steps may name.
_TOOLS = {"length": _length, "fours": _fours}
_TOOLS |= {"clone": clone, "pickle": pickle, "report": report}


def _has(estimator_class, step):
    """Whether an estimator has the method that a step calls, and its arguments."""
    found = re.match(r"model\.(\w+)\(", step)
    if found is None:
        return True
    method = getattr(estimator_class, found[1], None)
    if method is None:
        return False
    needed = re.findall(r"(groups|sample_weight)=", step)
    if not needed:
        return True
    own = inspect.signature(method).parameters
    base = estimator_class.fit is PrivateEstimator.fit  # refuses weights itself
    refused = base and needed == ["sample_weight"]
    return refused or all(name in own for name in needed)


@st.composite
def estimator_calls(draw, estimator_class):
    """Draw an estimator with parameters, a table, a target, and methods to call."""
    table = draw(table_specs())
    spelled = draw(expressions(estimator_class))
    target = draw(target_specs(table.n_rows))
    steps = [one for one in STEPS if _has(estimator_class, one)]
    if any("lambda" in text for text in spelled.values()):
        steps = [one for one in steps if "pickle" not in one]  # nobody can
    asked = draw(st.lists(st.sampled_from(steps), max_size=3, unique=True))
    same = draw(st.sampled_from((True, True, False)))
    other = table if same else draw(table_specs(n_columns=len(table.kinds)))
    return EstimatorCall(estimator_class, spelled, table, target, tuple(asked), other)
