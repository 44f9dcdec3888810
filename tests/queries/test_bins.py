"""Counts in bins: exactly one bin for every number, by brute force in integers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from skfdp.privacy import Relation
from skfdp.queries import statistics as bins
from skfdp.queries.statistics import Binades, BinCounts, EvenBins
from skfdp.solvers.centring import N_SHELLS, PER_OCTAVE, RADII, Shells

TINY, HUGE = np.finfo(float).smallest_subnormal, np.finfo(float).max
EXTREMES = [0.0, -0.0, TINY, -TINY, 1e-308, HUGE, -HUGE, 1e308, 1.0, -1.0, 3.0]
EXTREMES += [math.nan, math.inf, -math.inf]


def slow_binade(x):
    """Return the bin of a number from the definition, in exact fractions."""
    if math.isnan(x):
        return bins.UNSTATED
    if math.isinf(x):
        return bins.INFINITE
    size = abs(Fraction(x))
    if size <= Fraction(2) ** (bins.FIRST - 1):
        return bins.ZERO
    e = size.numerator.bit_length() - size.denominator.bit_length() - 1
    while size > Fraction(2) ** e:
        e += 1
    e = min(e, bins.LAST)
    return bins.N_SPECIAL + (e - bins.FIRST) + bins.N_BINADES * (x > 0)


def slow_even(x, low, high, n_even):
    """Return the even bin of a number from the definition, in exact fractions."""
    if math.isnan(x):
        return bins.UNSTATED
    if math.isinf(x):
        return bins.INFINITE
    if x == 0:
        return bins.ZERO
    x, low, high = Fraction(x), Fraction(low), Fraction(high)
    above = sum(x > low + (high - low) * k / n_even for k in range(n_even + 1))
    return bins.N_SPECIAL + above


def binade(values):
    values = np.asarray(values, dtype=float)
    return Binades().bins(values, np.zeros(values.shape, int))


def test_binades_against_the_definition():
    powers = [math.ldexp(1.0, e) for e in range(-1074, 1024, 7)]
    powers += [math.ldexp(1.0, e) for e in range(bins.FIRST - 3, bins.FIRST + 3)]
    powers += [math.ldexp(1.0, e) for e in range(bins.LAST - 3, bins.LAST + 3)]
    near = [np.nextafter(p, side) for p in powers for side in (0, math.inf)]
    values = [sign * v for v in (*powers, *near) for sign in (1, -1)] + EXTREMES
    assert binade(values).tolist() == [slow_binade(v) for v in values]


@settings(deadline=None)
@given(st.floats())
def test_every_float_has_one_binade(x):
    (found,) = binade([x])
    assert found == slow_binade(x)
    assert 0 <= found < Binades().n_bins


# Dyadic numbers: the rule rounds nothing, and neither does the definition.
@pytest.mark.parametrize("low, high", [(-4.0, 4.0), (0.0, 1.0), (1024.0, 2048.0)])
def test_even_bins_against_the_definition(low, high):
    rule = EvenBins(np.array([low]), np.array([high]), 8)
    np.testing.assert_array_equal(rule.edges(0), np.linspace(low, high, 9))
    values = np.linspace(2 * low - high, 2 * high - low, 3 * 64 + 1).tolist()
    values += [v for v in EXTREMES if v == 0 or not abs(v) < 1e-300]
    with np.errstate(all="ignore"):  # as `exact_sum` does
        found = rule.bins(np.array(values), np.zeros(len(values), int)).tolist()
    assert found == [slow_even(v, low, high, 8) for v in values]


intervals = st.tuples(st.floats(-1e100, 1e100), st.floats(1e-100, 1e100))


@settings(deadline=None)
@given(st.floats(), intervals, st.integers(1, 40))
def test_every_float_has_one_even_bin(x, interval, n_even):
    low, width = interval
    high = max(low + width, np.nextafter(low, math.inf))
    rule = EvenBins(np.array([low]), np.array([high]), n_even)
    with np.errstate(all="ignore"):
        (found,) = rule.bins(np.array([x]), np.zeros(1, int))
    assert 0 <= found < rule.n_bins
    if math.isfinite(x) and x != 0 and not low <= x <= high:
        wanted = bins.N_SPECIAL + (0 if x < low else n_even + 1)
        # The quotient of a number that is close to an end may round to the end.
        assert found == wanted or min(abs(x - low), abs(x - high)) < 1e-9 * (high - low)


def tables(dtype):
    shapes = arrays.array_shapes(min_dims=2, max_dims=2, max_side=6)
    return arrays.arrays(dtype, shapes)


RULES = {
    "binades": lambda p: Binades(),
    "even": lambda p: EvenBins(-np.arange(1.0, p + 1), np.arange(1.0, p + 1), 5),
}
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


@each_rule
@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "uint8", "int64", "uint32", "bool"]
)
@settings(deadline=None, max_examples=15)
@given(st.data())
def test_counts_are_those_of_each_record(rule, dtype, data):
    X = data.draw(tables(dtype))
    query = BinCounts(X, rule(X.shape[1]))
    counts = query.exact_sum(None, None, 1.0)
    assert counts.dtype == np.int64
    assert counts.shape == query.shape
    assert (counts.sum(axis=1) == len(X)).all()
    alone = [query.exact_sum(None, np.array([i]), 1.0) for i in range(len(X))]
    np.testing.assert_array_equal(counts, sum(alone))
    for one in alone:
        # one number of a column is in one bin: the norm is sqrt(p), exactly
        assert sorted(one.ravel())[-X.shape[1] :] == [1] * X.shape[1]
        assert one.sum() == (one**2).sum() == X.shape[1]
        assert math.sqrt((one**2).sum()) == query.clip_norm


@pytest.mark.slow
@each_rule
def test_no_pair_of_records_moves_counts_further_than_said(rule):
    """All pairs of records in place of the first one."""
    rest, sums = np.random.default_rng(0).normal(size=(3, 2)), []
    for row in itertools.product(EXTREMES, repeat=2):
        query = BinCounts(np.vstack([row, rest]), rule(2))
        sums.append(query.exact_sum(None, None, 1.0))
    moved = max(((sums - one) ** 2).sum(axis=(1, 2)).max() for one in np.array(sums))
    assert query.sensitivity(Relation.of("replace_one")) == math.sqrt(moved) == 2


def test_a_finer_grid_counts_the_same():
    query = BinCounts(np.arange(6.0).reshape(3, 2), Binades())
    np.testing.assert_array_equal(
        query.exact_sum(None, None, 0.25), 4 * query.exact_sum(None, None, 1.0)
    )


# -- shells of distances --------------------------------------------------------------
def shell(value):
    return int(Shells().bins(np.array([[value]]), np.zeros(1, int))[0, 0])


def test_radii_are_a_geometric_sequence_up_to_1():
    assert len(RADII) == N_SHELLS
    assert RADII[-1] == 1
    np.testing.assert_allclose(RADII[PER_OCTAVE:] / RADII[:-PER_OCTAVE], 2)
    assert Shells().n_bins == N_SHELLS + 1


@given(st.floats(min_value=0, allow_nan=False))
def test_a_distance_is_in_the_shell_of_the_least_radius_above_it(value):
    wanted = sum(radius < value for radius in RADII)
    assert shell(value) == wanted


def test_ends_and_what_is_no_number():
    assert shell(0.0) == shell(5e-324) == 0
    assert shell(1.0) == N_SHELLS - 1
    for value in (math.nextafter(1, 2), 1e308, math.inf, math.nan):
        assert shell(value) == N_SHELLS
