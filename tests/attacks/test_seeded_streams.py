"""One int seed: no two different fits share noise, and equal fits repeat it."""

import dataclasses
import functools
import subprocess
import sys
import textwrap
import threading
import types

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit, softmax
from scipy.stats import expon, loguniform, rv_discrete, uniform
from sklearn.neighbors import KNeighborsClassifier

from skfdp import (
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    PrivateCompletionClassifier,
    PrivateSearchCV,
)
from skfdp.estimators.search.method import Search
from skfdp.releases.noise import Streams

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.records.guards.UtilityWarning")
SCALE = 1.0


def pulls(coef, intercept, X, y, strength=0.1):
    return strength * coef, 0 * intercept


def with_default(strength):
    def pull(coef, intercept, X, y, by=strength):
        return by * coef, 0 * intercept

    return pull


def with_keyword(strength):
    def pull(coef, intercept, X, y, *, by=strength):
        return by * coef, 0 * intercept

    return pull


def with_closure(strength):
    return lambda coef, intercept, X, y: (strength * coef, 0 * intercept)


def with_attribute(strength):
    def pull(coef, intercept, X, y):
        return pull.by * coef, 0 * intercept

    pull.by = strength
    return pull


def with_global(strength):
    def pull(coef, intercept, X, y):
        return SCALE * coef, 0 * intercept

    names = {**pull.__globals__, "SCALE": strength}
    return type(pull)(pull.__code__, names)


class Pull:
    def __init__(self, strength):
        self.strength = strength

    def __call__(self, coef, intercept, X, y):
        return self.strength * coef, 0 * intercept

    pull = __call__


class Slots:
    __slots__ = ("strength",)
    __call__ = Pull.__call__

    def __init__(self, strength):
        self.strength = strength


def with_class(strength):
    return type("Pull", (Pull,), {"strength": strength, "__init__": object.__init__})()


def inside(strength):
    code = f"lambda: (lambda coef: {strength} * coef)"
    inner = eval(code)
    return lambda coef, intercept, X, y: (inner()(coef), 0 * intercept)


class Wrapping:
    """A decorator with a state of its own: update_wrapper sets `__wrapped__`."""

    def __init__(self, strength):
        functools.update_wrapper(self, pulls)
        self.strength = strength


class Compiled(Pull):
    py_func = staticmethod(pulls)


def under_an_installed_name(strength):
    @functools.wraps(softmax)
    def stronger(m):
        return 2.0 * m

    @functools.wraps(softmax)
    def weaker(m):
        return 1.0 * m

    return weaker if strength < 0.15 else stronger


@dataclasses.dataclass
class Fields:
    strength: float = 0.0


def with_no_field(strength):
    found = Fields()
    found.by = strength
    return found


class Mapped(dict):
    pass


def with_mapping(strength):
    found = Mapped(a=1)
    found.by = strength
    return found


def with_made_class(strength):
    made = dataclasses.make_dataclass("Made", [("a", int, strength)])
    made.__module__ = "types"
    return made


LOSSES = {
    "attributes beside __wrapped__": Wrapping,
    "attributes beside py_func": Compiled,
    "code under an installed name": under_an_installed_name,
    "a class under an installed name": with_made_class,
    "attributes that are no fields": with_no_field,
    "attributes of a mapping": with_mapping,
    "defaults": with_default,
    "keyword defaults": with_keyword,
    "closures": with_closure,
    "attributes of a function": with_attribute,
    "globals": with_global,
    "partial arguments": lambda by: functools.partial(pulls, strength=by),
    "attributes of an instance": Pull,
    "slots": Slots,
    "attributes of a class": with_class,
    "the instance of a method": lambda by: Pull(by).pull,
    "code inside": inside,
    "long arrays": lambda by: functools.partial(
        pulls, strength=np.r_[np.zeros(4000), by, np.zeros(4000)][4000]
    ),
    "elided arrays": lambda by: Pull(np.r_[np.zeros(4000), by, np.zeros(4000)]),
}


def draw(**parameters):
    return Streams(0, "A", (), parameters).private("noise").integers(2**62)


@pytest.mark.parametrize("difference", LOSSES)
def test_callables_that_differ_draw_other_noise(difference):
    make = LOSSES[difference]
    assert draw(public_loss=make(0.1)) != draw(public_loss=make(0.2))
    assert draw(public_loss=make(0.1)) == draw(public_loss=make(0.1))


