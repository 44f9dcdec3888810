"""The mechanism: what leaves it was charged, release by release."""

import ast
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

import skfdp
from skfdp.mechanisms import release as mechanism
from skfdp.mechanisms.release import Mechanism, PoissonBatches, Streams
from skfdp.privacy import Event, PrivacyBudgetError, Relation

MEAN = Event(label="mean", noise_std=(3.0,), clip_norm=1.0, sensitivity=2.0, n_steps=2)
SCHEDULE = dataclasses.replace(
    MEAN, label="descent", n_steps=3, noise_std=(1.0, 2.0, 4.0)
)
SAMPLED = dataclasses.replace(MEAN, label="sampled", n_steps=3, sampling_rate=0.3)


@dataclasses.dataclass
class Query:
    """A sum of ones, and claims of whatever bounds."""

    n_rows: int = 400
    clip_norm: float = 1.0
    moved: float | None = None
    shape: tuple = (1000,)
    batches: list = dataclasses.field(default_factory=list)

    def unit(self, noise_std):
        return 2.0**-20

    def sensitivity(self, relation: Relation):
        return relation.sensitivity(self.clip_norm, self.moved)

    def exact_sum(self, theta, batch, unit):
        self.batches.append(None if batch is None else batch.copy())
        size = self.n_rows if batch is None else len(batch)
        return np.full(self.shape, round(size / unit), dtype=np.int64)


def make_mechanism(*events, seed=0):
    return Mechanism(events or (MEAN, SCHEDULE, SAMPLED), seed, "test")


def refused(mechanism, label, query, match, **more):
    """Nothing is read, and nothing counted."""
    counted = mechanism._released.copy()
    with pytest.raises(PrivacyBudgetError, match=match):
        mechanism.release(label, query, **more)
    assert not query.batches
    assert mechanism._released == counted


# -- what it releases ----------------------------------------------------------------
def test_the_noise_of_the_k_th_release_is_that_of_the_k_th_step():
    mechanism, query = make_mechanism(seed=None), Query()
    noise = [mechanism.release("descent", query) - 400 for _ in range(3)]
    for found, std in zip(noise, SCHEDULE.step_stds, strict=True):
        assert np.std(found) == pytest.approx(std, rel=0.15)
        assert abs(np.mean(found)) < 5 * std / math.sqrt(1000)
    assert np.abs(np.corrcoef(noise) - np.eye(3)).max() < 0.2


def test_releases_of_one_label_share_a_stream_that_goes_on():
    one, query = make_mechanism(), Query()
    first, second = (one.release("mean", query) for _ in range(2))
    assert (first != second).mean() > 0.99
    generator = Streams(0, "test").private("mean", "mean", query.shape)
    for found in (first, second):
        total = query.exact_sum(None, None, query.unit(3.0))
        honest = mechanism.add_integer_gaussian(total, 3.0 * 2.0**20, generator)
        np.testing.assert_array_equal(found, honest * 2.0**-20)


def test_seed_class_label_and_details_name_a_seeded_stream():
    named = [(0, "a", "x", 1), (1, "a", "x", 1), (0, "b", "x", 1)]
    named += [(0, "a", "y", 1), (0, "a", "x", 2)]
    first, again = (
        [Streams(*one[:2]).private(*one[2:]).random() for one in named]
        for _ in range(2)
    )
    assert first == again and len(set(first)) == len(named)


def test_streams_are_named_and_counted_together():
    mechanism, query = make_mechanism(), Query()
    one = mechanism.release("mean", query, stream="target mean")
    other = mechanism.release("mean", query, stream="target spread")
    assert (one != other).mean() > 0.99 and not mechanism._asked  # the rows are freed
    with pytest.raises(PrivacyBudgetError, match="were all made"):
        mechanism.release("mean", query, stream="a third")


