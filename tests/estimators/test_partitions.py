"""Dask collections give the integers that a table in memory gives, by the same noise.

There is no cluster here: without a current client the partitions are in this process,
and everything but the way to them is that of a cluster (`test_cluster.py`).
"""

import dataclasses

import numpy as np
import pandas as pd
import pytest

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

import skfdp  # noqa: E402
from skfdp import dask_tables  # noqa: E402
from skfdp.dask_tables import PartitionBatches, _ask, _public_table, _total  # noqa: E402
from skfdp.data.codes import CodedGridRows  # noqa: E402
from skfdp.mechanisms import release  # noqa: E402
from skfdp.mechanisms.release import PoissonBatches  # noqa: E402
from skfdp.queries.linear import LinearQuery  # noqa: E402
from skfdp.schema import Category, Label, Number  # noqa: E402
from skfdp.solvers import FeatureDPSGD, NoisySGD  # noqa: E402

pytestmark = [pytest.mark.extra("dask"), pytest.mark.filterwarnings("ignore:delta")]
RNG = np.random.default_rng(0)
N, SIZES = 900, (400, 0, 1, 499)
X = RNG.random((N, 5))
LABELS = (X[:, 0] + X[:, 1] > 1).astype(int)
SOME = {"public_features": [0, 3]}


def collection(array, sizes=SIZES):
    columns = () if array.ndim == 1 else ((2, array.shape[1] - 2),)
    return da.from_array(array, chunks=(sizes, *columns))


def classifier(kind=skfdp.FeatureDPLogisticRegression, classes=(0, 1), **changes):
    settings = {"epsilon": 2.0, "bounds": (0, 1), "random_state": 1}
    classes = None if classes is None else list(classes)
    return kind(**{**settings, "classes": classes, **changes})


def reported(found):
    """Return a report or plan as values, but for what is assumed of collections."""
    values = found.to_dict()
    every, key = values["assumptions"], "collection_deterministic"
    values["assumptions"] = [one for one in every if one["key"] != key]
    return values, len(every) > len(values["assumptions"])


def the_same(make, X, y):
    """Fit to a table in memory and to a collection; return the second."""
    alone, apart = make().fit(X, y), make().fit(collection(X), collection(y))
    for name in alone._released:
        np.testing.assert_array_equal(getattr(alone, name), getattr(apart, name))
    assert reported(alone.privacy_) == (reported(apart.privacy_)[0], False)
    assert reported(apart.privacy_)[1]
    return apart


class Union:
    """The batches of all partitions, for a mechanism whose rows are in one place."""

    def __init__(self, generator, n_rows, rate):
        assert n_rows == N
        self._batches = PartitionBatches(generator, n_rows, rate)

    def draw(self):
        batch, start, found = self._batches.draw(), 0, []
        for number, size in enumerate(SIZES):
            found.append(start + batch.of(number).members(size))
            start += size
        return np.concatenate(found)


@pytest.mark.parametrize("changes", [{}, {"bounds": False}])
def test_poisson_batches_are_those_of_the_partitions(monkeypatch, changes):
    table = X.copy()
    table[::7, 1] = np.nan  # void without bounds
    settings = {"solver": NoisySGD(batch_size=100, max_iter=12), **changes}
    apart = classifier(**settings).fit(collection(table), collection(LABELS))
    monkeypatch.setattr(release, "PoissonBatches", Union)
    alone = classifier(**settings).fit(table, LABELS)
    np.testing.assert_array_equal(alone.coef_, apart.coef_)
    monkeypatch.setattr(release, "PoissonBatches", PoissonBatches)
    other = classifier(**settings).fit(table, LABELS)
    assert not np.array_equal(other.coef_, apart.coef_)


def test_batches_are_poisson_and_drawn_as_often_as_asked():
    rate, n_steps, sizes = 0.2, 2_000, (30, 50)
    batches = PartitionBatches(np.random.default_rng(3), sum(sizes), rate)
    members = np.zeros((n_steps, sum(sizes)), dtype=bool)
    for own in members:
        batch = batches.draw()
        first, second = (batch.of(i).members(size) for i, size in enumerate(sizes))
        np.testing.assert_array_equal(first, batch.of(0).members(sizes[0]))
        own[np.r_[first, 30 + second]] = True
    # Five standard deviations of each rate, and of each correlation.
    assert np.abs(members.mean(0) - rate).max() < 5 * np.sqrt(rate * 0.8 / n_steps)
    correlations = np.corrcoef(members.T) - np.eye(sum(sizes))
    assert np.abs(correlations).max() < 5 / np.sqrt(n_steps)
    assert np.abs(np.corrcoef(members[1:].ravel(), members[:-1].ravel())[0, 1]) < 0.02


