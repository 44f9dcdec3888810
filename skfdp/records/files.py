"""Integer rows in files without a name: written once, read through a map.

What is private lies in no file that can be opened by name, and goes with the process,
however that ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import mmap
import shutil
import tempfile
from collections.abc import Iterator

import numpy as np
from sklearn import get_config

# A pass asks for this many bytes while it reads as many before them, in pieces that
# every system reads in advance at once.
_STRETCH, _PIECE = 2**25, 2**19
# Rows of a batch that are no further apart than this are read in one piece.
_GAP = 2**15
# Of so many rows a batch asks at once.
_MEMBERS = 2**12
_NO_ROOM = (
    "the folder of temporary files, {folder!r}, has no room for the integer rows of "
    "this X, 2 bytes a number: let TMPDIR name a folder on a disk that has, or raise "
    "sklearn.set_config(working_memory=...), in MiB, to hold them in memory."
)


def working_memory() -> int:
    """Return the bytes that a table may take: scikit-learn's `working_memory`."""
    return int(get_config()["working_memory"] * 2**20)


def check_room(n_rows: int, n_columns: int) -> None:
    """Raise OSError where integer rows that do not fit into memory fit nowhere else.

    It looks at the shape of a table alone, before anything is charged.
    """
    size, folder = 2 * n_rows * n_columns, tempfile.gettempdir()
    if size > working_memory() and shutil.disk_usage(folder).free < size:
        raise _no_room()


def _no_room() -> OSError:
    return OSError(errno.ENOSPC, _NO_ROOM.format(folder=tempfile.gettempdir()))


class RowFile:
    """Int16 rows on their way into a file that has no name.

    Parameters
    ----------
    n_columns : int

    Notes
    -----
    **Guarantees.** Where the system knows files without a name (Linux), there is none
    at any time; elsewhere the name is deleted before the first row is written (Windows:
    with the process). No other user may open it. Its blocks are freed, not overwritten.
    """

    def __init__(self, n_columns: int):
        self._n_columns = n_columns
        self._file = tempfile.TemporaryFile(buffering=2**20)

    def write(self, rows: np.ndarray) -> None:
        """Append some rows.

        Raises
        ------
        OSError
            If the disk is full.
        """
        try:
            self._file.write(np.ascontiguousarray(rows, dtype=np.int16).data)
        except OSError as error:
            raise _told(error) from None

    def read(self) -> tuple[np.ndarray, Reader]:
        """Return all rows, not to be written to, and what reads them in advance."""
        try:
            self._file.flush()
        except OSError as error:
            raise _told(error) from None
        with self._file:
            memory = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        values = np.frombuffer(memory, dtype=np.int16).reshape(-1, self._n_columns)
        return values, Reader(memory, 2 * self._n_columns)


def _told(error: OSError) -> OSError:
    return _no_room() if error.errno in (errno.ENOSPC, errno.EDQUOT) else error


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads mapped rows in advance: it changes how fast they come, and nothing else.

    Attributes
    ----------
    memory : mmap
        Of the whole file.
    row_bytes : int
        Of one row.
    """

    memory: mmap.mmap
    row_bytes: int

    def stretches(
        self, batch: np.ndarray | None, start: int, stop: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the ends of parts of ``batch[start:stop]``, None being every row.

        The part after the one that is yielded is asked for in advance.

        Parameters
        ----------
        batch : int64 ndarray, increasing, or None
        start, stop : int
        """
        whole = batch is None
        size = max(1, _STRETCH // self.row_bytes) if whole else _MEMBERS
        self._advise("MADV_SEQUENTIAL" if whole else "MADV_RANDOM")
        self._ask(batch, start, min(start + size, stop))
        for first in range(start, stop, size):
            last = min(first + size, stop)
            self._ask(batch, last, min(last + size, stop))
            yield first, last

    def _ask(self, batch: np.ndarray | None, first: int, last: int) -> None:
        if first == last:
            return
        if batch is None:
            self._ask_for(first, last)
            return
        rows = batch[first:last]
        far = np.diff(rows) * self.row_bytes > _GAP
        begins, ends = rows[np.r_[True, far]], rows[np.r_[far, True]] + 1
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            self._ask_for(begin, end)

    def _ask_for(self, first: int, last: int) -> None:
        """Ask for rows that lie side by side."""
        begin = first * self.row_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        end = last * self.row_bytes
        for piece in range(begin, end, _PIECE):
            self._advise("MADV_WILLNEED", piece, min(_PIECE, end - piece))

    def _advise(self, name: str, *place: int) -> None:
        """Give the system a hint, if it takes hints."""
        if hasattr(mmap, name):
            with contextlib.suppress(OSError):
                self.memory.madvise(getattr(mmap, name), *place)
