"""One int seed: no two different fits share noise, and equal fits repeat it."""

import functools
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier

from skfdp import (
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    PrivateCompletionClassifier,
)
from skfdp.noise import Streams

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.defaults.UtilityWarning")
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


LOSSES = {
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


SCRIPT = """
    import functools, numpy as np, pandas as pd
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.preprocessing import FunctionTransformer
    from skfdp.noise import Streams

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