def test_no_key_is_shown():
    batch = PartitionBatches(np.random.default_rng(0), 10, 0.5).draw()
    draw = batch.of(0)
    shown = repr(batch) + str(batch) + repr(draw) + str([draw])
    assert repr(draw.key)[2:-1] not in shown and repr(batch.key)[2:-1] not in shown
    assert draw.key != batch.of(1).key


def test_malformed_values_are_those_of_their_partition():
    table, y = X.copy(), LABELS.astype(object)
    table[5::97, 1], table[3::89, 4] = np.nan, np.inf
    y[::50], y[7] = None, "what"
    bounds = {0: (0, 1), 1: (0, 1), 2: (0, 1), 3: (0, 1)}
    found = the_same(lambda: classifier(bounds=bounds), table, y)
    other = classifier(bounds=bounds).fit(X, LABELS)
    assert not np.array_equal(found.coef_, other.coef_)


def frame():
    table = pd.DataFrame(X, columns=list("abcde"))
    table["text"] = np.where(X[:, 2] > 0.3, "yes", "no")
    target = pd.Series(LABELS, name="label")
    parts = {"npartitions": 3, "sort": False}
    return table, target, *(dd.from_pandas(one, **parts) for one in (table, target))


def test_the_name_of_an_array_is_none():
    """Dask names arrays by digests of their values: nothing may show those."""
    y = collection(LABELS)
    ledger = skfdp.PrivacyLedger()
    model = classifier(ledger=ledger).fit(collection(X), y)
    assert model.privacy_.target_name is None
    assert y.name not in model.privacy_.to_json() + repr(ledger.events)
    named = classifier(target="label").plan(collection(X), y)
    assert {event.target_name for event in named.events} == {"label"}


def schema(public=False, more=()):
    columns = {name: Number(0, 1) for name in "abcde"}
    columns |= {"a": Number(0, 1, public=public)}
    columns |= {"text": Category(["yes", "no", *more], public=public)}
    return skfdp.TableSchema(columns | {"label": Label([0, 1])}, outcomes=["label"])


MANY = [f"level {k}" for k in range(200)]


@pytest.mark.parametrize(
    ("declared", "coded"),
    [(schema(), False), (schema(True), False), (schema(more=MANY), True)],
)
def test_raw_frames(declared, coded, monkeypatch):
    """Every partition, also an empty one, has rows of the same kind and unit."""
    kinds, total = [], LinearQuery.exact_sum

    def noted(query, *arguments):
        kinds.append(type(query.rows))
        return total(query, *arguments)

    monkeypatch.setattr(LinearQuery, "exact_sum", noted)
    table, y, rows, target = frame()
    settings = {"bounds": None, "classes": None, "schema": declared}
    alone = classifier(**settings).fit(table, y)
    assert (set(kinds) == {CodedGridRows}) == coded
    apart = classifier(**settings).fit(rows, target)
    np.testing.assert_array_equal(alone.coef_, apart.coef_)
    np.testing.assert_array_equal(alone.predict(table), apart.predict(table))
    assert reported(alone.privacy_)[0] == reported(apart.privacy_)[0]


def heard(monkeypatch, table, y, **changes):
    """Return whatever leaves the partitions of a fit before its first sum."""
    kept, sums, called = [], [], dask_tables.Partitions._answers

    def noted(self, call, arguments):
        found = called(self, call, arguments)
        sums.extend(found if call is _total else [])
        kept.extend([] if sums else found)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(dask_tables.Partitions, "_answers", noted)
        model = classifier(**{"random_state": None, **changes})
        model.fit(collection(table), collection(y))
    assert sums
    return kept


