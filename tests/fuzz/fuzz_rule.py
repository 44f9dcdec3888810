"""The rule for fuzzed calls: they work, or are refused in one sentence, no datum."""

import contextlib
import dis
import io
import logging
import pickle
import re
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy import special

#: What the private values of ``test_fuzz.py`` show of themselves as text: the digits
#: of numbers, with the decimal point left out, and parts of labels and dates.
SECRETS = ("735194", "s3cr3t", "2173-05")
#: Types of exceptions that refuse; `PrivacyBudgetError` and `NotFittedError` are among
#: them by inheritance.
REFUSALS = (ValueError, TypeError, AttributeError, ImportError, pickle.PicklingError)
#: Warnings that are somebody's defect, and not about privacy or utility.
DEFECTS = (
    *(RuntimeWarning, DeprecationWarning, PendingDeprecationWarning, FutureWarning),
    *(SyntaxWarning, BytesWarning, EncodingWarning, UnicodeWarning, ResourceWarning),
    *(np.exceptions.ComplexWarning, np.exceptions.RankWarning),
)
# Of our own messages: what is expected, or what to do.
_REMEDY = re.compile(
    r"[:;,] \S|must |expects? |need(s|ed)? |choose|pass |declare |upgrade |should "
)


def faults_of(call, packages=("skfdp", "sklearn"), refusals=REFUSALS):
    """Make a call, and return in what it broke the rule for calls.

    The rule: a call works, or raises one of `refusals` by a ``raise`` statement of one
    of `packages`, whose message is one sentence with an expectation or a remedy if
    skfdp wrote it. It gives no warning of NumPy and no deprecation, under
    ``np.errstate(all="raise")`` either. And no secret is in its message, in those that
    led to it, or in its warnings, log lines and output; nor in the text of what it
    returned, if that is an object of `packages`.
    """
    texts, faults = [], []
    try:
        with _watched(texts, faults):
            value = call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        faults += _faults_of_refusal(error, packages, refusals)
        waiting, found = [error], []
        while waiting:  # loggers may write out what led to it
            if (one := waiting.pop()) is not None and one not in found:
                found.append(one)
                waiting += [one.__cause__, one.__context__]
        texts += [f"{type(one).__name__}: {one}" for one in found]
    else:
        if type(value).__module__.partition(".")[0] in packages:
            try:
                texts += [repr(value), str(value)]
            except Exception as error:
                faults.append(f"its text cannot be made: {type(error).__name__}")
    for text in (text.replace(".", "") for text in texts):
        for place in (text.find(secret) for secret in SECRETS if secret in text):
            faults.append(f"a datum is told: {text[max(0, place - 80) : place + 40]}")
    return tuple(dict.fromkeys(faults))


def _faults_of_refusal(error, packages, refusals):
    name, text = type(error).__name__, " ".join(str(error).split())[:160]
    if isinstance(error, OSError) and OSError in refusals and error.errno is not None:
        return []  # what the operating system says of a file
    if not isinstance(error, refusals):
        return [f"{name} is no refusal: {text}"]
    # The interpreter, or a library that read a value, has no raise statement of ours.
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    operation = dis.opname[frame.f_code.co_code[trace.tb_lasti]]
    if package not in packages or operation not in ("RAISE_VARARGS", "RERAISE"):
        return [f"{name} was not raised by us, but in {frame.f_code}: {text}"]
    broken = {
        "has several lines": "\n" in str(error),
        "is no sentence": len(text.split()) < 4,
        "expects nothing": not _REMEDY.search(str(error)),
        "holds an address": " object at 0x" in str(error),
    }
    own = package != "sklearn"
    return [f"the message {why}: {text}" for why, so in broken.items() if so and own]


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
                f"{w.category.__name__}: {str(w.message)[:160]}"
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
