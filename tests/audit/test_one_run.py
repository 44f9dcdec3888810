"""The bounds of the one-run audit hold for mechanisms whose laws are known.

``benchmarks/audits/one_run.py`` audits fits, with and without their noise.
"""

import itertools
import math
import sys
import types
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "audits"))

coins = pytest.importorskip("guessed_coins", reason="no checkout")
pytestmark = pytest.mark.nightly


def random_mechanism(rng, m, n_outputs, spread):
    """Probabilities of outputs for each table of m coins; sometimes it tells all."""
    logits = spread * rng.normal(size=(*(2,) * m, n_outputs))
    found = np.exp(logits)
    found /= found.sum(axis=-1, keepdims=True)
    telling = np.zeros((*(2,) * m, n_outputs + 2**m))
    telling[..., :n_outputs] = 0.97 * found
    for index, coins in enumerate(itertools.product((0, 1), repeat=m)):
        telling[(*coins, n_outputs + index)] = 0.03
    return telling


def own_delta(mechanism, m, epsilon):
    """The exact delta of a mechanism for one changed coin."""
    pairs = (np.moveaxis(mechanism, i, 0) for i in range(m))
    return max(
        np.maximum(a - math.exp(epsilon) * b, 0).sum(axis=-1).max()
        for zero, one in pairs
        for a, b in ((zero, one), (one, zero))
    )


def tails_of_guesses(mechanism, m, n_guesses):
    """P[C >= v] for the best guesses of each output, v = 0 ... n_guesses."""
    law = np.zeros(n_guesses + 1)
    flat = mechanism.reshape(2**m, -1) / 2**m
    coins = np.array(list(itertools.product((0, 1), repeat=m)))
    for weights in flat.T:
        heads = weights @ coins / max(weights.sum(), 1e-300)
        order = np.argsort(-np.abs(heads - 0.5), kind="stable")[:n_guesses]
        right = (coins[:, order] == (heads > 0.5)[order]).sum(axis=1)
        np.add.at(law, right, weights)
    return law[::-1].cumsum()[::-1]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n_guesses", [5, 3])
def test_exact_mechanisms_keep_to_both_bounds(seed, n_guesses):
    m = 5
    rng = np.random.default_rng(seed)
    mechanism = random_mechanism(rng, m, 8, rng.choice([0.1, 0.5, 1.0]))
    tails = tails_of_guesses(mechanism, m, n_guesses)
    assert tails[0] == pytest.approx(1)
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0):
        delta = own_delta(mechanism, m, epsilon)
        for v in range(1, n_guesses + 1):
            assert (
                tails[v]
                <= coins.steinke_p_value(m, n_guesses, v, epsilon, delta) + 1e-12
            )
    curve = types.SimpleNamespace(mu=None, delta=partial(own_delta, mechanism, m))
    least = coins.curve_least(curve)
    for v in range(1, n_guesses + 1):
        if tails[v] > 0:
            assert not coins.refutes(m, n_guesses, v, least, tails[v] * (1 - 1e-9))
