"""What two fits left is compared to the last bit, and places are named, not values."""

import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.tree import DecisionTreeClassifier

from skfdp import PrivacyLedger
from skfdp.audit.replay import apart, differ


class Thing:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def closure(value):
    return lambda: value


def tree(y):
    return DecisionTreeClassifier(random_state=0).fit(np.arange(6).reshape(-1, 1), y)


def generator(n):
    found = np.random.default_rng(0)
    found.random(n)
    return found


X = np.array([[0.5, np.nan], [1.0, -0.0]])
#: A maker of equal objects, and one of another.
SORTS = {
    "float": (lambda: 0.1, lambda: 0.1 + 2**-56),
    "nan": (lambda: float("nan"), lambda: 0.0),
    "sign of zero": (lambda: 0.0, lambda: -0.0),
    "type of a number": (lambda: 1, lambda: 1.0),
    "bool": (lambda: True, lambda: 1),
    "scalar": (lambda: np.float32(1), lambda: np.float64(1)),
    "array": (X.copy, lambda: np.abs(X)),
    "shape": (X.copy, X.ravel),
    "dtype": (X.copy, lambda: X.astype(np.float32)),
    "order in memory": (lambda: np.asfortranarray(X), X.T.copy),
    "objects": (
        lambda: np.array([None, "a", float("nan")], dtype=object),
        lambda: np.array([None, "b", float("nan")], dtype=object),
    ),
    "list": (lambda: [1, [2]], lambda: [1, [3]]),
    "length": (lambda: [1, 2], lambda: [1]),
    "order of a mapping": (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
    "key": (lambda: {0.5: 1, (1, 2): 2}, lambda: {0.5: 1, (1, 3): 2}),
    "set": (lambda: {1, 2}, lambda: {1, 3}),
    "csr": (lambda: csr_array(X), lambda: csr_array(X * 2)),
    "frame": (
        lambda: pd.DataFrame({"a": [1, 2], "b": ["x", None]}),
        lambda: pd.DataFrame({"a": [1, 2], "b": ["y", None]}),
    ),
    "code": (lambda: lambda x: x, lambda: lambda x: -x),
    "closure": (lambda: closure(1), lambda: closure(2)),
    "partial": (lambda: partial(max, 1), lambda: partial(max)),
    "class": (lambda: Thing, lambda: Slotted),
    "slots": (lambda: Slotted(1), lambda: Slotted(2)),
    "compiled": (lambda: tree([0, 1] * 3), lambda: tree([0, 0, 1] * 2)),
    "generator": (lambda: generator(1), lambda: generator(2)),
    "thread-local": (threading.Lock, threading.RLock),
    "method": (lambda: Thing(a=1).__init__, lambda: Thing(a=2).__init__),
}


@pytest.mark.parametrize("name", SORTS)
def test_equal_objects_are_equal_and_others_are_not(name):
    one, other = SORTS[name]
    assert not differ(one(), one())
    assert differ(one(), other())
    assert not differ(Thing(a=[one()]), Thing(a=[one()]))
    assert differ(Thing(a=[one()]), Thing(a=[other()]))


def test_places_are_paths():
    one = Thing(steps=[("a", Thing(mean_=X, scale_=1.0))], n=1)
    other = Thing(steps=[("a", Thing(mean_=X + 1, scale_=2.0))], n=1)
    assert [*apart(one, other)] == ["steps[0][1].mean_", "steps[0][1].scale_"]


def test_no_key_and_no_name_of_one_alone_is_told():
    one, other = Thing(a={"secret": 1}), Thing(a={"other": 1})
    assert [*apart(one, other)] == ["a[0][0]"]
    (place,) = apart(Thing(secret=1), Thing(other=1))
    assert "secret" not in place
    (place,) = apart(Thing(a={"secret": 1}), Thing(a={"secret": 2}))
    assert "secret" not in place


def test_circles_end():
    one, other = Thing(a=1), Thing(a=1)
    one.own, other.own = one, other
    assert not differ(one, other)
    other.a = 2
    assert differ(one, other)


def test_ledgers_are_left_out():
    assert not differ(Thing(ledger=PrivacyLedger()), Thing(ledger=PrivacyLedger()))
