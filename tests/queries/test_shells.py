"""Shells: one bin for every distance, by the definition."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skfdp.solvers.adaptive_centring import N_SHELLS, PER_OCTAVE, RADII, Shells


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
