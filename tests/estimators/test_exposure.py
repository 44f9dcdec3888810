"""Exposure: the time over which a row was observed; a public or a private column."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.metrics import d2_tweedie_score

import skfdp
from skfdp.data.grid import GridRows
from skfdp.data.units import Units
from skfdp.data.validation import UtilityWarning
from skfdp.kernels.losses import loss_named
from skfdp.mechanisms import checkpoint
from skfdp.privacy import AddOrRemoveOne, gdp_mu
from skfdp.queries.linear import LinearQuery
from skfdp.schema import Category, Label, Number, SchemaError

N = 4000


def table(n=N, seed=0):
    """Return claims and their cost over 1 to 365 days."""
    rng = np.random.default_rng(seed)
    age, sort = rng.uniform(18, 80, n), rng.choice(["a", "b"], n)
    days = rng.integers(1, 366, n).astype(float)
    mean = days / 365 * np.exp(-0.5 + (40 - age) / 30 + (sort == "b"))
    cost = 100 * rng.gamma(days / 90, mean / (days / 90)) + 0.01
    columns = {"age": age, "sort": sort, "days": days}
    return pd.DataFrame({**columns, "claims": rng.poisson(mean), "cost": cost})


TABLE = table()


def with_days(days, rows=slice(None)):
    found = TABLE.copy()
    found.loc[found.index[rows], "days"] = days
    return found


def schema(public=False, days=(0, 365), known=False, **more):
    columns = {
        "age": Number(18, 80, basis="linear"),
        "sort": Category(["a", "b"]),
        "days": Number(*days, public=public),
        "claims": Number(0, 20, public=known),
        "cost": Number(0.01, 2000),
    }
    given = {"outcomes": ["claims", "cost"], "exposure": "days"} | more
    given = {"interactions": None} | given  # for to_sklearn
    return skfdp.TableSchema(columns, **given)


def regressor(epsilon=1.0, outcome="claims", changes=(), **declared):
    given = {"loss": "poisson" if outcome == "claims" else "gamma", "random_state": 0}
    given |= {"schema": schema(**declared), "target": outcome} | dict(changes)
    return skfdp.FeatureDPRegressor(epsilon, **given)


def fitted(X=TABLE, **given):
    model = regressor(**given)
    return model.fit(X, X[model.target])


def records_of(X, **given):
    return regressor(**given)._on_records(lambda found: found, X, X["claims"])


BOTH = pytest.mark.parametrize("public", [False, True], ids=["private", "public"])
CASES = {"claims": (PoissonRegressor, 1), "cost": (GammaRegressor, 2)}


@pytest.mark.parametrize("outcome", CASES)
def test_without_privacy_the_rate_is_that_of_scikit_learn(outcome):
    (theirs, _), weight, days = CASES[outcome], np.arange(N) % 3, TABLE["days"]
    model = regressor(np.inf, outcome, {"alpha": 0.01})
    model.fit(TABLE, TABLE[outcome], sample_weight=weight)
    rows, rate = model.encoder_.transform(TABLE), theirs(alpha=0.01, tol=1e-8)
    rate.set_params(max_iter=5000)
    rate.fit(rows, TABLE[outcome] / days, sample_weight=days * weight)
    wanted = np.clip(days * rate.predict(rows), *schema().columns[outcome].bounds)
    np.testing.assert_allclose(model.predict(TABLE), wanted, rtol=1e-3)


@BOTH
@pytest.mark.parametrize("outcome", CASES)
def test_a_private_fit_has_the_rates_and_the_total(public, outcome):
    (_, power), X, new = CASES[outcome], table(20_000, 1), table(20_000, 2)
    given = {"outcome": outcome, "public": public}
    best = fitted(X, epsilon=np.inf, changes={"alpha": 1e-6}, **given)
    model, days = fitted(X, epsilon=3.0, **given), new["days"]
    assert model.predict(X).sum() == pytest.approx(X[outcome].sum(), rel=0.05)
    rates = [one.predict(new) / days for one in (best, model)]
    known = {"sample_weight": days, "power": power}
    scores = [d2_tweedie_score(new[outcome] / days, one, **known) for one in rates]
    assert scores[0] - scores[1] < 0.02 < scores[0]
    with pytest.warns(UtilityWarning, match="predicts the rate of one unit of 'days'"):
        found = model.to_sklearn().predict(new) * days
    ends = model.target_map_.low, model.target_map_.high
    # The exposure is rounded to the grid of its bounds.
    np.testing.assert_allclose(np.clip(found, *ends), model.predict(new), rtol=2e-5)


def test_a_private_exposure_is_clipped_and_becomes_an_integer():
    wanted = fitted(with_days(300.0, slice(0, 50)), days=(30, 300)).coef_
    inside = TABLE["days"].clip(30, 300).to_numpy(copy=True)
    inside[:50] = np.linspace(300, 1e9, 50)
    step = 270 * 2.0**-24
    own = 30 + np.rint((inside - 30) / step) * step
    own = np.where(inside < 300, own + 0.4 * step, inside)
    model = fitted(with_days(own), days=(30, 300))
    np.testing.assert_array_equal(model.coef_, wanted)
    ends = [model.predict(with_days(days)) for days in (1, 30, 300, 999)]
    np.testing.assert_array_equal(ends[::2], ends[1::2])


ODD = [0.0, -3.0, np.nan, np.inf]


def test_rows_without_a_private_exposure_add_nothing():
    X, other = with_days(ODD, slice(0, 4)), with_days(ODD[::-1], slice(0, 4))
    other.loc[:3, ["age", "claims"]] = 77.0, 5
    with pytest.warns(skfdp.PrivacyWarning) as caught:
        models = fitted(X), fitted(other)
    assert not any("exposure" in str(one.message) for one in caught)
    np.testing.assert_array_equal(*(one.coef_ for one in models))
    assert records_of(X).is_null.nonzero()[0].tolist() == [0, 1, 2, 3]
    assert np.isnan(models[0].predict(X)[:4]).all()
    with pytest.warns(UtilityWarning, match="4 of 4000 rows have no number"):
        assert models[0].score(X, TABLE["claims"]) < 1


def test_rows_without_a_public_exposure_are_left_out_and_counted():
    with pytest.warns(UtilityWarning, match=r"^4 of 4000 values of the public exp"):
        model = fitted(with_days(ODD, slice(0, 4)), public=True)
    assert model.privacy_.n_records == N - 4
    np.testing.assert_array_equal(fitted(TABLE[4:], public=True).coef_, model.coef_)
    with pytest.raises(ValueError, match="no value of the public exposure 'days' is"):
        fitted(with_days(0), public=True)


def test_the_plan_does_not_depend_on_private_exposures():
    tables = TABLE, with_days(5.0), with_days(np.nan), with_days(1e300)
    fits = {repr(fitted(X).privacy_.events) for X in tables}
    plans = {repr(regressor().plan(X, X["claims"])) for X in tables}
    assert len(fits) == len(plans) == 1


def test_exposures_of_small_tables_leave_budget_for_the_descent():
    for relation in ("replace_one", "replace_special"):
        model = regressor(changes={"neighboring_relation": relation})
        *others, _ = model.plan(TABLE[:80], TABLE["claims"][:80]).events
        assert sum(one.mu**2 for one in others) < 0.9 * gdp_mu(1.0, 1e-5) ** 2


@BOTH
def test_the_report_and_the_ledger_name_the_exposure(public):
    found = fitted(public=public).privacy_
    assert ("days" in found.public_features) == public
    assert ("days" in found.private_features) != public
    assert ("exposure_clipped" in [one.key for one in found.assumptions]) != public
    first = {event.label: event.n_steps for event in found.events}
    assert first["target scale"] == 2 - public  # a public mean is exact


@pytest.mark.parametrize("persons", [None, [0, 0, 0, 1, 2, 2]])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_neighbours_move_the_gradient_by_at_most_its_sensitivity(persons, loss):
    """Brute force over rows, targets and exposures of one person."""
    rng, clip, sums = np.random.default_rng(1), 0.7, []
    units = Units(np.array([1, 3, 2, 1, 1, 2]), persons and np.array(persons))
    own, theta = slice(0, 1 if persons is None else 3), rng.normal(size=(1, 4))
    values = 0.0, 1e-300, 1e-3, 1.0, 50.0, 1e300, np.inf, np.nan
    for exposure, y in itertools.product(values, (0.0, 1e-2, 30.0)):
        rows, e, t = np.ones((6, 3)), np.ones(6), np.ones(6)
        rows[own] *= rng.choice([-1, 1], rows[own].shape)
        e[own], t[own] = exposure, y
        rows = GridRows.build(rows, lambda block: block / 2, bias=1.0)
        query = LinearQuery(rows, t, loss_named(loss), 1, clip, 6, exposure=e)
        query = query.of_units(units)
        unit = query.unit(0.1)
        sums.append(query.exact_sum(theta, None, unit) * unit)
        if persons is None:
            one = query.exact_sum(theta, np.array([0]), unit) * unit
            assert np.linalg.norm(one) <= clip
    pairs = itertools.combinations(sums, 2)
    assert 1.9 * clip < max(np.linalg.norm(a - b) for a, b in pairs) <= 2 * clip


def test_exposures_weigh_contributions_as_public_weights_do():
    rng = np.random.default_rng(0)
    rows = GridRows.build(rng.normal(size=(9, 2)), lambda block: block / 4)
    query = LinearQuery(rows, rng.random(9), loss_named("gamma"), 1, 0.2, 9)
    units = Units(rng.integers(1, 99, 9))
    own = dataclasses.replace(query, exposure=units.shares)
    theta, unit = rng.normal(size=(1, 2)), own.unit(0.1)
    sums = [one.exact_sum(theta, None, unit) for one in (own, query.of_units(units))]
    np.testing.assert_array_equal(*sums)
    assert (sums[0] != query.exact_sum(theta, None, unit)).any()
    for more in ({"padded": rows}, {"label_bound": 0.5}):
        with pytest.raises(ValueError, match="exposure needs padded=None"):
            dataclasses.replace(own, **more)


def test_means_are_released_within_intervals_that_no_exposure_moves(releases):
    for days, first in ((36.5, -0.8), (np.geomspace(1e-300, 1e300, N), -1.0)):
        releases.clear()
        fitted(with_days(days))
        means = [one["query"].X for one in releases if one["query"].shape == (1,)]
        assert max(np.abs(mean).max() for mean in means) <= 1
        assert any(mean[0, 0] == pytest.approx(first, rel=1e-5) for mean in means)


def test_persons_weights_and_added_records_are_possible():
    persons, total = np.arange(N) // 2, TABLE["claims"].sum()
    model, given = regressor(8.0), (TABLE, TABLE["claims"])
    model.fit(*given, groups=persons, sample_weight=1 + persons % 2)
    assert model.predict(TABLE).sum() == pytest.approx(total, rel=0.2)
    model.set_params(neighboring_relation=AddOrRemoveOne(N)).fit(*given)
    assert model.predict(TABLE).sum() == pytest.approx(total, rel=0.2)


@BOTH
def test_a_private_score_reads_the_exposure(public):
    model = fitted(public=public)
    known = {"metrics": "mean_absolute_error", "model_is_public": True}
    found = skfdp.private_score(
        model, TABLE, TABLE["claims"], 8.0, random_state=0, **known
    )
    error = np.abs(model.predict(TABLE) - TABLE["claims"]).mean()
    assert found.values["mean_absolute_error"] == pytest.approx(error, rel=0.05)
    assert "days" in found.privacy_.private_features


def test_a_schema_file_and_a_table_keep_the_exposure(tmp_path):
    own = schema(public=True)
    own.save(tmp_path / "schema.toml")
    assert skfdp.TableSchema.load(tmp_path / "schema.toml") == own != schema()
    assert own.features == ("age", "sort")
    assert list(own.split(TABLE, "claims")[0]) == ["age", "sort", "days"]
    assert list(own.read(TABLE)) == ["age", "sort", "claims", "cost", "days"]
    with pytest.raises(SchemaError, match="the table lacks the column days"):
        fitted(TABLE.drop(columns="days"))


RELATION = {"neighboring_relation": AddOrRemoveOne(N)}
REFUSED = [
    ({"changes": {"loss": "squared_error"}}, "needs a regressor with loss='poisson'"),
    ({"changes": {"fit_intercept": False}}, "needs fit_intercept=True"),
    ({"known": True}, "needs a private target; if both"),
    ({"public": True, "changes": RELATION}, "needs to be private under 'add_or_remo"),
]


@pytest.mark.parametrize(("given", "match"), REFUSED)
def test_what_cannot_be_had_is_refused_before_the_charge(given, match):
    model = regressor(**given).set_params(ledger=skfdp.PrivacyLedger())
    with pytest.raises(ValueError, match=f"exposure='days' of the schema {match}"):
        model.fit(TABLE, TABLE["claims"])
    assert not model.ledger.entries


def test_classifiers_and_dask_refuse_an_exposure():
    columns = {"days": Number(0, 9), "ill": Label([0, 1]), "age": Number(0, 9)}
    declared = skfdp.TableSchema(columns, outcomes=["ill"], exposure="days")
    with pytest.raises(ValueError, match="'days' of the schema needs a regressor"):
        skfdp.FeatureDPLogisticRegression(schema=declared).fit(TABLE, np.arange(N) % 2)
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(ValueError, match="exposure='days' of a schema cannot be comb"):
        fitted(dask.from_pandas(TABLE, npartitions=2))


@pytest.mark.parametrize(
    "changes", [{"exposure": "sort"}, {"exposure": "claims"}, {"days": (-1, 3)}]
)
def test_an_exposure_is_a_number_of_at_least_0(changes):
    with pytest.raises(SchemaError, match=r"must be a column of type Number with b"):
        schema(**changes)


def test_a_key_of_noise_is_of_one_exposure():
    plan, tables = regressor().plan(TABLE, TABLE["claims"]), (TABLE, with_days(5.0))
    one, other = ([*checkpoint._facts(records_of(X), {}, plan)] for X in tables)
    assert [a == b for a, b in zip(one, other, strict=True)].count(False) == 1
