"""Refusals in our words: of the right argument, without a datum, before a release."""

import re
import traceback
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from problems import FITS
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.data.cells import places_of, read_as
from skfdp.data.target import spelling_of
from skfdp.privacy import AddOrRemoveOne
from skfdp.reader import public_mask
from skfdp.schema import Label, Number
from skfdp.solvers import NoisyGradientDescent

X = np.random.default_rng(0).random((20, 2))
Y = np.arange(20) % 2
LOOP = {"solver": NoisyGradientDescent(max_iter=1)}
ESTIMATORS = {type(one).__name__: one for one in FITS.values()}
LINEAR = [
    k for k, one in ESTIMATORS.items() if "groups" in signature(one.fit).parameters
]
NAMED = "".join(f"(?=.*{name})" for name in LINEAR)
OTHERS = sorted({*ESTIMATORS} - {*LINEAR})
#: With a public column; a malformed private value is no error.
WITH_PUBLIC = {
    name: clone(ESTIMATORS[name]).set_params(public_features=[0])
    for name in ESTIMATORS
    if not name.startswith("DPSGDF")
}


def refusal(estimator, X, y, *more, **fit):
    with pytest.raises((TypeError, ValueError)) as caught:
        estimator.fit(X, y, *more, **fit)
    told = str(caught.value)
    assert "\n" not in told
    return told


# -- one table: what is fitted, on what, and the beginning of the sentence ------------
WEIGHTS, PERSONS = np.ones(20), np.arange(20) // 2
INFINITE = np.where(PERSONS == 3, np.inf, 1.0)
SHOWN = clone(WITH_PUBLIC["FeatureDPRegressor"]).set_params(public_target=True)
PIPELINE = make_pipeline(skfdp.PrivateCenteringTransformer(bounds=(0, 1)))
NUMBERED = pd.DataFrame(X, columns=[1, 2])
#: The sentence, and each model that says it with what its fit is given.
REFUSED = {
    "n_jobs=.* must be None or an int other than 0": [
        (kind(n_jobs=n_jobs), {})
        for kind in (skfdp.DPSGDFClassifier, skfdp.FeatureDPMLPClassifier)
        for n_jobs in ("2", 1.5, True, 0, type(None))
    ],
    r"^X has column names of several types.*X\.columns\.astype\(str\)": [
        (one, {"X": pd.DataFrame(X, columns=["a", 1])}) for one in ESTIMATORS.values()
    ],
    r"^X holds [01] sample\(s\)": [
        (one, {"X": X[:n], "y": Y[:n]}) for one in ESTIMATORS.values() for n in (0, 1)
    ],
    "^{name}.fit takes no sample_weight, which only the linear estimators accept: ": [
        (ESTIMATORS[name], {"sample_weight": WEIGHTS}) for name in OTHERS
    ],
    f"^{{name}}.fit takes no groups: only the linear {NAMED}": [
        (ESTIMATORS[name], {"groups": PERSONS}) for name in OTHERS
    ],
    "PrivateCenteringTransformer.fit takes no sample_weight": [
        (PIPELINE, {"privatecenteringtransformer__sample_weight": WEIGHTS})
    ],
    # Nobody is sent to an imputer that learns.
    "(?=.*strategy='constant').*without looking at the data": [
        (one, {"X": X + np.nan}) for one in WITH_PUBLIC.values()
    ],
    "could mean labels or positions": [
        (clone(one).set_params(public_features=[1]), {"X": NUMBERED})
        for one in WITH_PUBLIC.values()
    ],
    "X contains infinity.*without looking": [(SHOWN, {"X": X + INFINITE[:, None]})],
    "y contains infinity.*without looking": [(SHOWN, {"y": INFINITE})],
}


@pytest.mark.parametrize(
    ("sentence", "model", "given"),
    [(said, *case) for said, cases in REFUSED.items() for case in cases],
    ids=lambda one: type(one).__name__,
)
def test_a_refusal_names_the_argument(sentence, model, given, releases):
    told = refusal(model, **{"X": X, "y": Y} | given)
    assert re.search(sentence.replace("{name}", type(model).__name__), told), told
    assert not releases
    # Nobody is sent to drop rows, or to leave privacy.
    for never in ("imputer transformer", "drop samples", "inf ", "without privacy"):
        assert never not in told


