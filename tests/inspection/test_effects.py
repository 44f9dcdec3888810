"""The data of the effects, and that a figure has what they say."""

import functools
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.inspection import EffectsDisplay, _effects
from skfdp.schema import Category, Date, Label, Number
from skfdp.solvers import NoisyGradientDescent, NoisySGD

mpl.use("Agg")


@pytest.fixture(autouse=True)
def no_figures_left():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="module")
def stays():
    rng = np.random.default_rng(0)
    n = 2500
    age = rng.integers(20, 91, n).astype(float)
    ward = rng.choice(["Chirurgie", "Innere", "Überwachung"], n)
    days = rng.integers(0, 700, n).astype("m8[D]")
    margin = ((age - 55) / 20) ** 2 - 1 + (ward == "Überwachung")
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-margin)), "ja", "nein")
    age[::20] = np.nan
    X = pd.DataFrame({"Alter": age, "Station": ward})
    X["Aufnahme"] = np.datetime64("2024-01-01") + days
    return X, y, margin


def encoder_of(X, knots=("auto", "auto")):
    columns = {
        "Alter": Number(20, 90, knots=knots[0]),
        "Station": Category(["Chirurgie", "Innere", "Überwachung"]),
        "Aufnahme": Date("2024-01-01", "2025-12-31", knots=knots[1]),
    }
    return skfdp.DeclaredEncoder(skfdp.TableSchema(columns)).fit(X)


def label_dp(X, y, epsilon=8.0, **options):
    encoder = encoder_of(X, **options)
    model = skfdp.FeatureDPLogisticRegression(
        epsilon, public_features="all", bounds=False, classes=sorted(set(y))
    )
    return model.fit(encoder.transform(X), y), encoder


@pytest.fixture(scope="module")
def fitted(stays):
    return label_dp(*stays[:2])


def test_every_block_has_a_panel(fitted):
    model, encoder = fitted
    display = EffectsDisplay.from_estimator(model, encoder=encoder)
    effects = display.effects
    assert {*effects} == {block.name for block in encoder.blocks_}
    kinds = sorted(effect.kind for effect in effects.values())
    assert kinds == ["bars"] * 3 + ["curve"] * 2
    assert [ax.get_title() for ax in display.axes_] == list(effects)
    assert display.figure_ is display.axes_[0].figure
    assert display.unit == "effect on the log odds of nein"
    display.figure_.canvas.draw()
    # Effects are centred over knots and categories.
    bars, curve = effects["Station"], effects["Alter"]
    at_knots = np.interp(encoder.blocks_[0].knots, curve.places[0], curve.values[0])
    assert abs(bars.values.mean()) < 1e-12 and abs(at_knots.mean()) < 0.01
    assert curve.apart.places[0].tolist() == ["missing"]
    assert bars.apart.places[0].tolist() == ["other", "missing"]


def test_effects_are_differences_of_margins(fitted, stays):
    """What a figure tells of two rows is what the model tells of them."""
    (model, encoder), X = fitted, stays[0]
    display = EffectsDisplay.from_estimator(model, encoder=encoder)
    row = X.iloc[[1, 1]]
    chosen = {"Alter": [30.0, 71.5], "Station": ["Innere", "Chirurgie"]}
    for column, places in chosen.items():
        rows = encoder.transform(row.assign(**{column: places}))
        wanted, effect = np.diff(model.decision_function(rows)), display.effects[column]
        if effect.kind == "curve":
            at = np.interp(places, effect.places[0], effect.values[0])
        else:
            at = [effect.values[0][list(effect.places[0]).index(p)] for p in places]
        np.testing.assert_allclose(np.diff(at), wanted, atol=2e-2)


def test_several_classes_have_lines_and_one_can_be_chosen(stays):
    X, y, _ = stays
    y = np.where(np.arange(len(y)) % 3 == 0, "unklar", y)
    model, encoder = label_dp(X, y)
    of = functools.partial(EffectsDisplay.from_estimator, model, encoder=encoder)
    display = of(columns=["Alter", "Station"])
    assert display.outputs == ["ja", "nein", "unklar"]
    assert display.effects["Alter"].values.shape[0] == 3
    display = of(target="unklar", columns=["Alter"])
    assert display.unit == "effect on the log odds of unklar"
    assert display.effects["Alter"].values.shape[0] == 1


