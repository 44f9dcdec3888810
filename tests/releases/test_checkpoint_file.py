"""Files of checkpoints: whatever a killed process leaves is whole, or unreadable."""

import os
import re

import numpy as np
import pytest

from skfdp import PrivacyBudgetError
from skfdp.mechanisms import checkpoint
from skfdp.mechanisms.checkpoint import KEY_BYTES, Journal, masked

VALUES = [np.full(3, 0.5), np.zeros((0, 2)), np.arange(200.0), np.array(7.0)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint"


class Counted:
    """The lease of a ledger, which keeps every seal."""

    def __init__(self, seals=()):
        self.seals = list(seals)

    def newest(self):
        return len(self.seals), self.seals[-1] if self.seals else b""

    def advance(self, position, seal):
        assert position == len(self.seals)
        self.seals.append(seal)


def ask(journal, values):
    return journal.given("sum", "sum", values.shape)


def written(path, values=VALUES, lease=None):
    with Journal(path, {"a": 1}) as journal:
        journal.settle(lease)
        for value in values:
            assert ask(journal, value) is None
            journal.keep("sum", "sum", value)


def read(path, lease=None):
    """Return the number of releases that come back, each the one that was written."""
    with Journal(path, {"a": 1}) as journal:
        journal.settle(lease)
        for number, value in enumerate(VALUES):
            found = ask(journal, value)
            if found is None:
                return number
            np.testing.assert_array_equal(found, value)
        return len(VALUES)


def test_nothing_shows_without_the_seal():
    text, seal, other = b"0123456789abcdef" * 64, b"1" * 16, b"2" * 16
    found = masked(text, seal)
    assert masked(found, seal) == text
    assert text not in (masked(found, other), masked(found, seal[:-1]))
    # Neither text nor period, and another mask each time.
    assert not any(text[i : i + 8] in found for i in range(16))
    bits = np.unpackbits(np.frombuffer(found, np.uint8)).mean()
    assert abs(bits - 0.5) < 6 * 0.5 / np.sqrt(8 * len(found))


@pytest.mark.parametrize("counted", [True, False], ids=["ledger", "no ledger"])
def test_wherever_it_is_cut_whole_releases_come_back(path, counted):
    """What a ledger has counted decides, and it has the seal of the last one."""
    lease = Counted() if counted else None
    written(path, lease=lease)
    whole = path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    sizes, found = {*range(0, len(whole), 37), *range(100)}, []
    for size in sorted(sizes | set(range(len(whole) - 40, len(whole) + 1))):
        path.write_bytes(whole[:size])
        if not counted:
            found.append(read(path))  # within the first line it begins anew
        elif size >= len(whole) - KEY_BYTES:
            assert read(path, lease) == len(VALUES)
            assert path.read_bytes() == whole
        elif size > whole.index(b"\n"):
            kept = path.read_bytes()
            with pytest.raises(PrivacyBudgetError, match="checkpoint is an older copy"):
                read(path, lease)
            assert path.read_bytes() == kept
    if not counted:
        assert found == sorted(found)
        assert set(found) == set(range(len(VALUES) + 1))
        assert found.count(len(VALUES)) == 1  # the last one needs every byte


def test_what_is_cut_off_is_overwritten(path):
    written(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with Journal(path, {"a": 1}) as journal:
        journal.settle(None)
        for value in VALUES[:-1]:
            assert ask(journal, value) is not None
        assert ask(journal, VALUES[-1]) is None
        journal.keep("sum", "sum", VALUES[-1])
    assert read(path) == len(VALUES)
    assert len(path.read_bytes()) == len(whole)


def test_other_positions_than_those_of_the_ledger_are_refused(path):
    lease = Counted()
    written(path, lease=lease)
    for seals, older in (
        (lease.seals[:1], "ledger"),
        ([*lease.seals, b"3" * 16], "checkpoint"),
        ([*lease.seals[:-1], b"3" * 16], "checkpoint"),  # another copy's release
    ):
        with pytest.raises(PrivacyBudgetError, match=f"the {older} is an older copy"):
            read(path, Counted(seals))
    path.write_bytes(path.read_bytes()[:-KEY_BYTES])
    assert read(path, Counted(lease.seals[:-1])) == len(VALUES) - 1


def test_a_release_that_is_refused_stays_unreadable(path):
    written(path, VALUES[:1], Counted())
    before = path.read_bytes()

    class Refusing(Counted):
        def advance(self, position, seal):
            self.refused = seal
            raise PrivacyBudgetError("another went on")

    lease = Counted([before[-KEY_BYTES:]])
    refusing = Refusing(lease.seals)
    with Journal(path, {"a": 1}) as journal:
        journal.settle(refusing)
        ask(journal, VALUES[0])
        with pytest.raises(PrivacyBudgetError, match="another went on"):
            journal.keep("sum", "sum", VALUES[2])
    after = path.read_bytes()
    assert after.startswith(before)
    assert VALUES[2].tobytes()[800:816] not in after
    assert refusing.refused not in after
    assert read(path, lease) == 1


@pytest.mark.parametrize("counted", [True, False], ids=["ledger", "no ledger"])
def test_a_release_is_on_disk_before_it_is_counted_or_given_out(
    path, counted, monkeypatch
):
    """Powers are cut, too: what is synced, and when."""
    told, write, sync = [], os.pwrite, os.fsync
    monkeypatch.setattr(os, "pwrite", lambda *a: (told.append("write"), write(*a))[1])
    monkeypatch.setattr(os, "fsync", lambda file: (told.append("sync"), sync(file)))
    lease = Counted()
    lease.advance = lambda *_: told.append("count")
    written(path, VALUES[:1], lease if counted else None)
    assert told[:3] == ["write", "sync", "sync"]  # facts and folder
    last = ["count", "write"] if counted else ["write", "sync"]
    assert told[3:] == ["write", "sync", *last]


@pytest.mark.parametrize("place", ["head", "length", "text", "seal"])
def test_damage_is_refused(path, place):
    written(path)
    raw = bytearray(path.read_bytes())
    first = raw.index(b"\n") + 1
    at = {"head": 60, "length": first + 1, "text": first + 20, "seal": -1}[place]
    raw[at] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="is damaged: restore it"):
        read(path)
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    "text", [b"other", b"a,b\n1,2\n", b"\0" * 600, b'{"schema": "other"}\n']
)
def test_another_file_is_kept(path, text):
    path.write_bytes(text)
    with pytest.raises(ValueError) as caught:
        Journal(path, {})
    assert re.search(r"is not a checkpoint: give the path .*\.$", str(caught.value))
    assert path.read_bytes() == text


