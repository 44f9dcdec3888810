"""Interactions: products of columns beside `coef_`."""

import dataclasses
import io
import math

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, r2_score

import skfdp
from skfdp.audit import audit_replay
from skfdp.data.encoder import Encoding
from skfdp.data.grid import GRID
from skfdp.data.validation import UtilityWarning
from skfdp.inspection import EffectsDisplay
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Relation
from skfdp.queries.statistics import LabelSum, RowSum
from skfdp.schema import Category, Label, Number
from skfdp.solvers import interactions
from skfdp.solvers.interactions import ProductsOfShapes

#: With epsilon 8, the signal of all rows is 1,660, and above the gate.
N, EPSILON = 2000, 8.0
CLASSIFIER, REGRESSOR = skfdp.FeatureDPLogisticRegression, skfdp.FeatureDPRegressor
KINDS = {
    "a": lambda public: Number(0, 1, public),
    "b": lambda public: Number(0, 1, public, basis="linear"),
    "c": lambda public: Number(0, 1, public, cyclic=True),
    "d": lambda public: Category(["f", "m", "x"], public=public),
    "e": lambda public: Number(0, 1, public),
}


def people(n=N, seed=0):
    """Return a table in which the product of a and b tells the target."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.random((n, 3)), columns=list("abc"))
    X["d"], X["e"] = rng.choice(["f", "m"], n), rng.random(n)
    told = 6 * (2 * (X["a"] > 0.5) - 1) * (X["b"] - 0.5) + 2 * (X["c"] - 0.5)
    X.loc[7, list("abcd")] = None
    told = told.fillna(0.0).to_numpy() + (X["e"].to_numpy() - 0.5)
    return X, told, (rng.random(n) < 1 / (1 + np.exp(-told))).astype(int)


def fitted(kind, public="abcde", asked="auto", n=N, **given):
    schema = schema_of(kind, public, asked)
    return kind(EPSILON, schema=schema, random_state=0, **given).fit(*table(kind, n))


def schema_of(kind, public="abcde", asked="auto", known=False):
    outcome = Label([0, 1], public=known)
    if kind is REGRESSOR:
        outcome = Number(-5, 5, known)
    columns = {name: column(name in public) for name, column in KINDS.items()}
    given = {"outcomes": ["y"], "interactions": asked}
    return skfdp.TableSchema(columns | {"y": outcome}, **given)


def table(kind, n=N):
    X, told, y = people(n)
    return X, told if kind is REGRESSOR else y


@pytest.fixture(scope="module")
def model():
    """Return a fit whose public columns are all columns."""
    return fitted(CLASSIFIER)


@pytest.mark.parametrize("kind", [CLASSIFIER, REGRESSOR])
@pytest.mark.parametrize("public", ["abcde", "acde"])
def test_a_product_that_tells_the_target_is_learnt(kind, public):
    n = N if len(public) == 5 else 3 * N  # products of private columns have noise
    found = fitted(kind, public, n=n)
    X, told, y = people(seed=1)
    plain = fitted(kind, public, None, n=n)
    assert not hasattr(plain, "interactions_")
    if kind is REGRESSOR:
        one, other = (r2_score(told, model.predict(X)) for model in (found, plain))
        assert one > other + 0.3
    else:
        one, other = (log_loss(y, model.predict_proba(X)) for model in (found, plain))
        assert one < other - 0.1
    assert found.interactions_.sizes.argmax() == found.interactions_.names.index(
        "a × b"
    )


def test_margins_are_those_of_coef_and_of_the_products(model):
    X, *_ = people(seed=2)
    rows = model.encoder_.transform(X)
    wanted = rows @ model.coef_.T + model.intercept_ + model.interactions_.beside(rows)
    found = model.decision_function(X)
    np.testing.assert_allclose(found, wanted[:, 0], atol=1e-12)
    products, weights = model.interactions_.products, model.interactions_.weights
    each = [products(rows)[:, own] @ weights[0, own] for own in products.parts]
    sizes = [[math.sqrt(np.mean(one**2)) for one in each]]
    np.testing.assert_allclose(model.interactions_.sizes, sizes, rtol=0.1)
    assert model.coef_.shape[1] == model.coef_noise_.std.shape[1] - 1 == rows.shape[1]


@pytest.mark.parametrize("kind", [CLASSIFIER, REGRESSOR])
def test_below_the_gate_releases_are_the_same_to_the_bit(kind):
    for n, same in ((N // 2, True), (N, False)):
        models = [fitted(kind, asked=asked, n=n) for asked in ("auto", None)]
        one, other = (found.coef_ for found in models)
        assert np.array_equal(one, other) == same
        digests = {found.privacy_.sha256 for found in models}
        assert (len(digests) == 1) == same
        named = ["interactions_" in found.privacy_.released for found in models]
        assert named == [not same, False]


def planned(X):
    """Return what a classifier of public columns prepares."""
    schema = schema_of(CLASSIFIER, asked="pairs")
    model = CLASSIFIER(EPSILON, schema=schema, random_state=0)
    public = model._on_records(lambda r: r.public, X, table(CLASSIFIER)[1])
    return model._planned(public)[1]


def test_a_replaced_label_moves_the_statistic_by_at_most_its_sensitivity():
    """Brute force over labels, of a statistic with the further columns."""
    prepared = planned(people()[0])
    own, n_products = prepared.own, prepared.columns.shape[1]
    rows, whitening = own.rows, own.whitening
    assert whitening.basis.shape[0] == prepared.public.n_features
    assert (whitening.basis[-n_products:] != 0).any()
    norms = np.sqrt(rows.squared_norms) * GRID
    assert (norms <= own.bound).all()
    assert own.bound <= 1 + 1e-3
    query = LabelSum(rows, np.zeros(N, int), own.n_labels, own.bound)
    unit, claimed = query.unit(1.0), query.sensitivity(Relation.of("replace_one"))
    moved = []
    for i in np.argsort(-norms)[:50]:
        own = [
            dataclasses.replace(query, target=np.full(N, label)).exact_sum(
                None, np.array([i]), unit
            )
            for label in (0, 1)
        ]
        change = (own[0] - own[1]).ravel().tolist()
        moved.append(math.sqrt(sum(entry**2 for entry in change)) * unit)
    assert 0.999 * claimed < max(moved) <= claimed


@pytest.mark.parametrize("kind", [CLASSIFIER, REGRESSOR])
@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
def test_only_the_mechanism_tells_of_private_values(kind, relation, monkeypatch):
    """Where it releases fixed numbers, other private values change nothing."""
    release, found = Mechanism.release, []

    def fixed(mechanism, label, query, theta=None, **more):
        answer = np.zeros(release(mechanism, label, query, theta, **more).shape)
        if isinstance(query, LabelSum):
            answer[:, -1] = N
        return answer

    monkeypatch.setattr(Mechanism, "release", fixed)
    X, y = table(kind)
    for private, target in ((X["e"], y), ([None, "far", *1 - X["e"][2:]], y[::-1])):
        model = kind(EPSILON, schema=schema_of(kind, "abcd", "pairs"), random_state=0)
        model.set_params(neighboring_relation=relation).fit(X.assign(e=private), target)
        found.append([model.interactions_.weights, model.interactions_.sizes])
        found[-1] += [model.coef_, model.intercept_]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_products_are_uncorrelated_with_shapes_of_their_columns(model):
    X, *_ = people()
    rows, products = model.encoder_.transform(X), model.interactions_.products
    values, shapes = products(rows), rows @ products.shapes
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-9)
    for k, pair in enumerate(products.pairs.T):
        np.testing.assert_allclose(values[:, k] @ shapes[:, pair], 0, atol=1e-6)
    blocks = [products.columns[:, own.start].tolist() for own in products.parts]
    assert blocks == [[a, b] for a in range(5) for b in range(a + 1, 5)]
    # Two shapes of a and e, one of b, two of the circle c, and f, m and missing of d.
    assert products.shapes.shape[1] == 2 + 1 + 2 + 3 + 2


def test_shapes_of_numbers_are_those_of_their_ranks():
    schema = skfdp.TableSchema({"a": Number(0, 1, True), "b": Number(0, 1, True)})
    x = np.linspace(0, 1, 1001)
    (one, other) = schema.encoder().fit_to_smooth().blocks_
    (a, b) = (block.encode(raw) for block, raw in ((one, x), (other, x**8)))
    found = [
        interactions.shapes_of(block, rows.sum(axis=0), 5)
        for block, rows in ((one, a), (other, b))
    ]
    first, second = interactions.ORDERS
    wanted = np.column_stack([first * (2 * x - 1), second * (6 * x * (x - 1) + 1)])
    np.testing.assert_allclose(a @ found[0], wanted, atol=0.03)
    # Most of the rows of b are between two knots.
    np.testing.assert_allclose((b @ found[1])[700:], wanted[700:], atol=0.1)
    assert not found[0][-1].any()  # missing
    rising = dataclasses.replace(one, monotone="increasing")  # could be broken
    assert not interactions.shapes_of(rising, a.sum(axis=0), 5).size
    assert interactions.shapes_of(one, a.sum(axis=0), 2).shape[1] == 1


def test_rare_levels_share_a_shape_and_unseen_ones_have_none():
    levels = [f"l{k}" for k in range(9)]
    schema = skfdp.TableSchema({"a": Category(levels, public=True)})
    (block,) = schema.blocks()
    count = np.array([5, 9, 1, 2, 0, 0, 7, 3, 8, 0, 0.0])  # other and missing
    found = interactions.shapes_of(block, count, 5)
    assert found.shape == (11, 5)
    assert found[[1, 8, 6, 0]].tolist() == np.eye(5)[:4].tolist()
    assert found[:, 4].sum() == 7
    few = interactions.shapes_of(block, count * (count > 6), 5)
    assert few.shape[1] == 3


@pytest.mark.parametrize("n_columns, n_products", [(12, 264), (20, 190), (29, None)])
def test_there_are_at_most_400_products(n_columns, n_products):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((400, n_columns))).rename(columns="x{}".format)
    columns = {name: Number(0, 1, True) for name in X}
    schema = skfdp.TableSchema(
        columns | {"y": Label([0, 1])}, outcomes=["y"], interactions="pairs"
    )
    model = CLASSIFIER(1.0, schema=schema, random_state=0)
    y = rng.integers(0, 2, 400)
    if n_products is None:
        with pytest.warns(UtilityWarning, match="more than 400"):
            model.fit(X, y)
        assert not hasattr(model, "interactions_")
        return
    model.fit(X, y)
    assert model.interactions_.weights.shape == (1, n_products)


def test_columns_that_do_not_vary_have_no_products():
    X = people()[0].assign(a=0.5, b=0.5, c=0.5, d="f", e=0.5)
    assert planned(X).products is None


def test_displays_and_files(model, tmp_path):
    rows = model.coefficients_table()
    names = [*model.interactions_.names, "intercept"]
    assert rows["column"].to_list()[-len(names) :] == names
    sizes = rows["coef"].to_numpy()[-len(names) : -1]
    np.testing.assert_array_equal(sizes, model.interactions_.sizes[0])
    pytest.importorskip("matplotlib").use("Agg")
    display = EffectsDisplay.from_estimator(model)
    assert len(display.effects) == 6
    effect = display.effects["a × b"]
    assert effect.kind == "heat map"
    # The points of a heat map are rows with these two values.
    X = people()[0].iloc[:2].copy()
    X["a"], X["b"] = effect.places[0][[3, 30]], effect.places[1][[5, 7]]
    found, rows = model.interactions_, model.encoder_.transform(X)
    part = found.products.parts[found.names.index("a × b")]
    found = found.products(rows)[:, part] @ found.weights[0, part]
    np.testing.assert_allclose(effect.values[0, [3, 30], [5, 7]], found, atol=1e-12)
    alone = EffectsDisplay.from_estimator(model, columns=["a × b", "b × d"], target=0)
    np.testing.assert_allclose(alone.effects["a × b"].values, -effect.values)
    with pytest.raises(ValueError, match="interactions=None"):
        model.to_sklearn()
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    again = joblib.load(file).predict_proba(people()[0])
    np.testing.assert_array_equal(again, model.predict_proba(people()[0]))


def test_some_public_columns_and_several_classes():
    X, told, _ = people(5 * N)
    y = np.digitize(told, [-1, 1])
    columns = {name: column(name in {"a", "b", "d"}) for name, column in KINDS.items()}
    schema = skfdp.TableSchema(columns | {"y": Label([0, 1, 2])}, outcomes=["y"])
    model = CLASSIFIER(EPSILON, schema=schema, random_state=0).fit(X, y)
    assert model.interactions_.sizes.shape == (3, 10)  # each pair of columns
    pytest.importorskip("matplotlib").use("Agg")
    shown = EffectsDisplay.from_estimator(model, columns=["a × d"])
    assert shown.effects["a × d"].values.shape == (3, 41, 3)
    table = model.coefficients_table()
    assert (table["column"] == "a × d").sum() == 3


def private(kind=CLASSIFIER, asked="auto", X=None, n=3 * N, public="", **given):
    schema = schema_of(kind, public, asked)
    model = kind(20.0, schema=schema, random_state=0, **given)
    own, y = table(kind, n)
    return model.fit(own if X is None else X, y)


@pytest.mark.parametrize("kind", [CLASSIFIER, REGRESSOR])
def test_a_product_of_private_columns_is_learnt(kind):
    X, told, y = people(seed=1)
    found, plain = private(kind), private(kind, None)
    if kind is REGRESSOR:
        assert r2_score(told, found.predict(X)) > r2_score(told, plain.predict(X)) + 0.5
    else:
        one, other = (log_loss(y, model.predict_proba(X)) for model in (found, plain))
        assert one < other - 0.15
    own = found.interactions_
    assert own.sizes.argmax() == own.names.index("a × b")
    assert [event.label for event in found.privacy_.events].count("marginals") == 1
    assert found.privacy_.epsilon <= 20
    pytest.importorskip("matplotlib").use("Agg")
    display = EffectsDisplay.from_estimator(found, columns=["a × b"])
    assert display.effects["a × b"].kind == "heat map"
    # Columns are independent, as the sizes assume.
    rows = found.encoder_.transform(X)
    each = [own.products(rows)[:, p] @ own.weights[0, p] for p in own.products.parts]
    sizes = [math.sqrt(np.mean(one**2)) for one in each]
    np.testing.assert_allclose(own.sizes[0], sizes, rtol=0.3, atol=0.03)
    if kind is CLASSIFIER:
        wanted = rows @ found.coef_.T + found.intercept_ + own.beside(rows)
        np.testing.assert_allclose(found.decision_function(X), wanted[:, 0], atol=1e-12)


def test_below_the_gate_private_releases_are_the_same_to_the_bit():
    few = [private(asked=asked, n=N).privacy_.sha256 for asked in ("auto", None)]
    assert few[0] == few[1]
    for given in ({"C": 1.0}, {"centering": None}):  # no block is shrunk, or no centre
        assert not hasattr(private(**given), "interactions_")


@pytest.mark.parametrize("public", ["", "d"])
def test_what_lies_below_the_grid_changes_no_product(public):
    X, found = people(3 * N)[0], []
    cells = np.random.default_rng(0).integers(1, 2**9 * 31 - 1, (4, 3 * N))
    for share in (0.2, 0.4):
        for name, cell in zip("abce", cells, strict=True):
            steps = {"b": 2.0**14, "c": 2.0**9 * 32}.get(name, 2.0**9 * 31)
            X[name] = (cell + share) / steps
        model = private(X=X, public=public)
        found.append([model.coef_, model.interactions_.weights])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def encoded_sums(persons, public):
    """Return the query of the marginals, and each contribution."""
    X, told, y = people(400)
    ends = [[0.0, 0, 0, "f", 0], [1.0, 1, 0.5, "m", 1], [*[np.nan] * 3, None, 0.5]]
    X = pd.concat([pd.DataFrame(ends, columns=X.columns), X[3:]], ignore_index=True)
    model = CLASSIFIER(20.0, schema=schema_of(CLASSIFIER, public, "pairs"))
    given = {"groups": np.arange(400) // 2} if persons else {}
    query = model._on_records(interactions._encoded, X, y, **given)
    unit = query.unit(0.01)
    each = [query.exact_sum(None, np.array([i]), unit) * unit for i in range(400)]
    return query, np.array(each)


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("public", ["", "ab"])
def test_a_replaced_row_moves_the_marginals_by_at_most_their_sensitivity(
    persons, public
):
    query, each = encoded_sums(persons, public)
    norms = np.linalg.norm(each, axis=1)
    assert 0.9 < norms.max() <= 1
    moved = np.linalg.norm(each[:, None] - each[None], axis=2).max()
    claimed = RowSum.planned(nonnegative=True).sensitivity(Relation.of("replace_one"))
    assert claimed == query.sensitivity(Relation.of("replace_one"))
    assert 0.9 * claimed < moved <= claimed
    assert (each >= 0).all()


def test_products_of_a_row_are_bounded_and_exact_whatever_was_released():
    encoder = private(asked=None, n=200).encoder_
    encoding, rng = Encoding(encoder, np.zeros(5, bool)), np.random.default_rng(0)
    X = encoder.schema.select(people()[0], coded=True)
    rows, sizes = encoder.coded(X).source.on_grid()[:N], set()
    for power in (0, 1, 8, 30):
        means = rng.random(rows.shape[1]) ** power * 0.3
        found = ProductsOfShapes.of_independent(encoding, np.maximum(means, 1e-3))
        assert np.abs(found(rows)).max() < 2**11 * found.step
        norms = np.linalg.norm(found(rows), axis=1)
        assert norms.max() <= interactions.reach_of(encoder.blocks_)
        alone = [found(rows[i : i + 1])[0] for i in range(99)]  # at another position
        np.testing.assert_array_equal(alone, found(rows)[:99])
        sizes.add(found.pairs.shape)
    assert sizes == {ProductsOfShapes.of_independent(encoding, None).pairs.shape}


@pytest.mark.parametrize("public, rows_of_each", [("", 1), ("ab", 1), ("ab", 2)])
def test_replays_of_private_products_find_nothing(public, rows_of_each, monkeypatch):
    monkeypatch.setattr(interactions, "GATES_IF_ASKED", (0.0, 0.0))
    X, _, y = people(60)
    model = CLASSIFIER(8.0, schema=schema_of(CLASSIFIER, public, "pairs"))
    assert "marginals" in [event.label for event in model.plan(X, y).events]
    given = {"groups": np.arange(60) // 2} if rows_of_each == 2 else {}
    assert audit_replay(model, X, y, fit_params=given).passed


def test_what_cannot_have_interactions_is_refused_before_the_charge():
    X, told, y = people(200)
    ledger = skfdp.PrivacyLedger()
    tries = [
        (CLASSIFIER, "ab", False, {}),
        (CLASSIFIER, "ab", True, {}),
        (CLASSIFIER, "", False, {}),
        (skfdp.DPSGDFClassifier, "ab", False, {"loss": "hinge"}),
    ]
    for kind, public, known, given in tries:
        schema = schema_of(kind, public, "pairs", known)
        match = "interactions='pairs' of the schema (has|needs public columns alone)"
        with pytest.raises(ValueError, match=match):
            kind(1.0, schema=schema, ledger=ledger, **given).fit(X, y)
    assert not ledger.entries


def test_a_schema_file_holds_the_choice(tmp_path):
    for asked in ("auto", "pairs", None):
        schema = schema_of(CLASSIFIER, asked=asked)
        schema.save(tmp_path / "s.toml")
        assert skfdp.TableSchema.load(tmp_path / "s.toml") == schema
        assert ("interactions" in schema.to_toml()) == (asked != "auto")
    with pytest.raises(ValueError, match="interactions="):
        schema_of(CLASSIFIER, asked="all")