def test_a_pipeline_brings_its_encoder(stays):
    X, y, target = stays
    given = {"bounds": False, "solver": NoisyGradientDescent(normalize=True)}
    model = skfdp.DPSGDFClassifier(classes=["ja", "nein"], **given)
    model = make_pipeline(encoder_of(X), model).fit(X, y)
    display = EffectsDisplay.from_estimator(model)
    assert list(display.effects)[0] == "Alter"
    assert display.band == "noise of the release, 95 %"
    assert display.unit.endswith("for rows scaled to one norm")
    options = {"target_bounds": (-2, 10), "bounds": False}
    model = make_pipeline(encoder_of(X), skfdp.FeatureDPRegressor(**options)).fit(
        X, target
    )
    assert EffectsDisplay.from_estimator(model).unit == "effect on the target"


def test_a_model_with_a_schema_needs_nothing_else(stays):
    """Its weights are combinations of smooth ones, whose noises are independent."""
    X, y, _ = stays
    columns = {
        "Alter": Number(20, 90, public=True),
        "Aufnahme": Date("2024-01-01", "2025-12-31"),
        "Station": Category(["Chirurgie", "Innere", "Überwachung"]),
        "Heim": Label(["ja", "nein"]),
    }
    schema = skfdp.TableSchema(columns, outcomes=["Heim"])
    model = skfdp.FeatureDPLogisticRegression(schema=schema).fit(X, y)
    table = model.coefficients_table()
    names, values = (
        table["feature"].tolist(),
        table.groupby("column")["value"].apply(list),
    )
    noise, block = model.coef_noise_, model.encoder_.blocks_[0]
    assert values["Alter"] == [*block.knots, "missing"]
    assert values["Aufnahme"][0] == np.datetime64("2024-01-01")
    assert {*values["Station"]} >= {"Innere", "other"}
    assert table["column"].iloc[-1] == "intercept"
    assert names == [*model.encoder_.get_feature_names_out(), "intercept"]
    effect = EffectsDisplay.from_estimator(model).effects["Alter"]
    assert noise.covariance.shape == (1, len(names), len(names))
    rows = np.zeros((1, len(names) - 1))
    mean = block.encode(block.knots).mean(axis=0)
    rows[0, : block.stop] = block.encode([20.0]) - mean
    wanted = np.sqrt(rows @ noise.covariance[0, :-1, :-1] @ rows.T)
    assert effect.noise_std[0, 0] == pytest.approx(float(wanted[0, 0]))


def test_without_a_schema_there_are_bars_over_the_bounds(stays):
    X, y, _ = stays
    X = X[["Alter"]].fillna(20).assign(Tage=np.arange(len(X)) % 30)
    bounds = {"Alter": (20, 90), "Tage": (0, 30)}
    model = skfdp.FeatureDPLogisticRegression(
        bounds=bounds, classes=["ja", "nein"]
    ).fit(X, y)
    effect = EffectsDisplay.from_estimator(model).effects["coefficients"]
    assert effect.places[0].tolist() == ["Alter", "Tage"]
    np.testing.assert_allclose(effect.values[0], model.coef_[0] * [70, 30])
    np.testing.assert_allclose(
        effect.noise_std[0], model.coef_noise_.std[0, :-1] * [70, 30]
    )


def test_models_without_noise_have_no_bands(stays):
    X, y, _ = stays
    encoder = encoder_of(X)
    model = skfdp.DPSGDFClassifier(epsilon=np.inf).fit(encoder.transform(X), y)
    import matplotlib.pyplot as plt

    axes = plt.subplots(2, 3)[1].ravel()[:5]  # of one's own
    display = EffectsDisplay.from_estimator(model, encoder=encoder, ax=axes)
    assert display.band is None and display.axes_ == list(axes)
    assert np.isnan(display.effects["Alter"].noise_std).all()


