"""A public set is the one that was meant, or an error with the remedy."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector

from skfdp import (
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
)
from skfdp.data.columns import public_mask

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning")


def frame(columns, dtype=float):
    return pd.DataFrame(np.ones((3, len(columns)), dtype=dtype), columns=columns)


def resolved(spec, X):
    """Return the positions of the public columns, as an estimator would."""
    labels = list(getattr(X, "columns", [])) or None
    named = labels is not None and all(isinstance(name, str) for name in labels)
    mask = public_mask(spec, np.shape(X)[1], labels if named else None, X)
    return np.flatnonzero(mask).tolist()


DROPPED = frame([1, 2, 3])  # read_csv(header=None), and column 0 dropped
REFUSED = {
    "integers beside integer labels": ([1], DROPPED, "labels or positions"),
    "one integer beside integer labels": (1, DROPPED, "labels or positions"),
    "a slice beside integer labels": (slice(0, 2), DROPPED, "labels or positions"),
    "integers beside shuffled labels": ([1], frame([1, 0, 2]), "labels or positions"),
    "an integer beside a name that reads like it": (
        [1],
        frame(["1", "2", "3"]),
        "another column of X is called '1'",
    ),
    "0 and 1 as a mask or as positions": (
        [0, 1],
        frame(["a", "b"]),
        "could be a mask or positions",
    ),
    "0 and 1 in an array": (np.array([1, 0]), np.ones((3, 2)), "could be a mask"),
    "0 on a single column": ([0], np.ones((3, 1)), "could be a mask or positions"),
    "a mapping": ({"b": False}, frame(["a", "b"]), "is a mapping"),
    "a Series of 0 and 1": (
        pd.Series({"a": 0, "b": 1, "c": 1}),
        frame(["a", "b", "c"]),
        "a Series, whose index",
    ),
    "a boolean Series": (
        pd.Series({"c": True, "a": False, "b": False}),
        frame(["a", "b", "c"]),
        "a Series, whose index",
    ),
    "all beside a column of that name": (
        "all",
        frame(["all", "b"]),
        r"write \['all'\]",
    ),
    "a selector by dtype": (
        make_column_selector(dtype_include="number"),
        frame(["a", "b"]),
        "is unknown",
    ),
    "a fraction": (1.5, frame(["a", "b"]), "public_features=1.5 is unknown"),
    "a scalar truth": (True, frame(["a"]), "public_features=True is unknown"),
    "bytes, which are integers": (b"\x00", frame(["a", "b"]), "is unknown"),
    "a generator, which is empty the next time": (
        iter(["a"]),
        frame(["a", "b"]),
        "is unknown",
    ),
    "a frame, which iterates over names": (frame(["a"]), frame(["a", "b"]), "unknown"),
    "a set of booleans": ({True, False}, frame(["a", "b"]), "mixes booleans"),
    "a slice of names": (slice("a", "b"), frame(["a", "b"]), "slice of positions"),
}


@pytest.mark.parametrize("finding", REFUSED)
def test_what_has_two_readings_is_refused(finding):
    spec, X, message = REFUSED[finding]
    with pytest.raises(ValueError, match=message) as caught:
        resolved(spec, X)
    assert " at 0x" not in str(caught.value)  # no address
    assert "\n" not in str(caught.value)  # no Series


ACCEPTED = {
    "a mask beside integer labels": ([False, True, False], DROPPED, [1]),
    "integers beside the labels 0, 1, 2": ([1], frame(range(3)), [1]),
    "integers beside strings": ([1, -1], frame(["a", "b", "c"]), [1, 2]),
    "a set of positions": ({0, 1}, frame(["a", "b"]), [0, 1]),
    "a column called all": (["all"], frame(["b", "all"]), [1]),
    "every column, one called all": (slice(None), frame(["b", "all"]), [0, 1]),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_has_one_reading_is_taken_so(case):
    spec, X, expected = ACCEPTED[case]
    assert resolved(spec, X) == expected


@pytest.mark.parametrize(
    "estimator",
    [
        FeatureDPLogisticRegression(),
        FeatureDPRegressor(target_bounds=(0, 1)),
        FeatureDPMLPClassifier(),
        PrivateCenteringTransformer(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_estimator_asks_what_integers_mean(estimator, small, releases):
    X = pd.DataFrame(small[0], columns=[1, 2, 3, 4])
    estimator.set_params(public_features=[1], bounds=(0, 1))
    with pytest.raises(ValueError, match="could mean labels or positions"):
        estimator.fit(X, small[1])
    assert not releases


def test_reports_write_positions_as_columns(small):
    model = FeatureDPLogisticRegression(public_features=[0, 2], bounds=(0, 1))
    report = model.fit(*small).privacy_
    public = "2 columns (column 0, column 2)"
    private = "2 columns (column 1, column 3) and the target."
    told = " ".join(report.statement().split())
    assert public in told
    assert private in told
    assert f"{public}, the number of rows" in report._repr_html_()
    assert json.loads(report.to_json())["public_features"] == [0, 2]
