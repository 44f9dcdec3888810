"""Integer rows in files without a name."""

import errno
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import sklearn

from skfdp.data import sources as files
from skfdp.data.grid import GridRows
from skfdp.data.sources import Reader, RowFile, check_room

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def rows():
    return np.random.default_rng(0).integers(-(2**15), 2**15, (40, 6), np.int16)


def test_what_is_written_is_read_and_has_no_name_at_any_time(rows, folder):
    file = RowFile(rows.shape[1])
    file.write(rows)
    assert list(folder.iterdir()) == []
    values, _ = file.read()
    assert list(folder.iterdir()) == []
    assert values.dtype == np.int16 and not values.flags.writeable
    assert np.array_equal(values, rows)


@LINUX
def test_a_killed_process_leaves_nothing(folder):
    script = (
        "import os, signal, numpy as np\n"
        "from skfdp.data.sources import RowFile\n"
        "file = RowFile(1000)\n"
        "file.write(np.ones((5000, 1000), dtype=np.int16))\n"
        "kept = file.read()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=240)
    assert done.returncode == -9
    assert list(folder.iterdir()) == []


@LINUX
def test_others_may_not_open_it(rows):
    file = RowFile(rows.shape[1])
    assert os.fstat(file._file.fileno()).st_mode & 0o077 == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "flush"])
def test_a_full_disk_is_told_in_one_sentence(rows, code, call, monkeypatch):
    class Full:
        def write(self, data):
            if call == "write":
                raise OSError(code, "full")

        def flush(self):
            raise OSError(code, "full")

    file = RowFile(rows.shape[1])
    file._file = Full()
    with pytest.raises(OSError, match="no room for the integer rows of this X"):
        file.write(rows)
        file.read()


def test_room_is_asked_for_before(monkeypatch, folder):
    usage = type(files.shutil.disk_usage(folder))(10**9, 10**9 - 10**5, 10**5)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: usage)
    with sklearn.config_context(working_memory=0.05):
        check_room(100, 500)  # 10**5 bytes
        check_room(10, 500)
        with pytest.raises(OSError, match="TMPDIR") as error:
            check_room(101, 500)
    assert error.value.errno == errno.ENOSPC
    check_room(101, 500)  # in memory


class Asked:
    """A map that notes what it is asked for."""

    def __init__(self):
        self.places = []

    def madvise(self, option, *place):
        if place:
            self.places.append(place)


@LINUX
@pytest.mark.parametrize("whole", [True, False])
def test_every_row_is_asked_for_before_it_is_read(whole, monkeypatch):
    monkeypatch.setattr(files, "_STRETCH", 2**16)
    monkeypatch.setattr(files, "_MEMBERS", 16)
    row_bytes = 3000
    memory = Asked()
    reader = Reader(memory, row_bytes)
    batch = None
    if not whole:
        batch = np.flatnonzero(np.random.default_rng(0).random(3000) < 0.05)
    stop = 300 if whole else len(batch)
    covered = []
    for first, last in reader.stretches(batch, 0, stop):
        covered += range(first, last)
        asked = set()
        for begin, size in memory.places:
            assert begin % 4096 == 0
            asked.update(range(begin // 4096, -(-(begin + size) // 4096)))
        for i in range(first, last):
            row = i if whole else batch[i]
            begin = row * row_bytes
            pages = range(begin // 4096, (begin + row_bytes - 1) // 4096 + 1)
            assert asked.issuperset(pages)
    assert covered == list(range(stop))
    if not whole:  # and little else
        assert len(asked) < 0.3 * 3000 * row_bytes / 4096 + 100


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_of_files_alone_go_into_files(limit, on_disk, folder):
    class Blocks:
        shape = (300, 5)

        def __getitem__(self, block):
            return np.arange(1500).reshape(300, 5)[block] / 1500

    X = Blocks()
    X.on_disk = on_disk
    with sklearn.config_context(working_memory=limit):
        rows = GridRows.build(X, lambda x: x, bias=0.5)
    assert (rows.reader is not None) == (on_disk and limit == 0)
    usual = GridRows.build(X[:], lambda x: x, bias=0.5)
    assert np.array_equal(rows.values, usual.values)
    assert np.array_equal(rows.squared_norms, usual.squared_norms)