def test_another_version_is_refused(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "SCHEMA_VERSION", 2)
        written(path)
    with pytest.raises(ValueError, match="by another version of skfdp: finish the fit"):
        read(path)


def test_one_file_is_held_by_one_fit(path):
    with (
        Journal(path, {}),
        pytest.raises(BlockingIOError, match="in use by another fit"),
    ):
        Journal(path, {})
    Journal(path, {}).close()


def test_a_file_that_was_removed_meanwhile_is_made_anew(path, monkeypatch):
    """A fit that was refused removes its file while another one waits for it."""
    written(path)
    flock, calls = checkpoint.fcntl.flock, []

    def slow(file, how):
        if not calls:
            path.unlink()
        calls.append(file)
        flock(file, how)

    monkeypatch.setattr(checkpoint.fcntl, "flock", slow)
    with Journal(path, {}) as journal:
        assert len(calls) == 2 and not journal.begun
        journal.settle(None)
        journal.keep("sum", "sum", VALUES[0])
        assert len(path.read_bytes()) > 100


def test_a_write_that_fails_ends_it(path, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    with Journal(path, {"a": 1}) as journal:
        journal.settle(None)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space"):
                journal.keep("sum", "sum", VALUES[0])
        with pytest.raises(OSError, match="Bad file"):
            journal.keep("sum", "sum", VALUES[0])


@pytest.mark.parametrize("name", ["no/folder", "."])
def test_no_file_there(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="give the path of a file"):
        Journal(tmp_path / name, {})


def test_another_release_is_refused(path):
    written(path)
    with Journal(path, {"a": 1}) as journal:
        journal.settle(None)
        for asked in (("sum", "sum", (4,)), ("sum", "x", (3,)), ("x", "sum", (3,))):
            with pytest.raises(ValueError, match="release number 1 differs: pass"):
                journal.given(*asked)
        assert ask(journal, VALUES[0]) is not None
