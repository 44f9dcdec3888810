"""Ledgers: receipts, limits, damaged files, checkpoints that went back."""

import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivateCenteringTransformer,
    private_score,
    report,
)
from skfdp.audit import audit_replay
from skfdp.mechanisms.checkpoint import checkpoint
from skfdp.privacy import Event, PrivacyReport
from skfdp.privacy import ledger_file as schema
from skfdp.solvers import NoisyGradientDescent, NoisySGD

RNG = np.random.default_rng(0)
N = 120
X = pd.DataFrame(RNG.random((N, 3)), columns=["a", "b", "c"])
X["region"] = np.repeat([1.0, 2.0], N // 2)
Y = pd.Series((X["a"] > 0.5).astype(int), name="y")
COMMON = {"bounds": (0, 2), "solver": NoisyGradientDescent(max_iter=2)}
CLASSES = {"classes": [0, 1]}
FITS = {
    "FeatureDPLogisticRegression": FeatureDPLogisticRegression(**COMMON, **CLASSES),
    "DPSGDFClassifier": DPSGDFClassifier(**COMMON, **CLASSES),
    "FeatureDPRegressor": FeatureDPRegressor(target_bounds=(0, 1), **COMMON),
    "DPSGDFRegressor": DPSGDFRegressor(target_bounds=(0, 1), **COMMON),
    "FeatureDPMLPClassifier": FeatureDPMLPClassifier(
        hidden_layer_sizes=(2,),
        bounds=(0, 2),
        solver=NoisySGD(max_iter=2),
        **CLASSES,
    ),
    "PrivateCenteringTransformer": PrivateCenteringTransformer(bounds=(0, 2)),
}


def fitted(name, ledger, **more):
    return clone(FITS[name]).set_params(ledger=ledger, **more).fit(X, Y)


def event(**changes):
    values = {"label": "steps", "noise_std": (9.0,), "clip_norm": 1, "sensitivity": 1}
    return Event(**(values | changes))


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return PrivacyLedger(tmp_path / "l.db" if request.param == "file" else None)


# -- receipts -------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_attack_3_every_charge_has_a_receipt_that_comparisons_leave_out(name, ledger):
    one, other = (fitted(name, ledger, random_state=3).privacy_ for _ in range(2))
    assert one == other and hash(one.events) == hash(other.events)
    assert len(one.receipts) == len(other.receipts) == 1
    assert one.receipts[0].head != other.receipts[0].head
    assert one.receipts[0].ledger == other.receipts[0].ledger
    assert PrivacyReport.from_dict(one.to_dict()).receipts == one.receipts
    assert pickle.loads(pickle.dumps(one)).receipts == one.receipts
    ledger.check_report(one)


def test_attack_3_score_claims_a_shared_ledger_only_with_the_receipt(ledger):
    counted = fitted("DPSGDFClassifier", ledger)
    uncounted = fitted("DPSGDFClassifier", None)
    elsewhere = fitted("DPSGDFClassifier", PrivacyLedger())
    assert counted.privacy_.events == uncounted.privacy_.events
    assert counted.privacy_ == elsewhere.privacy_
    for model, holds in ((counted, True), (uncounted, False), (elsewhere, False)):
        model.set_params(ledger=None)  # one in memory cannot be pickled
        for scored in (model, pickle.loads(pickle.dumps(model))):
            said = private_score(scored, X, Y, 0.1, delta=1e-6, ledger=ledger)
            told = [a for a in said.privacy_.assumptions if "holds the fit" in a.text]
            assert bool(told) == holds


@pytest.mark.filterwarnings("ignore")
def test_attack_3_a_pipeline_is_counted_only_if_each_step_is(ledger):
    def pipeline(first, last):
        return make_pipeline(
            PrivateCenteringTransformer(
                bounds=(0, 2), ledger=first, neighboring_relation="replace_one"
            ),
            FeatureDPLogisticRegression(
                bounds=False,
                ledger=last,
                solver=NoisyGradientDescent(max_iter=2),
                **CLASSES,
            ),
        ).fit(X, Y)

    both, half = pipeline(ledger, ledger), pipeline(None, ledger)
    ledger.check_report(report(both))
    with pytest.raises(ValueError, match="cannot be compared"):
        ledger.check_report(report(half))
    said = private_score(half, X, Y, 0.1, ledger=ledger)
    assert not any("holds the fit" in a.text for a in said.privacy_.assumptions)


def test_replayed_fits_have_receipts_that_comparisons_leave_out():
    kept = []

    class Keeping(DPSGDFClassifier):
        def fit(self, X, y):
            super().fit(X, y)
            kept.append(self.privacy_.receipts)
            return self

    model = Keeping(**CLASSES, **COMMON)
    result = audit_replay(model, X.to_numpy(), Y.to_numpy(), n_neighbors=2)
    assert result.passed and result.differences == ()
    assert [len(one) for one in kept] == [1] * len(kept) and len(kept) > 2
    assert len({one.head for (one,) in kept}) == len(kept)


# -- limits and damaged files ---------------------------------------------------------
def edit(path, statement):
    """Change a file as somebody with an editor would: triggers are no hindrance."""
    with sqlite3.connect(path) as connection:
        found = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in connection.execute(found).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        "replace(terms, '\"default\"', '\"other\"')",
        "replace(terms, '2.0', '9.0')",
        "replace(terms, '[\"age\"]', 'null')",
        "'{}'",
    ],
)
def test_attack_6_limit_and_public_set_are_in_the_chain(tmp_path, change, recorded):
    path = tmp_path / "l.db"
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, public=["age"])
    if recorded:
        ledger.charge([event()])
    edit(path, f"UPDATE chain SET terms = {change}")
    for handle in (lambda: ledger, lambda: PrivacyLedger(path)):
        with pytest.raises(ValueError, match="does not hold charge"):
            handle().charge([event()])


