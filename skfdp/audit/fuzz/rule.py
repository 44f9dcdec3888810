"""The rule for fuzzed calls: they work, or are refused in one sentence, no datum."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import io
import logging
import pickle
import re
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

#: What the private values of `skfdp.audit.strategies` show of themselves as text: the
#: digits of numbers, with the decimal point left out, and parts of labels and dates.
SECRETS = ("735194", "s3cr3t", "2173-05")
#: Types of exceptions that refuse; `PrivacyBudgetError` and `NotFittedError` are among
#: them by inheritance.
REFUSALS = (ValueError, TypeError, AttributeError, ImportError, pickle.PicklingError)
#: Warnings that are somebody's defect, and not about privacy or utility.
DEFECTS = (
    RuntimeWarning,  # of NumPy and SciPy
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
    SyntaxWarning,
    BytesWarning,
    EncodingWarning,
    UnicodeWarning,
    ResourceWarning,
    np.exceptions.ComplexWarning,
    np.exceptions.RankWarning,
)
# Exceptions that the interpreter or a library made while they read a value have no
# raise statement in these packages.
_PACKAGES = ("skfdp", "sklearn")
# Of our own messages: what is expected, or what to do.
_REMEDY = re.compile(
    r"[:;,] \S|must |expects? |need(s|ed)? |choose|pass |declare |upgrade |should "
)
_FEWEST_WORDS = 4


class HangError(BaseException):
    """End of a call that took longer than its limit; no `except Exception` stops it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a call.

    Attributes
    ----------
    refusal : str or None
        The sentence of the exception, after its type; None if the call worked.
    faults : tuple of str
        What broke the rule; empty if nothing did.
    value : object
        What the call returned.
    """

    refusal: str | None
    faults: tuple[str, ...]
    value: Any = dataclasses.field(default=None, repr=False)

    @property
    def worked(self) -> bool:
        """Whether the call came to its end, whatever it warned of."""
        return self.refusal is None


def check_call(
    call: Callable[[], Any],
    *,
    secrets: Sequence[str] = SECRETS,
    time_limit: float = 20.0,
    packages: Sequence[str] = _PACKAGES,
    refusals: tuple[type[BaseException], ...] = REFUSALS,
) -> Outcome:
    """Make a call, and say in what it broke the rule for calls.

    The rule: a call works, or raises one of `refusals` by a ``raise`` statement of one
    of `packages`, whose message is one sentence with an expectation or a remedy if
    skfdp wrote it. It gives no warning of NumPy and no deprecation, under
    ``np.errstate(all="raise")`` either. It ends within the limit. And no secret is in
    its message, in those that led to it, or in its warnings, log lines and output; nor
    in the text of what it returned, if that is an object of `packages`.

    Parameters
    ----------
    call : callable
        Without arguments.
    secrets : sequence of str
        What no text may contain; decimal points are left out of the texts.
    time_limit : float, default=20.0
        Seconds. Only the main thread of POSIX systems ends a call, and only between
        two lines of Python; elsewhere nothing does.
    packages : sequence of str
        Who may refuse. Add your own package for a subclass.
    refusals : tuple of type
        With which exceptions. With OSError among them, for calls that read files, those
        of the operating system are refusals too.

    Returns
    -------
    outcome : Outcome

    Notes
    -----
    **Guarantees.** Every exception but `KeyboardInterrupt` is caught and judged. That a
    call has no faults does not show that it is right: a datum that is rounded, or
    bent, before it is printed is not recognised.

    Examples
    --------
    >>> from skfdp import calibrate
    >>> from skfdp.audit.strategies import check_call
    >>> check_call(lambda: calibrate(-1.0, 1e-5, n_steps=1)).faults
    ()
    >>> check_call(lambda: [][1]).faults
    ('IndexError is no refusal: list index out of range',)
    """
    texts: list[str] = []
    faults: list[str] = []
    value, refusal = None, None
    try:
        with _watched(texts, faults), _time_limit(time_limit):
            value = call()
    except KeyboardInterrupt:
        raise
    except HangError:
        refusal = "HangError"
        faults.append(f"the call took longer than {time_limit:g} seconds")
    except BaseException as error:
        refusal = f"{type(error).__name__}: {error}"
        faults += judge_refusal(error, packages, refusals)
        texts += _chain(error)
    else:
        texts += _own_texts(value, packages, faults)
    faults += [
        f"a datum is told: {_around(text, secret)}"
        for text in texts
        for secret in secrets
        if secret in text.replace(".", "")
    ]
    return Outcome(refusal, tuple(dict.fromkeys(faults)), value)


def judge_refusal(
    error: BaseException,
    packages: Sequence[str] = _PACKAGES,
    refusals: tuple[type[BaseException], ...] = REFUSALS,
) -> list[str]:
    """Return what is wrong with an exception as a refusal.

    Parameters
    ----------
    error : BaseException
        With its traceback.
    packages : sequence of str
        Whose ``raise`` statements refuse.
    refusals : tuple of type

    Returns
    -------
    faults : list of str
    """
    name, text = type(error).__name__, str(error)
    if isinstance(error, OSError) and OSError in refusals and error.errno is not None:
        return []  # what the operating system says of a file
    if not isinstance(error, refusals):
        return [f"{name} is no refusal: {_start(text)}"]
    frame, raised = _origin(error)
    module = "" if frame is None else str(frame.f_globals.get("__name__"))
    package = module.partition(".")[0]
    if package not in packages or not raised:
        where = f"{module}.{frame.f_code.co_name}" if frame is not None else "nowhere"
        return [f"{name} was not raised by us, but in {where}: {_start(text)}"]
    return [] if package == "sklearn" else _sentence_faults(text)


def _sentence_faults(text: str) -> list[str]:
    """Return what a message of ours lacks."""
    found = []
    if "\n" in text:
        found.append(f"the message has several lines: {_start(text)}")
    if len(text.split()) < _FEWEST_WORDS:
        found.append(f"the message is no sentence: {_start(text)}")
    if not _REMEDY.search(text):
        found.append(f"the message expects nothing: {_start(text)}")
    if " object at 0x" in text:
        found.append(f"the message holds an address: {_start(text)}")
    return found


def _origin(error: BaseException) -> tuple[types.FrameType | None, bool]:
    """Return the innermost frame, and whether it was at a ``raise`` statement."""
    trace = error.__traceback__
    if trace is None:
        return None, False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code.co_code
    operation = dis.opname[code[trace.tb_lasti]]
    return trace.tb_frame, operation in ("RAISE_VARARGS", "RERAISE")


def _chain(error: BaseException) -> list[str]:
    """Return the texts of an exception and of those that led to it.

    Loggers may write them out even where a traceback would suppress them.
    """
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and all(one is not other for other in found):
            found.append(one)
            waiting += [one.__cause__, one.__context__]
    return [f"{type(one).__name__}: {one}" for one in found]


def _own_texts(value: Any, packages: Sequence[str], faults: list[str]) -> list[str]:
    """Return how an object shows itself; nothing of arrays and frames."""
    if type(value).__module__.partition(".")[0] not in packages:
        return []
    try:
        return [repr(value), str(value)]
    except Exception as error:
        faults.append(f"its text cannot be made: {type(error).__name__}")
        return []


@contextlib.contextmanager
def _watched(texts: list[str], faults: list[str]) -> Iterator[None]:
    """Collect what a call says beside its result, with traps on."""
    out, log = io.StringIO(), _Log()
    root = logging.getLogger()
    level = root.level
    root.addHandler(log)
    root.setLevel(logging.DEBUG)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(out),
                np.errstate(all="raise"),
                special.errstate(all="raise"),
            ):
                yield
        finally:
            root.removeHandler(log)
            root.setLevel(level)
            texts += [out.getvalue(), *log.lines, *(str(w.message) for w in seen)]
            faults += [
                f"{w.category.__name__}: {_start(str(w.message))}"
                for w in seen
                if issubclass(w.category, DEFECTS) or _is_foreign(w)
            ]


def _is_foreign(warning: warnings.WarningMessage) -> bool:
    """Whether a library warned of what was asked of it, not of what the user asked."""
    names = ("numpy", "scipy", "pandas", "polars", "skfdp")
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    roots = {Path(file).parent for file in files if file is not None}
    return warning.category is UserWarning and bool(
        roots & {*Path(warning.filename).parents}
    )


class _Log(logging.Handler):
    """A handler that keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        # Loggers of compilers print their own progress, thousands of lines of it.
        if not record.name.startswith(("numba", "matplotlib")):
            self.lines.append(record.getMessage())


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise HangError in the main thread after so many seconds."""
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: types.FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _start(text: str, length: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}..."


def _around(text: str, secret: str) -> str:
    """Return the neighbourhood of a secret, in a text without decimal points."""
    text = text.replace(".", "")
    place = text.index(secret)
    return _start(text[max(0, place - 80) : place + 40])
