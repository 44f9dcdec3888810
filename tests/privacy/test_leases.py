"""Leases: each position of a fit is released once, whoever holds copies."""

import os
import shutil
import sqlite3
import threading

import pytest

from skfdp.privacy import Event, PrivacyBudgetError, PrivacyLedger

FIT = "0123456789abcdef" * 2
EVENTS = [
    Event(label=part, noise_std=(20.0,), clip_norm=1, sensitivity=1)
    for part in ("mean", "steps")
]
SEALS = [bytes([i]) * 16 for i in range(1, 9)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture(params=["memory", "file"])
def ledger(request, path):
    in_file = request.param == "file"
    return PrivacyLedger(path if in_file else None, epsilon=3.0, delta=1e-5)


def test_positions_go_up_one_by_one_and_none_is_given_out_twice(ledger):
    lease, other = (ledger.charge_resumable(FIT, EVENTS)[0] for _ in range(2))
    assert lease.newest() == (0, b"")
    for position, seal in enumerate(SEALS):
        (lease, other)[position % 2].advance(position, seal)
        assert lease.newest() == other.newest() == (position + 1, seal)
    for position in (0, len(SEALS) - 1, len(SEALS) + 1):
        with pytest.raises(PrivacyBudgetError, match="a newer copy .* exists"):
            lease.advance(position, SEALS[0])
    assert lease.newest() == (len(SEALS), SEALS[-1])
    assert ledger.charge_resumable("ab" * 16, EVENTS)[0].newest() == (0, b"")


def test_one_of_many_threads_gets_it(ledger):
    start, told = threading.Barrier(8), []
    lease, _ = ledger.charge_resumable(FIT, EVENTS)

    def ask(seal):
        start.wait(timeout=240)
        try:
            lease.advance(0, seal)
            told.append(seal)
        except PrivacyBudgetError:
            pass

    threads = [threading.Thread(target=ask, args=[seal], daemon=True) for seal in SEALS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert not any(thread.is_alive() for thread in threads)
    assert len(told) == 1
    assert lease.newest() == (1, told[0])


def test_a_fit_is_charged_once(ledger):
    lease, receipt = ledger.charge_resumable(FIT, EVENTS, label="fit")
    assert receipt == ledger.receipt and len(ledger) == len(EVENTS)
    lease.advance(0, SEALS[0])
    ledger.charge(EVENTS * ledger.remaining_fits(EVENTS))  # also without a budget
    assert not ledger.what_if(EVENTS).allowed
    entries = ledger.entries
    for begun in (False, True):
        again, other = ledger.charge_resumable(FIT, EVENTS, label="fit", begun=begun)
        assert again.newest() == (1, SEALS[0])
        assert other == receipt
    assert ledger.entries == entries
    with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
        ledger.charge_resumable("ab" * 16, EVENTS)
    with pytest.raises(PrivacyBudgetError, match="has no charge of the fit"):
        ledger.charge_resumable("ab" * 16, EVENTS, begun=True)
    assert ledger.entries == entries


@pytest.mark.parametrize(
    "events, label",
    [(EVENTS[:1], "fit"), (EVENTS[::-1], "fit"), (EVENTS, "other"), (EVENTS, None)],
)
def test_another_charge_is_refused(ledger, events, label):
    ledger.charge_resumable(FIT, EVENTS, label="fit")
    with pytest.raises(PrivacyBudgetError, match="charged with other events"):
        ledger.charge_resumable(FIT, events, label=label)
    assert len(ledger) == len(EVENTS)


def test_another_ledger_or_data_set_is_refused(path, tmp_path):
    _, receipt = PrivacyLedger(path).charge_resumable(FIT, EVENTS)
    for other in (PrivacyLedger(), PrivacyLedger(tmp_path / "other.db")):
        with pytest.raises(PrivacyBudgetError, match="has no charge of the fit"):
            other.charge_resumable(FIT, EVENTS, begun=True)
        assert len(other) == 0
    with pytest.raises(PrivacyBudgetError, match="to another data set"):
        PrivacyLedger(path, dataset="other").charge_resumable(FIT, EVENTS)
    PrivacyLedger(path).charge(EVENTS)
    assert PrivacyLedger(path).charge_resumable(FIT, EVENTS)[1] == receipt


def test_an_older_copy_of_the_ledger_does_not_know_it(path):
    ledger = PrivacyLedger(path)
    ledger.charge(EVENTS)
    shutil.copy(path, path.with_suffix(".old"))
    lease, _ = ledger.charge_resumable(FIT, EVENTS)
    os.replace(path.with_suffix(".old"), path)
    with pytest.raises(PrivacyBudgetError, match="has no charge of the fit"):
        PrivacyLedger(path).charge_resumable(FIT, EVENTS, begun=True)
    for ask in (lease.newest, lambda: lease.advance(0, SEALS[0])):
        with pytest.raises(PrivacyBudgetError, match="replaced by an older copy"):
            ask()


def test_what_is_kept_of_a_fit_is_never_changed(path):
    PrivacyLedger(path).charge_resumable(FIT, EVENTS)
    connection = sqlite3.connect(path)
    for change in (
        "DELETE FROM fits",
        "UPDATE fits SET charge = 2",
        "UPDATE fits SET released = -1",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="fits (are )?never"):
            connection.execute(change)
    connection.close()
