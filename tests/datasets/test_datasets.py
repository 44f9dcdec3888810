"""The data sets: local folders, the way to OpenML, and what the records hold."""

import gzip
import os
import struct
import subprocess
import sys
from urllib.error import URLError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skfdp.datasets import (
    fetch_adult,
    fetch_fashion_mnist,
    fetch_mnist,
    load_purchase100,
    make_offset_classes,
    make_purchase100,
)

ALL_FETCHERS = [fetch_mnist, fetch_fashion_mnist, fetch_adult]
IMAGE_FETCHERS = [
    pytest.param(fetch_mnist, "mnist", "mnist_784", id="mnist"),
    pytest.param(fetch_fashion_mnist, "fashion-mnist", "Fashion-MNIST", id="fashion"),
]
SIZES = {"train": 5, "test": 3}

# Lines in UCI's own style: a remark, blank lines, "?", and labels that end with a dot
# in the test file.
ADULT_TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, \
White, Male, 2174, 0, 40, United-States, <=50K
52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Husband, White, Male, 0, 0, 45, \
?, >50K

"""
ADULT_TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, \
Male, 0, 0, 40, United-States, <=50K.

"""


def write_idx(path, values):
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes()))


def write_images(root, name, sizes=SIZES):
    folder = root / name
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    arrays = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images = rng.integers(256, size=(sizes[split], 28, 28))
        labels = rng.integers(10, size=sizes[split])
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", labels)
        arrays[split] = images.reshape(len(images), -1), labels
    return arrays


def write_adult(root):
    folder = root / "adult"
    folder.mkdir(parents=True)
    (folder / "adult.data.gz").write_bytes(gzip.compress(ADULT_TRAIN.encode()))
    (folder / "adult.test.gz").write_bytes(gzip.compress(ADULT_TEST.encode()))


@pytest.fixture
def no_local_data(monkeypatch):
    monkeypatch.delenv("SKFDP_DATA", raising=False)


@pytest.fixture
def fake_openml(monkeypatch, no_local_data):
    """Replace OpenML by one frame and record how it was asked."""
    calls = []

    def install(answer):
        def fetch_openml(name, **kwargs):
            calls.append((name, kwargs))
            if isinstance(answer, Exception):
                raise answer
            from sklearn.utils import Bunch

            return Bunch(frame=answer)

        monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
        return calls

    return install


@pytest.mark.parametrize(("fetch", "name", "openml_name"), IMAGE_FETCHERS)
def test_images_local(tmp_path, no_local_data, fetch, name, openml_name):
    arrays = write_images(tmp_path, name)
    for split, (images, labels) in arrays.items():
        dataset = fetch(data_home=tmp_path, subset=split)
        assert dataset.data.dtype == np.uint8
        assert dataset.data.flags.writeable
        assert dataset.target.dtype == np.int64
        assert_array_equal(dataset.data, images)
        assert_array_equal(dataset.target, labels)
        assert len(dataset.feature_names) == 784
        assert len(dataset.target_names) == 10
        assert "60,000 training" in dataset.DESCR
    X, y = fetch(data_home=str(tmp_path), subset="all", return_X_y=True)
    assert_array_equal(X, np.concatenate([arrays["train"][0], arrays["test"][0]]))
    assert_array_equal(y, np.concatenate([arrays["train"][1], arrays["test"][1]]))


def test_data_home_comes_before_the_environment(tmp_path, monkeypatch):
    write_images(tmp_path / "home", "mnist", {"train": 2, "test": 1})
    write_images(tmp_path / "environment", "mnist", {"train": 4, "test": 1})
    monkeypatch.setenv("SKFDP_DATA", str(tmp_path / "environment"))
    assert len(fetch_mnist().data) == 4
    assert len(fetch_mnist(data_home=tmp_path / "home").data) == 2
    # A folder without the files does not hide the next one.
    assert len(fetch_mnist(data_home=tmp_path / "empty").data) == 4


