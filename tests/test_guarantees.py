"""The guarantee end to end: what is charged is what runs, and neighbours are close."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.data.grid import GridRows
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION, loss_named
from skfdp.privacy import AddOrRemoveOne, Relation, compose, gdp_epsilon
from skfdp.queries.linear import LinearQuery
from skfdp.queries.products import ShortProducts
from skfdp.reader import Reader
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD

BATCHES = {"solver": NoisySGD(batch_size=60, max_iter=50)}
CLASSIFIER = partial(skfdp.DPSGDFClassifier, bounds=(0, 1))
LOGISTIC = partial(skfdp.FeatureDPLogisticRegression, bounds=(0, 1))
REGRESSOR = partial(skfdp.FeatureDPRegressor, bounds=(0, 1))


def padded(kind, **more):
    """Return Algorithm 1 as a parameter."""
    return {"solver": FeatureDPSGD(public_loss=kind, **more)}


COUNTED = {"neighboring_relation": AddOrRemoveOne(250), **BATCHES}
NULLED = {"neighboring_relation": "replace_special"}
NORMALIZED = {"solver": NoisyGradientDescent(normalize=True)}
KNOWN, ALL = {"public_target": True}, {"public_features": "all"}
SOME = {"public_features": [0, 1]}
TWO = padded("zero", batch_size=60, max_iter=50)
ESTIMATORS = {
    "dpsgd-f": CLASSIFIER,
    "dpsgd-f, plain": partial(CLASSIFIER, centering=None),
    "dpsgd-f, poisson": partial(CLASSIFIER, **BATCHES),
    "dpsgd-f, hinge": partial(CLASSIFIER, loss="hinge"),
    "dpsgd-f, normalised, replace_special": partial(CLASSIFIER, **NULLED, **NORMALIZED),
    "dpsgd-f, add/remove": partial(CLASSIFIER, **COUNTED),
    "feature-dp, dp-sgd, two columns": partial(LOGISTIC, **SOME, **TWO),
    "feature-dp, public target, gaussian": partial(
        LOGISTIC, public_features=[2], **KNOWN, **padded("gaussian")
    ),
    "feature-dp, public target": partial(LOGISTIC, **SOME, **KNOWN),
    "feature-dp, one-shot": partial(LOGISTIC, **ALL),
    "feature-dp, label": partial(LOGISTIC, **ALL, solver="feature-dp-sgd"),
    "feature-dp, private bounds": partial(LOGISTIC, **SOME, bounds="private"),
    "feature-dp, replace_special": partial(LOGISTIC, public_features=[0], **NULLED),
    "regressor": partial(REGRESSOR, target_bounds=(0, 2)),
    "regressor, public target": partial(REGRESSOR, **KNOWN, loss="huber"),
    "regressor, label, poisson": partial(
        REGRESSOR, **ALL, target_bounds=(0, 3), loss="poisson"
    ),
    "regressor, private bounds": partial(
        REGRESSOR, target_bounds=(0, 2), bounds="private"
    ),
    "regressor, dpsgd-f, add/remove": partial(
        skfdp.DPSGDFRegressor, bounds=(0, 1), target_bounds=(-1, 2), **COUNTED
    ),
}
both = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)


# -- what is charged is what runs ----------------------------------------------------
#: What is released after the loop, on the step or the weights that it found.
AFTER_THE_LOOP = ("temperature", "mean rate")


def in_order_of_release(events):
    """Return events as they run; a report names the loop last."""
    return sorted(events, key=lambda event: event.label in AFTER_THE_LOOP)


@both
def test_the_events_describe_the_releases_that_ran(make, small, releases):
    model = make(epsilon=2.0).fit(*small)
    events = model.privacy_.events
    ran = in_order_of_release(events)
    charged = np.concatenate([event.step_stds for event in ran])
    # Bit for bit: what is drawn is what is accounted for.
    np.testing.assert_array_equal([seen["std"] for seen in releases], charged)
    steps = iter(releases)
    for event in ran:
        for _, seen in zip(range(event.n_steps), steps, strict=False):
            # Centred rows are cut shorter where the mean decides about their signs.
            if seen["query"].clip_norm != event.clip_norm:
                twice = pytest.approx(2 * seen["query"].clip_norm, rel=1e-12)
                assert event.sensitivity == twice
            relation = Relation.of(event.neighboring_relation)
            moved = seen["query"].sensitivity(relation)
            assert moved == pytest.approx(event.sensitivity, rel=1e-12)
            assert (seen["batch"] is None) == (event.sampling_rate == 1)
    assert next(steps, None) is None
    assert model.privacy_.epsilon <= 2.0
    assert compose(events).epsilon(1e-5) == pytest.approx(model.privacy_.epsilon)
    assert model.privacy_.epsilon > 1.99


@both
def test_noise_has_the_level_of_the_plan(make, small, releases):
    make(epsilon=2.0).fit(*small)
    ratios = np.concatenate([seen["noise"].ravel() / seen["std"] for seen in releases])
    level = np.mean(ratios**2)
    assert abs(level - 1) < 5 * math.sqrt(2 / ratios.size)
    # steps and coordinates are uncorrelated
    lagged = np.mean(ratios[1:] * ratios[:-1])
    assert abs(lagged) < 5 / math.sqrt(ratios.size)


def test_full_batch_epsilon_from_first_principles(small, releases):
    """Recompute epsilon from the noise that ran and the sensitivities, by hand."""
    skfdp.FeatureDPLogisticRegression(epsilon=2.0, bounds=(0, 1)).fit(*small)
    counts, length, mean, *steps, temperature = releases
    # A replaced label moves two counts by 1, a length and a mean row are at most 1 in
    # size, and no entry of the row is negative.
    mu2 = 2 / counts["std"] ** 2 + (2 / length["std"]) ** 2 + 2 / mean["std"] ** 2
    # Two slopes of at most 1, either of which may change its sign.
    mu2 += (2 * math.sqrt(2) / temperature["std"]) ** 2
    assert len(steps) == 80
    mu2 += sum((2 * s["query"].clip_norm / s["std"]) ** 2 for s in steps)
    assert gdp_epsilon(1e-5, math.sqrt(mu2)) == pytest.approx(2.0, rel=1e-9)


def test_averages_divide_by_the_expected_batch(small, releases):
    solver = NoisySGD(
        batch_size=60,
        max_iter=1,
        momentum=0,
        row_norm=1.0,
        learning_rate=0.5,
        clip_norm=0.2,
    )
    model = skfdp.DPSGDFClassifier(
        bounds=(0, 1),
        centering=None,
        loss="hinge",  # of which nothing is released but the loop
        solver=solver,
    ).fit(*small)
    (seen,) = releases
    released = seen["exact"] + seen["noise"]
    theta = -0.5 * released / (60 * 0.2)
    np.testing.assert_allclose(model.coef_, theta[:, :-1], rtol=1e-9)


# -- neighbours ----------------------------------------------------------------------
def neighbours(query, relation, rng):
    """Replace the private part of record 0 by extremes; or drop the record."""
    if relation != "replace_one":
        yield None
        return
    n_columns = query.rows.values.shape[1]
    for _ in range(30):
        row = rng.normal(size=n_columns - 1) * 10.0 ** rng.uniform(-2, 1)
        rows = GridRows.build(row[None], input_scaler(n_columns - 1), bias=0.1)
        values = query.rows.values.copy()
        norms = query.rows.squared_norms.copy()
        values[0], norms[0] = rows.values[0], rows.squared_norms[0]
        target = query.target.copy()
        if query.class_weight is None:
            target[0] = rng.choice([0.0, 1.0, 30.0, rng.random()])
        elif not query.public_target:
            target[0] = rng.integers(0, max(2, query.n_outputs))
        yield dataclasses.replace(query, rows=GridRows(values, norms), target=target)


def input_scaler(d):
    """Rows of few columns as they are; of many, short enough for the short kernels."""

    def shortened(block):
        return block / np.maximum(1, np.linalg.norm(block, axis=1, keepdims=True) / 1.9)

    return (lambda block: block) if d < 16 else shortened


def check_sensitivity(relation, loss, public_target=False, padded=False, seed=0, d=4):
    """Brute force over neighbours: no sum moves by more than Delta, in grid units."""
    rng = np.random.default_rng(seed)
    n, n_classes, clip = 12, 3, 0.3
    query = LinearQuery(
        rows=GridRows.build(rng.normal(size=(n, d)), input_scaler(d), bias=0.1),
        target=rng.integers(0, n_classes, n),
        loss=loss_named(loss),
        n_outputs=n_classes,
        clip_norm=clip,
        capacity=n,
        class_weight=np.array([1.0, 2.0, 0.5]),
        padded=GridRows.build(rng.normal(size=(n, d)), lambda b: b, bias=0.1)
        if padded
        else None,
        public_target=public_target,
    )
    if loss in REGRESSION:
        query = dataclasses.replace(
            query,
            target=rng.uniform(0, 3, n),
            n_outputs=1,
            class_weight=None,
        )
    largest = 0.0
    for _ in range(10):
        theta = rng.normal(size=query.shape) * 10.0 ** rng.uniform(-1, 1)
        unit = query.unit(noise_std=rng.uniform(0, 10))
        everyone = np.arange(n)
        total = query.exact_sum(theta, everyone, unit)
        for other in neighbours(query, relation, rng):
            moved = total - (
                query.exact_sum(theta, everyone[1:], unit)
                if other is None
                else other.exact_sum(theta, everyone, unit)
            )
            square = sum(int(entry) ** 2 for entry in moved.ravel().tolist())
            largest = max(largest, math.sqrt(square) * unit / clip)
    bound = query.sensitivity(Relation.of(relation)) / clip
    assert isinstance(query._workspaces[0][0], ShortProducts) == (d >= 16)
    assert largest <= bound
    assert largest > 0.5 * bound  # the search came near enough to mean something


@pytest.mark.parametrize(
    "relation", ["replace_one", "replace_special", "add_or_remove_one"]
)
@pytest.mark.parametrize("loss", [*CLASSIFICATION, *REGRESSION])
@pytest.mark.parametrize("d", [4, 20])
def test_sensitivity_of_every_loss_and_relation(relation, loss, d):
    """By the kernels for rows of any kind, and by those for short rows."""
    check_sensitivity(relation, loss, d=d)


@pytest.mark.parametrize("public_target", [False, True])
def test_sensitivity_of_algorithm_one(public_target):
    check_sensitivity("replace_one", "log_loss", public_target, padded=True)


# -- two independent streams ---------------------------------------------------------
@pytest.mark.parametrize("public_loss", ["zero", "gaussian"])
def test_private_values_cannot_reach_what_is_public(public_loss, small, monkeypatch):
    """Private columns and labels become NaN after validation: nothing public moves."""
    seen = {}

    def spied(self, theta, batch):
        out = gradient(self, np.ones(self.shape), batch)
        seen.setdefault(kind, []).append((out, batch))
        return np.zeros(self.shape)

    gradient = LinearQuery.public_gradient
    monkeypatch.setattr(LinearQuery, "public_gradient", spied)
    table = Reader.read

    def poisoned(self, *given, **how):
        records = table(self, *given, **how)
        poison = records.X.copy()
        poison[:, ~records.public.mask] = np.nan
        return dataclasses.replace(
            records,
            X=poison,
            target=np.full_like(records.target, 1),
            public=dataclasses.replace(records.public, _table=poison),
        )

    # A centre and a length that were released would differ: they are fixed here.
    model = skfdp.FeatureDPLogisticRegression(
        public_features=[0, 2],
        bounds=(0, 1),
        centering=None,
        random_state=0,
        solver=FeatureDPSGD(
            public_loss=public_loss,
            public_batch_size=17,
            batch_size=50,
            max_iter=5,
            row_norm=1.0,
        ),
    )
    kind = "as is"
    model.fit(*small)
    monkeypatch.setattr(Reader, "read", poisoned)
    kind = "poisoned"
    with np.errstate(invalid="ignore"):
        model.fit(*small)
    assert len(seen["as is"]) == 5
    for (ours, batch), (theirs, other) in zip(
        seen["as is"], seen["poisoned"], strict=True
    ):
        np.testing.assert_array_equal(batch, other)
        np.testing.assert_array_equal(ours, theirs)
        assert np.isfinite(ours).all()


def test_private_coins_differ_from_public_batches(small, releases, monkeypatch):
    public = []
    gradient = LinearQuery.public_gradient

    def spied(self, theta, batch):
        public.append(batch)
        return gradient(self, theta, batch)

    monkeypatch.setattr(LinearQuery, "public_gradient", spied)
    skfdp.FeatureDPLogisticRegression(
        public_features=[0],
        bounds=(0, 1),
        centering=None,
        solver=FeatureDPSGD(
            public_loss="zero",
            public_batch_size=100,
            batch_size=100,
            max_iter=40,
            row_norm=1.0,
        ),
    ).fit(*small)
    common = [
        np.intersect1d(seen["batch"], batch).size
        for seen, batch in zip(releases, public, strict=True)
    ]
    # independent halves of 300 rows share 100 * 100 / 300 rows on average
    assert abs(np.mean(common) - 100 / 3) < 5 * math.sqrt(100 / 3 / len(common))


# -- seeds ---------------------------------------------------------------------------
def noises(releases):
    """Leading noise of each release, in standard deviations."""
    return [seen["noise"].ravel()[0] / seen["std"] for seen in releases]


def test_two_steps_of_a_pipeline_with_one_seed_draw_different_noise(small, releases):
    make_pipeline(
        skfdp.PrivateCenteringTransformer(bounds=(0, 1), random_state=0),
        skfdp.DPSGDFClassifier(
            bounds=False, random_state=0, solver=NoisyGradientDescent(max_iter=3)
        ),
    ).fit(*small)
    drawn = noises(releases)
    assert len(drawn) == 1 + 4 + 3
    assert len(set(np.round(drawn, 6))) == len(drawn)
