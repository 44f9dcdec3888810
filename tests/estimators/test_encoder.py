"""Estimators of raw tables: `encoder=`."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score

from skfdp import (
    DeclaredEncoder,
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyBudgetError,
    PrivacyLedger,
)
from skfdp.experimental import PrivateSearchCV
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent

N = 400
ENCODER = DeclaredEncoder(
    {"age": (20, 80), "stay": (1, 60), "admitted": ("2020-01-01", "2024-12-31")},
    {"sex": ["f", "m"]},
    spacing={"stay": "geometric"},
    interactions=[("age", "sex")],
    ignore=["id"],
)
CLASSIFIERS = {
    "feature-DP": FeatureDPLogisticRegression,
    "DPSGD-F": DPSGDFClassifier,
    "network": FeatureDPMLPClassifier,
}
SPLITS = {
    "nothing": {},
    "columns": {"public_features": ["age", "admitted"]},
    "target": {"public_target": True},
    "both": {"public_features": ["sex"], "public_target": True},
    "label-DP": {"public_features": "all"},
}


def table(seed=0, n=N):
    """Return a raw table with malformed cells, and labels."""
    rng = np.random.default_rng(seed)
    age, stay = rng.uniform(15, 90, n), rng.lognormal(2, 1, n)
    frame = pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m", "?"], n),
            "id": [f"p{i}" for i in range(n)],
            "stay": stay,
            "admitted": pd.Timestamp("2019-06-01")
            + pd.to_timedelta(rng.integers(0, 2200, n), "D"),
        }
    )
    margin = 3 * np.sin(age / 12) + np.log(stay) - 2
    frame.loc[rng.random(n) < 0.1, "stay"] = np.nan
    return frame, np.where(rng.random(n) < 1 / (1 + np.exp(-margin)), "yes", "no")


X, Y = table()


def classifier(kind=FeatureDPLogisticRegression, **more):
    """Return an unfitted classifier with a seed, so that it can be compared."""
    given = {"encoder": ENCODER, "classes": ["no", "yes"], "random_state": 0, **more}
    if kind is FeatureDPMLPClassifier:
        given = {"hidden_layer_sizes": (4,), **given}
    return kind(epsilon=2.0, **given)


def quietly(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


@pytest.mark.parametrize("split", SPLITS)
def test_a_model_of_raw_columns_is_linear_in_encoded_ones(split):
    model = quietly(classifier(**SPLITS[split]), X, Y)
    encoded = model.encoder_.transform(X)
    assert model.coef_.shape == (1, encoded.shape[1])
    np.testing.assert_allclose(
        model.decision_function(X), encoded @ model.coef_[0] + model.intercept_
    )
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == list(X)
    assert np.mean(model.predict(X) == Y) > 0.6


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_every_classifier_takes_an_encoder(kind):
    model = quietly(classifier(CLASSIFIERS[kind]), X, Y)
    assert set(model.predict(X)) <= {"no", "yes"}
    assert set(model.privacy_.private_features) == set(X) - {"id"}


@pytest.mark.parametrize("solver", ["auto", "one-shot"])
@pytest.mark.parametrize("split", SPLITS)
def test_regressors_take_an_encoder(split, solver):
    target = np.log(X["stay"].fillna(7.0)).to_numpy() + X["age"].to_numpy() / 50
    epsilon = 4.0 if solver == "auto" else 40.0
    model = FeatureDPRegressor(
        epsilon, encoder=ENCODER, target_bounds=(0, 6), random_state=0, solver=solver
    )
    quietly(model.set_params(**SPLITS[split]), X, target)
    expected = model.encoder_.transform(X) @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X), expected.clip(0, 6))
    assert model.score(X, target) > 0.3


def test_the_other_regressor_takes_an_encoder_and_counts():
    counts = np.random.default_rng(0).poisson(np.exp(X["age"].to_numpy() / 40))
    for loss in ("squared_error", "poisson"):
        model = DPSGDFRegressor(
            4.0, encoder=ENCODER, loss=loss, target_bounds=(0, 20), random_state=0
        )
        assert quietly(model, X, counts).score(X, counts) > 0.2


def test_without_privacy_curves_are_not_smoothed():
    model = quietly(classifier().set_params(epsilon=np.inf), X, Y)
    encoded = model.encoder_.transform(X)
    np.testing.assert_allclose(
        model.decision_function(X), encoded @ model.coef_[0] + model.intercept_
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_sparse_rows_are_not_filled_in(sparse):
    encoder = ENCODER.__class__(**{**ENCODER.get_params(), "sparse_output": sparse})
    model = quietly(classifier(encoder=encoder, public_features=["age"]), X, Y)
    encoded = model.encoder_.transform(X)
    assert hasattr(encoded, "indptr") == sparse
    np.testing.assert_allclose(
        model.decision_function(X), encoded @ model.coef_[0] + model.intercept_
    )


# -- what is private ------------------------------------------------------------------
def with_private(public, seed):
    """Return the table with other values, also malformed ones, in private columns."""
    rng, other = np.random.default_rng(seed), X.copy()
    wild = np.array([np.nan, np.inf, -1e300, "x", None, "f", 3, True], dtype=object)
    for name in set(X) - set(public):
        other[name] = rng.choice(wild, N)
    return other


@pytest.mark.parametrize("public", [[], ["age"], ["sex", "age"], ["stay", "admitted"]])
def test_what_is_public_of_encoded_rows_knows_no_private_column(public):
    model = classifier(public_features=public or None)
    known, plan = model._records(X, Y).public, model.plan(X)
    for seed in range(3):
        other = with_private(public, seed)
        found = classifier(public_features=public or None)._records(other, Y).public
        np.testing.assert_array_equal(found.rows(), known.rows())
        np.testing.assert_array_equal(found.X, known.X)
        np.testing.assert_array_equal(found.encoding.encoded, known.encoding.encoded)
        assert found.columns == known.columns and (found.mask == known.mask).all()
        assert model.plan(other) == plan
    width = 0
    for block in known.encoding.encoder.blocks_:
        names = {X.columns[place] for place in block.parents}
        width += (names <= set(public)) * len(block.levels)
    assert known.rows().shape[1] == width


def test_a_pair_is_private_if_either_column_is():
    for public in (["age"], ["sex"]):
        report = quietly(classifier(public_features=public), X, Y).privacy_
        assert report.public_features == tuple(public)
        assert set(report.private_features) == set(X) - {"id", *public}
    encoding = classifier(public_features=["age"])._records(X, Y).public.encoding
    pair = encoding.encoder.blocks_[-1]
    assert (
        pair.kind == "pair"
        and not encoding.public_encoded[pair.start : pair.stop].any()
    )


def test_rows_of_the_loop_are_as_long_as_is_said():
    for public in (None, ["age"]):
        records = classifier(public_features=public)._records(X, Y)
        private = np.asarray(records.X)[:, ~records.public.mask]
        lengths = np.linalg.norm(private, axis=1)
        assert (lengths <= records.public.longest_private * (1 + 1e-9)).all()
        assert not records.public.private_bounded  # entries have either sign


def test_ledgers_compare_raw_names():
    ledger = PrivacyLedger(epsilon=50, delta=1e-5, public=["age"])
    quietly(
        classifier(
            public_features=["age"], ledger=ledger, target_name="ill", random_state=None
        ),
        X,
        Y,
    )
    assert ledger.entries[0].event.public_features == ("age",)
    model = classifier(
        public_features=["sex"], ledger=ledger, target_name="ill", random_state=None
    )
    with pytest.raises(PrivacyBudgetError):
        quietly(model, X, Y)


# -- the workflows of scikit-learn ----------------------------------------------------
def test_cross_validation_and_grid_searches():
    model = classifier(public_features=["age"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(model, X, Y, cv=3)
        search = GridSearchCV(model, {"encoder__basis": ["hats", "linear"]}, cv=2)
        search.fit(X, Y)
    assert np.isfinite(scores).all()
    assert search.best_params_["encoder__basis"] in ("hats", "linear")


def test_private_searches():
    search = PrivateSearchCV(
        classifier(random_state=None),
        {"encoder__basis": ["hats", "linear"]},
        epsilon=4.0,
        random_state=0,
    )
    assert set(quietly(search, X, Y).predict(X)) <= {"no", "yes"}


def test_polars_frames_are_the_same_table():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: X[name].to_list() for name in X})
    ours, theirs = quietly(classifier(), X, Y), quietly(classifier(), frame, Y)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(frame))


def test_saved_models_predict_the_same():
    skops = pytest.importorskip("skops.io")
    model = quietly(classifier(public_features=["age"], public_target=True), X, Y)
    data = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=data)
    assert all(name.startswith("skfdp.") for name in trusted)
    again = skops.loads(data, trusted=trusted)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_outputs_of_the_encoder_do_not_matter():
    framed = DeclaredEncoder(**ENCODER.get_params()).set_output(transform="pandas")
    ours, theirs = (
        quietly(classifier(), X, Y),
        quietly(classifier(encoder=framed), X, Y),
    )
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)


def test_public_models_see_encoded_columns():
    model = classifier(
        public_features=["age", "sex"],
        public_target=True,
        public_model=HistGradientBoostingClassifier(max_iter=5),
    )
    quietly(model, X, Y)
    encoded = model.encoder_.transform(X)
    shown = [j for b in model.encoder_.blocks_ for j in range(b.start, b.stop)]
    blocks = {b.name: slice(b.start, b.stop) for b in model.encoder_.blocks_}
    public = np.r_[blocks["age"], blocks["sex"], blocks["age:sex"]]
    public = np.intersect1d(shown, np.arange(encoded.shape[1])[public])
    offset = model.public_model_.margins(encoded[:, public])[:, 0]
    expected = encoded @ model.coef_[0] + model.intercept_ + offset
    np.testing.assert_allclose(model.decision_function(X), expected)


# -- refusals ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bounds": (0, 1)}, "declare the bounds of raw columns in the encoder"),
        ({"encoder": "hats"}, "must be None or a DeclaredEncoder"),
        ({"solver": NoisyGradientDescent(normalize=True)}, "leave it out"),
        (
            {"solver": FeatureDPSGD(public_loss=lambda *a: a)},
            "columns of X, which are raw here",
        ),
        ({"encoder": DeclaredEncoder({"age": (0, 9)})}, "sex"),
        ({"public_features": ["age__3"]}, "age__3"),
    ],
)
def test_what_does_not_go_with_an_encoder(given, words):
    with pytest.raises(ValueError, match=words):
        classifier(**given).fit(X, Y)


def test_ignored_columns_are_nothing_to_protect():
    encoder = DeclaredEncoder({"age": (20, 80)}, ignore=[c for c in X if c != "age"])
    model = classifier(encoder=encoder, public_features=["age"], public_target=True)
    with pytest.raises(ValueError, match="nothing to protect"):
        model.fit(X, Y)