def test_the_mechanism_draws_the_batches():
    mechanism, query = make_mechanism(seed=None), Query(n_rows=4000)
    for _ in range(3):
        mechanism.release("sampled", query)
    sizes = [len(batch) for batch in query.batches]
    assert all(abs(size - 1200) < 6 * math.sqrt(4000 * 0.3 * 0.7) for size in sizes)
    assert len({batch.tobytes() for batch in query.batches}) == 3
    full = Query()
    mechanism.release("mean", full)
    assert full.batches == [None]


def test_noise_and_coins_have_streams_of_their_own():
    # What leaves is the exact sum of the batch, plus the noise of the label's stream;
    # batches are those of the coins of the event, whatever else was released before.
    other = dataclasses.replace(SAMPLED, label="sampled again", sampling_rate=0.1)
    one, queries = make_mechanism(MEAN, SAMPLED, other), {}
    streams, coins, noise = Streams(0, "test"), {}, {}
    for event in (MEAN, SAMPLED, other):
        noise[event.label] = streams.private(event.label, event.label, Query().shape)
        if event.sampling_rate < 1:
            generator = streams.private("coins", event.label, (400,))
            batches = PoissonBatches(generator, 400, event.sampling_rate)
            coins[event.label] = batches
    for label in ("sampled", "mean", "sampled again", "sampled", "sampled again"):
        query = queries.setdefault(label, Query())
        found = one.release(label, query)
        size = 400
        if label in coins:
            batch = coins[label].draw()
            np.testing.assert_array_equal(query.batches[-1], batch)
            size = len(batch)
        total = np.full(query.shape, size * 2**20, dtype=np.int64)
        honest = mechanism.add_integer_gaussian(total, 3.0 * 2.0**20, noise[label])
        np.testing.assert_array_equal(found, honest * 2.0**-20)


def test_void_records_are_left_out_of_every_release():
    is_null = np.arange(400) % 4 == 0
    mechanism = Mechanism((MEAN, SAMPLED), 0, "test", is_null=is_null)
    whole, query, drawn = Query(), Query(), Query()
    mechanism.release("mean", query)
    np.testing.assert_array_equal(query.batches[0], np.flatnonzero(~is_null))
    for _ in range(3):
        mechanism.release("sampled", drawn)
    other = make_mechanism(MEAN, SAMPLED)
    other.release("mean", whole)
    for batch in drawn.batches:
        other.release("sampled", whole)
        # The coins are those of a mechanism that knows of none.
        np.testing.assert_array_equal(batch, [i for i in whole.batches[-1] if i % 4])
    within = dataclasses.replace(MEAN, label="linear model: mean")
    found = Mechanism((within,), 0, "test", is_null=is_null)
    found = found.within("linear model")
    found.release("mean", query)
    np.testing.assert_array_equal(query.batches[1], np.flatnonzero(~is_null))
    with pytest.raises(ValueError, match="a query over the records of the"):
        Mechanism((MEAN,), 0, "t", is_null=is_null[1:]).release("mean", Query())


def test_fewer_releases_than_charged_are_fine():
    mechanism = make_mechanism()
    mechanism.release("descent", Query())
    assert mechanism.event("descent") is SCHEDULE


def test_an_excess_that_is_rounding_is_let_through():
    query = Query(clip_norm=1 + 1e-12, moved=2 + 1e-12)
    assert make_mechanism().release("mean", query).shape == query.shape


def test_another_query_of_a_label_is_looked_at_too():
    mechanism = make_mechanism()
    mechanism.release("descent", Query())
    refused(mechanism, "descent", Query(moved=2.1), "sensitivity=.* at most 2.0")


# -- what it refuses ------------------------------------------------------------------
def test_a_label_that_was_not_charged():
    mechanism = make_mechanism(MEAN)
    refused(mechanism, "means", Query(), "label='means' was not charged, only 'mean'")
    with pytest.raises(PrivacyBudgetError, match="was not charged"):
        mechanism.event("descent")
    refused(Mechanism((), 0, "t"), "mean", Query(), "only nothing")