def test_attack_6_entries_without_terms_are_refused(tmp_path):
    path = tmp_path / "l.db"
    PrivacyLedger(path, epsilon=2.0, delta=1e-5).charge([event()])
    edit(path, "DELETE FROM chain")
    with pytest.raises(ValueError, match="does not hold charge 1"):
        PrivacyLedger(path).charge([event()])


def test_attack_6_an_open_ledger_notices_an_edited_charge(tmp_path):
    path = tmp_path / "l.db"
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5)
    for _ in range(3):
        ledger.charge([event()])
    assert ledger.spent() > 0
    edit(path, "UPDATE chain SET entries = '[]' WHERE charge = 1")
    for use in (ledger.spent, lambda: ledger.charge([event()])):
        with pytest.raises(ValueError, match="does not hold charge"):
            use()


def test_attack_6_terms_that_come_later_are_linked(tmp_path):
    path = tmp_path / "l.db"
    first = PrivacyLedger(path)
    receipt = first.charge([event()])
    second = PrivacyLedger(path, epsilon=2.0, delta=1e-5)
    assert first.epsilon == 2.0 and PrivacyLedger(path).delta == 1e-5
    other = PrivacyLedger(path, dataset="other", public=["age"])
    assert second.charge([event()]).charge == 2
    assert other.charge([event()]).charge == 3
    PrivacyLedger(path)._store.read([receipt])
    assert PrivacyLedger(path).public == () and other.public == ("age",)


@pytest.mark.parametrize("size", [0, 1, 50, 100, 511, 512, 1024, 4095, 4096, 5000])
def test_attack_10_a_cut_file_is_never_a_new_one(tmp_path, size):
    path = tmp_path / "l.db"
    PrivacyLedger(path, epsilon=2.0, delta=1e-5).charge([event()])
    path.write_bytes(path.read_bytes()[:size])
    before = path.read_bytes()
    with pytest.raises(ValueError, match="^ledger .* restore") as caught:
        PrivacyLedger(path, epsilon=2.0, delta=1e-5).charge([event()])
    assert str(caught.value).count(". ") == 0
    assert path.read_bytes() == before


def test_attack_10_a_file_that_was_always_empty_is_refused(tmp_path):
    path = tmp_path / "l.db"
    path.touch()
    with pytest.raises(ValueError, match="is damaged, emptied or not a ledger"):
        PrivacyLedger(path)
    assert path.read_bytes() == b""


