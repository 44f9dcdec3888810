"""The rule for fuzzed calls: they work, or are refused in one sentence, no datum."""

import contextlib
import dis
import io
import logging
import pickle
import re
import signal
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
from scipy import special

#: What the private values of ``fuzz_tables.py`` show of themselves as text: the
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
PACKAGES = ("skfdp", "sklearn")
# Of our own messages: what is expected, or what to do.
_REMEDY = re.compile(
    r"[:;,] \S|must |expects? |need(s|ed)? |choose|pass |declare |upgrade |should "
)
_FEWEST_WORDS = 4


class HangError(BaseException):
    """End of a call that took longer than its limit; no `except Exception` stops it."""


def faults_of(
    call, *, secrets=SECRETS, time_limit=120.0, packages=PACKAGES, refusals=REFUSALS
):
    """Make a call, and return in what it broke the rule for calls.

    The rule: a call works, or raises one of `refusals` by a ``raise`` statement of one
    of `packages`, whose message is one sentence with an expectation or a remedy if
    skfdp wrote it. It gives no warning of NumPy and no deprecation, under
    ``np.errstate(all="raise")`` either. It ends within the limit. And no secret is in
    its message, in those that led to it, or in its warnings, log lines and output; nor
    in the text of what it returned, if that is an object of `packages`.
    """
    texts, faults = [], []
    try:
        with _watched(texts, faults), _time_limit(time_limit):
            value = call()
    except KeyboardInterrupt:
        raise
    except HangError:
        faults.append(f"the call took longer than {time_limit:g} seconds")
    except BaseException as error:
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
    return tuple(dict.fromkeys(faults))


def judge_refusal(error, packages, refusals):
    """Return what is wrong with an exception as a refusal."""
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


def _sentence_faults(text):
    broken = {
        "has several lines": "\n" in text,
        "is no sentence": len(text.split()) < _FEWEST_WORDS,
        "expects nothing": not _REMEDY.search(text),
        "holds an address": " object at 0x" in text,
    }
    return [
        f"the message {one}: {_start(text)}" for one, is_so in broken.items() if is_so
    ]


def _origin(error):
    """Return the innermost frame, and whether it was at a ``raise`` statement."""
    trace = error.__traceback__
    if trace is None:
        return None, False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code.co_code
    operation = dis.opname[code[trace.tb_lasti]]
    return trace.tb_frame, operation in ("RAISE_VARARGS", "RERAISE")


def _chain(error):
    """Return the texts of an exception and of those that led to it.

    Loggers may write them out even where a traceback would suppress them.
    """
    found, waiting = [], [error]
    while waiting:
        one = waiting.pop()
        if one is not None and all(one is not other for other in found):
            found.append(one)
            waiting += [one.__cause__, one.__context__]
    return [f"{type(one).__name__}: {one}" for one in found]


def _own_texts(value, packages, faults):
    """Return how an object shows itself; nothing of arrays and frames."""
    if type(value).__module__.partition(".")[0] not in packages:
        return []
    try:
        return [repr(value), str(value)]
    except Exception as error:
        faults.append(f"its text cannot be made: {type(error).__name__}")
        return []


@contextlib.contextmanager
def _watched(texts, faults):
    """Collect what a call says beside its result, with traps on."""
    out, root = io.StringIO(), logging.getLogger()
    log = logging.StreamHandler(out)
    # Loggers of compilers print their own progress, thousands of lines of it.
    log.addFilter(lambda line: not line.name.startswith(("numba", "matplotlib")))
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
            texts += [out.getvalue(), *(str(w.message) for w in seen)]
            faults += [
                f"{w.category.__name__}: {_start(str(w.message))}"
                for w in seen
                if issubclass(w.category, DEFECTS) or _is_foreign(w)
            ]


def _is_foreign(warning):
    """Whether a library warned of what was asked of it, not of what the user asked."""
    names = ("numpy", "scipy", "pandas", "polars", "skfdp")
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    roots = {Path(file).parent for file in files if file is not None}
    return warning.category is UserWarning and bool(
        roots & {*Path(warning.filename).parents}
    )


@contextlib.contextmanager
def _time_limit(seconds):
    """Raise HangError in the main thread after so many seconds."""
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number, frame):
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _start(text, length=160):
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}..."


def _around(text, secret):
    """Return the neighbourhood of a secret, in a text without decimal points."""
    text = text.replace(".", "")
    place = text.index(secret)
    return _start(text[max(0, place - 80) : place + 40])
