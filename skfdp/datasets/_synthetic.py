"""Generators of data sets that tell methods apart."""

import math
from numbers import Real

import numpy as np
from sklearn.utils import Bunch

from skfdp.datasets._checks import check_count, check_flag, generator_of, shown

OFFSET_CLASSES_DESCR = """\
Two classes whose difference is small compared with their common offset: plain
differentially private descent fails on them, private centring rescues it.

Reference: Z. Sun, A. T. Suresh, A. K. Menon, "The importance of feature
preprocessing for differentially private linear optimization", arXiv:2307.11106,
section 4.
"""


def make_offset_classes(
    n_samples: int = 10_000,
    n_features: int = 10,
    *,
    offset: float = 500.0,
    separation: float = 2.0,
    noise: float = 0.1,
    return_X_y: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch | tuple[np.ndarray, np.ndarray]:
    r"""Generate two close classes far from the origin.

    The counterexample of [1]_, section 4, to plain DP-SGD: the rows are

    .. math:: x = \mathrm{offset}\, e_1 \pm \tfrac12 \mathrm{separation}\, e_2
        + \mathrm{noise}\, N(0, I),

    with the sign given by the class. Without noise, and with ``separation=2`` and
    two features, they are those of the paper, where `offset` is called mu.

    Parameters
    ----------
    n_samples : int, default=10000
        Number of rows, at least 2. The classes differ in size by at most one.
    n_features : int, default=10
        Number of columns, at least 2. Beyond the second they hold noise only.
    offset : float, default=500.0
        Distance of the midpoint of the classes from the origin.
    separation : float, default=2.0
        Distance between the means of the two classes.
    noise : float, default=0.1
        Standard deviation of the Gaussian noise in every column.
    return_X_y : bool, default=True
        If False, return a Bunch instead of ``(X, y)``.
    random_state : int, RandomState instance or None, default=None
        Determines the order of the classes and the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    y : ndarray of shape (n_samples,)
        The classes, 0 (minus) and 1 (plus), in random order.
    dataset : :class:`~sklearn.utils.Bunch`
        Returned if `return_X_y` is False, with the attributes `data`, `target`,
        `feature_names`, `target_names` and `DESCR`.

    Notes
    -----
    Rows have to be scaled to norm 1, by which the classes move together to a
    distance of separation / offset. A gradient points along its row: what it says
    about the difference of the classes is that small a part of it, whereas the
    noise is as large as ever. Centring takes the common part away, at the price of
    one private mean.

    Theorem 3 of [1]_ (no noise, ``separation=2``): for ``n_samples < offset /
    epsilon``, whatever the clip norm, the batches, the step size and the number of
    steps, DP-SGD has a large expected loss on these data or on the same data with
    the classes swapped. Plain descent fails well before that bound: with the
    defaults here, epsilon 1 and delta 1e-5, it is hardly better than chance, and
    with private centring it separates the classes almost perfectly.

    References
    ----------
    .. [1] Z. Sun, A. T. Suresh, A. K. Menon, "The importance of feature
       preprocessing for differentially private linear optimization",
       arXiv:2307.11106, section 4.

    Examples
    --------
    >>> from skfdp.datasets import make_offset_classes
    >>> X, y = make_offset_classes(4, 2, noise=0.0, random_state=0)
    >>> X[y == 1][0], X[y == 0][0]
    (array([500.,   1.]), array([500.,  -1.]))
    """
    check_count("n_samples", n_samples)
    check_count("n_features", n_features)
    _check_length("offset", offset)
    _check_length("separation", separation, positive=True)
    _check_length("noise", noise)
    check_flag("return_X_y", return_X_y)
    rng = generator_of(random_state)
    y = rng.permutation(np.arange(n_samples) % 2)
    with np.errstate(all="ignore"):  # of the smallest and the largest numbers
        X = rng.normal(scale=noise, size=(n_samples, n_features))
        X[:, 0] += offset
        X[:, 1] += separation * (y - 0.5)
    if return_X_y:
        return X, y
    return Bunch(
        data=X,
        target=y,
        feature_names=[f"x{i}" for i in range(n_features)],
        target_names=["minus", "plus"],
        DESCR=OFFSET_CLASSES_DESCR,
    )


def _check_length(name, value, *, positive=False):
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not 0 <= value < math.inf
        or (positive and value == 0)
    ):
        kind = "positive" if positive else "non-negative"
        raise ValueError(f"{name} must be a finite {kind} number, got {shown(value)}.")
