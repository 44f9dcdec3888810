"""Fits that died and start again: the same bits at no charge, or a refusal."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from problems import Stopped
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skfdp
from skfdp.audit import audit_replay
from skfdp.mechanisms import checkpoint
from skfdp.mechanisms.descent import HeavyBall
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy.events import ASSUMED
from skfdp.privacy.ledger_file import Store
from skfdp.schema import Label, Number
from skfdp.solvers import (
    AdaptiveCentering,
    NoisyGradientDescent,
    NoisySGD,
)

N_STEPS = 2
BATCHES = NoisySGD(batch_size=20, max_iter=N_STEPS)
RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 3)), RNG.integers(0, 2, 60)
OTHER = X.copy()
OTHER[7, 1] = 1 - X[7, 1]
REFUSED = "is of a fit with other rows, parameters, .* key is destroyed and its charge"


def classifier(**parameters):
    given = {"epsilon": 5.0, "bounds": (0, 1), "classes": [0, 1], "centering": None}
    given["solver"] = NoisyGradientDescent(max_iter=N_STEPS, max_weight_norm=10.0)
    return skfdp.DPSGDFClassifier(**given | parameters)


def within(path, model, *data, stop=False, **fit_params):
    """Fit within a checkpoint; with `stop` die after the fit."""
    ends = pytest.raises(Stopped) if stop else contextlib.nullcontext()
    with ends, skfdp.checkpoint(path):
        model.fit(*(data or (X, Y)), **fit_params)
        if stop:
            raise Stopped
    return model


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint"


@pytest.fixture
def ledger(tmp_path):
    return skfdp.PrivacyLedger(tmp_path / "ledger.db", epsilon=12.0, delta=1e-5)


@pytest.fixture
def given(monkeypatch):
    """Return a list of the releases of the fits of a test."""
    found, release = [], Mechanism.release

    def watched(self, *asked, **more):
        found.append(release(self, *asked, **more).tobytes())
        return np.frombuffer(found[-1]).reshape(asked[1].shape).copy()

    monkeypatch.setattr(Mechanism, "release", watched)
    return found


# -- every moment at which a process can be killed -------------------------------------
def killed(folder, model, moment):
    """Kill a fit in a forked process at a moment; return how it ended, and releases.

    Moments are before each write, charge and release, and in the middle of each write.
    """
    seen, child = folder / "seen", os.fork()
    if child == 0:
        left = [moment]

        def pass_by():
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def after(inner):
            def both(*asked):
                pass_by()
                return inner(*asked)

            return both

        def in_two(file, text, place, write=os.pwrite):
            half = len(text) // 2
            for part in (slice(half), slice(half, None)):
                pass_by()
                write(file, text[part], place + (part.start or 0))

        def shown(self, *asked, release=Mechanism.release, **more):
            values = release(self, *asked, **more)
            with open(seen, "ab") as file:
                file.write(values.tobytes())
            return values

        try:
            os.pwrite, Mechanism.release = in_two, shown
            writes = (os, "fsync"), (Path, "unlink"), (Store, "_write")
            for owner, name in (*writes, (Mechanism, "_released_now")):
                setattr(owner, name, after(getattr(owner, name)))
            within(folder / "checkpoint", model)
        finally:
            os._exit(0)
    code = os.waitpid(child, 0)[1]
    return code, seen.read_bytes() if seen.exists() else b""


@pytest.mark.parametrize(
    "model, charged",
    [
        (classifier(), True),
        pytest.param(classifier(), False, marks=pytest.mark.nightly),
        pytest.param(classifier(solver=BATCHES), True, marks=pytest.mark.nightly),
    ],
    ids=["ledger", "no ledger", "Poisson"],
)
def test_killed_at_any_moment_it_gives_the_same_bits_at_no_charge(
    model, charged, tmp_path, given
):
    clone(model).fit(X, Y)  # compiles before forks
    code, moment, lengths = signal.SIGKILL, 0, set()
    n_released = sum(len(one) for one in given)
    while code == signal.SIGKILL:
        folder = tmp_path / str(moment)
        folder.mkdir()
        own = clone(model)
        if charged:
            own.set_params(ledger=skfdp.PrivacyLedger(folder / "ledger.db"))
        code, seen = killed(folder, own, moment)
        ended, moment = not (folder / "checkpoint").exists() and seen, moment + 1
        given.clear()
        within(folder / "checkpoint", own)
        released = b"".join(given)
        assert len(released) == n_released
        n_charges = 1
        if ended:  # the ``with`` ended: this is a new fit
            assert released[:8] != seen[:8]
            n_charges = 2
        else:
            assert released.startswith(seen)
            lengths.add(len(seen))
        if charged:
            assert len({one.charge for one in own.ledger.entries}) == n_charges
            own.ledger.check_report(own.privacy_)
        assert not (folder / "checkpoint").exists()
    assert code == 0 and {0, n_released} < lengths
    assert moment > 12


# -- one key, one model ----------------------------------------------------------------
RELABELLED = np.r_[1 - Y[:1], Y[1:]]
SHORT = NoisyGradientDescent(max_iter=N_STEPS, max_weight_norm=1.0)


@pytest.mark.parametrize(
    "changed, rows, y, versions",
    [
        ({}, OTHER, Y, None),
        ({}, X, RELABELLED, None),
        ({"epsilon": 4.0}, X, Y, None),
        ({"solver": SHORT}, X, Y, None),  # which changes no event
        ({}, X, Y, {"numpy": "0"}),
    ],
    ids=["row", "label", "epsilon", "setting", "version"],
)
def test_another_fit_is_refused_and_the_key_destroyed(
    changed, rows, y, versions, path, ledger, monkeypatch, given
):
    within(path, classifier(ledger=ledger), stop=True)
    kept = path.with_name("copy")
    kept.write_bytes(path.read_bytes()[:80])  # of before the first release
    os.link(path, path.with_name("other name"))
    n_entries, first, given[:] = len(ledger.entries), given[:], []
    model = classifier(ledger=ledger, **changed)
    if versions:
        monkeypatch.setattr(checkpoint, "package_versions", lambda: versions)
    for place in (path, kept):
        with pytest.raises(ValueError, match=REFUSED):
            within(place, model, rows, y)
        assert not place.exists()
    assert not given and len(ledger.entries) == n_entries
    assert not any(path.with_name("other name").read_bytes()[:80])
    within(path, model, rows, y)  # a new fit, with its own noise and charge
    assert not set(given) & set(first)
    assert len({one.charge for one in ledger.entries}) == 2


def test_other_sums_of_the_same_fit_are_refused(path, monkeypatch, given):
    """Such as those on another processor, which rounds weights in another way."""
    within(path, classifier(), stop=True)
    kept, first, given[:] = path.read_bytes(), given[:], []
    other, update = 1 + 2.0**-8, HeavyBall.update
    monkeypatch.setattr(HeavyBall, "update", lambda *asked: other * update(*asked))
    with pytest.raises(ValueError, match=REFUSED):
        within(path, classifier())
    assert given == first[: len(given)] and 0 < len(given) < len(first)
    assert not path.exists()
    # A copy without the marks of the last sums: the noise is that of no other sum.
    n_same, given[:] = len(given), []
    path.write_bytes(kept[: 80 + 16 * n_same])
    within(path, classifier())
    assert given[:n_same] == first[:n_same]
    before, after = (np.frombuffer(some[n_same]) for some in (first, given))
    assert np.abs(after - before).max() > 0.05 * np.abs(before).max()


def test_the_file_is_secret_and_goes(path):
    path.touch(mode=0o644)
    with pytest.raises(Stopped), skfdp.checkpoint(path):
        classifier().fit(X, Y)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with skfdp.checkpoint(path), pytest.raises(BlockingIOError, match="its own"):
            classifier().fit(X, Y)
        raise Stopped
    assert path.read_bytes()[:16] == b"skfdp-checkpoint"
    within(path, classifier())
    assert not path.exists()


def test_what_cannot_be_used_is_refused_before_the_charge(path, ledger):
    model = classifier(ledger=ledger)
    path.write_text("a table")
    with skfdp.checkpoint(path), pytest.raises(ValueError, match="of another kind"):
        model.fit(X, Y)
    assert path.read_text() == "a table"
    for place in (path.parent / "none" / "file", path.parent):
        with pytest.raises(OSError, match="cannot be used .* path of its own"):
            within(place, model)
    path.unlink()
    assert len(ledger.entries) == 0
    with pytest.raises(ValueError, match="is for one fit"), skfdp.checkpoint(path):
        model.fit(X, Y)
        model.fit(OTHER, Y)
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="not with Dask"):
        within(path, model, da.from_array(X), da.from_array(Y))
    assert len({one.charge for one in ledger.entries}) == 1


def test_a_checkpoint_that_no_fit_used_is_told(path):
    with pytest.warns(UserWarning, match="no private fit used checkpoint"):
        within(path, classifier(epsilon=np.inf))


# -- charges ---------------------------------------------------------------------------
@pytest.mark.parametrize("in_file", [True, False], ids=["file", "memory"])
def test_each_ledger_is_charged_once(in_file, path, tmp_path):
    ledgers = [
        skfdp.PrivacyLedger(tmp_path / f"{i}.db" if in_file else None) for i in "ab"
    ]
    models = []
    for ledger in (ledgers[0], None, ledgers[1], ledgers[0]):
        models.append(within(path, classifier(ledger=ledger), stop=True))
    for ledger in ledgers:
        assert {one.charge for one in ledger.entries} == {1}
    assert models[0].privacy_.receipts == models[-1].privacy_.receipts
    ledgers[0].check_report(models[-1].privacy_)
    assert len({one.coef_.tobytes() for one in models}) == 1
    told = set(models[0].privacy_.assumptions)
    plain = set(classifier(ledger=ledgers[0]).fit(X, Y).privacy_.assumptions)
    assert told - plain == {ASSUMED["checkpoint_unread"]}


def test_a_fit_that_was_refused_its_charge_leaves_nothing(path):
    ledger = skfdp.PrivacyLedger(epsilon=1.0, delta=1e-5)
    with pytest.raises(skfdp.PrivacyBudgetError, match="budget exhausted"):
        within(path, classifier(ledger=ledger))
    assert not path.exists()
    within(path, classifier(epsilon=0.5, ledger=ledger))


# -- other tables, relations, models, Pipelines, audits --------------------------------
FITS = {
    "persons, Poisson": (classifier(solver=BATCHES), X, {"groups": np.arange(60) // 3}),
    "weights": (classifier(), X, {"sample_weight": np.arange(60) % 3}),
    "CSR": (classifier(), csr_array(X * (X > 0.5)), {}),
    "adaptive": (classifier(centering=AdaptiveCentering(clip_features=True)), X, {}),
    "bounds": (classifier(bounds="private"), pd.DataFrame(X), {}),
    "Pipeline": (make_pipeline(FunctionTransformer(), classifier()), X, {}),
}


@pytest.mark.parametrize("name", FITS)  # other methods: see test_methods.py
def test_all_random_numbers_come_from_the_key(name, path, given):
    model, rows, more = FITS[name]
    within(path, clone(model), rows, Y, stop=True, **more)
    first, given[:] = given[:], []
    parallel = {"n_jobs": 2} if "n_jobs" in model.get_params() else {}
    model = clone(model).set_params(**parallel)
    within(path, model, rows, Y, **more)
    assert given == first and len(set(given)) == len(given)
    given.clear()
    within(path, model, rows, Y, **more)
    assert not set(given) & set(first)


def test_a_table_in_a_file_is_read_not_named(path, tmp_path, given):
    place = tmp_path / "rows.npy"
    for rows in (X, X, OTHER):
        np.save(place, rows)
        refused = pytest.raises(ValueError, match=REFUSED)
        with refused if rows is OTHER else contextlib.nullcontext():
            within(path, classifier(), skfdp.open_table(place), Y, stop=rows is X)
    assert given[: len(given) // 2] == given[len(given) // 2 :]


SCRIPT = """
import sys, numpy as np, skfdp
X, y = np.arange(90.0).reshape(30, 3) % 7 / 7, [0, 1] * 15
model = skfdp.DPSGDFClassifier(bounds=(0, 1), classes=[0, 1], class_weight={0: 1, 1: 2})
with skfdp.checkpoint(sys.argv[1]):
    print(model.fit(X, y).privacy_.sha256, flush=True)
    raise KeyboardInterrupt