AXES = "must be None or hold matplotlib Axes, one for each of the . effects"
NO_NAMES, NO_TARGET = "columns=.* must be a list of names", "target=.* must be one of"
REFUSED = [
    ({"columns": ["Größe"]}, "columns=.*Größe.* must be a list of names"),
    ({"columns": []}, "there is no effect to draw"),
    *(({"columns": odd}, NO_NAMES) for odd in (True, 3, "Alter", np.ma.masked)),
    *(({"target": odd}, NO_TARGET) for odd in (pd.NA, [0], np.eye(2), "x")),
    *(({"ax": odd}, AXES) for odd in (7, "x", False, (0, 1), np.array(1.0))),
    ({"ax": [1, 2], "columns": ["Alter"]}, AXES),
    ({"max_panels": 0}, "max_panels=0"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_cannot_be_drawn_is_told(given, message, fitted):
    model, encoder = fitted
    with pytest.raises((TypeError, ValueError), match=message):
        EffectsDisplay.from_estimator(model, encoder=encoder, **given)


def test_a_network_or_no_matplotlib_is_refused(fitted, small, monkeypatch):
    network = skfdp.FeatureDPMLPClassifier(bounds=(0, 1), solver=NoisySGD(max_iter=2))
    with pytest.raises(TypeError, match="must be a linear model of skfdp"):
        EffectsDisplay.from_estimator(network.fit(*small))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'skfdp\[pl"):
        EffectsDisplay.from_estimator(fitted[0], encoder=fitted[1])


def test_the_largest_effects_come_first_and_are_six_at_most(fitted, stays):
    model, encoder = fitted
    of = functools.partial(EffectsDisplay.from_estimator, model, encoder=encoder)
    whole, display = of(max_panels=None).effects, of(max_panels=2)
    sizes = [np.ptp(one.values) for one in whole.values()]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == len(encoder.blocks_)
    assert [np.ptp(one.values) for one in display.effects.values()] == sizes[:2]
    assert len(display.axes_) == 2
    assert list(of(columns=list(whole)[::-1]).effects) == list(whole)[::-1]
    ranges = {
        ax.get_xlim() if effect.kind == "bars" else ax.get_ylim()
        for effect, ax in zip(display.effects.values(), display.axes_, strict=True)
    }
    assert len(ranges) == 1


@pytest.mark.slow
@pytest.mark.parametrize("regressor", [False, True])
def test_bands_are_upper_bounds_where_values_are_rare(regressor):
    """Counts of mean 1 on a scale to 10, and lognormal amounts; 24 fits each."""
    rng = np.random.default_rng(0)
    visits, amount = rng.poisson(1, 4000), rng.lognormal(3, 1.2, 4000)
    y = 0.6 * visits + 0.5 * np.log(amount) - 2.5 + rng.logistic(size=4000)
    outcome, kind = Label([False, True]), skfdp.FeatureDPLogisticRegression
    if regressor:
        outcome, kind = Number(-6, 6), skfdp.FeatureDPRegressor
    columns = {"visits": Number(0, 10), "amount": Number(0, 1000), "y": outcome}
    given = {"schema": skfdp.TableSchema(columns, outcomes=["y"]), "epsilon": 2.0}
    X, labels = pd.DataFrame({"visits": visits, "amount": amount}), y > 0
    labels = y if regressor else labels
    fits = [kind(random_state=seed, **given).fit(X, labels) for seed in range(24)]
    for name in X:
        drawn = [_effects(fit, None, None)[0][name] for fit in fits]
        moved = np.var([one.values for one in drawn], axis=0, ddof=1).mean()
        stated = np.mean([one.noise_std**2 for one in drawn])
        assert 0.9 < np.sqrt(stated / moved) < 2.2
        assert np.mean([one.at_most.all() for one in drawn]) > 0.5
    table = fits[-1].coefficients_table()
    kinds = table.groupby("column")["noise_kind"].unique().map(list)
    assert kinds["visits"] == ["upper bound"] and kinds["intercept"] == ["estimated"]
    titles = [ax.get_title() for ax in EffectsDisplay.from_estimator(fits[-1]).axes_]
    assert "visits, noise at most" in titles
