"""The classifiers as a user of scikit-learn meets them."""

import dataclasses
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
)
from skfdp.data.input_scaler import Coordinates, InputScaler
from skfdp.mechanisms.descent import HeavyBall, descent
from skfdp.mechanisms.noise import Streams
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.queries.linear import LOSSES, LinearQuery
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD
from skfdp.solvers.descent import Descent

KINDS = (DPSGDFClassifier, FeatureDPLogisticRegression)
BOTH = pytest.mark.parametrize("estimator", KINDS)
STEP = NoisyGradientDescent(max_iter=1)
INFINITE = float("inf")


def objective(coef, intercept, X, y, C):
    margins = X @ coef.T + intercept
    return LOSSES["log_loss"].value(margins, y).sum() + (coef**2).sum() / (2 * C)


# -- without privacy ------------------------------------------------------------------
@pytest.mark.parametrize("C", [0.01, 1, 100])
@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_wine])
def test_infinite_epsilon_is_scikit_learns_model(C, load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = FeatureDPLogisticRegression(epsilon=INFINITE, C=C).fit(X, y)
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=100_000).fit(X, y)
    best = objective(theirs.coef_, theirs.intercept_, X, y, C)
    assert objective(ours.coef_, ours.intercept_, X, y, C) <= best * (1 + 1e-6)
    if not (load is load_digits and C == 100):
        for name in ("coef_", "intercept_"):
            a, b = getattr(ours, name), getattr(theirs, name)
            assert np.linalg.norm(a - b) <= 1e-3 * np.linalg.norm(b) + 1e-6
    np.testing.assert_allclose(
        ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3
    )
    assert ours.privacy_.epsilon == INFINITE


def test_infinite_epsilon_defaults_to_unit_penalty_and_ignores_the_input_scaler():
    X, y = load_iris(return_X_y=True)
    ours = FeatureDPLogisticRegression(
        epsilon=INFINITE,
        bounds=(0, 1),
        solver=NoisyGradientDescent(row_norm=0.1, normalize=True),
    ).fit(X, y)
    theirs = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)


def test_infinite_epsilon_without_intercept_and_with_weights():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    weight = {0: 3.0, 1: 0.5}
    ours = DPSGDFClassifier(
        epsilon=INFINITE, fit_intercept=False, class_weight=weight
    ).fit(X, y)
    theirs = LogisticRegression(
        fit_intercept=False, class_weight=weight, tol=1e-10, max_iter=10_000
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-5)
    assert ours.intercept_ == 0


@pytest.mark.parametrize(("loss", "gap"), [("squared_hinge", 1e-5), ("hinge", 0.02)])
def test_infinite_epsilon_of_the_hinges(loss, gap):
    """L-BFGS is exact on the squared hinge and near the optimum on the hinge."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = DPSGDFClassifier(
        epsilon=INFINITE, loss=loss, fit_intercept=False, C=0.1
    ).fit(X, y)
    theirs = LinearSVC(
        loss=loss, dual=True, C=0.1, fit_intercept=False, tol=1e-8, max_iter=10**6
    ).fit(X, y)

    def value(coef):
        return LOSSES[loss].value(X @ coef.T, y).sum() + (coef**2).sum() / 0.2

    assert value(ours.coef_) <= value(theirs.coef_) * (1 + gap)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_the_finite_loop_reaches_the_same_optimum_without_noise(load):
    """Noise 0, a clip that cannot bind, enough steps: scikit-learn's objective."""
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    C, n_classes = 0.01, len(set(y))
    input_scaler = InputScaler(feature_bound=float(np.linalg.norm(X, axis=1).max()))
    coordinates = Coordinates.centred(input_scaler, np.zeros(X.shape[1]), 1.0, 0.1)
    query = LinearQuery(
        rows=coordinates.grid(X),
        target=y,
        loss=LOSSES["log_loss"],
        n_outputs=1 if n_classes == 2 else n_classes,
        clip_norm=1.5,
        capacity=len(X),
        class_weight=np.ones(n_classes),
    )
    event = Event(
        label="descent",
        noise_std=(1.5e-9,),
        clip_norm=1.5,
        sensitivity=3.0,
        n_steps=6000,
    )
    curvature = coordinates.penalty_curvature(1 / (C * len(X))) / query.clip_norm
    curvature = np.ascontiguousarray(np.broadcast_to(curvature, query.shape))
    theta, _ = descent(
        Mechanism((event,), Streams(0, "test")),
        query,
        HeavyBall(20.0, 0.95, 6000, curvature=curvature),
        n_records=len(X),
    )
    coef, intercept = coordinates.fold(theta)
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
    best = objective(theirs.coef_, theirs.intercept_, X, y, C)
    assert objective(coef, intercept, X, y, C) == pytest.approx(best, rel=1e-4)
    assert np.linalg.norm(coef - theirs.coef_) < 1e-2 * np.linalg.norm(theirs.coef_)