@pytest.mark.parametrize("difference", ["defaults", "attributes of an instance"])
def test_fits_with_callables_that_differ_share_no_noise(difference, small, releases):
    make = LOSSES[difference]
    for strength in (0.1, 0.2, 0.1):
        model = FeatureDPLogisticRegression(
            public_loss=make(strength),
            public_features=[0],
            bounds=(0, 1),
            max_iter=2,
            random_state=0,
        )
        model.fit(*small)
    last = [
        releases[len(releases) * k // 3 - 1]["noise"][:, :4].tolist() for k in (1, 2, 3)
    ]
    assert last[0] != last[1]
    assert last[0] == last[2]


ELIDED = {
    "Series": lambda value: pd.Series(np.r_[np.zeros(500), value, np.zeros(500)]),
    "frame": lambda value: pd.DataFrame(np.r_[np.zeros(500), value, np.zeros(500)]),
    "mapping of arrays": lambda value: {"a": np.r_[np.zeros(4000), value, 0.0]},
    "facts with arrays": lambda value: (np.r_[np.zeros(4000), value, np.zeros(9)],),
}


@pytest.mark.parametrize("kind", ELIDED)
def test_what_a_repr_elides_draws_other_noise(kind):
    make = ELIDED[kind]
    assert draw(bounds=make(1.0)) != draw(bounds=make(2.0))
    assert draw(bounds=make(1.0)) == draw(bounds=make(1.0))
    facts = {
        Streams(0, "A").private("noise", make(value)).integers(2**62)
        for value in (1.0, 2.0)
    }
    assert len(facts) == 2


def test_public_models_that_differ_share_no_noise(small, releases):
    X, y = small
    for neighbours in (3, 7):
        public = KNeighborsClassifier(neighbours).fit(X[:100, :2], y[:100])
        model = FeatureDPLogisticRegression(
            public_model=public, public_features=[0, 1], bounds=(0, 1), random_state=0
        )
        model.set_params(public_target=True, max_iter=2).fit(X, y)
    half = len(releases) // 2
    assert (releases[0]["noise"] != releases[half]["noise"]).any()


ESTIMATORS = {
    "classifier": FeatureDPLogisticRegression(max_iter=2),
    "regressor": FeatureDPRegressor(max_iter=2, target_bounds=(0, 1)),
    "network": FeatureDPMLPClassifier(max_iter=2, hidden_layer_sizes=4),
    "transformer": PrivateCenteringTransformer(),
    "completion": PrivateCompletionClassifier(KNeighborsClassifier()),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_equal_public_sets_however_spelled_repeat_the_fit(name, small, releases):
    X = pd.DataFrame(small[0], columns=list("abcd"))
    model = ESTIMATORS[name].set_params(random_state=3)
    bounds = [(0, 1), {c: (0, 1) for c in "abcd"}, (np.zeros(4), np.ones(4))]
    public = [["a", "c"], [0, 2], lambda X: ["a", "c"]]
    for spelled, declared in zip(public, bounds, strict=True):
        model.set_params(public_features=spelled, bounds=declared).fit(X, small[1])
    third = len(releases) // 3
    assert third > 0
    for first, second, last in zip(
        releases[:third],
        releases[third : 2 * third],
        releases[2 * third :],
        strict=True,
    ):
        np.testing.assert_array_equal(first["noise"], second["noise"])
        np.testing.assert_array_equal(first["noise"], last["noise"])


class Guarded(Pull):
    def __init__(self, strength):
        super().__init__(strength)
        self.lock = threading.Lock()


def test_what_cannot_be_told_apart_is_refused_with_a_seed(small, releases):
    model = FeatureDPLogisticRegression(
        public_loss=Guarded(0.1), public_features=[0], bounds=(0, 1), max_iter=2
    )
    with pytest.raises(ValueError, match="public_loss holds a value of type lock"):
        model.set_params(random_state=0).fit(*small)
    assert not releases
    model.set_params(random_state=None).fit(*small)  # needs no identity


def reads_a_module(coef):
    return own_module.strength * coef


def imports_a_module(coef):
    import own_module as found

    return found.strength * coef


def imports_from_a_module(coef):
    from own_module.inside import strength

    return strength * coef


own_module = types.ModuleType("own_module")
UNTOLD = {
    "a module of the user's own": reads_a_module,
    "an import inside": imports_a_module,
    "an import from a module inside": imports_from_a_module,
    "a ufunc made of a function": np.frompyfunc(lambda m: 2 * m, 1, 1),
}


@pytest.mark.parametrize("case", UNTOLD)
def test_what_reads_an_unknown_state_is_refused_with_a_seed(case):
    with pytest.raises(ValueError, match=r"public_loss holds a value of type (mod|uf)"):
        draw(public_loss=UNTOLD[case])


def test_installed_modules_and_ufuncs_are_told_by_name():
    def loss(coef, intercept):
        import os.path

        import scipy.linalg as linalg

        return os.path, linalg.norm(coef), np.exp(intercept)

    values = [loss, np.exp, expit, np.dot, softmax, len, functools.cache(pulls), np]
    assert len({draw(public_loss=value) for value in values}) == len(values)


def test_a_class_of_the_same_name_shares_no_noise(small, releases):
    def fit(estimator):
        estimator(bounds=(0, 1), max_iter=2, random_state=0).fit(*small)

    ours = FeatureDPLogisticRegression
    own = {
        by: type(ours.__name__, (ours,), {"by": by, "__module__": ours.__module__})
        for by in (1, 2)
    }
    for estimator in (ours, own[1], own[2], own[1]):
        fit(estimator)
    quarter = len(releases) // 4
    noise = [releases[k * quarter]["noise"].tolist() for k in range(4)]
    assert noise[0] not in noise[1:]
    assert noise[1] != noise[2]
    assert noise[1] == noise[3]
    public = [Streams(0, k).public("draws").integers(2**62) for k in (ours, own[1])]
    assert public[0] != public[1]


EQUAL = [
    {"epsilon": 1},
    {"epsilon": np.float64(1)},
    {"max_iter": np.int64(2)},
    {"learning_rate": 1},
    {"clip_norm": np.float64(0.5)},
    {"random_state": np.int64(7)},
    {"fit_intercept": np.True_},
]


@pytest.mark.parametrize("spelled", EQUAL, ids=lambda s: f"{s!r}")
def test_equal_numbers_of_other_types_repeat_the_fit(spelled, small):
    given = {"epsilon": 1.0, "max_iter": 2, "learning_rate": 1.0, "clip_norm": 0.5}
    given |= {"bounds": (0, 1), "random_state": 7}
    first, second = (
        FeatureDPLogisticRegression(**parameters).fit(*small)
        for parameters in (given, given | spelled)
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_what_is_equal_to_a_number_is_not_always_that_number():
    values = [1, True, "1", b"1", [1], 2**60 + 1, 2.0**60, 0.0, -0.0]
    assert len({draw(C=value) for value in values}) == len(values)
    # Code may tell 1 from 1.0.
    assert draw(loss=with_default(1)) != draw(loss=with_default(1.0))
    assert draw(loss=lambda m: m + 1) != draw(loss=lambda m: m + 1.0)


def test_indices_of_64_bits_repeat_the_fit(small):
    narrow, wide = csr_array(small[0]), csr_array(small[0])
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    assert narrow.indices.dtype != wide.indices.dtype
    draws = {Streams(0, "A", (X,)).private("noise").random() for X in (narrow, wide)}
    assert len(draws) == 1


DISTRIBUTIONS = {
    "log-uniform": lambda: loguniform(0.1, 10),
    "wider": lambda: loguniform(0.01, 100),
    "uniform": lambda: uniform(0.1, 9.9),
    "not frozen": lambda: expon,
    "values and chances": lambda: rv_discrete(values=([1, 2], [0.5, 0.5])),
    "other chances": lambda: rv_discrete(values=([1, 2], [0.4, 0.6])),
    "other name": lambda: loguniform(0.1, 10),
}


def test_searches_over_other_distributions_share_no_coins(small, monkeypatch):
    drawn = []

    def first_run(search, holdout, plan, streams):
        labels = (("candidates",), ("fit", 0))
        drawn.append([streams.private(*label).integers(2**62) for label in labels])
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "_random", first_run)

    def search(case):
        name = "learning_rate" if case == "other name" else "C"
        given = {name: DISTRIBUTIONS[case](), "clip_norm": [0.1, 1.0]}
        model = FeatureDPLogisticRegression(bounds=(0, 1), max_iter=2)
        with pytest.raises(KeyboardInterrupt):
            PrivateSearchCV(model, given, random_state=0).fit(*small)
        return drawn.pop()

    found = [search(case) for case in DISTRIBUTIONS]
    for coins in zip(*found, strict=True):
        assert len(set(coins)) == len(DISTRIBUTIONS)
    np.random.random()  # noqa: NPY002 -- the generator that distributions hold
    assert [search(case) for case in DISTRIBUTIONS] == found


def draws_nothing(random_state):
    return 0.5


def test_a_distribution_that_cannot_be_told_apart_is_refused(small, releases):
    held = Guarded(0.1)
    held.rvs = draws_nothing
    model = FeatureDPLogisticRegression(bounds=(0, 1), max_iter=2)
    search = PrivateSearchCV(model, {"C": held}, random_state=0)
    with pytest.raises(ValueError, match="^param_distributions holds a value of type"):
        search.fit(*small)
    assert not releases


SCRIPT = """
    import functools, numpy as np, pandas as pd
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.preprocessing import FunctionTransformer
    from skfdp.releases.noise import Streams

    class Pull:
        constant = {"b", "a", "c"}

        def __init__(self, by):
            self.by = by

        def __call__(self, coef, intercept, X, y):
            return self.by * np.sign(coef), 0 * intercept

    def loss(coef, intercept, X, y, by={"x", "y", "z"}):
        return [coef for _ in by if "q" not in {"r", "s", "t"}], intercept

    values = {
        "function": loss,
        "instance": Pull(np.arange(3000.0)),
        "partial": functools.partial(loss, by=frozenset("abcdef")),
        "frame": pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
        "forest": RandomForestClassifier(3, random_state=0).fit(
            np.arange(20.0)[:, None], np.arange(20) % 2
        ),
        "transformer": FunctionTransformer(np.log1p, kw_args={"where": True}),
        "ufunc": np.exp,
    }
    for name, value in values.items():
        stream = Streams(0, "A", (), {name: value}).private("noise")
        print(name, stream.integers(2**62))
"""


def test_equal_fits_repeat_in_every_process(tmp_path):
    script = tmp_path / "draws.py"
    script.write_text(textwrap.dedent(SCRIPT))
    told = [
        subprocess.run(
            [sys.executable, script],
            env={"PYTHONHASHSEED": hashed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(set(told[0].splitlines())) == 7
