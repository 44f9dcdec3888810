"""Sensitivity lemmas as polynomial inequalities, decided by a theorem prover.

Each lemma of `docs/theory/sensitivities.rst` that is about two vectors is one about
their squared norms and inner product. That reduction is on paper: it is named beside
each test. The prover finds no counterexample, for all real numbers at once. It finds
one as soon as the bound is lowered by a hundredth.
"""

import pytest

z3 = pytest.importorskip("z3", reason="z3-solver is in the extra 'test'")

LOWER = z3.RealVal("0.99")


def holds(claim, *given):
    """Return whether a claim follows from what is given, for all real numbers."""
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.add(*given, z3.Not(claim))
    found = solver.check()
    assert found != z3.unknown, "the prover gave up"
    return found == z3.unsat


def decided(moved, bound, *given):
    """Assert that a number is at most its bound, and may be more than 0.99 of it."""
    assert holds(moved <= bound, *given)
    assert not holds(moved <= LOWER * bound, *given)


def vectors(length, others=()):
    """Return squared norms of two vectors, their inner product, and Cauchy-Schwarz."""
    a, b, inner = z3.Reals("a b inner")
    return (
        a,
        b,
        inner,
        (0 <= a, a <= length**2, 0 <= b, b <= length**2, inner**2 <= a * b),
    )


def test_a_replaced_vector_moves_a_sum_by_twice_its_length():
    # On paper: |v - v'|**2 = a + b - 2 inner.
    c = z3.Real("c")
    a, b, inner, given = vectors(c)
    decided(a + b - 2 * inner, 4 * c**2, c > 0, *given)


def test_vectors_of_one_sign_are_at_most_a_root_of_two_apart():
    # On paper: entries of one sign make the inner product at least 0 (orthant, means of
    # rows with bounds, label statistics: labels of two classes have 0).
    c = z3.Real("c")
    a, b, inner, given = vectors(c)
    decided(a + b - 2 * inner, 2 * c**2, c > 0, inner >= 0, *given)


def test_the_clip_brings_no_two_vectors_further_apart():
    # On paper: clip(v) = v * min(1, c / |v|); norms p, q >= 0 and a cosine.
    p, q, cosine, c = z3.Reals("p q cosine c")
    f, g = z3.Reals("f g")  # the factors
    given = [p > 0, q > 0, c > 0, -1 <= cosine, cosine <= 1]
    clipped = (f * p) ** 2 + (g * q) ** 2 - 2 * f * g * p * q * cosine
    apart = p**2 + q**2 - 2 * p * q * cosine
    for first, factor in ((p <= c, f == 1), (p > c, f * p == c)):
        for second, other in ((q <= c, g == 1), (q > c, g * q == c)):
            assert holds(clipped <= apart, *given, first, second, factor, other)
    # A "clip" that lengthens short vectors is none.
    assert not holds(clipped <= apart, *given, f * p == c, g * q == c)


def test_rounding_is_taken_off_the_clip_norm_first():
    # On paper: |round(f r)| <= |f r| + h, with h = sqrt(K) unit / 2; rows are s long.
    scaled, s, h, c = z3.Reals("scaled s h c")
    given = [s >= 0, h >= 0, c > 0, 0 <= scaled, scaled * s <= c - h * s]
    assert holds((scaled + h) * s <= c, *given)
    assert not holds((scaled + h) * s <= c, *given[:-1], scaled * s <= c)


def test_a_loss_and_half_its_square_move_by_a_root_of_five_quarters():
    # On paper: a table of J losses is a direct sum of these pairs and of the cells.
    old, new = z3.Reals("old new")
    given = [0 <= old, old <= 1, 0 <= new, new <= 1]
    moved = (new - old) ** 2 + (new**2 - old**2) ** 2 / 4
    decided(moved, z3.RealVal("5/4"), *given)


def test_shares_of_a_budget_add_up_in_squares():
    # On paper: Gaussian releases of mu_1 and mu_2 are one of sqrt(mu_1**2 + mu_2**2).
    mu, share, first, second = z3.Reals("mu share first second")
    given = [mu > 0, 0 <= share, share <= 1, first >= 0, second >= 0]
    given += [first**2 == share * mu**2, second**2 == (1 - share) * mu**2]
    assert holds(first**2 + second**2 == mu**2, *given)
    assert holds(first + second >= mu, *given)
