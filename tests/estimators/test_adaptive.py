"""Algorithm 2 of DPSGD-F: the adaptive mean, the quantile, and clipped features."""

import math

import numpy as np
import pytest

from skfdp import DPSGDFClassifier
from skfdp.audit import audit_replay
from skfdp.privacy import RELATIONS, AddOrRemoveOne
from skfdp.queries.linear import LinearQuery
from skfdp.solvers import AdaptiveCentering, NoisyGradientDescent
from skfdp.solvers import centring as adaptive
from skfdp.solvers.centring import LONGEST, N_SHELLS, RADII

ALGORITHM_2 = {"centering": AdaptiveCentering(clip_features=True)}
LABELS = ["class counts", "rough mean", "distances", "mean", "temperature", "descent"]


def far_rows(n=3000, d=6, offset=1000.0, seed=0):
    """Return rows of spread 1 about a mean that is `offset` long, and labels."""
    rng = np.random.default_rng(seed)
    way, mean = rng.normal(size=(2, d))
    way, mean = way / np.linalg.norm(way), offset * mean / np.linalg.norm(mean)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, d)) + np.outer(3 * y, way) + mean, y


def classifier(epsilon=1.0, **more):
    given = {"bounds": False, "classes": [0, 1], "random_state": 0}
    return DPSGDFClassifier(epsilon, **(given | more))


def steps(n):
    return NoisyGradientDescent(max_iter=n)


def related(relation, n_records):
    """Return a relation by its name, with the number of records where it needs one."""
    needs_number = relation == "add_or_remove_one"
    return AddOrRemoveOne(n_records) if needs_number else relation


# -- what it is for --------------------------------------------------------------------
def test_a_mean_far_longer_than_the_spread_is_no_hindrance():
    """Where Algorithm 2 wins: Algorithm 3 pays for the length of the mean."""
    X, y = far_rows(offset=30_000.0)
    adaptive_score = classifier(**ALGORITHM_2).fit(X, y).score(X, y)
    assert adaptive_score > 0.9
    for centering in ("gaussian", None):
        other = classifier(centering=centering).fit(X, y).score(X, y)
        assert other < adaptive_score - 0.2


def test_the_mean_and_the_quantile_are_those_of_the_rows(monkeypatch):
    """With a large budget; the radius is that of the definition, up to a shell."""
    found = []
    released = adaptive.released_centre

    def kept(*given):
        found.append(released(*given))
        return found[-1]

    monkeypatch.setattr(adaptive, "released_centre", kept)
    X, y = far_rows(offset=300.0)
    model = classifier(1e4, solver=steps(2), **ALGORITHM_2).fit(X, y)
    mapped = X / model.input_scaler_.feature_bound
    ((mean, _, radius),) = found
    lengths = np.linalg.norm(mapped - mapped.mean(axis=0), axis=1)
    # a tenth of the rows is cut to the radius
    assert np.linalg.norm(mean - mapped.mean(axis=0)) < 0.05 * lengths.mean()
    wanted = np.quantile(lengths, adaptive.LEVEL)
    assert wanted <= radius <= 1.5 * wanted


# -- what is released ------------------------------------------------------------------
@pytest.mark.parametrize("relation", RELATIONS)
def test_all_releases_are_one_composition(relation, releases):
    X, y = far_rows(n=400)
    given = {"neighboring_relation": related(relation, 400), "solver": steps(3)}
    model = classifier(**given, **ALGORITHM_2).fit(X, y)
    events = model.privacy_.events
    assert [event.label for event in events] == LABELS
    assert 0.999 < model.privacy_.epsilon <= 1.0
    assert [e.n_steps for e in events] == [1, 3, 2, 1, 1, 3] and len(releases) == 11
    replaces = relation == "replace_one"
    by_label = {event.label: event for event in events}
    rough, shells = by_label["rough mean"], by_label["distances"]
    assert rough.clip_norm == math.sqrt(8)  # six columns are padded to eight
    assert rough.sensitivity == pytest.approx(math.sqrt(16 if replaces else 8))
    assert shells.sensitivity == pytest.approx(math.sqrt(2 if replaces else 1))
    assert by_label["mean"].sensitivity == (2 if replaces else 1)
    # noise and counts of all columns, or of one
    shapes = [one["noise"].shape for one in releases[1:7]]
    assert shapes[0][0] == shapes[1][0] == shapes[2][0] == 8
    assert shapes[3] == shapes[4] or shapes[3] == (1, N_SHELLS + 1)