def test_only_the_files_of_the_subset_are_needed(tmp_path, no_local_data):
    write_images(tmp_path, "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert len(fetch_mnist(data_home=tmp_path).data) == SIZES["train"]
    with pytest.raises(OSError, match="t10k-labels-idx1-ubyte.gz"):
        fetch_mnist(data_home=tmp_path, subset="test", download_if_missing=False)


def test_adult_local(tmp_path, no_local_data):
    write_adult(tmp_path)
    adult = fetch_adult(data_home=tmp_path)
    assert adult.data.shape == (2, 14)
    assert list(adult.data.columns) == adult.feature_names
    assert list(adult.frame.columns) == [*adult.feature_names, "income"]
    assert adult.data["hours-per-week"].tolist() == [40, 45]
    assert adult.data["workclass"].tolist() == ["State-gov", "?"]
    assert adult.target.tolist() == adult.target_names
    assert set(adult.categories) | set(adult.bounds) == set(adult.feature_names)
    assert not set(adult.categories) & set(adult.bounds)

    X, y = fetch_adult(data_home=tmp_path, subset="all", return_X_y=True)
    assert X["age"].tolist() == [39, 52, 25]
    assert X.index.tolist() == y.index.tolist() == [0, 1, 2]
    assert y.tolist() == ["<=50K", ">50K", "<=50K"]
    _, y_test = fetch_adult(data_home=tmp_path, subset="test", return_X_y=True)
    assert y_test.tolist() == ["<=50K"]


def test_adult_metadata_is_a_copy(tmp_path, no_local_data):
    write_adult(tmp_path)
    adult = fetch_adult(data_home=tmp_path)
    adult.categories["sex"].append("changed")
    adult.bounds["age"] = (0, 1)
    again = fetch_adult(data_home=tmp_path)
    assert again.categories["sex"] == ["Female", "Male"]
    assert again.bounds["age"] == (17, 90)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plain text", "not a whole gzip file"),
        (gzip.compress(bytes(1000))[:-12], "not a whole gzip file"),
        (gzip.compress(b"\0\0"), "not an IDX file of unsigned bytes"),
        (gzip.compress(b"\0\0\x0d\1" + bytes(8)), "not an IDX file of unsigned bytes"),
        (gzip.compress(b"\0\0\x08\3" + bytes(8)), "12 bytes, not as many"),
        (gzip.compress(struct.pack(">4B2I", 0, 0, 8, 2, 2, 2) + b"123"), "not as many"),
    ],
    # gzip.compress writes the time, and workers must agree on the names of tests.
    ids=["plain", "truncated", "tiny", "float64", "no-shape", "short"],
)
def test_damaged_file(tmp_path, no_local_data, content, message):
    write_images(tmp_path, "mnist")
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        fetch_mnist(data_home=tmp_path)
    assert str(path) in str(error.value)


def test_labels_that_do_not_match_the_images(tmp_path, no_local_data):
    write_images(tmp_path, "mnist")
    write_idx(tmp_path / "mnist" / "train-labels-idx1-ubyte.gz", np.zeros(4))
    with pytest.raises(ValueError, match="28 x 28 images with one label each"):
        fetch_mnist(data_home=tmp_path)


@pytest.mark.parametrize(("fetch", "name", "openml_name"), IMAGE_FETCHERS)
def test_images_from_openml(
    tmp_path, fake_openml, monkeypatch, fetch, name, openml_name
):
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr("skfdp.datasets._images.N_TRAIN", 3)
    frame = pd.DataFrame(np.arange(4 * 784).reshape(4, 784) % 256)
    frame["class"] = pd.Categorical(["7", "0", "3", "9"])
    calls = fake_openml(frame)
    X, y = fetch(data_home=tmp_path, return_X_y=True)
    assert X.dtype == np.uint8
    assert y.dtype == np.int64
    assert_array_equal(X, np.arange(3 * 784).reshape(3, 784) % 256)
    assert_array_equal(y, [7, 0, 3])
    assert_array_equal(fetch(subset="test", return_X_y=True)[1], [9])
    assert_array_equal(fetch(subset="all", return_X_y=True)[1], [7, 0, 3, 9])
    assert calls[0] == (
        openml_name,
        {"version": 1, "data_home": tmp_path, "as_frame": True},
    )


@pytest.mark.parametrize("train_first", [False, True])
def test_adult_from_openml_equals_the_files(
    tmp_path, fake_openml, monkeypatch, train_first
):
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr("skfdp.datasets._adult.N_TRAIN", 2)
    monkeypatch.setattr("skfdp.datasets._adult.N_TEST", 1)
    write_adult(tmp_path)
    local = fetch_adult(data_home=tmp_path, subset="all")
    order = [0, 1, 2] if train_first else [2, 0, 1]
    frame = local.frame.iloc[order].reset_index(drop=True)
    frame = frame.replace("?", None).rename(columns={"income": "class"})
    for name in [*local.categories, "class"]:
        frame[name] = frame[name].astype("category")
    calls = fake_openml(frame)
    for subset in ("train", "test", "all"):
        expected = fetch_adult(data_home=tmp_path, subset=subset)
        pd.testing.assert_frame_equal(fetch_adult(subset=subset).frame, expected.frame)
    assert calls[0] == ("adult", {"version": 2, "data_home": None, "as_frame": True})