# -- with privacy ---------------------------------------------------------------------
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", ["auto", "noisy-sgd"])
def test_with_nothing_public_the_two_are_one_method(n_classes, solver, small):
    y = np.arange(300) % n_classes
    made = [kind(bounds=(0, 1), solver=solver) for kind in KINDS]
    ours, theirs = (model.plan(small[0], y) for model in made)
    assert ours.events == theirs.events
    assert ours.assumptions == theirs.assumptions


def test_accuracy_grows_with_epsilon(digits):
    X, y = digits

    def score(epsilon, seed):
        model = DPSGDFClassifier(epsilon, bounds=(0, 16), random_state=seed)
        return model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])

    budgets = (0.03, 0.3, 3, 30)
    scores = [np.mean([score(one, seed) for seed in range(3)]) for one in budgets]
    assert (np.diff(scores) > 0).all()
    assert scores[0] < 0.5
    assert scores[-1] > 0.93


PUBLIC = [
    {},
    {"public_features": range(32)},
    {"public_target": True},
    {"public_features": range(32), "public_target": True},
    {"public_features": "all"},
]
LEARN = [
    (NoisyGradientDescent(max_iter=60), 0.6),
    (NoisySGD(batch_size=400, max_iter=60), 0.6),
    # Gaussian padding is noise in the public gradient: it learns, but less.
    *(
        (FeatureDPSGD(public_loss=loss, batch_size=size, max_iter=60), enough)
        for loss, enough in (("zero", 0.6), ("gaussian", 0.3))
        for size in (None, 400)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "enough"), LEARN)
@pytest.mark.parametrize("public", PUBLIC)
def test_every_combination_learns_and_stays_within_budget(
    solver, enough, public, digits
):
    X, y = digits
    model = FeatureDPLogisticRegression(
        epsilon=8.0, bounds=(0, 16), solver=solver, random_state=0, **public
    ).fit(X[:1200], y[:1200])
    assert model.privacy_.epsilon <= 8.0
    assert model.privacy_.public_target == public.get("public_target", False)
    assert model.score(X[1200:], y[1200:]) > enough


def test_label_dp_centres_exactly_and_releases_no_mean(digits):
    X, y = digits
    model = FeatureDPLogisticRegression(
        public_features="all", bounds=(0, 16), solver="noisy-gd"
    )
    events = model.fit(X, y).privacy_.events
    assert [event.label for event in events] == [
        "class counts",
        "temperature",
        "descent",
    ]
    assert all(len(event.public_features) == 64 for event in events)


def test_algorithm_one_as_in_the_paper(digits):
    """Two batches, a ball, uniform averaging, constant noise, no momentum."""
    X, y = digits
    model = FeatureDPLogisticRegression(
        epsilon=8.0,
        bounds=(0, 16),
        public_features=range(32),
        public_target=True,
        random_state=0,
        solver=FeatureDPSGD(
            public_loss="gaussian",
            public_batch_size=200,
            batch_size=100,
            max_weight_norm=3.0,
            iterate="uniform",
            momentum=0.0,
            clip_norm=0.3,
            gradient_scale=2.0,
            padding_scale=0.1,
        ),
    ).fit(X, y)
    event = model.privacy_.events[-1]
    assert event.sampling_rate == pytest.approx(100 / len(X))
    assert event.sensitivity == pytest.approx(0.6)
    assert len(event.noise_std) == 1
    assert model.score(X, y) > 0.5