def test_attack_10_a_new_file_is_whole_when_it_has_its_name(tmp_path, monkeypatch):
    path, seen = tmp_path / "l.db", []
    link = os.link

    def spy(new, name):
        assert not path.exists()
        with sqlite3.connect(new) as connection:
            seen.extend(connection.execute("PRAGMA user_version").fetchone())
        connection.close()
        link(new, name)

    monkeypatch.setattr(schema.os, "link", spy)
    PrivacyLedger(path)
    assert seen == [schema.SCHEMA_VERSION]
    assert [one.name for one in tmp_path.iterdir() if ".new" in one.name] == []


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_attack_10_a_rest_of_a_ledger_never_becomes_a_new_one(tmp_path, suffix):
    path, rest = tmp_path / "l.db", tmp_path / f"l.db{suffix}"
    rest.write_bytes(b"charges that were not yet in the file")
    with pytest.raises(
        ValueError, match=f"is missing.*l.db{suffix}.*restore"
    ) as caught:
        PrivacyLedger(path)
    assert str(caught.value).count(". ") == 0
    assert [*tmp_path.iterdir()] == [rest]
    rest.unlink()
    PrivacyLedger(path).charge([event()])


def test_attack_10_no_charge_to_a_file_with_a_damaged_page(tmp_path):
    path = tmp_path / "l.db"
    ledger = PrivacyLedger(path)
    ledger.charge([event()])
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'fits'"
    (page,) = connection.execute(query).fetchone()
    connection.close()
    raw = bytearray(path.read_bytes())
    raw[(page - 1) * size : page * size] = bytes(size)  # no charge reads this page
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="is damaged"):
        ledger.charge([event()])
    assert path.read_bytes() == bytes(raw) and len(ledger) == 1


