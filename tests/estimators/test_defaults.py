"""The rules behind "auto": ranges, limits and directions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skfdp.queries import statistics
from skfdp.solvers import parameters as defaults

MU, ROWS, COLUMNS = st.floats(1e-6, 1e3), st.integers(2, 10**9), st.integers(1, 10**5)


@given(mu=MU, n=ROWS, d=COLUMNS, m=st.integers(1, 1000))
def test_rules_stay_in_range(mu, n, d, m):
    s2n = mu * n / math.sqrt(d * m)
    assert 0.02 <= defaults.mean_fraction(mu, n, d) <= 0.15
    clip = defaults.clip_norm(s2n)
    assert 0.1 <= clip <= max(0.8, 0.8 * math.sqrt(s2n / 1000))
    own = {"clip_norm": clip, "momentum": 0.9, "curvature": 0.5}
    assert 0 < defaults.learning_rate(mu, n, 200, **own) <= 40 * max(clip, 0.6)


@pytest.mark.parametrize("regression", [False, True])
def test_the_clip_norm_grows_with_the_signal_until_it_cuts_nothing(regression):
    index = np.geomspace(0.1, 1e9, 2000)
    clips = [defaults.clip_norm(s2n, regression=regression) for s2n in index]
    assert (np.diff(clips) >= 0).all()
    assert np.max(np.diff(np.log(clips))) < 0.01  # it jumps nowhere
    assert clips[0] == 0.1
    assert defaults.clip_norm(128, regression=regression) == pytest.approx(0.8)
    # No end where residuals have none; rows 100 times as long as usual, else.
    assert clips[-1] > 1.7 * clips[-200] > 50 if regression else clips[-1] == 100


def test_with_many_classes_parts_of_rows_count_by_their_columns():
    for n_classes, share in ((100, 0.1), (2, 0.25)):
        found = defaults.block_norms(False, 0.0, (1, 9), n_classes)
        assert np.square(found) == pytest.approx([share, 1 - share])


@pytest.mark.parametrize("length", [0.0, 0.5, 0.9, 0.99, 0.999, 1.0, 1.2])
@pytest.mark.parametrize("noise_std", [0.0, 1e-3, 1.0])
def test_the_scale_undoes_the_loss_of_norm_and_no_more(length, noise_std):
    mean = np.array([length, 0.0, 0.0])
    mean, scale = statistics.shrunk_mean(mean, noise_std)
    length = np.linalg.norm(mean)
    assert 1 <= scale
    # the error of the mean, sqrt(3) noise_std, is not scaled beyond a row
    reach = 1 / max(math.sqrt(3) * noise_std, 1e-3)
    assert scale <= max(reach, math.sqrt(20)) * (1 + 1e-9)
    if length <= 0.9:
        assert scale == pytest.approx(1 / math.sqrt(1 - length**2))