LONG = {
    "Series": pd.Series(range(50)),
    "frame": pd.DataFrame(X),
    "array": np.arange(3000.0),
    "function": lambda: None,
    "object": object(),
}

#: Every parameter, with an estimator that has it.
PARAMETERS = {
    name: type(one)
    for one in reversed(ESTIMATORS.values())
    for name in one.get_params(deep=False)
}


@pytest.mark.parametrize("value", LONG)
@pytest.mark.parametrize("name", PARAMETERS)
def test_no_error_prints_a_series_or_an_address(name, value):
    if name == "classes" and value in ("Series", "array"):
        return  # a list of labels
    told = refusal(PARAMETERS[name](**{"bounds": (0, 1), name: LONG[value]}), X, Y)
    assert name in told and " at 0x" not in told and len(told) < 400


# -- a public set has one reading -----------------------------------------------------
def frame(columns, dtype=float):
    return pd.DataFrame(np.ones((3, len(columns)), dtype=dtype), columns=columns)


def resolved(spec, X):
    """Return the positions of the public columns, as an estimator would."""
    labels = list(getattr(X, "columns", [])) or None
    named = labels is not None and all(isinstance(name, str) for name in labels)
    mask = public_mask(spec, np.shape(X)[1], labels if named else None, X)
    return np.flatnonzero(mask).tolist()


DROPPED = frame([1, 2, 3])  # read_csv(header=None), and column 0 dropped
AB, ABC = frame(["a", "b"]), frame(["a", "b", "c"])
TWO = "labels or positions"
SERIES = "is unknown: .*of a Series"
AMBIGUOUS = {
    "integers beside integer labels": ([1], DROPPED, TWO),
    "one integer beside integer labels": (1, DROPPED, TWO),
    "a slice beside integer labels": (slice(0, 2), DROPPED, TWO),
    "integers beside shuffled labels": ([1], frame([1, 0, 2]), TWO),
    "an integer beside a name": ([1], frame([*"123"]), "another .* is called '1'"),
    "a mask or positions": ([0, 1], AB, "could be a mask or positions"),
    "0 and 1 in an array": (np.array([1, 0]), np.ones((3, 2)), "could be a mask"),
    "0 on a single column": ([0], np.ones((3, 1)), "could be a mask or positions"),
    "a mapping": ({"b": False}, AB, "is unknown"),
    "a Series of 0 and 1": (pd.Series({"a": 0, "b": 1, "c": 1}), ABC, SERIES),
    "a boolean Series": (pd.Series({"c": True, "a": False, "b": False}), ABC, SERIES),
    "all beside a column": ("all", frame(["all", "b"]), r"write \['all'\]"),
    "a selector": (make_column_selector(dtype_include="number"), AB, "is unknown"),
    "a fraction": (1.5, AB, "public_features=1.5 is unknown"),
    "a scalar truth": (True, frame(["a"]), "public_features=True is unknown"),
    "bytes, which are integers": (b"\x00", AB, "is unknown"),
    "a generator, empty the next time": (iter(["a"]), AB, "is unknown"),
    "a frame, which iterates over names": (frame(["a"]), AB, "unknown"),
    "a set of booleans": ({True, False}, AB, "is unknown"),
    "a function": (lambda X: [0], AB, "is unknown: expected None"),
    "a fraction in a list": ([1.5], AB, "1.5 in a list is unknown: expected None"),
    "a mask of another length": ([True, False], ABC, "mask of length 2"),
    "a position that is not there": ([9], ABC, "index 9"),
    "a name of nobody": ("nothing", AB, "matches no column"),
    "a slice of names": (slice("a", "b"), AB, "slice of positions"),
    "a name without names": ("income", np.ones((3, 4)), "set_output"),
}


@pytest.mark.parametrize("finding", AMBIGUOUS)
def test_what_has_two_readings_is_refused(finding):
    spec, X, message = AMBIGUOUS[finding]
    with pytest.raises(ValueError, match=message) as caught:
        resolved(spec, X)
    assert not re.search(" at 0x|\n", str(caught.value))  # an address, a Series


