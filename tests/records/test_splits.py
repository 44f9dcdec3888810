"""Every way to say which columns are public."""

import numpy as np
import pytest

from skfdp.data.columns import public_mask

NAMES = ["public__age", "public__job", "income", "a*b"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, []),
        ("all", [0, 1, 2, 3]),
        ("income", [2]),
        (["income", "public__age"], [0, 2]),
        ("public__*", [0, 1]),
        (["a*b"], [3]),
        ([0, -1], [0, 3]),
        (2, [2]),
        (slice(1, 3), [1, 2]),
        ([True, False, False, True], [0, 3]),
        (np.array([False, True, False, False]), [1]),
        ([], []),
    ],
)
def test_specifications(spec, expected):
    mask = public_mask(spec, 4, NAMES)
    assert np.flatnonzero(mask).tolist() == expected


@pytest.mark.parametrize(
    ("spec", "names", "message"),
    [
        ("income", None, "set_output"),
        ("nothing", NAMES, "matches no column"),
        (["public__*", "public__age"], NAMES, "twice"),
        ([1, 1], NAMES, "twice"),
        ([9], NAMES, "index 9"),
        ([True, False], NAMES, "mask of length 2"),
        ([1.5], NAMES, "holds 1.5: expected None, .all., column names"),
        (["x"], ["x", "x"], "occurs 2 times"),
        (lambda X: [0], NAMES, "is unknown: expected None"),
    ],
)
def test_refusals(spec, names, message):
    with pytest.raises(ValueError, match=message):
        public_mask(spec, 4 if names is not NAMES[:2] else 2, names)
