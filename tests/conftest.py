"""Shared data and helpers."""

import faulthandler
import hashlib
import math
import os
import random
import re
import sys
from collections import defaultdict
from pathlib import Path

# Processes share the cores already: threads of theirs would only wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault(name, "1")

#: Folders of modules that tests import.
sys.path += [str(Path(__file__).parent / one) for one in ("", "golden", "contributing")]

import numpy as np  # noqa: E402
import pytest  # noqa: E402

ERRORS = pytest.StashKey()


def pytest_addoption(parser):
    """Let whoever asks see other noise than that of every run before."""
    parser.addoption(
        "--fresh-noise",
        action="store_true",
        help="key noise without a seed by the operating system, not by the test's name",
    )


#: The share of a test's cases that run each time, and their least number.
SHARE, LEAST = 0.25, 3
#: Tests of guarantees (what is claimed, what private rows may move, attacks), of which
#: all cases run.
GUARANTEES = re.compile(
    r"/(audit|fuzz|queries|releases)/|/test_(adaptive|balanced|bounds_first|common|"
    r"contributions|curves|guarantees|label_sensitivity|ledger|ledger_files|"
    r"malformed_values|methods|order_of_a_fit|plan_is_public|plans|private_bounds|"
    r"private_counts|reference|sabotage|statement)\.py"
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Run some cases of each test each time, and the others nightly.

    Of a slow test it is the first case, of a test of guarantees all, of others a share.
    Names decide which: a new case leaves most of the choice as it was, and neighbours
    in a list, which resemble each other, are not chosen together. So no guarantee goes
    without a test for a day. Of a test that the command names, all cases run.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = [item for item in items if not item.get_closest_marker("slow")]
    seen = {getattr(item, "function", None) for item in others}  # doctests have none
    for item in slow:
        if hasattr(item, "callspec") and item.function not in seen:
            item.own_markers = [m for m in item.own_markers if m.name != "slow"]
        seen.add(item.function)
    if config.option.keyword or any("::" in asked for asked in config.args):
        return
    cases = defaultdict(list)
    for item in others:
        counted = hasattr(item, "callspec") and not item.get_closest_marker("nightly")
        if counted and not GUARANTEES.search(item.nodeid.partition("[")[0]):
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        found.sort(key=lambda item: hashlib.md5(item.callspec.id.encode()).digest())
        for item in found[max(LEAST, math.ceil(SHARE * len(found))) :]:
            item.add_marker("nightly")


def pytest_configure(config):
    """Compile loops for small tables, too, so that tests call them and not their twins.

    Keep the stream of errors: while a test runs, pytest catches what goes there. Small
    tables and seeds are warned of everywhere; tests of warnings ask for them.
    """
    from skfdp import kernels

    for kind in ("UtilityWarning", "PrivacyWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::skfdp.{kind}")
    kernels.SMALL, kernels.compiles = 0, True
    config.stash[ERRORS] = os.dup(sys.__stderr__.fileno())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """End the process of a test that hangs, and print what its threads wait for.

    The test fails then, and xdist runs the rest in a new process.
    """
    long = any(item.get_closest_marker(name) for name in ("slow", "nightly"))
    errors = item.config.stash[ERRORS]
    faulthandler.dump_traceback_later(3600 if long else 300, file=errors, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_runtest_setup(item):
    """Skip a test that needs a package outside the extra "test".

    `.ci/run` has a stage with all of these packages, in which no such test is skipped.
    """
    for marker in item.iter_markers("extra"):
        for package in marker.args:
            pytest.importorskip(package)


@pytest.fixture(autouse=True)
def _noise_of_the_test(request, monkeypatch):
    """Key noise without a seed by the name of the test: chance decides no run.

    A test of the size of noise, or of what a model learns, fails by chance once in so
    many runs. With thousands of them hardly a run would pass.
    """
    if not request.config.getoption("--fresh-noise"):
        keys = random.Random(request.node.nodeid.partition("tests/")[2])
        monkeypatch.setattr(
            "skfdp.mechanisms.release.secrets.randbits", keys.getrandbits
        )


@pytest.fixture
def same_noise(monkeypatch):
    """Let noise depend on labels alone, where data have other digests."""

    def drawn(self, label, *facts):
        return np.random.default_rng(len(label))

    monkeypatch.setattr("skfdp.mechanisms.release.Streams.private", drawn)


@pytest.fixture
def threads_for_few_rows(monkeypatch):
    """Use all threads of `n_jobs`, also for small tables."""
    monkeypatch.setattr("skfdp.queries.linear._ENTRIES_PER_THREAD", 100)


#: Parameters and calls of Python, for which a command names an option or an entry.
PYTHON = (
    r"(?<![\w.'\"(-])(epsilon|delta|target|random_state|neighboring_relation|n_records|"
    r"ledger|outcomes|groups?|public|delimiter|decimal|thousands|skip_lines|header|"
    r"classes|public_\w+|target_bounds|bounds|max_rows_per_group|missing|path)=\S"
    r"|ledger\.\w+\(|AddOrRemoveOne|cross_val_predict|to_json|Ignore\(|^missing "
)


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Run a command in an empty folder; return status, stdout and stderr."""
    from skfdp.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*argv):
        try:
            status = main([*map(str, argv)])
        except SystemExit as leaving:
            status = leaving.code
        out, err = capsys.readouterr()
        assert not re.search(PYTHON, err), err
        return status, out, err

    return run


@pytest.fixture
def refusal(command):
    """Run a command that is refused; return its one sentence."""

    def run(*argv):
        status, out, err = command(*argv)
        assert (status, out, err.count("\n")) == (2, "", 1), (status, out, err)
        return err.removeprefix("skfdp: error: ")

    return run


@pytest.fixture
def callbacks():
    """Skip where scikit-learn has none: they came with 1.9."""
    pytest.importorskip("sklearn.callback")


@pytest.fixture
def named(small):
    """The problem `small` as a frame: ledgers compare names, and arrays have none."""
    import pandas as pd

    X, y = small
    return pd.DataFrame(X, columns=["u0", "u1", "u2", "u3"]), y


@pytest.fixture(scope="session")
def digits():
    """Rows of 64 pixels in [0, 16], ten classes, in a random order."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


@pytest.fixture
def small():
    """A binary problem of 300 rows, columns in [0, 1]."""
    rng = np.random.default_rng(7)
    X = rng.random((300, 4))
    y = (X[:, 0] + X[:, 1] + 0.2 * rng.normal(size=300) > 1).astype(int)
    return X, y


@pytest.fixture
def releases(monkeypatch):
    """Record every release of a fit: its exact sum, its noise, what was asked."""
    from skfdp.mechanisms import release as mechanism

    seen, release = [], mechanism._noisy_sum

    def recorded(query, theta, *, noise_std, unit, batch, **more):
        exact = query.exact_sum(theta, batch, unit) * unit
        asked = {"noise_std": noise_std, "unit": unit, "batch": batch, **more}
        out = release(query, theta, **asked)
        seen.append(
            {
                "query": query,
                "theta": theta,
                "std": noise_std,
                # drawn in place, hence overwritten by the next step
                "batch": None if batch is None else batch.copy(),
                "exact": exact,
                "noise": out - exact,
            }
        )
        return out

    monkeypatch.setattr(mechanism, "_noisy_sum", recorded)
    return seen