@pytest.mark.parametrize(
    ("spec", "X", "expected"),
    [
        ([False, True, False], DROPPED, [1]),  # a mask beside integer labels
        ([1], frame(range(3)), [1]),  # beside the labels 0, 1, 2
        ([1, -1], ABC, [1, 2]),
        ({0, 1}, AB, [0, 1]),
        (["all"], frame(["b", "all"]), [1]),
        (slice(None), frame(["b", "all"]), [0, 1]),
        *((None, AB, []), ([], AB, []), ("all", ABC, [0, 1, 2]), (2, ABC, [2])),
        *(("b", ABC, [1]), (["c", "a"], ABC, [0, 2]), ([0, -1], ABC, [0, 2])),
        (slice(1, 3), ABC, [1, 2]),
        (np.eye(3, dtype=bool)[1], ABC, [1]),
        ("p__*", frame(["p__a", "p__b", "c"]), [0, 1]),
        (["a*b"], frame(["c", "a*b"]), [1]),
    ],
)
def test_what_has_one_reading_is_taken_so(spec, X, expected):
    assert resolved(spec, X) == expected


# -- raw tables, as an attacker would write them --------------------------------------
def declared(**columns):
    """Return a schema of some columns and of the outcome "y"."""
    return skfdp.TableSchema({**columns, "y": Label([0, 1])}, outcomes=["y"])


@pytest.mark.parametrize(
    "table",
    [np.array([0.1234567, 0.5]), [[0.1234567, 0.5], [0.25]], [0.1234567], "1234567"],
)
def test_a_table_of_another_shape_is_refused_and_not_quoted(table):
    schema = declared(a=Number(0, 1), b=Number(0, 1))
    encoder = skfdp.DeclaredEncoder(schema).fit(pd.DataFrame({"a": [0], "b": [0]}))
    model = skfdp.DPSGDFClassifier(schema=schema)
    for use in (encoder.transform, encoder.fit, lambda X: model.fit(X, [0, 1])):
        match = "without names of columns|X is a path"
        with pytest.raises((ValueError, TypeError), match=match) as caught:
            use(table)
        text = "".join(traceback.format_exception_only(caught.value))
        assert "1234567" not in text and caught.value.__context__ is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_whether_there_is_a_record_is_not_told_where_that_is_private(library):
    schema = declared(a=Number(0, 1), b=Number(0, 1))
    found = pytest.importorskip(library)
    make = found.table if library == "pyarrow" else found.DataFrame
    empty, one = (
        make({"a": column, "b": column}) for column in (np.empty(0), np.array([0.5]))
    )
    model = skfdp.DPSGDFClassifier(
        schema=schema, neighboring_relation=AddOrRemoveOne(10), **LOOP
    )
    model.fit(empty, np.empty(0, dtype=int))
    assert model.coef_.shape == model.fit(one, [1]).coef_.shape
    # The number of rows to transform or to predict is public.
    encoder, other = skfdp.DeclaredEncoder(schema).fit(empty), clone(model)
    other.set_params(neighboring_relation="replace_one")
    for call in (encoder.transform, model.predict, lambda X: other.fit(X, [])):
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            call(empty)


def zoned(number, unit, zone):
    """Yield columns of a time zone that hold a number of units since 1970, and 0."""
    stamps = np.array([number, 0]).astype(f"datetime64[{unit}]")
    series = pd.Series(stamps).dt.tz_localize("UTC").dt.tz_convert(zone)
    yield series
    pa, pl = map(pytest.importorskip, ("pyarrow", "polars"))
    yield pa.chunked_array([pa.array([number, 0], pa.timestamp(unit, tz=zone))])
    if unit != "s":  # which polars has not
        yield pl.Series([number, None, 0]).cast(pl.Datetime(unit, zone))[[0, 2]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC"])
@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_no_date_of_a_time_zone_is_an_error(zone, unit):
    start = pd.Timestamp(0, tz=zone).tz_localize(None) - pd.Timestamp(0)
    for number in (2**63 - 1, -(2**63) + 1, 2**62, 253402300799 * 10**6):
        for raw in zoned(number, unit, zone):
            days = read_as("date", raw)
            assert np.isfinite(days).all()
            assert days[1] == pytest.approx(start / pd.Timedelta(days=1))
            assert np.isfinite([read_as(p, raw) for p in ("month", "weekday")]).all()


def test_a_value_without_text_is_another_category():
    class Silent:
        def __str__(self):
            raise RuntimeError("secret")

    values = np.array([Silent(), [10**5000], "a", None], dtype=object)
    assert places_of(values, spelling_of(["a"], "x"), 1, 2).tolist() == [1, 1, 0, 2]
    for what in ("number", "date", "month", "weekday"):
        assert np.isnan(read_as(what, values)).all()
