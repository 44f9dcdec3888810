"""The data sets: what the generators make, and what they refuse."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skfdp.datasets import (
    load_purchase100,
    make_offset_classes,
    make_purchase100,
)


def test_import_is_light():
    # scikit-learn imports pandas where it is there; we must do without it.
    code = (
        "import sys; sys.modules['pandas'] = None; import skfdp.datasets; "
        "print({'sklearn.datasets', 'torch'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


@given(
    n_samples=st.integers(2, 50),
    n_features=st.integers(2, 6),
    offset=st.floats(0, 1e6),
    separation=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
def test_offset_classes_without_noise(n_samples, n_features, offset, separation, seed):
    X, y = make_offset_classes(
        n_samples,
        n_features,
        offset=offset,
        separation=separation,
        noise=0.0,
        random_state=seed,
    )
    assert X.shape == (n_samples, n_features)
    assert np.bincount(y).tolist() == [(n_samples + 1) // 2, n_samples // 2]
    assert_array_equal(X[:, 0], offset)
    assert_array_equal(X[:, 1], separation * (y - 0.5))
    assert_array_equal(X[:, 2:], 0.0)


def test_offset_classes_noise():
    quiet, y_quiet = make_offset_classes(5000, 4, noise=0.0, random_state=3)
    loud, y_loud = make_offset_classes(5000, 4, noise=2.0, random_state=3)
    assert_array_equal(y_quiet, y_loud)
    noise = loud - quiet
    # Five standard errors of a mean and of a standard deviation.
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=5 * 2.0 / 5000**0.5)
    np.testing.assert_allclose(noise.std(axis=0), 2.0, rtol=5 / 10_000**0.5)


def test_offset_classes_random_state():
    first = make_offset_classes(20, random_state=0)
    same = make_offset_classes(20, random_state=np.random.RandomState(0))
    other = make_offset_classes(20, random_state=1)
    assert_array_equal(first[0], same[0])
    assert_array_equal(first[1], same[1])
    assert (first[0] != other[0]).all()


def test_offset_classes_bunch():
    X, y = make_offset_classes(20, 3, random_state=0)
    bunch = make_offset_classes(20, 3, return_X_y=False, random_state=0)
    assert_array_equal(bunch.data, X)
    assert_array_equal(bunch.target, y)
    assert bunch.feature_names == ["x0", "x1", "x2"]
    assert bunch.target_names == ["minus", "plus"]
    assert "2307.11106" in bunch.DESCR


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_samples": 1}, "n_samples must be an integer of at least 2, got 1"),
        ({"n_samples": 10.0}, "n_samples must be an integer of at least 2, got 10.0"),
        ({"n_features": 1}, "n_features must be an integer of at least 2, got 1"),
        ({"n_features": True}, "n_features must be an integer of at least 2, got True"),
        ({"offset": -1.0}, "offset must be a finite non-negative number, got -1.0"),
        ({"offset": np.inf}, "offset must be a finite non-negative number, got inf"),
        ({"offset": "far"}, "offset must be a finite non-negative number, got 'far'"),
        ({"separation": 0}, "separation must be a finite positive number, got 0"),
        ({"separation": np.nan}, "separation must be a finite positive number, got na"),
        ({"noise": -0.1}, "noise must be a finite non-negative number, got -0.1"),
    ],
)
def test_offset_classes_bad_input(parameters, message):
    with pytest.raises(ValueError, match=message):
        make_offset_classes(**parameters)


ODD_CALLS = [
    (load_purchase100, {"path": "a\0"}, ValueError, "holds a null character"),
    (make_offset_classes, {"return_X_y": np.array([])}, ValueError, "True or False"),
    (make_offset_classes, {"random_state": -1}, ValueError, "random_state=-1 must be"),
    (make_purchase100, {"random_state": np.timedelta64(3, "s")}, ValueError, "must be"),
    (make_offset_classes, {"offset": iter([])}, ValueError, "got a list_iterator"),
    (make_offset_classes, {"return_X_y": "x"}, ValueError, "must be True or False"),
    (make_purchase100, {"random_state": 2**32}, ValueError, "must be None, a Rand"),
    (load_purchase100, {"path": None}, TypeError, "path=None must be the path"),
    (load_purchase100, {"path": "nobody.npz"}, FileNotFoundError, "is no file"),
]


@pytest.mark.parametrize(
    ("call", "given", "kind", "message"),
    ODD_CALLS,
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_odd_arguments_are_refused_in_a_sentence(call, given, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call(**given)
    assert " at 0x" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.npz", "a.csv"])
@pytest.mark.parametrize("content", [b"", b"s3cr3t,1\n", b"PK\x03\x04x", b"9" * 9999])
def test_damaged_copies_of_purchase100(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="path=.* (is no|has|holds)") as caught:
        load_purchase100(tmp_path / name)
    assert "s3cr3t" not in f"{caught.value} {caught.value.__context__}"


def test_the_smallest_numbers_raise_no_trap():
    with np.errstate(all="raise"):
        make_offset_classes(4, 2, offset=5e-324, separation=5e-324, noise=5e-324)
