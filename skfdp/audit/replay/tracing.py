"""Traces: which functions of a fit are called, in which order."""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Collection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from skfdp import _version

PACKAGE = Path(_version.__file__).parent

_CELLS = (
    "reads each cell by what it holds, a number, a text or something else, and returns "
    "one number for each"
)
#: Functions that a private value may lead on another way, by file and name, and why
#: nothing leaves by it. That they are called is followed; what they call is not. The
#: exact sums of queries are among them: void, short and sparse rows go by other ways
#: to the same integers, which stay at the desk and are compared by themselves.
LED_BY_VALUES = {
    ("encoding/values.py", "Column.places"): _CELLS,
    ("encoding/values.py", "Column.read"): _CELLS,
    ("records/checks.py", "unmasked"): (
        "looks for masked entries in arrays of objects and in lists, which one value "
        "can make of an array of numbers; other entries are returned as they are"
    ),
    ("records/labels.py", "encode_any"): (
        "looks up each label, and once those that occur, of whatever type; what is not "
        "declared is missing"
    ),
    ("records/row_map.py", "RowMap.filled"): (
        "returns the table that it was given where every number is finite, which saves "
        "a copy, and fills it otherwise; the rows are finite either way"
    ),
}
#: The same, where a private value decides over lines alone: calls are followed.
LINES_LED_BY_VALUES = {
    ("records/row_map.py", "RowMap._short"): (
        "divides numbers of extreme size by two powers of two in the place of one"
    ),
    ("estimators/arrays.py", "either"): (
        "joins the void records of columns and of the target, where both have some"
    ),
    ("estimators/linear_model/regression.py", "LinearRegressor._target"): (
        "fills missing targets where there are some; they are finite either way"
    ),
    ("estimators/search/method.py", "Search._query"): (
        "scores records without a label as wrong, where there are some"
    ),
    ("releases/coins.py", "not_void"): (
        "leaves void records out where there are some; the batch stays at the desk"
    ),
}


class Trace:
    """The functions that are called while it is open, or every line of them.

    Parameters
    ----------
    files : collection of Path
        Whose functions are followed, beside those of this package.
    lines : bool
        Follow lines, not calls alone.

    Notes
    -----
    It sees this thread, and no compiled code. A tracer that was there before, such as
    a debugger, waits.
    """

    def __init__(self, files: Collection[str] = (), lines: bool = False):
        self._files, self._lines = frozenset(files), lines
        self._known: dict[CodeType, bool] = {}
        self._skipped: FrameType | None = None
        self._paused = False
        self._before: Any = None
        #: A function and who called it, or a function and the number of its line.
        self.steps: list[tuple[CodeType, CodeType | int]] = []

    def __enter__(self) -> Trace:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def paused(self) -> _Pause:
        """Return a context in which nothing is followed."""
        return _Pause(self)

    def follows(self, code: CodeType) -> bool:
        """Whether calls of a function are followed."""
        known = self._known.get(code)
        if known is None:
            name = code.co_filename
            inside = name.startswith(f"{PACKAGE}{os.sep}")
            audits = name.startswith(f"{PACKAGE / 'audit'}{os.sep}")
            known = self._known[code] = name in self._files or (inside and not audits)
        return known

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow a call, or not."""
        if self._paused or self._skipped is not None:
            return None
        code = frame.f_code
        if not self.follows(code):
            return None
        caller = code if frame.f_back is None else frame.f_back.f_code
        self.steps.append((code, caller))
        file, name = _place(code)
        if (file, name) in LED_BY_VALUES:
            self._skipped = frame
            frame.f_trace_lines = False
            return self._inside_skipped
        if not self._lines or (file, name) in LINES_LED_BY_VALUES:
            frame.f_trace_lines = False
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and not self._paused and self._skipped is None:
            self.steps.append((frame.f_code, frame.f_lineno))
        return self._line

    def _inside_skipped(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return" and frame is self._skipped:
            self._skipped = None
        return self._inside_skipped


class _Pause:
    def __init__(self, trace: Trace):
        self._trace = trace

    def __enter__(self) -> None:
        self._outer, self._trace._paused = self._trace._paused, True

    def __exit__(self, *error: object) -> None:
        self._trace._paused = self._outer


@functools.lru_cache(maxsize=4096)
def _place(code: CodeType) -> tuple[str, str]:
    """Return the file, below the package if it is in it, and the name of a function.

    Comprehensions and functions inside of it go by its name.
    """
    path = Path(code.co_filename)
    inside = path.is_relative_to(PACKAGE)
    file = path.relative_to(PACKAGE).as_posix() if inside else path.name
    return file, code.co_qualname.partition(".<locals>")[0]


def parting(one: Trace, other: Trace) -> str | None:
    """Return the function in which two traces part, None if they do not."""
    if one.steps == other.steps:
        return None
    for here, there in itertools.zip_longest(one.steps, other.steps):
        if here != there:
            steps = [step for step in (here, there) if step is not None]
            codes = [a if isinstance(b, int) else b for a, b in steps]
            followed = (code for code in codes if one.follows(code))
            return ": ".join(_place(next(followed, codes[0])))
    return None