@pytest.mark.parametrize("changes", [{}, SOME, {**SOME, "public_target": True}])
def test_what_leaves_before_the_first_sum_is_public(monkeypatch, changes):
    table, odd = X.copy(), np.where(np.arange(N) % 50 == 0, 7, 1 - LABELS)
    table[:, [1, 2, 4] if changes else slice(None)] = np.nan if changes else np.inf
    y = LABELS if changes.get("public_target") else odd
    one = heard(monkeypatch, X, LABELS, **changes)
    other = heard(monkeypatch, table, y, **changes)
    np.testing.assert_equal(one, other)


PADDED = {"solver": FeatureDPSGD(public_loss="zero"), **SOME}
REFUSED = [
    ({}, {"sample_weight": np.ones(N)}, "sample_weight cannot be combined"),
    ({}, {"groups": np.arange(N)}, "groups cannot be combined"),
    ({"epsilon": np.inf}, {}, "epsilon=inf cannot be combined"),
    ({"bounds": "private"}, {}, "bounds='private' cannot be comb"),
    ({"classes": None}, {}, "classes=None cannot be combined with a Dask"),
    (PADDED, {}, "public_loss='zero' needs a"),
    ({"centering": "adaptive"}, {}, "centering='adaptive' needs a table"),
]


def test_what_does_not_work_is_refused_before_the_charge():
    ledger = skfdp.PrivacyLedger()
    for changes, given, match in REFUSED:
        model = classifier(ledger=ledger).set_params(**changes)
        for verb in (model.fit, model.plan):
            with pytest.raises(ValueError, match=match):
                verb(collection(X), collection(LABELS), **given)
        assert not ledger.entries and not hasattr(model, "coef_")


def test_other_collections_are_refused():
    rows = collection(X)
    with pytest.raises(TypeError, match="Classifier does not support Dask collectio"):
        network = skfdp.FeatureDPMLPClassifier(solver="noisy-sgd")
        network.fit(rows, collection(LABELS))
    for y, match in (
        (LABELS, "y of type ndarray must be a Dask collection"),
        (collection(LABELS, (450, 450)), "of 4 partition.s., but has 2: pass y with"),
        (None, "requires y to be passed"),
        (collection(LABELS[:-1], (400, 0, 1, 498)), "different numbers of rows: pass"),
        (collection(LABELS, (1, 400, 0, 499)), "y with the partitions of X, as y.rech"),
    ):
        with pytest.raises(ValueError, match=match):
            classifier().fit(rows, y)
    with pytest.raises(ValueError, match="X holds 1 sample.s., and a fit needs"):
        classifier().fit(collection(X[:1], (1,)), collection(LABELS[:1], (1,)))
    *_, raw, labels = frame()
    pairs = dataclasses.replace(schema(), interactions="pairs")
    with pytest.raises(ValueError, match="interactions='pairs' of a schema cannot be"):
        skfdp.FeatureDPLogisticRegression(schema=pairs).fit(raw, labels)
    with pytest.raises(TypeError, match="a Dask collection: pass its partitions"):
        schema().encoder().fit(raw)


def test_a_network_of_partitions_has_no_neurons():
    given = {"epsilon": 50.0, "public_features": "all", "hidden_layer_sizes": 9}
    models = [classifier(skfdp.FeatureDPMLPClassifier, **given) for _ in range(2)]
    models[0].fit(X, LABELS), models[1].fit(collection(X), collection(LABELS))
    assert [bool(one.coefs_[0][:, 2:].any()) for one in models] == [True, False]


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, UnicodeError])
def test_partitions_return_what_went_wrong(kind):
    """Of errors of other types than ours, which libraries raise, not even the type."""

    def fails(raw):
        raise raw[0]

    found = dask_tables.Partition(kind("a sentence")).answer(_ask, "rows", fails)
    if kind in (ValueError, TypeError):
        assert type(found) is kind and str(found) == "a sentence"
    else:
        assert type(found) is RuntimeError
        assert "sentence" not in str(found) and kind.__name__ not in str(found)
    assert found.__context__ is None and found.__traceback__ is None


def test_a_public_table_has_no_private_columns():
    mask = np.array([True, False, True])
    table = _public_table(np.arange(6.0).reshape(3, 2), mask)
    np.testing.assert_array_equal(table[1:], [[2, 0, 3], [4, 0, 5]])
    np.testing.assert_array_equal(table[:, mask][:], [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(table[:, ~mask][:], np.zeros((3, 1)))