PERSONS = {"sample_weight": 1.0 + np.arange(60) % 2, "groups": np.arange(60) // 3}


@pytest.mark.parametrize(
    ("relation", "of_rows"),
    [*((one, {}) for one in RELATIONS)]
    + [("replace_special", PERSONS), ("replace_one", PERSONS)],
)
def test_neighbours_tell_what_the_mechanism_gives_out(relation, of_rows):
    """They differ in all rows of one person, where rows are those of persons."""
    X, y = far_rows(n=60)
    if not of_rows:
        X[3, 2] = np.nan
    model = classifier(
        4.0, neighboring_relation=related(relation, 60), solver=steps(2), **ALGORITHM_2
    )
    given = {"n_neighbors": 12, "random_state": 0, "fit_params": of_rows}
    found = audit_replay(model, X, y, **given)
    assert not found.differences
    reached = {one.label: one.largest for one in found.releases}
    assert max(reached.values()) <= 1
    assert reached["rough mean"] > (0.7 if of_rows else 0.9)
    assert reached["distances"] > 0.9 or of_rows


def test_the_rotation_is_public_and_of_no_private_stream():
    """The same for other rows; noise is not."""
    drawn = []
    moved = adaptive.moved_rows

    def kept(rows, centre, length, *signs):
        drawn.extend(signs)
        return moved(rows, centre, length, *signs)

    X, y = far_rows(n=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptive, "moved_rows", kept)
        for rows in (X, X[::-1].copy(), X + 1):
            classifier(solver=steps(1), **ALGORITHM_2).fit(rows, y)
        for seed in (1, None):
            model = classifier(random_state=seed, solver=steps(1), **ALGORITHM_2)
            model.fit(X, y)
    first, *same, other, unseeded = drawn
    for signs in same:
        np.testing.assert_array_equal(signs, first)
    assert len(other) == len(unseeded) == 6


# -- the quantile ----------------------------------------------------------------------
def counted(values):
    return np.bincount(np.searchsorted(RADII, values), minlength=N_SHELLS + 1)


def test_a_quantile_is_the_least_radius_with_enough_within_and_doubt_widens_it():
    rng = np.random.default_rng(0)
    values = rng.lognormal(-3, 0.3, 5000)
    exact = adaptive.quantile(counted(values), 0.9, 1e-9, 5000)
    assert np.mean(values > exact) <= 0.1
    assert np.mean(values > RADII[np.searchsorted(RADII, exact) - 1]) > 0.1

    def noisy(std):
        drawn = counted(values) + rng.normal(0, std, N_SHELLS + 1)
        return adaptive.quantile(drawn, 0.9, std, 5000)

    for std in (5.0, 30.0):
        inside = [exact * 0.84 < noisy(std) < exact * 1.5 for _ in range(50)]
        assert np.mean(inside) > 0.9
    assert noisy(3000.0) == 1.0


# -- clipped features ------------------------------------------------------------------
def test_rows_are_cut_with_their_constant_column(releases):
    X, y = far_rows(offset=1.0)
    X[0] += 1e6
    model = classifier(solver=steps(2), **ALGORITHM_2)
    model.fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-9
    )
    # The rows of the loop, with their constant column.
    queries = [release["query"] for release in releases]
    rows = [query.rows for query in queries if isinstance(query, LinearQuery)][-1]
    rows = rows.values * rows.unit
    norms = np.linalg.norm(rows, axis=1)
    assert norms.max() <= LONGEST * (1 + 1e-12) and norms[0] > LONGEST - 0.01
    assert rows[0, -1] < 1e-3  # the constant column is cut with the row
    usual = np.linalg.norm(rows[:, :-1], axis=1) < 0.99
    np.testing.assert_allclose(rows[usual, -1], 1.0)  # tau over tau
    assert 0.5 < usual.mean() < 1


# -- what is refused -------------------------------------------------------------------
def test_more_columns_than_can_be_counted_are_refused():
    model = classifier(**ALGORITHM_2)
    with pytest.raises(ValueError, match="adaptive' of 70000 columns need too many"):
        model.plan(np.zeros((3, 70_000)), [0, 1, 0])
