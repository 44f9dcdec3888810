"""The data sets: what the generators make, and what they refuse."""

import numpy as np
import pytest

from skfdp.datasets import load_purchase100, make_purchase100


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return (rng.random((20, 600)) < 0.1).astype(np.uint8), rng.permutation(20) % 5


@pytest.mark.parametrize("one_hot", [True, False])
def test_npz(table, one_hot, tmp_path):
    X, y = table
    labels = np.eye(5)[y] if one_hot else y + 1
    np.savez(tmp_path / "p.npz", features=X.astype(float), labels=labels)
    loaded = load_purchase100(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.data, X)
    np.testing.assert_array_equal(loaded.target, y)
    assert (loaded.data.dtype, loaded.target.dtype) == (np.uint8, np.int64)
    assert len(loaded.feature_names) == 600 and "Membership inference" in loaded.DESCR


def test_other_files_are_refused(table, tmp_path):
    X, y = table
    for arrays in (
        {"X": X, "y": y},
        {"features": X, "labels": y[:3]},
        {"features": X.ravel(), "labels": y},
        {"features": X * 3, "labels": y},
    ):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(ValueError, match="2-dimensional 'features' of 0 and 1"):
            load_purchase100(tmp_path / "a.npz")


def test_generated_baskets():
    X, y = make_purchase100(2000, random_state=0)
    assert X.shape == (2000, 600) and X.dtype == np.uint8
    assert set(np.unique(X)) == {0, 1}
    baskets = X.sum(axis=1)
    assert 30 < baskets.mean() < 45
    assert np.quantile(baskets, 0.99) > 2.2 * np.median(baskets)  # heavy tail
    sizes = np.bincount(y, minlength=100)
    assert (sizes > 0).all()
    assert sizes.max() > 5 * sizes.min()  # unbalanced
    popularity = np.sort(X.mean(axis=0))
    assert popularity[-1] > 20 * popularity[0]
    again = make_purchase100(2000, random_state=0, return_X_y=False)
    np.testing.assert_array_equal(again.data, X)
    np.testing.assert_array_equal(again.target, y)
    assert (make_purchase100(2000, random_state=1)[0] != X).any()


@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a.npy"])
@pytest.mark.parametrize("content", [b"", b"s3cr3t,1\n", b"PK\x03\x04x", b"9" * 9999])
def test_damaged_copies_of_purchase100(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    if name == "a.npy" and not content:
        np.save(tmp_path / name, np.eye(2))
    with pytest.raises(ValueError, match="path=.* (is no|has|holds)") as caught:
        load_purchase100(tmp_path / name)
    assert "s3cr3t" not in f"{caught.value} {caught.value.__context__}"


BAD_CALLS = [
    (make_purchase100, {"n_samples": 1}, "n_samples=1 must be an int >= 2"),
    (make_purchase100, {"return_X_y": np.array([])}, "True or False"),
    (make_purchase100, {"random_state": -1}, "random_state=-1 must be an int >= 0"),
    (make_purchase100, {"random_state": np.timedelta64(3, "s")}, "must be an int"),
    (make_purchase100, {"n_samples": 5, "n_classes": 6}, "must be at most n_samples=5"),
    (load_purchase100, {"path": None}, "path=None must be the path"),
    (load_purchase100, {"path": "nobody.npz"}, "is not a file"),
    (load_purchase100, {"path": "a\0"}, "is not a file"),
]


@pytest.mark.parametrize(("call", "given", "message"), BAD_CALLS)
def test_bad_arguments_are_refused_in_a_sentence(call, given, message):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        call(**given)
