"""The ledger's file: links, copies, edits, damage, forks, processes that are killed."""

import contextlib
import copy
import dataclasses
import functools
import itertools
import json
import math
import multiprocessing
import os
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp import privacy
from skfdp.solvers import NoisyGradientDescent

DELTA = 1e-5
SOON = NoisyGradientDescent(max_iter=2)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def full_batch(mu=0.1, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return privacy.Event(**({"label": "steps"} | values | changes))


def query(path, statement, *values):
    connection = sqlite3.connect(path)
    try:
        found = connection.execute(statement, values).fetchall()
        connection.commit()
    finally:
        connection.close()
    return found


def edit(path, *statements):
    """Change a file as somebody with an editor would: triggers are no hindrance."""
    triggers = query(path, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in triggers:
        query(path, f"DROP TRIGGER {name}")
    for statement in statements:
        query(path, statement)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l.db"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.random((300, 3)), rng.integers(0, 2, 300)


def fitted(data, ledger):
    model = skfdp.DPSGDFClassifier(0.3, bounds=(0, 1), ledger=ledger, solver=SOON)
    return model.fit(*data)


IMPORTS = """
import os, random, signal, sys, time, traceback
from skfdp.privacy import Event, PrivacyBudgetError, PrivacyLedger, ledger_file
def charged(label, std):
    return Event(label=label, noise_std=(std,), clip_norm=1, sensitivity=1)
"""


def run(code, *arguments):
    """Run a script in a new process, which finds the package where we found it."""
    environment = os.environ | {"PYTHONPATH": str(Path(skfdp.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", IMPORTS + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
    )


@pytest.mark.parametrize("in_file", [False, True], ids=["memory", "file"])
def test_a_ledger_tells_the_day_alone(path, in_file):
    """The gap to the next charge tells how long a fit ran."""
    ledger = skfdp.PrivacyLedger(path if in_file else None, epsilon=1.0, delta=DELTA)
    ledger.charge([full_batch()])
    (entry,) = ledger.entries
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry.date)
    assert json.loads(ledger.to_json())["entries"][0]["date"] == entry.date
    if in_file:
        (text,) = query(path, "SELECT entries FROM chain WHERE charge = 1")[0]
        assert json.loads(text)[0]["date"] == entry.date
    for finer in ("2026-11-22T16:13:17.270296+00:00", "2026-11-22T23:30", "today"):
        with pytest.raises(ValueError, match="must be a day in ISO 8601"):
            privacy.LedgerEntry.from_dict(entry.to_dict() | {"date": finer})


# -- paths ----------------------------------------------------------------------------
def test_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert skfdp.PrivacyLedger("~/l ?#.db").path == str(tmp_path / "l ?#.db")
    assert (tmp_path / "l ?#.db").exists()


def test_what_is_no_path(tmp_path, monkeypatch):
    """SQLite's own name of memory would make a ledger for each connection."""
    monkeypatch.chdir(tmp_path)
    for match, paths in {
        "leave it out for a ledger in memory": (":memory:", "", b"l.db"),
        "must be the path of a file|None": (7, "\0"),
        "is a URI: give the plain path": ("file:l.db?mode=memory",),
        "in a folder that exists": (".", "missing/l.db"),
    }.items():
        for path in paths:
            with pytest.raises((ValueError, FileNotFoundError), match=match):
                skfdp.PrivacyLedger(path)
    assert not list(tmp_path.iterdir())


def test_symbolic_links_are_one_ledger(path, tmp_path):
    """Nor does a link that is moved later bring a fresh budget."""
    ledger = skfdp.PrivacyLedger(path, epsilon=1.0, delta=DELTA)
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.db"
    link.symlink_to(path)
    twin = skfdp.PrivacyLedger(link)
    for one in (ledger, twin) * 3:
        one.charge([full_batch()])
    assert twin.path == ledger.path
    assert not list((tmp_path / "folder").glob("*-wal"))
    link.unlink()
    link.symlink_to(tmp_path / "fresh.db")
    twin.charge([full_batch()])
    assert len(ledger.entries) == len(twin.entries) == 7
    assert not (tmp_path / "fresh.db").exists()


def test_hard_links_are_refused(path, tmp_path):
    """SQLite would keep a write-ahead log for each name."""
    ledger = skfdp.PrivacyLedger(path)
    os.link(path, tmp_path / "other.db")
    with pytest.raises(ValueError, match=r"several names \(hard links\)"):
        ledger.charge([full_batch()])
    with pytest.raises(ValueError, match=r"several names \(hard links\)"):
        skfdp.PrivacyLedger(tmp_path / "other.db")
    removal = threading.Timer(0.2, (tmp_path / "other.db").unlink)
    removal.start()  # as the process does that makes a new ledger
    ledger.charge([full_batch()])
    removal.join()


# -- other files in its place ---------------------------------------------------------
def both(ledger):
    """Return two handles of a ledger or report: itself, and one from a pickle."""
    return ledger, pickle.loads(pickle.dumps(ledger))


def refuse(handles, match):
    """Check that each handle refuses to compose and to charge."""
    for one in handles:
        for use in (one.spent, lambda one=one: one.charge([full_batch()])):
            with pytest.raises(ValueError, match=match):
                use()


def test_another_ledger_in_its_place(path):
    ledger = skfdp.PrivacyLedger(path, epsilon=1.0, delta=DELTA)
    ledger.charge([full_batch()])
    handles = both(ledger)
    path.unlink()
    fresh = skfdp.PrivacyLedger(path, epsilon=1.0, delta=DELTA)
    refuse(handles, "was replaced by another ledger")
    assert not fresh.entries


def test_an_older_copy_in_its_place(path, tmp_path):
    """Handles see it whether or not new charges came to the copy; nobody else does."""
    ledger = skfdp.PrivacyLedger(path, epsilon=2.0, delta=DELTA)
    ledger.charge([full_batch()])
    shutil.copy(path, tmp_path / "backup.db")
    skfdp.PrivacyLedger(path).charge([full_batch()])
    opened = skfdp.PrivacyLedger(path)
    ledger.charge([full_batch()])
    handles = both(ledger)
    shutil.copy(path, tmp_path / "newer.db")
    shutil.copy(tmp_path / "backup.db", path)
    refuse(handles, "ends with charge 1, but charge 3 was")
    fresh = skfdp.PrivacyLedger(path)
    for _ in range(2):  # the same events on the same day
        fresh.charge([full_batch()])
    refuse(handles, "does not hold charge 3 as it was")
    refuse([opened], "does not hold charge 2 as it was")
    assert skfdp.PrivacyLedger(path).spent() == fresh.spent()  # the limit in the docs
    shutil.copy(tmp_path / "newer.db", path)
    ledger.charge([full_batch()])
    assert len(ledger.entries) == 4


def test_a_report_is_a_witness(data, path, tmp_path):
    fitted(data, path)
    shutil.copy(path, tmp_path / "backup.db")
    witness = fitted(data, path).privacy_
    (tmp_path / "report.json").write_text(witness.to_json())
    witnesses = privacy.read_report(tmp_path / "report.json"), *both(witness)
    fitted(data, path)
    skfdp.PrivacyLedger(path).check_report(witness)
    shutil.copy(tmp_path / "backup.db", path)
    for _ in range(2):
        for one in witnesses:
            with pytest.raises(ValueError, match="does not hold charge 2 as it was"):
                skfdp.PrivacyLedger(path).check_report(one)
        fitted(data, path)


def test_the_report_of_a_ledger_has_the_last_receipt(path):
    ledger = skfdp.PrivacyLedger(path, epsilon=2.0, delta=DELTA)
    assert skfdp.report(ledger).receipts == ()
    for _ in range(3):
        ledger.charge([full_batch()])
    found = skfdp.report(ledger)
    assert [receipt.charge for receipt in found.receipts] == [3]
    ledger.charge([full_batch()])
    skfdp.PrivacyLedger(path).check_report(found)


# -- edited files ---------------------------------------------------------------------
EDITS = [
    ("UPDATE chain SET entries = '[]' WHERE charge = 1", 0),
    ("UPDATE chain SET entries = replace(entries, '10.0', '11')", 1),
    ("UPDATE chain SET dataset = 'other' WHERE charge = 2", 2),
    ("UPDATE chain SET charge = 0 WHERE charge = 1", 1),
    ("UPDATE chain SET nonce = '' WHERE charge = 2", 2),
    ("UPDATE chain SET head = '' WHERE charge = 3", 3),
    ("DELETE FROM chain WHERE charge = 2", 2),
    ("DELETE FROM chain", 1),
    (
        "INSERT INTO chain (charge, dataset, entries, terms, nonce, head) SELECT 4, "
        "dataset, entries, terms, nonce, head FROM chain WHERE charge = 3",
        4,
    ),
]


@pytest.mark.parametrize("seen", [False, True], ids=["new handle", "old handle"])
@pytest.mark.parametrize(("statement", "charge"), EDITS)
def test_attack_6_an_open_ledger_notices_an_edited_charge(
    path, statement, charge, seen
):
    ledger = skfdp.PrivacyLedger(path, epsilon=2.0, delta=DELTA)
    for mu in (0.1, 0.2, 0.3):
        ledger.charge([full_batch(mu)])
    assert ledger.spent() > 0
    edit(path, statement)
    for use in (
        skfdp.PrivacyLedger.spent,
        lambda handle: handle.charge([full_batch()]),
    ):
        with pytest.raises(ValueError, match=f"does not hold charge {charge} as"):
            use(ledger if seen else skfdp.PrivacyLedger(path))


TERMS = [
    "replace(terms, '\"default\"', '\"other\"')",
    "replace(terms, '2.0', '9.0')",
    "replace(terms, '2.0', '\"x\"')",
    "replace(terms, '1e-05', 'null')",
    "replace(terms, '[\"age\"]', 'null')",
    "replace(terms, '[\"age\"]', '[1]')",
    "'{\"default\": 3}'",
]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("change", TERMS)
def test_attack_6_limit_and_public_set_are_in_the_chain(path, change, recorded):
    ledger = skfdp.PrivacyLedger(path, epsilon=2.0, delta=DELTA, public=["age"])
    if recorded:
        ledger.charge([full_batch()])
    edit(path, f"UPDATE chain SET terms = {change}")
    for handle in (lambda: ledger, lambda: skfdp.PrivacyLedger(path)):
        with pytest.raises(ValueError, match="does not hold charge") as caught:
            handle().charge([full_batch()])
        assert "\n" not in str(caught.value) and " at 0x" not in str(caught.value)
        assert str(path) in str(caught.value).replace("\\\\", "\\")


def is_refused(path, raw, spent):
    """Return whether a ledger with these bytes is refused; else it is the same."""
    for one in path.parent.iterdir():
        one.unlink()
    path.write_bytes(raw)
    try:
        found = skfdp.PrivacyLedger(path)
        assert (found.epsilon, found._store.read()[0].public) == (5.0, ("age",))
        assert found.spent() == spent
    except (ValueError, OSError) as error:
        assert str(error).startswith("ledger "), error
        assert "Traceback" not in str(error) and "\n" not in str(error)
        return True
    return False


CELLS = ("NULL", "-1", "1e999", "9e18", "'x'", "''", "'{}'", "'[]'", "X'00ff'")


@pytest.mark.parametrize("cell", CELLS)
def test_attack_6_no_odd_cell_is_silent_or_raw(path, cell):
    """In each column of each table: no other sum, and no other error than ours."""
    ledger = skfdp.PrivacyLedger(path, epsilon=5.0, delta=DELTA, public=["age"])
    for _ in range(2):
        ledger.charge([full_batch()])
    raw, spent, refused = path.read_bytes(), ledger.spent(), 0
    tables = query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")
    columns = [
        (t, c[1]) for (t,) in tables for c in query(path, f"PRAGMA table_info({t})")
    ]
    for (table, column), rows in itertools.product(columns, ("", " WHERE rowid = 1")):
        path.write_bytes(raw)
        with contextlib.suppress(sqlite3.Error):  # cells that a table does not take
            edit(path, f"UPDATE {table} SET {column} = {cell}{rows}")
        refused += is_refused(path, path.read_bytes(), spent)
    assert refused


def test_attack_6_terms_that_come_later_are_linked(path):
    first = skfdp.PrivacyLedger(path)
    receipt = first.charge([full_batch()])
    second = skfdp.PrivacyLedger(path, epsilon=2.0, delta=1e-5)
    assert first.epsilon == 2.0 and skfdp.PrivacyLedger(path).delta == 1e-5
    other = skfdp.PrivacyLedger(path, dataset="other", public=["age"])
    assert second.charge([full_batch()]).charge == 2
    assert other.charge([full_batch()]).charge == 3
    skfdp.PrivacyLedger(path)._store.read([receipt])
    assert skfdp.PrivacyLedger(path).public == () and other.public == ("age",)


def test_a_text_that_is_no_text_is_seen(path):
    ledger = skfdp.PrivacyLedger(path)
    ledger.charge([full_batch()], label="fit")
    raw = path.read_bytes()
    assert b'"fit"' in raw
    path.write_bytes(raw.replace(b'"fit"', b'"f\xfft"'))
    for handle in (lambda: ledger, lambda: skfdp.PrivacyLedger(path)):
        with pytest.raises(ValueError, match="is damaged, emptied or not"):
            handle().charge([full_batch()])


def test_check_report_refuses(data, path, tmp_path):
    ledger = skfdp.PrivacyLedger(path, dataset="people")
    model = skfdp.DPSGDFClassifier(
        bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2)
    )
    bare = model.fit(*data).privacy_
    model.set_params(ledger=ledger).fit(*data)
    charged = model.privacy_
    ledger.check_report(charged)
    lent = dataclasses.replace(charged, events=charged.events * 2)
    elsewhere = skfdp.PrivacyLedger(tmp_path / "other.db")
    for one, found, match in (
        (ledger, bare, "a fit in the report has no receipt"),
        (skfdp.PrivacyLedger(), charged, "in memory is not the ledger"),
        (elsewhere, charged, "is not the ledger that the fit of the"),
        (skfdp.PrivacyLedger(path), charged, "'default' .* does not hold all events"),
        (ledger, lent, "does not hold all events"),
        (ledger, charged.to_dict(), "must be a PrivacyReport, got dict"),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            one.check_report(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_fits", [1, 2])
def test_fits_without_privacy_and_pipelines_hand_on_their_receipts(data, path, n_fits):
    ledger = skfdp.PrivacyLedger(path)
    model = skfdp.DPSGDFClassifier(epsilon=math.inf, bounds=(0, 1), ledger=ledger)
    if n_fits == 2:
        model.set_params(epsilon=1.0, bounds=False, centering=None, solver=SOON)
        first = skfdp.PrivateCenteringTransformer(bounds=(0, 1), ledger=ledger)
        model = make_pipeline(first, model)
    found = skfdp.report(model.fit(*data))
    assert found.receipts[-1] == ledger.receipt and len(found.receipts) == n_fits
    ledger.check_report(found)


def test_names_that_no_file_can_store_are_refused(path):
    for kind in ({"dataset": "\ud800"}, {"public": ["a", "\udce9"]}):
        with pytest.raises(ValueError, match="with a lone surrogate"):
            skfdp.PrivacyLedger(path, **kind)
    assert not path.exists()


def test_nothing_public_is_not_an_open_set(path):
    ledger = skfdp.PrivacyLedger(path)
    assert ledger._store.read()[0].public is None
    assert skfdp.PrivacyLedger(path, public=[])._store.read()[0].public == ()
    with pytest.raises(ValueError, match=r"public=\('age',\) differs from public="):
        skfdp.PrivacyLedger(path, public=["age"])
    assert ledger._store.read()[0].public == ()


MISSING = object()

ODD = [
    *(None, True, -1, 0, 2.5, 10**400, math.nan, math.inf, "", "x", "12", "\ud800"),
    *([], [1], [None], [[]], [5, 0], ["x"], {}, {"a": 1}, MISSING),
]


def places(values, place=()):
    """Yield the way to every value in nested JSON."""
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in items:
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from places(value, (*place, key))


def refused(read, values):
    """Return how many odd fields are refused, in one sentence that quotes no object."""
    found = 0
    for place, odd in itertools.product(places(values), ODD):
        broken = copy.deepcopy(values)
        inner = functools.reduce(lambda held, key: held[key], place[:-1], broken)
        inner[place[-1]] = odd
        if odd is MISSING:
            del inner[place[-1]]
        try:
            read(broken)
        except ValueError as error:
            found += 1
            assert len(str(error).split()) > 3, (place, odd)
            assert "object is not" not in str(error) and "\n" not in str(error)
    return found


def test_malformed_fields_are_told():
    """Every field of an entry and of a report, replaced by every odd value."""
    plan = privacy.calibrate(0.2, DELTA, n_steps=2, noise_decay=0.5)
    ledger = skfdp.PrivacyLedger(epsilon=2.0, delta=DELTA, public=["age"])
    ledger.charge([plan.event], label="fit")
    values = json.loads(ledger.to_json())["entries"][0]
    assert refused(privacy.LedgerEntry.from_dict, values) > 530
    values = json.loads(skfdp.report(ledger).to_json())
    assert refused(privacy.PrivacyReport.from_dict, values) > 1500


@pytest.mark.parametrize("recorded", [False, True])
def test_terms_cannot_change(path, recorded):
    """Whether the relation was declared, or is that of the record."""
    own = {"neighboring_relation": "replace_special"}
    ledger = skfdp.PrivacyLedger(
        path, epsilon=1.0, delta=1e-5, **({} if recorded else own)
    )
    if recorded:
        ledger.charge([full_batch(**own)])
    for number, (options, match) in enumerate(
        (
            ({"epsilon": 2.0, "delta": 1e-5}, "epsilon=2.0 differs from epsilon=1.0"),
            ({"epsilon": 1.0, "delta": 1e-4}, "cannot be changed"),
            ({"neighboring_relation": "replace_one"}, "differs from neighboring_rela"),
        )
    ):
        with pytest.raises(ValueError, match=match):
            skfdp.PrivacyLedger(path, **options)
        skfdp.PrivacyLedger(path, dataset=f"other {number}", **options)
    assert skfdp.PrivacyLedger(path).epsilon == 1.0


def test_two_handles_that_set_a_limit_at_once(path):
    """One of them wins, the others are told."""
    early = skfdp.PrivacyLedger(path)

    def work(epsilon):
        try:
            return skfdp.PrivacyLedger(path, epsilon=epsilon, delta=DELTA).epsilon
        except ValueError:
            return None

    found = Parallel(n_jobs=8, backend="threading")(
        delayed(work)(1.0 + number) for number in range(8)
    )
    assert [e for e in found if e is not None] == [skfdp.PrivacyLedger(path).epsilon]
    assert early.epsilon == skfdp.PrivacyLedger(path).epsilon
    with pytest.raises(skfdp.PrivacyBudgetError, match="budget exhausted"):
        early.charge([full_batch(99.0)])


def test_charges_and_limits_cannot_be_taken_back(path):
    skfdp.PrivacyLedger(path, epsilon=1.0, delta=DELTA).charge([full_batch()])
    for statement in (
        "DELETE FROM chain",
        "UPDATE chain SET entries = '[]'",
        "UPDATE chain SET terms = replace(terms, '1.0', '9.0')",
        "UPDATE chain SET charge = 2",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="are never"):
            query(path, statement)


# -- damaged files --------------------------------------------------------------------
@pytest.fixture
def charged(path):
    skfdp.PrivacyLedger(path, epsilon=1.0, delta=DELTA).charge([full_batch()])
    return path


@pytest.mark.parametrize("size", [0, 1, 50, 100, 511, 512, 1024, 4095, 4096, 5000])
def test_attack_10_a_cut_file_is_never_a_new_one(charged, size):
    charged.write_bytes(charged.read_bytes()[:size])
    before = charged.read_bytes()
    with pytest.raises(ValueError, match="^ledger .* restore") as caught:
        skfdp.PrivacyLedger(charged, epsilon=2.0, delta=1e-5).charge([full_batch()])
    assert str(caught.value).count(". ") == 0
    assert charged.read_bytes() == before


def test_attack_10_a_new_file_is_whole_when_it_has_its_name(
    path, tmp_path, monkeypatch
):
    seen = []
    link = os.link

    def spy(new, name):
        assert not path.exists()
        with sqlite3.connect(new) as connection:
            seen.extend(connection.execute("PRAGMA user_version").fetchone())
        connection.close()
        link(new, name)

    monkeypatch.setattr(privacy.ledger_file.os, "link", spy)
    skfdp.PrivacyLedger(path)
    assert seen == [privacy.ledger_file.SCHEMA_VERSION]
    assert [one.name for one in tmp_path.iterdir() if ".new" in one.name] == []


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_attack_10_a_rest_of_a_ledger_never_becomes_a_new_one(path, tmp_path, suffix):
    rest = tmp_path / f"l.db{suffix}"
    rest.write_bytes(b"charges that were not yet in the file")
    match = f"is missing.*l.db{suffix}.*restore"
    with pytest.raises(ValueError, match=match) as caught:
        skfdp.PrivacyLedger(path)
    assert str(caught.value).count(". ") == 0
    assert [*tmp_path.iterdir()] == [rest]
    rest.unlink()
    skfdp.PrivacyLedger(path).charge([full_batch()])


def test_attack_10_no_charge_to_a_file_with_a_damaged_page(path):
    ledger = skfdp.PrivacyLedger(path)
    ledger.charge([full_batch()])
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute("CREATE TABLE other (one)")
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'other'"
    (page,) = connection.execute(query).fetchone()
    connection.close()
    raw = bytearray(path.read_bytes())
    raw[(page - 1) * size : page * size] = bytes(size)  # no charge reads this page
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="is damaged"):
        ledger.charge([full_batch()])
    assert path.read_bytes() == bytes(raw) and len(ledger.entries) == 1


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


def test_attack_10_no_damage_of_a_ledger_is_silent_or_raw(path):
    rng = np.random.default_rng(1)
    ledger = skfdp.PrivacyLedger(path, epsilon=5.0, delta=1e-5, public=["age"])
    for k in range(3):
        ledger.charge([full_batch()], label=f"fit {k}")
    raw, spent = path.read_bytes(), ledger.spent()
    files = [damaged(raw, rng) for _ in range(200)]
    # Much of a file is empty.
    assert sum(is_refused(path, one, spent) for one in files) > 25


def test_locked(charged, monkeypatch):
    monkeypatch.setattr(privacy.ledger_file, "_BUSY_SECONDS", 0.1)
    ledger = skfdp.PrivacyLedger(charged)
    other = sqlite3.connect(charged, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TimeoutError, match="stayed locked by another process"):
        ledger.charge([full_batch()])
    assert len(ledger.entries) == 1  # reading goes on
    other.close()
    ledger.charge([full_batch()])


NO_LEDGERS = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_bytes(b"no database, but long enough to" * 200),
    "of another program": lambda path: query(path, "CREATE TABLE things (id INTEGER)"),
    "overwritten": lambda path: path.write_bytes(path.read_bytes()[:4096] + b"x" * 99),
}


@pytest.mark.parametrize("kind", NO_LEDGERS)
def test_attack_10_what_is_no_ledger_is_refused_and_left_alone(path, kind):
    ledger = None
    if kind == "overwritten":
        ledger = skfdp.PrivacyLedger(path)
        ledger.charge([full_batch()])
    NO_LEDGERS[kind](path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is damaged, emptied or not a ledger of skf"):
        (ledger or skfdp.PrivacyLedger(path)).charge([full_batch()])
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 2])
def test_another_schema(charged, version):
    query(charged, f"PRAGMA user_version = {version}")
    with pytest.raises(ValueError, match=f"version {version}, .* reads 1: open"):
        skfdp.PrivacyLedger(charged)


# -- processes ------------------------------------------------------------------------
# Eight processes wait for each other, open the same path, and charge until they are
# refused. These are scripts: a new process may not find this module.
OPEN = """
event = charged("e", 20.0)
PrivacyLedger(epsilon=9.0, delta=1e-5).charge([event])  # imports what composes
waiting, start = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        try:
            os.close(start)
            os.read(waiting, 1)  # returns when nobody can write any more
            ledger = PrivacyLedger(sys.argv[1], epsilon=1.5, delta=1e-5)
            while True:
                ledger.charge([event, event])
                os.write(1, (ledger.receipt.ledger + chr(10)).encode())
        except PrivacyBudgetError:
            pass
        finally:
            os._exit(0)
os.close(start)
for _ in range(8):
    os.wait()
"""


@forks
def test_attack_10_many_processes_make_one_file(path):
    """And all of them together charge exactly as often as one process could."""
    done = run(OPEN, path)
    found = done.stdout.splitlines()
    assert len(set(found)) == 1, done.stderr
    ledger = skfdp.PrivacyLedger(path)
    assert len(ledger.entries) == 2 * len(found)
    assert {entry.charge for entry in ledger.entries} == {*range(1, len(found) + 1)}
    mu = math.sqrt(2) / 20
    spent, more = (mu * math.sqrt(len(found) + one) for one in (0, 1))
    assert privacy.gdp_epsilon(DELTA, spent) <= 1.5 < privacy.gdp_epsilon(DELTA, more)


@forks
def test_children_of_a_busy_process_can_charge(path, monkeypatch):
    """SQLite's locks are in process memory; a child inherits those of threads."""
    monkeypatch.setattr(privacy.ledger_file, "_BUSY_SECONDS", 10.0)
    ledger = skfdp.PrivacyLedger(path, epsilon=1000.0, delta=DELTA)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            ledger.charge([full_batch()], label="parent")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    context, labels = multiprocessing.get_context("fork"), [f"c{i}" for i in range(12)]
    charge = functools.partial(ledger.charge, [full_batch()])
    children = [context.Process(target=charge, kwargs={"label": one}) for one in labels]
    for one in (*threads, *children):
        one.start()
    last = time.monotonic() + 40
    for child in children:
        child.join(max(0.0, last - time.monotonic()))
    for child in children:
        child.kill()  # of one that waits for ever
    stop.set()
    for thread in threads:
        thread.join(timeout=240)
    assert not any(thread.is_alive() for thread in threads)
    assert [child.exitcode for child in children] == [0] * 12
    assert {*labels} < {entry.label for entry in ledger.entries}


@forks
def test_a_ledger_in_memory_is_not_used_in_a_child():
    ledger = skfdp.PrivacyLedger(epsilon=1.0, delta=DELTA)
    context = multiprocessing.get_context("fork")
    messages = context.SimpleQueue()

    def child():
        for use in (ledger.spent, lambda: ledger.charge([full_batch()])):
            with pytest.raises(RuntimeError, match="created by another process"):
                use()
        messages.put(repr(ledger))

    process = context.Process(target=child)
    process.start()
    process.join(timeout=240)
    assert process.exitcode == 0 and "path=None" in messages.get()


READ_ONLY = """
if os.geteuid() == 0:
    os.setuid(65534)  # permissions do not bind the superuser
try:
    PrivacyLedger(sys.argv[1]).charge([charged("e", 9.0)])
except PermissionError as error:
    print(error)
"""


@forks
def test_another_user_cannot_charge_a_read_only_file():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.db"
        skfdp.PrivacyLedger(path, epsilon=1.0, delta=DELTA).charge([full_batch()])
        os.chmod(folder, 0o755)
        path.chmod(0o444)
        done = run(READ_ONLY, path)
        assert "is read-only: make the file" in done.stdout, done.stderr
        assert len(skfdp.PrivacyLedger(path).entries) == 1


# Forks workers that charge, kills them all at a random moment, again and again; the
# first one creates the file. A worker charges, and only then writes its label into a
# file of releases, as a fit that publishes after its charge. Both survive `kill -9`.
SCRIPT = """
path, releases, trials, workers, seed = sys.argv[1:3] + list(map(int, sys.argv[3:]))
rng = random.Random(seed)
events = [charged(part, 200.0) for part in ("mean", "steps")]
PrivacyLedger(epsilon=9.0, delta=1e-5).charge(events)  # imports what composes
output = os.open(releases, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def work(name):
    ledger = PrivacyLedger(path, epsilon=1000.0, delta=1e-5)
    number = 0
    while True:
        label = f"{name}-{number}"
        ledger.charge(events, label=label)
        os.write(output, (label + chr(10)).encode())
        number += 1


for trial in range(trials):
    children = []
    for worker in range(workers):
        child = os.fork()
        if child == 0:
            try:
                work(f"{trial}-{worker}")
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        children.append(child)
    written = os.fstat(output).st_size
    while trial % 2 and os.fstat(output).st_size == written:
        time.sleep(0.001)  # a busy machine may start them late
    time.sleep(rng.uniform(0.0, 0.25))
    rng.shuffle(children)
    for child in children:
        os.kill(child, signal.SIGKILL)
        time.sleep(rng.choice((0.0, 0.01)))
    for child in children:
        os.waitpid(child, 0)
"""


@forks
@pytest.mark.parametrize(
    "trials", [10, pytest.param(200, marks=pytest.mark.slow)], ids=str
)
def test_no_release_without_its_charge(tmp_path, trials):
    path, releases = tmp_path / "l.db", tmp_path / "releases"
    done = run(SCRIPT, path, releases, trials, 3, trials)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no worker ended by itself
    ledger = skfdp.PrivacyLedger(path)
    charged = {}
    for entry in ledger.entries:
        charged.setdefault((entry.charge, entry.label), []).append(entry.event.label)
    assert set(map(tuple, charged.values())) == {("mean", "steps")}  # no half charge
    numbers = [number for number, _ in charged]
    assert numbers == list(range(1, len(numbers) + 1))
    labels = [label for _, label in charged]
    assert len(set(labels)) == len(labels)
    released = releases.read_text().splitlines()
    assert len(released) >= trials / 2
    assert set(released) <= set(labels)
    # A worker may die between the charge and the release, once.
    assert len(labels) - len(released) <= 3 * trials
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    ledger.charge([full_batch()])


def test_a_new_file_without_a_limit_is_named(tmp_path, monkeypatch, named):
    """A relative path is another file in another folder: there nothing is counted."""

    def told(use):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            use()
        caught = [one for one in caught if "is a new ledger" in str(one.message)]
        assert all(one.category is skfdp.PrivacyWarning for one in caught)
        assert all(one.filename == __file__ for one in caught)
        return [str(one.message).partition(" is a new ledger")[0] for one in caught]

    def make(**given):
        return skfdp.PrivacyLedger("budget.db", **given)

    def fit():
        settings = {"bounds": (0, 1), "classes": [0, 1], "solver": SOON}
        skfdp.DPSGDFClassifier(ledger="budget.db", **settings).fit(*named)

    limited, other = {"epsilon": 9.0, "delta": DELTA}, {"dataset": "another"}
    for folder, uses in {
        "limit": [lambda: make(**limited), make, fit],
        "plots": [fit, fit],
        "more": [make, lambda: make(**other), skfdp.PrivacyLedger],
    }.items():
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        named_file = [repr(str(tmp_path / folder / "budget.db"))]
        first = [] if folder == "limit" else named_file
        assert [told(use) for use in uses] == [first, *[[]] * (len(uses) - 1)]
