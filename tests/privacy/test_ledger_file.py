"""The ledger's file against what happens to files: links, copies, forks, upgrades."""

import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import skfdp
from skfdp.privacy import Event, PrivacyLedger, ledger_file

DELTA = 1e-5


def full_batch(mu=0.1, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return Event(**({"label": "steps"} | values | changes))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l.db"


class TestPaths:
    def test_home(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        assert PrivacyLedger("~/l.db").path == str(tmp_path / "l.db")
        assert (tmp_path / "l.db").exists()

    @pytest.mark.parametrize("path", [":memory:", "", b"l.db"])
    def test_memory_is_no_path(self, path, tmp_path, monkeypatch):
        """SQLite's own name would make a ledger for each connection."""
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match="leave it out for a ledger in memory"):
            PrivacyLedger(path)
        assert not list(tmp_path.iterdir())

    def test_uris_are_refused(self):
        with pytest.raises(ValueError, match="is a URI: give the plain path"):
            PrivacyLedger("file:l.db?mode=memory")

    def test_a_folder_is_refused(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="in a folder that exists"):
            PrivacyLedger(tmp_path)
        with pytest.raises(FileNotFoundError, match="in a folder that exists"):
            PrivacyLedger(tmp_path / "missing" / "l.db")

    def test_symbolic_links_are_one_ledger(self, path, tmp_path):
        ledger = PrivacyLedger(path, epsilon=1.0, delta=DELTA)
        (tmp_path / "folder").mkdir()
        link = tmp_path / "folder" / "link.db"
        link.symlink_to(path)
        twin = PrivacyLedger(link)
        for one in (ledger, twin) * 3:
            one.charge([full_batch()])
        assert len(ledger) == len(twin) == 6
        assert twin.path == ledger.path
        assert not list((tmp_path / "folder").glob("*-wal"))

    def test_a_link_that_is_moved_brings_no_fresh_budget(self, path, tmp_path):
        PrivacyLedger(path, epsilon=1.0, delta=DELTA)
        link = tmp_path / "current.db"
        link.symlink_to(path)
        ledger = PrivacyLedger(link)
        link.unlink()
        link.symlink_to(tmp_path / "fresh.db")
        ledger.charge([full_batch()])
        assert len(PrivacyLedger(path)) == 1
        assert not (tmp_path / "fresh.db").exists()

    def test_hard_links_are_refused(self, path, tmp_path):
        """SQLite would keep a write-ahead log for each name."""
        ledger = PrivacyLedger(path)
        os.link(path, tmp_path / "other.db")
        with pytest.raises(ValueError, match=r"several names \(hard links\)"):
            ledger.charge([full_batch()])
        with pytest.raises(ValueError, match=r"several names \(hard links\)"):
            PrivacyLedger(tmp_path / "other.db")
        removal = threading.Timer(0.2, (tmp_path / "other.db").unlink)
        removal.start()  # as the process does that makes a new ledger
        ledger.charge([full_batch()])
        removal.join()


class TestReplacedFiles:
    def test_another_ledger_in_its_place(self, path, tmp_path):
        ledger = PrivacyLedger(path, epsilon=1.0, delta=DELTA)
        ledger.charge([full_batch()])
        state = pickle.dumps(ledger)
        path.unlink()
        fresh = PrivacyLedger(path, epsilon=1.0, delta=DELTA)
        for one in (ledger, pickle.loads(state)):
            with pytest.raises(ValueError, match="was replaced by another ledger"):
                one.charge([full_batch()])
            with pytest.raises(ValueError, match="was replaced by another ledger"):
                one.spent()
        assert len(fresh) == 0

    def test_an_older_copy_in_its_place(self, path, tmp_path):
        ledger = PrivacyLedger(path, epsilon=1.0, delta=DELTA)
        ledger.charge([full_batch()])
        shutil.copy(path, tmp_path / "backup.db")
        ledger.charge([full_batch()])
        state = pickle.dumps(ledger)
        shutil.copy(path, tmp_path / "newer.db")
        shutil.copy(tmp_path / "backup.db", path)
        for one in (ledger, pickle.loads(state)):
            with pytest.raises(
                ValueError, match="ends with charge 1, but charge 2 was"
            ):
                one.charge([full_batch()])
        shutil.copy(tmp_path / "newer.db", path)
        ledger.charge([full_batch()])
        assert len(ledger) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
class TestForks:
    def test_children_of_a_busy_process_can_charge(self, path, monkeypatch):
        """SQLite's locks are in process memory; a child inherits those of threads."""
        monkeypatch.setattr(ledger_file, "_BUSY_SECONDS", 10.0)
        ledger = PrivacyLedger(path, epsilon=1000.0, delta=DELTA)
        stop = threading.Event()

        def work():
            while not stop.is_set():
                ledger.charge([full_batch()], label="parent")

        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        context = multiprocessing.get_context("fork")
        children = []
        for number in range(12):
            child = context.Process(
                target=ledger.charge,
                args=([full_batch()],),
                kwargs={"label": f"child {number}"},
            )
            child.start()
            children.append(child)
        last = time.monotonic() + 40
        for child in children:
            child.join(max(0.0, last - time.monotonic()))
        alive = [child for child in children if child.is_alive()]
        for child in alive:
            child.kill()
        stop.set()
        for thread in threads:
            thread.join(timeout=240)
        assert not alive and not any(thread.is_alive() for thread in threads)
        assert [child.exitcode for child in children] == [0] * 12
        labels = [entry.label for entry in ledger.entries]
        assert {f"child {number}" for number in range(12)} <= set(labels)

    def test_a_ledger_in_memory_is_not_used_in_a_child(self):
        ledger = PrivacyLedger(epsilon=1.0, delta=DELTA)
        context = multiprocessing.get_context("fork")
        messages = context.SimpleQueue()

        def child():
            for use in (ledger.spent, lambda: ledger.charge([full_batch()])):
                try:
                    messages.put(str(use()))
                except RuntimeError as error:
                    messages.put(str(error))
            messages.put(repr(ledger))

        process = context.Process(target=child)
        process.start()
        process.join(timeout=240)
        assert process.exitcode == 0
        assert "created by another process" in messages.get()
        assert "created by another process" in messages.get()
        assert "unreadable" in messages.get()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user"
)
def test_another_user_cannot_charge_a_read_only_file(tmp_path_factory):
    """As root permissions do not bind: a child gives root up."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.db"
        PrivacyLedger(path, epsilon=1.0, delta=DELTA).charge([full_batch()])
        os.chmod(folder, 0o755)
        path.chmod(0o444)
        code = (
            "import os, sys\n"
            "from skfdp.privacy import Event, PrivacyLedger\n"
            "os.setuid(65534)\n"
            "event = Event(label='e', noise_std=(9.0,), clip_norm=1, sensitivity=1)\n"
            "try:\n"
            "    PrivacyLedger(sys.argv[1]).charge([event])\n"
            "except (PermissionError, FileNotFoundError) as error:\n"
            "    print(type(error).__name__, error)\n"
        )
        environment = os.environ | {"PYTHONPATH": str(Path(skfdp.__file__).parents[1])}
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=240,
        )
        assert "PermissionError" in done.stdout, done.stderr
        assert "is read-only: make the file" in done.stdout
        assert len(PrivacyLedger(path)) == 1
