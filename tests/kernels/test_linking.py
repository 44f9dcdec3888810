"""Calls by address do what direct calls do, and refuse what numba would refuse."""

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import TypingError

from skfdp.kernels.compiling import address, caller

_OUT = types.Array(types.int64, 1, "C")
_WHOLE = types.Array(types.int64, 1, "C", readonly=True), types.int64, _OUT
_REAL = types.Array(types.float64, 1, "C", readonly=True), types.int64, _OUT


@njit
def add(x, number, out):
    for i in range(len(out)):
        out[i] += np.int64(x[i]) * number


@njit
def fail(x, number, out):
    out[0] = number // x[0]


call = caller(_WHOLE, _REAL)


@njit
def through(where, x, number, out):
    call(where, (x, number, out))


@pytest.mark.parametrize("dtype, kinds", [(np.int64, _WHOLE), (np.float64, _REAL)])
def test_a_call_by_address_is_the_call(dtype, kinds):
    x, out = np.arange(3).astype(dtype), np.ones(3, np.int64)
    through(address(add, kinds), x, 5, out)
    np.testing.assert_array_equal(out, [1, 6, 11])
    x.flags.writeable = False
    through(address(add, kinds), x, 5, out)
    np.testing.assert_array_equal(out, [1, 11, 21])


def test_errors_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        through(address(fail, _WHOLE), np.zeros(1, np.int64), 5, np.ones(1, np.int64))


@pytest.mark.parametrize(
    "x, out",
    [
        (np.zeros(3, np.int16), np.zeros(3, np.int64)),
        (np.zeros(6, np.int64)[::2], np.zeros(3, np.int64)),
        (np.zeros(3, np.int64), np.zeros(3)),
    ],
)
def test_other_types_are_refused(x, out):
    with pytest.raises(TypingError):
        through(address(add, _WHOLE), x, 5, out)


def test_what_may_not_be_written_is_not_written():
    out = np.zeros(3, np.int64)
    out.flags.writeable = False
    with pytest.raises(TypingError):
        through(address(add, _WHOLE), np.zeros(3, np.int64), 5, out)
