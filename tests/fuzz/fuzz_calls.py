"""Calls of estimators, drawn by hypothesis: parameters, tables, targets and methods."""

import copy
import dataclasses
import functools
import inspect
import pickle

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
from fuzz_values import BY_NAME, ODD, SENSIBLE, value_of
from hypothesis import strategies as st
from sklearn.base import clone

from skfdp.base import PrivateEstimator
from skfdp.privacy.pipelines import report

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


def _often(usual, rest, share=0.85):
    """Return one of the usual values, or, less often, one of all of them."""
    most = round(share * 20)
    return st.sampled_from([0] * most + [1] * (20 - most)).flatmap(
        lambda odd: st.sampled_from(list(rest) if odd else list(usual))
    )


@st.composite
def table_specs(draw, n_rows=None, n_columns=None):
    """Draw tables as `Table`."""
    form = draw(_often((*_USUAL_FORMS, *FRAMES[:2]), (*FORMS, *FRAMES)))
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
def target_specs(draw, n_rows=30):
    """Draw targets as `Target`."""
    return Target(
        kind=draw(_often(_USUAL_TARGETS, list(TARGETS))),
        holder=draw(_often(("array", "series", "named"), HOLDERS)),
        n_rows=n_rows,
        seed=draw(st.integers(0, 999)),
    )


def _values(name, usual):
    """Return expressions for one parameter."""
    if name == "ledger":  # text is a path there, and makes a file
        return st.sampled_from(usual)
    return _often(usual, ODD, share=0.8)


def expressions(estimator_class, base):
    """Return a strategy of parameters, spelled as expressions for `value_of`.

    At most three of them differ from the base and from `SENSIBLE`.
    """
    names = list(inspect.signature(estimator_class).parameters)
    start = {name: SENSIBLE[name] for name in names if name in SENSIBLE} | base
    one = st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), _values(name, BY_NAME.get(name, ODD)))
    )
    size = st.sampled_from((0, 0, 0, 1, 1, 1, 1, 2, 2, 3))
    drawn = size.flatmap(lambda n: st.lists(one, min_size=n, max_size=n))
    return drawn.map(lambda given: start | dict(given))


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
            rows, copied = self.other.build(), copy.copy(model)
            yield step, functools.partial(STEPS[step], copied, rows, y)

    def __repr__(self):
        given = ", ".join(f"{name}={text}" for name, text in self.spelled.items())
        steps = f", {', '.join(self.steps)} of {self.other}" if self.steps else ""
        return (
            f"{self.estimator_class.__name__}({given}), fit({self.table}, "
            f"{self.target}){steps}"
        )


def _of_rows(name):
    return lambda model, X, y: getattr(model, name)(X)


def _length(X):
    """Return the number of rows of a table, 30 of what is none."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[0], int):
        return shape[0]
    return len(X) if isinstance(X, list) else 30


def _fours(X):
    """Return four persons, each with every fourth row."""
    return [place % 4 for place in range(_length(X))]


#: What may be asked of an estimator: functions of it, rows and a target.
STEPS = {
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


def _has(estimator_class, step):
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
def estimator_calls(draw, estimator_class, base):
    """Draw an estimator with parameters, a table, a target, and methods to call."""
    table = draw(table_specs())
    spelled = draw(expressions(estimator_class, base))
    target = draw(target_specs(table.n_rows))
    steps = [one for one in STEPS if _has(estimator_class, one)]
    if any("lambda" in text for text in spelled.values()):
        steps = [one for one in steps if one != "pickle"]  # nobody can
    asked = draw(st.lists(st.sampled_from(steps), max_size=3, unique=True))
    same = draw(st.sampled_from((True, True, False)))
    other = table if same else draw(table_specs(n_columns=len(table.kinds)))
    return EstimatorCall(estimator_class, spelled, table, target, tuple(asked), other)