def test_a_callable_public_loss_is_an_exact_gradient(small, monkeypatch):
    """A public ridge term equals the built-in penalty, under the same noise."""
    X, y = small
    monkeypatch.setattr(
        "skfdp.mechanisms.noise.Streams.private", lambda *key: np.random.default_rng(0)
    )

    def ridge(coef, intercept, X_public, labels):
        assert X_public.shape == (300, 2)
        assert labels is None
        return coef / (0.1 * len(X_public)), np.zeros_like(intercept)

    common = {"bounds": False, "public_features": [0, 1], "centering": None}

    # The penalty itself is stepped on implicitly, a callable where the step begins.
    def unpenalised(self, *given):
        return rule(dataclasses.replace(self, penalty=None), *given)

    def gradient(method, records, loss, offset, query, coordinates, mechanism):
        penalty = coordinates.penalty_curvature(method.penalty)
        return lambda theta: penalty * theta

    solver = FeatureDPSGD(public_loss=ridge, row_norm=2.0)
    ours = FeatureDPLogisticRegression(solver=solver, **common).fit(X, y)
    rule = Descent._rule
    monkeypatch.setattr(Descent, "_rule", unpenalised)
    monkeypatch.setattr(f"{Descent.__module__}.public_gradient", gradient)
    solver = NoisyGradientDescent(row_norm=2.0)
    built_in = FeatureDPLogisticRegression(C=0.1, solver=solver, **common).fit(X, y)
    np.testing.assert_allclose(ours.coef_, built_in.coef_, rtol=1e-6)


def test_public_labels_reach_a_callable_only_if_the_target_is_public(small):
    X, y = small
    seen = []

    def spy(coef, intercept, X_public, labels):
        seen.append(labels)
        return np.zeros_like(coef), np.zeros_like(intercept)

    for public_target in (True, False):
        FeatureDPLogisticRegression(
            public_target=public_target,
            bounds=(0, 1),
            solver=FeatureDPSGD(public_loss=spy, max_iter=1),
        ).fit(X, np.where(y, "yes", "no"))
    assert set(seen[0]) == {"yes", "no"}
    assert seen[1] is None


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_margins_are_coef_on_the_input_scaler(normalize, n_classes):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 12, (400, 5))
    y = rng.integers(0, n_classes, 400)
    model = DPSGDFClassifier(
        bounds=(0, 10), solver=NoisyGradientDescent(normalize=normalize)
    ).fit(X, y)
    margins = model.input_scaler_(X) @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(
        model.decision_function(X).reshape(400, -1), margins, atol=1e-10
    )
    assert model.coef_.shape == (1 if n_classes == 2 else 3, 5)


