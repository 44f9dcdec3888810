"""Files of checkpoints: whatever a killed process leaves is whole, or unreadable."""

import hashlib
import os
import re

import numpy as np
import pytest

from skfdp import PrivacyBudgetError
from skfdp.mechanisms.checkpoint import CheckpointFile, sealed, unsealed
from skfdp.mechanisms.noise import generator_of, random_words
from skfdp.privacy.store import NO_SEAL, SEAL_BYTES

RECORDS = [b"first " * 3, b"", b"third " * 200, b"last"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint"


def written(path, records=RECORDS, count=None):
    file = CheckpointFile(path)
    file.begin({"fit": "a" * 32})
    for record in records:
        file.append(record, count)
    file.close()


def read(path):
    file = CheckpointFile(path)
    file.drop_torn()
    found = [file.read(number).rstrip(b"\0") for number in range(len(file))]
    file.close()
    return found


def cuts(whole):
    """Return sizes to cut a file to: many, and all around the ends of its sectors."""
    sizes = set(range(0, len(whole), 37))
    for end in range(512, len(whole) + 1, 512):
        sizes |= set(range(end - SEAL_BYTES - 2, end + 18))
    return sorted(size for size in sizes if size < len(whole))


class TestSealing:
    @pytest.mark.parametrize("record", RECORDS, ids=len)
    def test_a_seal_opens_its_record(self, record):
        masked, seal = sealed(record)
        assert unsealed(masked, seal) == record
        assert len(seal) == SEAL_BYTES

    def test_nothing_shows_without_the_seal(self):
        record = b"0123456789abcdef" * 64
        masked, seal = sealed(record)
        assert unsealed(masked, NO_SEAL) is None
        assert unsealed(masked[:-1], seal) is None
        assert unsealed(bytes([masked[0] ^ 1]) + masked[1:], seal) is None
        assert unsealed(masked, bytes([seal[0] ^ 1]) + seal[1:]) is None
        # Neither text nor period, and another mask each time.
        assert not any(record[i : i + 8] in masked for i in range(16))
        bits = np.unpackbits(np.frombuffer(masked, np.uint8)).mean()
        assert abs(bits - 0.5) < 6 * 0.5 / np.sqrt(8 * len(masked))
        assert sealed(record)[0] != masked

    def test_the_key_takes_all_of_the_record(self):
        """With the seal, and without one sector, the rest is still unreadable."""
        record = bytes(2048)
        masked, seal = sealed(record)
        lost = masked[:512] + bytes(512) + masked[1024:]
        digest = hashlib.sha256(lost).digest()
        key = bytes(a ^ b for a, b in zip(seal, digest[:SEAL_BYTES], strict=True))
        words = random_words(generator_of(int.from_bytes(key, "little")), 260)
        found = words.view(np.uint8) ^ np.frombuffer(lost, np.uint8)
        assert np.count_nonzero(found == 0) < 40  # of 2,080; 8 by chance
        with pytest.MonkeyPatch.context() as patch:  # a seal that is the key
            patch.setattr(
                "skfdp.mechanisms.checkpoint._seal_digest",
                lambda _: bytes(SEAL_BYTES),
            )
            masked, seal = sealed(record)
        words = random_words(generator_of(int.from_bytes(seal, "little")), 260)
        found = words.view(np.uint8) ^ np.frombuffer(masked, np.uint8)
        assert np.count_nonzero(found == 0) > 2000  # reads it without a digest


class TestFile:
    def test_records_come_back(self, path):
        written(path)
        assert read(path) == RECORDS
        assert path.stat().st_mode & 0o077 == 0

    def test_wherever_it_is_cut_whole_records_come_back(self, path):
        written(path)
        whole = path.read_bytes()
        sizes = []
        for size in cuts(whole):
            path.write_bytes(whole[:size])
            found = read(path)
            assert found == RECORDS[: len(found)]
            sizes.append(len(found))
        assert sizes == sorted(sizes)
        assert set(sizes) == set(range(len(RECORDS)))  # the last one needs every byte

    def test_what_is_cut_off_is_overwritten(self, path):
        written(path)
        path.write_bytes(path.read_bytes()[:-1])
        file = CheckpointFile(path)
        file.drop_torn()
        file.append(b"again", None)
        file.close()
        assert read(path) == [*RECORDS[:-1], b"again"]

    def test_seals_do_not_straddle_sectors(self, path):
        written(path)
        file = CheckpointFile(path)
        assert [place.stop % 512 for place in file._places] == [0] * len(RECORDS)

    @pytest.mark.parametrize("place", [0, 1, 7])
    def test_a_damaged_length_is_refused(self, path, place):
        written(path)
        raw = bytearray(path.read_bytes())
        raw[raw.index(b"\n") + 1 + place] ^= 0x41
        path.write_bytes(raw)
        kept = path.read_bytes()
        with pytest.raises(ValueError, match="is damaged: restore it"):
            read(path)
            pytest.fail("a record was lost")
        assert path.read_bytes() == kept

    def test_a_damaged_record_is_refused(self, path):
        written(path)
        raw = bytearray(path.read_bytes())
        raw[-100] ^= 1
        path.write_bytes(raw)
        with pytest.raises(ValueError, match="is damaged"):
            read(path)

    @pytest.mark.parametrize(
        "text", [b"name,age\n", b"\0" * 512, b"{}", b'{"schema": "skfdp-privacy"}\n']
    )
    def test_another_file_is_refused_and_kept(self, path, text):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="is another file"):
            CheckpointFile(path)
        assert path.read_bytes() == text

    def test_another_version_is_refused(self, path):
        written(path)
        text = path.read_bytes().replace(b'"schema_version": 1', b'"schema_version": 2')
        path.write_bytes(text)
        with pytest.raises(ValueError, match="another version of skfdp"):
            CheckpointFile(path)

    @pytest.mark.parametrize("size", [0, 5, 30, 200])
    def test_a_file_that_has_not_begun_begins(self, path, size):
        written(path, [])
        path.write_bytes(path.read_bytes()[:size])
        file = CheckpointFile(path)
        assert file.facts is None
        file.begin({"fit": "b"})
        file.append(b"one", None)
        file.close()
        assert read(path) == [b"one"]

    def test_one_fit_holds_it(self, path):
        written(path)
        file = CheckpointFile(path)
        with pytest.raises(BlockingIOError, match="in use by another fit"):
            CheckpointFile(path)
        file.close()
        assert read(path) == RECORDS

    def test_a_folder_that_is_missing(self, path):
        with pytest.raises(FileNotFoundError, match="in a folder that exists"):
            CheckpointFile(path / "checkpoint")
        with pytest.raises(FileNotFoundError, match="give the path of a file"):
            CheckpointFile(path.parent)

    def test_a_file_removed_while_it_is_opened_is_made_again(self, path, monkeypatch):
        """A fit ends between the opening and the lock of the next one."""
        written(path)
        from skfdp.mechanisms import checkpoint as checkpoint_file

        lock, calls = checkpoint_file.lock, []

        def slow(file, *, wait):
            if not calls:
                path.unlink()
            calls.append(file)
            lock(file, wait=wait)

        monkeypatch.setattr(checkpoint_file, "lock", slow)
        file = CheckpointFile(path)
        assert len(calls) == 2
        assert file.facts is None
        assert os.path.samestat(os.fstat(file._file), path.stat())

    def test_a_write_that_fails_ends_it(self, path, monkeypatch):
        written(path)
        file = CheckpointFile(path)

        def full(*_):
            raise OSError("No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(file, "_sync", full)
            with pytest.raises(OSError, match="No space"):
                file.append(b"new", None)
        with pytest.raises(OSError, match="Bad file"):
            file.append(b"newer", None)


@pytest.mark.parametrize("counted", [True, False], ids=["ledger", "no ledger"])
def test_a_record_is_on_disk_before_it_is_counted_or_given_out(
    path, counted, monkeypatch
):
    """Powers are cut, too: what is synced, and when."""
    written(path, [b"one"])
    told, write, sync = [], os.pwrite, os.fsync
    file = CheckpointFile(path)
    file.drop_torn()
    monkeypatch.setattr(os, "pwrite", lambda *a: (told.append("write"), write(*a))[1])
    monkeypatch.setattr(os, "fsync", lambda file: (told.append("sync"), sync(file)))
    file.append(b"two", (lambda *_: told.append("count")) if counted else None)
    wanted = ["write", "sync"]
    if counted:
        wanted += ["count", "write"]
    assert told == wanted


class Counting:
    """A ledger that keeps the newest position and seal."""

    def __init__(self):
        self.newest = 0, NO_SEAL
        self.seals = []

    def __call__(self, position, before, seal):
        assert self.newest == (position, before)
        self.newest = position + 1, seal
        self.seals.append(seal)


class TestAgreement:
    """What a ledger has counted decides."""

    def agreed(self, path, newest):
        file = CheckpointFile(path)
        try:
            file.agree(*newest)
            return [file.read(i).rstrip(b"\0") for i in range(len(file))]
        finally:
            file.close()

    def test_all_of_it(self, path):
        count = Counting()
        written(path, count=count)
        assert self.agreed(path, count.newest) == RECORDS
        assert read(path) == RECORDS

    def test_wherever_it_is_cut(self, path):
        """The last record is there without its seal, which the ledger has."""
        count = Counting()
        written(path, count=count)
        whole = path.read_bytes()
        for size in cuts(whole):
            path.write_bytes(whole[:size])
            if size < len(whole) - SEAL_BYTES:
                with pytest.raises(PrivacyBudgetError, match="a copy that is behind"):
                    self.agreed(path, count.newest)
                assert path.read_bytes() == whole[:size]
            else:
                assert self.agreed(path, count.newest) == RECORDS
                assert path.read_bytes() == whole

    def test_what_was_not_counted_is_not_there(self, path):
        count = Counting()
        written(path, count=count)
        path.write_bytes(path.read_bytes()[:-SEAL_BYTES])
        newest = len(RECORDS) - 1, count.seals[-2]
        assert self.agreed(path, newest) == RECORDS[:-1]
        assert read(path) == RECORDS[:-1]

    def test_an_older_ledger_is_refused(self, path):
        count = Counting()
        written(path, count=count)
        with pytest.raises(PrivacyBudgetError, match="an older copy of the ledger"):
            self.agreed(path, (1, count.seals[0]))
        assert read(path) == RECORDS

    def test_the_same_position_of_another_copy_is_refused(self, path):
        count = Counting()
        written(path, count=count)
        with pytest.raises(PrivacyBudgetError, match="a copy that is behind"):
            self.agreed(path, (len(RECORDS), sealed(b"another")[1]))

    def test_a_record_that_is_refused_stays_unreadable(self, path):
        """The seal of a release that another copy made is nowhere."""

        def refuse(*_):
            raise PrivacyBudgetError("another went on")

        written(path, [b"one"])
        file = CheckpointFile(path)
        file.drop_torn()
        with pytest.raises(PrivacyBudgetError, match="another went on"):
            file.append(b"secret" * 100, refuse)
        assert b"secret" not in path.read_bytes()
        assert path.stat().st_size % 512 == 512 - SEAL_BYTES  # no seal
        assert read(path) == [b"one"]


def test_messages_end_with_what_to_do(path):
    path.write_bytes(b"other")
    with pytest.raises(ValueError) as caught:
        CheckpointFile(path)
    assert re.search(r": give the path .*\.$", str(caught.value))