def test_two_events_of_one_label():
    with pytest.raises(PrivacyBudgetError, match="label='mean' was charged twice"):
        make_mechanism(MEAN, dataclasses.replace(MEAN, noise_std=(5.0,)))


def check_the_count(mechanism, query=None):
    for _ in range(2):
        mechanism.release("mean", Query())
    refused(mechanism, "mean", query or Query(), "charged for 2 release")


def check_the_clip(mechanism):
    for norm in (1.1, math.nan, math.inf, 0.0, -1.0):
        refused(
            mechanism, "mean", Query(clip_norm=norm, moved=1.0), "clip_norm=.* at most"
        )


def check_the_move(mechanism):
    for moved in (2.1, math.nan, math.inf, 0.0):
        refused(mechanism, "mean", Query(moved=moved), "sensitivity=.* at most 2.0")


@pytest.mark.parametrize("check", [check_the_count, check_the_clip, check_the_move])
def test_more_than_was_charged(check):
    check(make_mechanism())


def test_the_relation_is_that_of_the_event():
    nulled = dataclasses.replace(
        MEAN, sensitivity=1.0, neighboring_relation="replace_special"
    )
    make_mechanism(nulled).release("mean", Query())
    refused(
        make_mechanism(dataclasses.replace(MEAN, sensitivity=1.0)),
        "mean",
        Query(),
        "sensitivity=2.0 of a query",
    )


def test_no_noise_comes_from_the_stream_of_the_coins():
    refused(make_mechanism(), "sampled", Query(), "stream='coins'", stream="coins")


def test_a_release_that_fails_stays_counted(monkeypatch):
    mechanism = make_mechanism()
    monkeypatch.setattr(Query, "exact_sum", lambda *a: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            mechanism.release("mean", Query())
    refused(mechanism, "mean", Query(), "charged for 2 release")


# -- a mechanism within ----------------------------------------------------------------
def test_a_mechanism_within_knows_bare_labels_and_shares_the_count():
    inner = dataclasses.replace(MEAN, label="linear model: mean")
    mechanism = make_mechanism(MEAN, inner)
    within = mechanism.within("linear model")
    assert within.event("mean") is inner
    refused(within, "linear model: mean", Query(), "was not charged, only 'mean'")
    within.release("mean", Query())
    mechanism.within("linear model").release("mean", Query())
    refused(within, "mean", Query(), "charged for 2 release")
    refused(mechanism, "linear model: mean", Query(), "charged for 2 release")
    mechanism.release("mean", Query())  # the outer one was not touched


def test_two_mechanisms_within_do_not_repeat_noise():
    mechanism = make_mechanism(dataclasses.replace(MEAN, label="a: mean"))
    found = [mechanism.within("a").release("mean", Query()) for _ in "ab"]
    assert (found[0] != found[1]).mean() > 0.99


# -- the only way out -----------------------------------------------------------------
def uses(name):
    """Files of the package that name or import something."""
    root, found = Path(skfdp.__file__).parent, set()
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if name in text else ():
            told = {getattr(node, "id", None), getattr(node, "attr", None)}
            if isinstance(node, ast.ImportFrom):
                told = {alias.name for alias in node.names}
            if name in told:
                found.add(path.relative_to(root).as_posix())
    return found


@pytest.mark.parametrize(
    "name", ["add_integer_gaussian", "PoissonBatches", "_noisy_sum"]
)
def test_the_mechanism_alone_draws_noise_and_private_batches(name):
    there = {"mechanisms/release.py"}
    if (
        name == "PoissonBatches"
    ):  # of rows that are elsewhere, by coins of the mechanism
        there |= {"dask_tables.py"}
    assert uses(name) == there


def test_the_kernels_of_noise_and_coins_have_one_caller_each():
    assert uses("add_rounded_normals") == {"mechanisms/release.py"}
    assert uses("poisson_members") == {"mechanisms/release.py"}