@pytest.mark.parametrize("row_norm", ["auto", 0.1, 2.0])
@pytest.mark.parametrize("bounds", [(0, 1), {1: (0, 1)}, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_inside_bounds_meet_coef_directly(
    row_norm, bounds, n_classes, sparse, small
):
    """However long they are."""
    X = small[0].copy()
    X[X < 0.3] = 0.0
    if bounds is False:
        X *= 10.0 ** np.arange(-2, 2)
    y = np.arange(len(X)) % n_classes
    rows = csr_array(X) if sparse else X
    solver = NoisyGradientDescent(row_norm=row_norm, max_iter=3)
    model = FeatureDPLogisticRegression(bounds=bounds, solver=solver).fit(rows, y)
    margins = X @ model.coef_.T + model.intercept_
    found = model.decision_function(rows)
    np.testing.assert_allclose(found, np.squeeze(margins), rtol=1e-9, atol=1e-9)


@BOTH
def test_without_intercept(estimator, small):
    model = estimator(bounds=(0, 1), fit_intercept=False).fit(*small)
    assert model.intercept_ == 0
    # No mean and no class counts: both would need an intercept.
    labels = [event.label for event in model.privacy_.events]
    assert labels == ["row length", "temperature", "descent"]


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [-1, 1], [True, False], ["a", "b", "c"], [2.0, 5.0, 9.0]]
)
def test_labels_of_any_type(labels):
    rng = np.random.default_rng(0)
    centres = np.eye(3)[: len(labels)]
    codes = rng.integers(0, len(labels), 600)
    X = centres[codes] + 0.1 * rng.normal(size=(600, 3))
    y = np.asarray(labels)[codes]
    model = DPSGDFClassifier(epsilon=8.0, bounds=(-1, 2), random_state=0).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_declared_classes_are_no_assumption(small):
    X, y = small
    texts = {
        kind: DPSGDFClassifier(bounds=(0, 1), classes=classes).fit(X, y).privacy_
        for kind, classes in {"read": None, "declared": [0, 1, 2]}.items()
    }
    assert any("target" in a.text for a in texts["read"].assumptions)
    assert not any("target" in a.text for a in texts["declared"].assumptions)
    assert texts["declared"].events[0].classes_source == "declared"


def test_a_declared_class_may_be_absent(small):
    X, _ = small
    model = DPSGDFClassifier(bounds=(0, 1), classes=["a", "b"]).fit(X, ["a"] * 300)
    assert model.classes_.tolist() == ["a", "b"]


def test_class_weight_moves_the_boundary():
    rng = np.random.default_rng(0)
    X = rng.random((2000, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=2000) > 0.5).astype(int)
    shares = [
        DPSGDFClassifier(
            epsilon=8.0, bounds=(0, 1), class_weight={1: weight}, random_state=0
        )
        .fit(X, y)
        .predict(X)
        .mean()
        for weight in (0.2, 1.0, 5.0)
    ]
    assert shares[0] < shares[1] < shares[2]


def test_probabilities_only_for_the_log_loss(small):
    model = DPSGDFClassifier(loss="hinge", bounds=(0, 1)).fit(*small)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(make_pipeline(model), "predict_log_proba")
    for name in ("predict_proba", "predict_log_proba"):
        with pytest.raises(AttributeError, match=name) as caught:
            getattr(model, name)(small[0])
        assert "need loss='log_loss', but loss='hinge'" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    "make",
    [
        DPSGDFClassifier,
        FeatureDPLogisticRegression,
        partial(FeatureDPMLPClassifier, epsilon=100.0, hidden_layer_sizes=(4,)),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_of_probabilities(make, n_classes, small):
    X, y = small[0], np.arange(300) % n_classes
    model = make(bounds=(0, 1), solver=NoisySGD(max_iter=3))
    model = make_pipeline(FunctionTransformer(), model).fit(X, y)
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logs), model.predict_proba(X), rtol=1e-12)
    assert model.score(X, y) == (logs.argmax(axis=1) == y).mean()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_of_probabilities_too_small_for_a_float(n_classes, small):
    model = DPSGDFClassifier(bounds=(0, 1), solver=STEP)
    model.fit(small[0], np.arange(300) % n_classes)
    model.coef_ *= 0
    model.intercept_ = np.array([-2000.0, 50.0, 0.0])[: len(model.intercept_)]
    expected = [0.0, -2000.0] if n_classes == 2 else [-2050.0, -np.exp(-50), -50.0]
    logs = model.predict_log_proba(small[0])
    np.testing.assert_allclose(logs[0], expected, rtol=1e-12, atol=1e-15)
    assert (model.predict_proba(small[0])[0] == 0).sum() == 1