"""


@pytest.mark.nightly
def test_another_interpreter_gives_the_same_bits(path):
    command, told = [sys.executable, "-W", "ignore", "-c", SCRIPT, path], set()
    for seed in "12":
        more = os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": seed}
        done = subprocess.run(command, env=more, capture_output=True, text=True)
        told.add(done.stdout)
    assert len(told) == 1 and len(told.pop()) == 65


def test_a_key_is_of_one_table_even_if_smooth_rows_are_equal():
    schema = skfdp.TableSchema({"a": Number(0, 1), "y": Label([0, 1])}, outcomes=["y"])
    model, found = skfdp.DPSGDFClassifier(0.05, schema=schema), []
    for cell in (0.5, None):  # the middle of the bounds, and a missing value
        table = pd.DataFrame({"a": [cell, *X[1:, 0]]})
        records = model._on_records(lambda found: found, table, Y)
        found.append([*checkpoint._facts(records, {}, model.plan(table, Y))])
        found[-1].append(records.X[:].tobytes())
    assert [one == other for one, other in zip(*found, strict=True)][-2:] == [0, 1]


def test_an_audit_finds_no_difference(path):
    class Kept(skfdp.DPSGDFClassifier):
        def fit(self, X, y=None):
            with skfdp.checkpoint(path):
                return super().fit(X, y)

    result = audit_replay(Kept(**classifier().get_params(deep=False)), X, Y)
    assert result.passed, str(result)
    assert not path.exists()
