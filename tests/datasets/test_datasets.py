"""The data set that the generator makes."""

import numpy as np

from skfdp.datasets import make_purchase100


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
    for made, again in zip((X, y), make_purchase100(2000, random_state=0), strict=True):
        np.testing.assert_array_equal(made, again)
    assert (make_purchase100(2000, random_state=1)[0] != X).any()
