"""Purchase100: the loader's two formats, and the generator."""

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
    assert len(loaded.feature_names) == 600
    assert "Membership inference" in loaded.DESCR


@pytest.mark.parametrize("first", [0, 1])
def test_comma_separated(table, first, tmp_path):
    X, y = table
    np.savetxt(
        tmp_path / "p.txt", np.column_stack([y + first, X]), fmt="%d", delimiter=","
    )
    data, target = load_purchase100(str(tmp_path / "p.txt"), return_X_y=True)
    np.testing.assert_array_equal(data, X)
    np.testing.assert_array_equal(target, y)


def test_other_files_are_refused(table, tmp_path):
    X, y = table
    np.savez(tmp_path / "names.npz", X=X, y=y)
    with pytest.raises(ValueError, match="expected 'features' and 'labels'"):
        load_purchase100(tmp_path / "names.npz")
    np.savez(tmp_path / "short.npz", features=X, labels=y[:3])
    with pytest.raises(ValueError, match="20 rows of features and 3 labels"):
        load_purchase100(tmp_path / "short.npz")
    np.savez(tmp_path / "flat.npz", features=X.ravel(), labels=y)
    with pytest.raises(ValueError, match="features of 1 and labels of 1 dimensions"):
        load_purchase100(tmp_path / "flat.npz")
    np.savez(tmp_path / "values.npz", features=X * 3, labels=y)
    with pytest.raises(ValueError, match="other than 0 and 1"):
        load_purchase100(tmp_path / "values.npz")
    (tmp_path / "words.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="not a comma-separated table of integers"):
        load_purchase100(tmp_path / "words.csv")
    (tmp_path / "one.csv").write_text("1\n2\n")
    with pytest.raises(ValueError, match="has 1 columns"):
        load_purchase100(tmp_path / "one.csv")


def test_generated_baskets():
    X, y = make_purchase100(4000, random_state=0)
    assert X.shape == (4000, 600)
    assert X.dtype == np.uint8
    assert set(np.unique(X)) == {0, 1}
    baskets = X.sum(axis=1)
    assert 30 < baskets.mean() < 45
    assert np.quantile(baskets, 0.99) > 2.2 * np.median(baskets)  # heavy tail
    sizes = np.bincount(y, minlength=100)
    assert (sizes > 0).all()
    assert sizes.max() > 5 * sizes.min()  # unbalanced
    popularity = np.sort(X.mean(axis=0))
    assert popularity[-1] > 20 * popularity[0]
    again = make_purchase100(4000, random_state=0, return_X_y=False)
    np.testing.assert_array_equal(again.data, X)
    np.testing.assert_array_equal(again.target, y)
    assert (make_purchase100(4000, random_state=1)[0] != X).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_samples": 1}, "n_samples must be an integer of at least 2, got 1"),
        ({"n_features": 2.5}, "n_features must be an integer"),
        ({"n_classes": True}, "n_classes must be an integer"),
        ({"n_samples": 5, "n_classes": 6}, "n_classes=6 must be at most n_samples=5"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        make_purchase100(**parameters)
