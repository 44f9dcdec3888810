"""Leases: each position of a fit is given out once, whoever holds copies."""

import os
import shutil
import threading
import time

import pytest

from skfdp.privacy import Event, PrivacyBudgetError, PrivacyLedger
from skfdp.privacy import store as leases
from skfdp.privacy.store import NO_SEAL, FileLease, MemoryLease

FIT = "0123456789abcdef" * 2
EVENTS = [
    Event(label=part, noise_std=(20.0,), clip_norm=1, sensitivity=1)
    for part in ("mean", "steps")
]
SEALS = [bytes([i]) * 16 for i in range(1, 9)]


@pytest.fixture(params=["memory", "file"])
def lease(request, tmp_path):
    if request.param == "memory":
        return MemoryLease()
    lease = FileLease(tmp_path / "ledger.db", FIT, lambda released: None, 0)
    lease.begin()
    return lease


class TestPositions:
    def test_they_go_up_one_by_one(self, lease):
        before = NO_SEAL
        for position, seal in enumerate(SEALS):
            assert lease.newest() == (position, before)
            lease.advance(position, before, seal)
            before = seal
        assert lease.newest() == (len(SEALS), SEALS[-1])

    def test_none_is_given_out_twice(self, lease):
        lease.advance(0, NO_SEAL, SEALS[0])
        lease.advance(1, SEALS[0], SEALS[1])
        for position, before in [(0, NO_SEAL), (1, SEALS[0]), (3, SEALS[1])]:
            with pytest.raises(PrivacyBudgetError, match="another copy .* went on"):
                lease.advance(position, before, SEALS[2])
        assert lease.newest() == (2, SEALS[1])

    def test_the_release_before_has_to_be_the_same(self, lease):
        """Two copies at one position: the seal tells which of them goes on."""
        lease.advance(0, NO_SEAL, SEALS[0])
        with pytest.raises(PrivacyBudgetError, match="nothing was released"):
            lease.advance(1, SEALS[5], SEALS[1])

    def test_one_of_many_threads_gets_it(self, lease, monkeypatch):
        start, told = threading.Barrier(8), []
        check = leases._check
        monkeypatch.setattr(
            leases, "_check", lambda *asked: (check(*asked), time.sleep(0.02))
        )

        def ask(seal):
            start.wait()
            try:
                lease.advance(0, NO_SEAL, seal)
                told.append(seal)
            except PrivacyBudgetError:
                pass

        threads = [threading.Thread(target=ask, args=[seal]) for seal in SEALS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 1
        assert lease.newest() == (1, told[0])


class TestFile:
    def test_to_begin_again_keeps_the_position(self, tmp_path):
        lease = FileLease(tmp_path / "ledger.db", FIT, lambda released: None, 0)
        lease.begin()
        before = NO_SEAL
        for position in range(2):  # one for each slot
            lease.advance(position, before, SEALS[position])
            lease.begin()
            before = SEALS[position]
            assert lease.newest() == (position + 1, before)

    def test_a_torn_write_leaves_the_position_before(self, tmp_path):
        lease = FileLease(tmp_path / "ledger.db", FIT, lambda released: None, 0)
        lease.begin()
        lease.advance(0, NO_SEAL, SEALS[0])
        (path,) = tmp_path.iterdir()
        before = path.read_bytes()
        lease.advance(1, SEALS[0], SEALS[1])
        after = path.read_bytes()
        for size in range(1, 56):
            path.write_bytes(after[:size] + before[size:])
            assert lease.newest() == (1, SEALS[0])
        path.write_bytes(after[:56] + before[56:])
        assert lease.newest() == (2, SEALS[1])

    def test_it_is_on_disk_when_it_is_given_out(self, tmp_path, monkeypatch):
        lease = FileLease(tmp_path / "ledger.db", FIT, lambda released: None, 0)
        told, write, sync = [], os.pwrite, os.fsync
        monkeypatch.setattr(os, "pwrite", lambda *a: (told.append("write"), write(*a)))
        monkeypatch.setattr(os, "fsync", lambda file: (told.append("sync"), sync(file)))
        lease.begin()
        assert told == ["write", "sync", "sync"]  # and the folder
        lease.advance(0, NO_SEAL, SEALS[0])
        assert told[3:] == ["write", "sync"]

    def test_what_is_damaged_is_refused(self, tmp_path):
        lease = FileLease(tmp_path / "ledger.db", FIT, lambda released: None, 0)
        lease.begin()
        (path,) = tmp_path.iterdir()
        path.write_bytes(bytes(1024))
        with pytest.raises(PrivacyBudgetError, match="is missing or damaged"):
            lease.newest()


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    path = tmp_path / "ledger.db" if request.param == "file" else None
    return PrivacyLedger(path, epsilon=3.0, delta=1e-5)


class TestCharges:
    def test_a_fit_is_charged_once(self, ledger):
        lease, receipt = ledger.lease(FIT, EVENTS, label="fit")
        spent = ledger.spent()
        lease.advance(0, NO_SEAL, SEALS[0])
        for begun in (False, True):
            again, other = ledger.lease(FIT, EVENTS, label="fit", begun=begun)
            assert again.newest() == (1, SEALS[0])
            assert other == receipt
        assert receipt == ledger.receipt
        assert len(ledger) == len(EVENTS)
        assert ledger.spent() == spent > 0

    def test_it_may_be_asked_again_when_the_budget_is_used_up(self, ledger):
        ledger.lease(FIT, EVENTS)
        while ledger.what_if(EVENTS).allowed:
            ledger.charge(EVENTS)
        entries = ledger.entries
        ledger.lease(FIT, EVENTS, begun=True)
        assert ledger.entries == entries

    def test_the_ceiling_holds(self, ledger):
        while ledger.what_if(EVENTS).allowed:
            ledger.charge(EVENTS)
        entries = ledger.entries
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            ledger.lease(FIT, EVENTS)
        assert ledger.entries == entries
        with pytest.raises(PrivacyBudgetError, match="does not know the fit"):
            ledger.lease(FIT, EVENTS, begun=True)

    @pytest.mark.parametrize(
        "events, label", [(EVENTS[:1], "fit"), (EVENTS[::-1], "fit"), (EVENTS, "other")]
    )
    def test_other_events_are_refused(self, ledger, events, label):
        ledger.lease(FIT, EVENTS, label="fit")
        with pytest.raises(PrivacyBudgetError, match="charged something else"):
            ledger.lease(FIT, events, label=label)
        assert len(ledger) == len(EVENTS)

    def test_another_part_is_refused(self, ledger):
        ledger.part(rows=range(9)).lease(FIT, EVENTS)
        ledger.part(rows=range(9)).lease(FIT, EVENTS)
        for other in (ledger, ledger.part(rows=range(8))):
            with pytest.raises(PrivacyBudgetError, match="charged something else"):
                other.lease(FIT, EVENTS)

    def test_another_ledger_is_refused(self, ledger, tmp_path):
        ledger.lease(FIT, EVENTS)
        for other in (PrivacyLedger(), PrivacyLedger(tmp_path / "other.db")):
            with pytest.raises(PrivacyBudgetError, match="does not know the fit"):
                other.lease(FIT, EVENTS, begun=True)
            assert len(other) == 0

    @pytest.mark.parametrize("fit", ["../" * 10 + "ab", "ab", FIT.upper(), None, 5])
    def test_a_name_is_no_path(self, ledger, fit):
        with pytest.raises(ValueError, match="32 hexadecimal digits"):
            ledger.lease(fit, EVENTS)
        assert len(ledger) == 0


class TestLedgersFile:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "ledger.db"

    def test_another_data_set_is_refused(self, path):
        PrivacyLedger(path).lease(FIT, EVENTS)
        other = PrivacyLedger(path, dataset="other")
        with pytest.raises(PrivacyBudgetError, match="to another data set"):
            other.lease(FIT, EVENTS)

    def test_a_lease_that_is_lost_does_not_begin_again(self, path):
        """A checkpoint may say that nothing was released yet."""
        ledger = PrivacyLedger(path)
        ledger.lease(FIT, EVENTS)
        (file,) = path.parent.glob(f"*{FIT}")
        file.unlink()
        lease, _ = ledger.lease(FIT, EVENTS)
        with pytest.raises(PrivacyBudgetError, match="is missing or damaged"):
            lease.newest()
        with pytest.raises(PrivacyBudgetError, match="is missing or damaged"):
            lease.advance(0, NO_SEAL, SEALS[0])

    def test_killed_before_the_charge_it_is_charged(self, path, monkeypatch):
        ledger = PrivacyLedger(path)
        with monkeypatch.context() as patch:
            patch.setattr("skfdp.privacy.ledger_file.add_fit", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                ledger.lease(FIT, EVENTS)
        assert len(ledger) == 0
        lease, receipt = ledger.lease(FIT, EVENTS)
        assert lease.newest() == (0, NO_SEAL)
        assert receipt == ledger.receipt
        assert len(ledger) == len(EVENTS)

    def test_its_receipt_is_that_of_the_charge(self, path):
        ledger = PrivacyLedger(path)
        _, receipt = ledger.lease(FIT, EVENTS)
        ledger.charge(EVENTS)
        assert ledger.lease(FIT, EVENTS)[1] == receipt
        assert PrivacyLedger(path).lease(FIT, EVENTS)[1] == receipt
        assert receipt.charge == 1 != ledger.receipt.charge

    def test_an_older_copy_of_the_ledger_does_not_know_it(self, path):
        ledger = PrivacyLedger(path)
        ledger.charge(EVENTS)
        shutil.copy(path, path.with_suffix(".old"))
        ledger.lease(FIT, EVENTS)
        os.replace(path.with_suffix(".old"), path)
        with pytest.raises(PrivacyBudgetError, match="does not know the fit"):
            PrivacyLedger(path).lease(FIT, EVENTS, begun=True)

    def test_what_is_kept_of_a_fit_is_never_changed(self, path):
        import sqlite3

        PrivacyLedger(path).lease(FIT, EVENTS)
        connection = sqlite3.connect(path)
        for change in (
            "DELETE FROM fits",
            "UPDATE fits SET charge = 2",
            "UPDATE fits SET released = -1",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="fits (are )?never"):
                connection.execute(change)
        connection.close()
