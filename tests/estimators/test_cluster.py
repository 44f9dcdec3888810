"""Dask collections on workers that are processes: the same integers, whoever dies."""

import os
import time

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, PrivacyLedger  # noqa: E402
from skfdp.dask_tables import Partitions, _Lost, _total  # noqa: E402
from skfdp.solvers import NoisyGradientDescent, NoisySGD  # noqa: E402

pytestmark = [
    pytest.mark.extra("dask"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
N = 600
RNG = np.random.default_rng(0)
X = RNG.random((N, 4))
LABELS = (X[:, 0] + X[:, 1] > 1).astype(int)
ROWS = da.from_array(X, chunks=(200, 4))
TARGET = da.from_array(LABELS, chunks=200)
POISSON = {"solver": NoisySGD(batch_size=100, max_iter=12)}


@pytest.fixture(scope="module")
def cluster():
    settings = {"processes": True, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(2, threads_per_worker=1, **settings) as found:
        yield found


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, direct_to_workers=True) as found:
        found.wait_for_workers(2, timeout=60)
        yield found


def model(kind=FeatureDPLogisticRegression, **changes):
    settings = {"epsilon": 2.0, "bounds": (0, 1), "random_state": 1, "classes": [0, 1]}
    return kind(**settings | {"solver": NoisyGradientDescent(max_iter=12)} | changes)


def in_process(monkeypatch, *args, **changes):
    from skfdp import dask_tables as collections

    with monkeypatch.context() as patch:
        patch.setattr(collections, "_current_client", lambda: None)
        return model(*args, **changes).fit(ROWS, TARGET)


def left_behind(cluster):
    """Return what the scheduler and the workers still have of fits."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = [str(key) for key in cluster.scheduler.tasks]
        if not found:
            break
        time.sleep(0.05)
    return found


def test_released_integers_are_those_of_one_process(client, cluster, monkeypatch):
    for changes in ({}, POISSON, {"public_features": [0], "public_target": True}):
        wanted = in_process(monkeypatch, **changes)
        found = model(**changes).fit(ROWS, TARGET)
        np.testing.assert_array_equal(found.coef_, wanted.coef_)
        np.testing.assert_array_equal(found.intercept_, wanted.intercept_)
    alone = model(DPSGDFClassifier).fit(X, LABELS)
    apart = model(DPSGDFClassifier).fit(ROWS, TARGET)
    np.testing.assert_array_equal(alone.coef_, apart.coef_)
    assert not left_behind(cluster)


def test_a_killed_worker_changes_neither_result_nor_ledger(
    client, cluster, monkeypatch
):
    wanted = in_process(monkeypatch, **POISSON)
    pids = client.run(os.getpid)
    calls, total = [], Partitions.total

    def dying(self, *args):
        calls.append(args)
        if len(calls) == 6:
            os.kill(next(iter(pids.values())), 9)
        return total(self, *args)

    monkeypatch.setattr(Partitions, "total", dying)
    ledger = PrivacyLedger()
    found = model(ledger=ledger, **POISSON).fit(ROWS, TARGET)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    # Released once: no more sums than were charged, and one charge.
    assert len(calls) == sum(event.n_steps for event in found.privacy_.events)
    events = [entry.event for entry in ledger.entries]
    assert events == list(found.privacy_.events)
    assert {entry.charge for entry in ledger.entries} == {1}
    client.wait_for_workers(2, timeout=60)
    assert client.run(os.getpid) != pids and not left_behind(cluster)


def test_names_of_tasks_and_the_scheduler_tell_nothing(client, cluster, monkeypatch):
    seen, total = [], Partitions.total

    def listening(self, name, theta, batch, unit):
        seen.append((batch, [str(key) for key in cluster.scheduler.tasks]))
        return total(self, name, theta, batch, unit)

    monkeypatch.setattr(Partitions, "total", listening)
    model(**POISSON).fit(ROWS, TARGET)
    assert not left_behind(cluster)
    log = str(list(cluster.scheduler.transition_log)) + str(client.get_events())
    keys = {draw for batch, _ in seen if batch for draw in map(batch.of, range(3))}
    assert len(keys) == 3 * POISSON["solver"].max_iter
    names = " ".join(name for _, tasks in seen for name in tasks)
    for draw in keys:
        for shown in (str(draw.key), draw.key.hex()):
            assert shown not in names and shown not in log
    # A step is no task: it leaves no trace but in the memory of its worker.
    assert len({tuple(sorted(tasks)) for _, tasks in seen}) == 1


def test_errors_of_partitions_are_raised_here(client, cluster):
    wrong = X.astype(object)
    wrong[300, 1] = "a secret"
    rows = da.from_array(wrong, chunks=(200, 4))
    with pytest.raises(ValueError, match="X contains NaN") as caught:
        model().set_params(public_features=[1]).fit(rows, TARGET)
    assert "secret" not in str(caught.value)
    logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    assert "secret" not in logs and not left_behind(cluster)


def test_a_step_that_is_asked_for_twice_has_one_answer(client, cluster, monkeypatch):
    wanted, called = in_process(monkeypatch, **POISSON), Partitions._answers

    def twice(self, call, arguments):
        first = called(self, call, arguments) if call is _total else None
        found = called(self, call, arguments)
        if first is not None:
            np.testing.assert_array_equal(first, found)
        return found

    # And without a way to the workers the scheduler passes answers on.
    monkeypatch.setattr(Partitions, "_answers", twice)
    with distributed.Client(cluster, direct_to_workers=False):
        found = model(**POISSON).fit(ROWS, TARGET)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    assert not left_behind(cluster)


def test_a_cluster_that_cannot_answer_ends_the_fit(client, cluster, monkeypatch):
    def gone(self, numbers, *args):
        return dict.fromkeys(numbers, _Lost("OSError"))

    monkeypatch.setattr(Partitions, "_asked", gone)
    with pytest.raises(
        RuntimeError, match="3 partition.s. could not .* any worker .OSError., in 5"
    ):
        model().fit(ROWS, TARGET)
    assert not left_behind(cluster)