@pytest.mark.parametrize("margin", [-50.0, -1.0, 36.0, 37.0, 50.0, 700.0])
def test_no_class_is_impossible_before_floats_end(margin, small):
    """scikit-learn's checks compare the logarithm of the one with the other."""
    model = DPSGDFClassifier(bounds=(0, 1), solver=STEP).fit(*small)
    model.coef_ *= 0
    model.intercept_ = np.array([margin])
    found, logs = (
        getattr(model, name)(small[0])[0]
        for name in ("predict_proba", "predict_log_proba")
    )
    np.testing.assert_allclose(np.log(found), logs, rtol=0.01, atol=1e-12)
    assert found.sum() == 1


# -- scikit-learn's world -------------------------------------------------------------
@BOTH
def test_frames_in_pipelines_and_searches(estimator):
    X, y = load_iris(return_X_y=True, as_frame=True)
    bounds = {name: (0, 8) for name in X.columns}
    model = estimator(epsilon=30.0, bounds=bounds, random_state=0).fit(X, y)
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert model.score(X, y) > 0.7
    pipeline = make_pipeline(StandardScaler(), estimator(epsilon=30.0, bounds=False))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.5
    search = GridSearchCV(model, {"epsilon": [0.1, 30.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"epsilon": 30.0}


def test_public_columns_by_pattern():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = FeatureDPLogisticRegression(bounds=(0, 8), public_features="petal*")
    model.fit(X, y)
    assert model.privacy_.public_features == ("petal length (cm)", "petal width (cm)")
    assert set(model.privacy_.private_features) == {
        "sepal length (cm)",
        "sepal width (cm)",
    }


@BOTH
def test_clone_pickle_and_parameters(estimator, small):
    X, y = small
    model = estimator(epsilon=3.0, bounds=(0, 1), random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert copy.privacy_ == model.privacy_
    fresh = clone(model)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert fresh.get_params() == model.get_params()
    np.testing.assert_array_equal(fresh.fit(X, y).coef_, model.coef_)


@pytest.mark.usefixtures("threads_for_few_rows")
def test_threads_do_not_change_the_model(digits):
    solver = NoisyGradientDescent(max_iter=5)
    model = DPSGDFClassifier(bounds=(0, 16), random_state=0, solver=solver)
    fits = [clone(model).set_params(n_jobs=n).fit(*digits) for n in (None, 2)]
    np.testing.assert_array_equal(*(fit.coef_ for fit in fits))


def test_set_output_is_honoured_upstream():
    from skfdp import PrivateCenteringTransformer

    X, y = load_iris(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(
        PrivateCenteringTransformer(epsilon=1.0, bounds=(0, 8)),
        FeatureDPLogisticRegression(bounds=False),
    ).set_output(transform="pandas")
    pipeline.fit(X, y)
    assert pipeline[-1].feature_names_in_.tolist() == X.columns.tolist()
    assert pd.DataFrame(pipeline[:-1].transform(X)).shape == X.shape


@pytest.mark.parametrize(("bounds", "norm"), [((0, 1), 2.0), ({0: (0, 1)}, 1.0)])
def test_rows_that_are_normalised_have_the_norm_that_none_exceeds(bounds, norm, small):
    """The root of the number of columns, where all of them are within bounds."""
    solver = NoisyGradientDescent(normalize=True, max_iter=2)
    model = DPSGDFClassifier(bounds=bounds, solver=solver).fit(*small)
    assert model.input_scaler_.feature_bound == norm


@pytest.mark.parametrize("given", ["auto", 0.5, 1.0, 30.0])
def test_row_norm_shortens_no_row_that_is_not_normalised(given, small):
    """It is a typical norm: "auto" releases it, a number releases nothing."""
    X, y = small
    solver = NoisyGradientDescent(row_norm=given, max_iter=2)
    for bounds in ((0, 1), {0: (0, 1)}, False):
        model = FeatureDPLogisticRegression(bounds=bounds, solver=solver).fit(X, y)
        np.testing.assert_allclose(model.input_scaler_(X), X)
        labels = [event.label for event in model.privacy_.events]
        assert ("row length" in labels) == (given == "auto")
        assert "mean" in labels