# Eight processes wait for each other, and open the same path. This is a script, because
# a new process may not find this module: the tests need not be on its path.
OPEN = """
import os, sys
from skfdp.privacy import Event, PrivacyLedger

event = Event(label="e", noise_std=(9.0,), clip_norm=1, sensitivity=1)
PrivacyLedger(epsilon=9.0, delta=1e-5).charge([event])  # imports what composes
waiting, start = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        try:
            os.close(start)
            os.read(waiting, 1)  # returns when nobody can write any more
            ledger = PrivacyLedger(sys.argv[1], epsilon=9.0, delta=1e-5)
            ledger.charge([event])
            os.write(1, (ledger.receipt.ledger + chr(10)).encode())
        finally:
            os._exit(0)
os.close(start)
for _ in range(8):
    os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_attack_10_many_processes_make_one_file(tmp_path):
    path = tmp_path / "l.db"
    environment = os.environ | {"PYTHONPATH": str(Path(skfdp.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
    )
    found = done.stdout.splitlines()
    assert len(found) == 8 and len(set(found)) == 1, done.stderr
    assert len(PrivacyLedger(path)) == 8


def damaged(raw, rng):
    """Return bytes with one of several kinds of damage."""
    raw, kind = bytearray(raw), rng.integers(4)
    at = int(rng.integers(len(raw)))
    if kind == 0:
        raw[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        raw[at : at + 16] = rng.bytes(16)[: len(raw) - at]
    elif kind == 2:
        raw[at // 512 * 512 : at // 512 * 512 + 512] = bytes(512)
    else:
        del raw[at:]
    return bytes(raw)


def test_attack_10_no_damage_of_a_ledger_is_silent_or_raw(tmp_path):
    path, rng = tmp_path / "l.db", np.random.default_rng(1)
    ledger = PrivacyLedger(path, epsilon=5.0, delta=1e-5, public=["age"])
    for k in range(3):
        ledger.charge([event()], label=f"fit {k}")
    raw, spent = path.read_bytes(), ledger.spent()
    refused = 0
    for _ in range(200):
        for one in tmp_path.iterdir():
            one.unlink()
        path.write_bytes(damaged(raw, rng))
        try:
            found = PrivacyLedger(path)
            assert (found.epsilon, found._store.read()[0].public) == (5.0, ("age",))
            assert found.spent() == spent
        except (ValueError, OSError) as error:
            refused += 1
            assert str(error).startswith("ledger "), error
            assert "Traceback" not in str(error) and "\n" not in str(error)
    assert refused > 25  # much of a file is empty


# -- checkpoints ----------------------------------------------------------------------
LONG = {
    "bounds": (0, 2),
    "classes": [0, 1],
    "centering": None,
    "solver": NoisyGradientDescent(max_iter=70),
}


class StopError(Exception):
    pass


def fit_at(path, model):
    with checkpoint(path):
        clone(model).fit(X, Y)


def stop_after(monkeypatch, n):
    """Let a fit stop after n releases."""
    from skfdp.mechanisms.checkpoint import Journal

    keep, count = Journal.keep, iter(range(10**6))

    def stopping(self, *args):
        if next(count) == n:
            raise StopError
        keep(self, *args)

    monkeypatch.setattr(Journal, "keep", stopping)


def test_attack_10_lease_and_checkpoint_that_went_back_together(tmp_path, monkeypatch):
    folder, old = tmp_path / "now", tmp_path / "old"
    folder.mkdir()
    ledger, path = folder / "l.db", folder / "checkpoint"
    model = FeatureDPLogisticRegression(ledger=ledger, **LONG)
    with monkeypatch.context() as patched, pytest.raises(StopError):
        stop_after(patched, 5)
        fit_at(path, model)
    shutil.copytree(folder, old)
    with monkeypatch.context() as patched, pytest.raises(StopError):
        stop_after(patched, 50)
        fit_at(path, model)
    for one in old.iterdir():
        if not one.name.startswith("l.db") or len(one.name) > 30:
            shutil.copy(one, folder / one.name)  # all but the ledger itself
    with pytest.raises(
        PrivacyBudgetError, match="the ledger has counted 55, .* older copy"
    ):
        fit_at(path, model)


def test_attack_10_a_stop_is_counted(tmp_path, monkeypatch):
    ledger, path = tmp_path / "l.db", tmp_path / "checkpoint"
    model = FeatureDPLogisticRegression(ledger=ledger, **LONG)
    with monkeypatch.context() as patched, pytest.raises(StopError):
        stop_after(patched, 5)
        fit_at(path, model)
    with sqlite3.connect(ledger) as connection:
        assert connection.execute("SELECT released FROM fits").fetchall() == [(5,)]
    connection.close()


def test_attack_10_the_end_of_a_fit_is_counted(tmp_path):
    folder, old = tmp_path / "now", tmp_path / "old"
    folder.mkdir()
    ledger, path = folder / "l.db", folder / "checkpoint"
    model = FeatureDPLogisticRegression(
        ledger=ledger, **(LONG | {"solver": NoisyGradientDescent(max_iter=3)})
    )
    fit_at(path, model)
    shutil.copytree(folder, old)
    with sqlite3.connect(ledger) as connection:
        ((released,),) = connection.execute("SELECT released FROM fits").fetchall()
    connection.close()
    assert released == sum(e.n_steps for e in PrivacyLedger(ledger).events)


def test_attack_10_no_damage_of_a_checkpoint_is_silent_or_raw(tmp_path, monkeypatch):
    path, rng = tmp_path / "checkpoint", np.random.default_rng(2)
    model = FeatureDPLogisticRegression(
        **(LONG | {"solver": NoisyGradientDescent(max_iter=3)})
    )
    with monkeypatch.context() as patched, pytest.raises(StopError):
        stop_after(patched, 3)
        fit_at(path, model)
    raw = path.read_bytes()
    refused = 0
    for _ in range(60):
        path.write_bytes(damaged(raw, rng))
        try:
            fit_at(path, model)
        except (ValueError, PrivacyBudgetError) as error:
            refused += 1
            assert str(error).startswith("checkpoint="), error
            assert "\n" not in str(error)
    assert refused > 20


def test_attack_10_equal_charges_to_two_copies_end_in_two_heads(tmp_path):
    ledger = PrivacyLedger(tmp_path / "one.db", epsilon=9.0, delta=1e-3)
    ledger.charge([event()])
    shutil.copy(tmp_path / "one.db", tmp_path / "two.db")
    heads = set()
    for name in ("one.db", "two.db"):
        copy = PrivacyLedger(tmp_path / name)
        heads.add(copy.charge([event()]).head)
    assert len(heads) == 2