@pytest.mark.parametrize("fetch", ALL_FETCHERS)
def test_nothing_available(tmp_path, fake_openml, monkeypatch, fetch):
    pytest.importorskip("pandas")
    monkeypatch.setenv("SKFDP_DATA", str(tmp_path / "nowhere"))
    fake_openml(URLError("no route to host"))
    with pytest.raises(OSError, match="no route to host") as error:
        fetch(data_home=tmp_path)
    for word in ("<root>/", ".gz", "data_home", "SKFDP_DATA", "nowhere", "OpenML"):
        assert word in str(error.value)


@pytest.mark.parametrize("fetch", ALL_FETCHERS)
def test_download_if_missing_false_asks_nobody(tmp_path, fake_openml, fetch):
    calls = fake_openml(AssertionError("asked"))
    with pytest.raises(OSError, match="download_if_missing is False"):
        fetch(data_home=tmp_path, download_if_missing=False)
    assert calls == []


@pytest.mark.parametrize("fetch", ALL_FETCHERS)
@pytest.mark.parametrize("subset", ["validation", None, 0, ["train"]])
def test_unknown_subset(fetch, subset):
    with pytest.raises(ValueError, match="subset must be 'train', 'test' or 'all', go"):
        fetch(subset=subset)


@pytest.mark.parametrize("fetch", ALL_FETCHERS)
def test_pandas_missing(tmp_path, no_local_data, monkeypatch, fetch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas: pip install 'skfdp\[cli\]'"):
        fetch(data_home=tmp_path)


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


def real_data(fetch, **kwargs):
    if not os.environ.get("SKFDP_DATA"):
        pytest.skip("SKFDP_DATA is not set")
    try:
        return fetch(download_if_missing=False, **kwargs)
    except OSError:
        pytest.skip(f"SKFDP_DATA holds no files for {fetch.__name__}")


@pytest.mark.parametrize(
    ("fetch", "counts"),
    [
        (
            fetch_mnist,
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        ),
        (fetch_fashion_mnist, [6000] * 10),
    ],
)
def test_real_images(fetch, counts):
    train = real_data(fetch)
    assert train.data.shape == (60_000, 784)
    assert_array_equal(np.bincount(train.target), counts)
    assert train.data.min() == 0
    assert train.data.max() == 255
    test = real_data(fetch, subset="test")
    assert test.data.shape == (10_000, 784)
    assert test.target.shape == (10_000,)


@pytest.mark.parametrize(
    ("subset", "n_samples", "n_rich"), [("train", 32_561, 7841), ("test", 16_281, 3846)]
)
def test_real_adult(subset, n_samples, n_rich):
    adult = real_data(fetch_adult, subset=subset)
    assert adult.data.shape == (n_samples, 14)
    assert (adult.target == ">50K").sum() == n_rich
    assert set(adult.target) == set(adult.target_names)
    for name, values in adult.categories.items():
        assert len(values) == len(set(values))
        assert set(adult.data[name]) <= set(values), name
    for name, (low, high) in adult.bounds.items():
        assert adult.data[name].between(low, high).all(), name


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


LOCAL = {"download_if_missing": False}
ODD_CALLS = [
    (fetch_mnist, {"data_home": 7, **LOCAL}, TypeError, "data_home=7 must be the path"),
    (fetch_adult, {"data_home": "a\0", **LOCAL}, ValueError, "holds a null character"),
    (fetch_adult, {"subset": np.eye(2), **LOCAL}, ValueError, "got a ndarray"),
    (
        fetch_mnist,
        {"return_X_y": np.array([]), **LOCAL},
        ValueError,
        "must be True or False",
    ),
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


@pytest.mark.parametrize("content", [b"", b"s3cr3t,1\n", b"9" * 9999 + b"\n"])
def test_damaged_files_of_adult(content, tmp_path):
    (tmp_path / "adult").mkdir()
    for path in ("adult.data.gz", "adult.test.gz"):
        (tmp_path / "adult" / path).write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="is not the whole file of Adult") as caught:
        fetch_adult(data_home=tmp_path)
    assert "s3cr3t" not in f"{caught.value} {caught.value.__context__}"


def test_the_smallest_numbers_raise_no_trap():
    with np.errstate(all="raise"):
        make_offset_classes(4, 2, offset=5e-324, separation=5e-324, noise=5e-324)
