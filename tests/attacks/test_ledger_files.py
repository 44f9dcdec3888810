"""What the files of a ledger tell, lose and take."""

import copy
import dataclasses
import json
import math
import pickle
import re
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    PrivateCenteringTransformer,
    report,
)
from skfdp.privacy import (
    Event,
    LedgerEntry,
    PrivacyLedger,
    calibrate,
    read_report,
)
from skfdp.solvers import NoisyGradientDescent

DELTA = 1e-5
DAY = re.compile(r"\d{4}-\d\d-\d\d")


def full_batch(mu=0.1, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return Event(**({"label": "steps"} | values | changes))


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


def raw_bytes(path):
    return b"".join(p.read_bytes() for p in path.parent.glob(f"{path.name}*"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l.db"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.random((300, 3)), rng.integers(0, 2, 300)


class TestTimes:
    """The gap to the next charge tells how long a fit ran."""

    @pytest.mark.parametrize("in_file", [False, True], ids=["memory", "file"])
    def test_a_ledger_tells_the_day_alone(self, path, in_file):
        ledger = PrivacyLedger(path if in_file else None, epsilon=1.0, delta=DELTA)
        ledger.charge([full_batch()])
        (date,) = (entry.date for entry in ledger.entries)
        assert DAY.fullmatch(date)
        assert json.loads(ledger.to_json())["entries"][0]["date"] == date
        if in_file:
            (text,) = query(path, "SELECT entries FROM chain WHERE charge = 1")[0]
            assert json.loads(text)[0]["date"] == date

    @pytest.mark.parametrize(
        "written", ["2026-11-22T16:13:17.270296+00:00", "2026-11-22T23:30", "today"]
    )
    def test_an_entry_has_no_finer_time(self, written):
        ledger = PrivacyLedger()
        ledger.charge([full_batch()])
        values = ledger.entries[0].to_dict() | {"date": written}
        with pytest.raises(ValueError, match="must be a day in ISO 8601"):
            LedgerEntry.from_dict(values)


class TestChain:
    """A file restored from an older copy was accepted once charges filled the gap."""

    @pytest.fixture
    def restored(self, path, tmp_path):
        """Five fits, of which an older copy of the file and new charges show three."""
        ledger = PrivacyLedger(path, epsilon=2.0, delta=DELTA)
        ledger.charge([full_batch()], label="fit")
        shutil.copy(path, tmp_path / "backup.db")
        receipts = [ledger.charge([full_batch()], label="fit") for _ in range(2)]
        state = pickle.dumps(ledger)
        shutil.copy(tmp_path / "backup.db", path)
        fresh = PrivacyLedger(path)
        for _ in range(2):  # the same events on the same day
            fresh.charge([full_batch()], label="fit")
        return ledger, pickle.loads(state), fresh, receipts

    @pytest.mark.parametrize("which", [0, 1], ids=["open handle", "pickle"])
    def test_a_handle_sees_a_restored_copy(self, restored, which):
        ledger = restored[which]
        for use in (ledger.spent, lambda: ledger.charge([full_batch()])):
            with pytest.raises(ValueError, match="does not hold charge 3 as it was"):
                use()
        assert len(restored[2]) == 3

    def test_a_handle_is_a_witness_from_its_opening_on(self, path, tmp_path):
        PrivacyLedger(path)
        shutil.copy(path, tmp_path / "backup.db")
        PrivacyLedger(path).charge([full_batch()])
        ledger = PrivacyLedger(path)
        shutil.copy(tmp_path / "backup.db", path)
        PrivacyLedger(path).charge([full_batch()])
        with pytest.raises(ValueError, match="does not hold charge 1 as it was"):
            ledger.charge([full_batch()])

    def test_without_a_witness_nobody_can_know(self, restored, path):
        """The limit that the docs state."""
        assert PrivacyLedger(path).spent() == restored[2].spent()

    @pytest.mark.parametrize("kept", ["object", "file", "pickle"])
    def test_a_report_is_a_witness(self, data, path, tmp_path, kept):
        def fit():
            model = DPSGDFClassifier(
                0.3, bounds=(0, 1), ledger=path, solver=NoisyGradientDescent(max_iter=2)
            )
            return model.fit(*data).privacy_

        fit()
        shutil.copy(path, tmp_path / "backup.db")
        witness = lost = fit()
        if kept == "file":
            (tmp_path / "report.json").write_text(lost.to_json())
            witness = read_report(tmp_path / "report.json")
        elif kept == "pickle":
            witness = pickle.loads(pickle.dumps(lost))
        assert witness == lost
        fit()
        PrivacyLedger(path).check_report(witness)
        shutil.copy(tmp_path / "backup.db", path)
        with pytest.raises(ValueError, match="does not hold charge 2 as it was"):
            PrivacyLedger(path).check_report(witness)
        fit()
        with pytest.raises(ValueError, match="does not hold charge 2 as it was"):
            PrivacyLedger(path).check_report(witness)

    def test_a_saved_model_is_a_witness(self, data, path, tmp_path):
        PrivacyLedger(path)
        shutil.copy(path, tmp_path / "backup.db")
        model = DPSGDFClassifier(
            bounds=(0, 1),
            ledger=PrivacyLedger(path),
            solver=NoisyGradientDescent(max_iter=2),
        )
        saved = pickle.dumps(model.fit(*data))
        shutil.copy(tmp_path / "backup.db", path)
        model.set_params(ledger=path).fit(*data)
        with pytest.raises(ValueError, match="does not hold charge 1 as it was"):
            pickle.loads(saved).fit(*data)

    @pytest.mark.parametrize("seen", [False, True], ids=["new handle", "old handle"])
    @pytest.mark.parametrize(
        ("statement", "charge"),
        [
            ("UPDATE chain SET entries = '[]' WHERE charge = 1", 0),
            ("UPDATE chain SET entries = replace(entries, '10.0', '11')", 1),
            ("UPDATE chain SET dataset = 'other' WHERE charge = 2", 2),
            ("UPDATE chain SET entries = x'00' WHERE charge = 2", 2),
            ("UPDATE chain SET charge = 'x' WHERE charge = 3", 3),
            ("UPDATE chain SET charge = 0 WHERE charge = 1", 1),
            ("UPDATE chain SET nonce = '' WHERE charge = 2", 2),
            ("UPDATE chain SET head = '' WHERE charge = 3", 3),
            ("DELETE FROM chain WHERE charge = 2", 2),
            (
                "INSERT INTO chain (charge, dataset, entries, terms, nonce, head) "
                "SELECT 4, dataset, entries, terms, nonce, head FROM chain "
                "WHERE charge = 3",
                4,
            ),
        ],
    )
    def test_an_edited_entry_is_seen(self, path, statement, charge, seen):
        ledger = PrivacyLedger(path, epsilon=2.0, delta=DELTA)
        for mu in (0.1, 0.2, 0.3):
            ledger.charge([full_batch(mu)])
        edit(path, statement)
        for use in ("charge", "spent"):
            with pytest.raises(ValueError, match=f"does not hold charge {charge} as"):
                handle = ledger if seen else PrivacyLedger(path)
                handle.charge([full_batch()]) if use == "charge" else handle.spent()

    def test_a_text_that_is_no_text_is_seen(self, path):
        ledger = PrivacyLedger(path)
        ledger.charge([full_batch()], label="fit")
        raw = path.read_bytes()
        assert b'"fit"' in raw
        path.write_bytes(raw.replace(b'"fit"', b'"f\xfft"'))
        for handle in (lambda: ledger, lambda: PrivacyLedger(path)):
            with pytest.raises(ValueError, match="is damaged, emptied or not"):
                handle().charge([full_batch()])

    def test_a_removed_end_is_seen(self, path):
        ledger = PrivacyLedger(path)
        for _ in range(3):
            ledger.charge([full_batch()])
        edit(path, "DELETE FROM chain WHERE charge = 3")
        with pytest.raises(ValueError, match="ends with charge 2, but charge 3 was"):
            ledger.charge([full_batch()])
        # With nobody who saw the third charge it cannot be seen.
        assert len(PrivacyLedger(path)) == 2


#: Kinds of fits beyond those of `tests/findings/test_ledger.py`.
MODELS = {
    "one-shot": lambda ledger: FeatureDPLogisticRegression(
        bounds=(0, 1), public_features="all", ledger=ledger
    ),
    "pipeline": lambda ledger: make_pipeline(
        PrivateCenteringTransformer(bounds=(0, 1), ledger=ledger),
        DPSGDFClassifier(
            bounds=False,
            centering=None,
            ledger=ledger,
            solver=NoisyGradientDescent(max_iter=2),
        ),
    ),
    "no privacy": lambda ledger: DPSGDFClassifier(
        epsilon=math.inf, bounds=(0, 1), ledger=ledger
    ),
}


class TestReceipts:
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.filterwarnings("ignore")
    def test_every_fit_hands_on_its_receipt(self, name, data, path):
        ledger = PrivacyLedger(path)
        X, y = data
        frame = pd.DataFrame(X, columns=["a", "b", "c"])  # public columns need names
        found = report(MODELS[name](ledger).fit(frame, y))
        assert found.receipts[-1] == ledger.receipt
        assert len(found.receipts) == 1 + (name == "pipeline")
        ledger.check_report(found)
        (path.parent / "report.json").write_text(found.to_json())
        ledger.check_report(read_report(path.parent / "report.json"))
        edit(path, "UPDATE chain SET entries = replace(entries, 'label', 'Label')")
        with pytest.raises(ValueError, match="does not hold charge 1 as it was"):
            PrivacyLedger(path).check_report(found)

    def test_the_reports_of_ledgers_have_one(self, path):
        ledger = PrivacyLedger(path, epsilon=2.0, delta=DELTA)
        assert report(ledger).receipts == ()
        for _ in range(3):
            ledger.charge([full_batch()])
        found = report(ledger)
        assert [receipt.charge for receipt in found.receipts] == [3]
        ledger.charge([full_batch()])
        PrivacyLedger(path).check_report(found)

    @pytest.mark.parametrize("edit", [{"charge": "1"}, {"charge": 0}, {"head": [1]}])
    def test_edited_receipts_are_told(self, data, path, edit):
        model = DPSGDFClassifier(bounds=(0, 1), ledger=path)
        found = model.fit(*data).privacy_
        values = found.to_dict()
        values["receipts"][0] |= edit
        with pytest.raises(ValueError, match="must be a(n int of at least [01]| str)"):
            type(found).from_dict(values)

    def test_check_report_refuses(self, data, path, tmp_path):
        ledger = PrivacyLedger(path, dataset="people")
        model = DPSGDFClassifier(bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2))
        bare = model.fit(*data).privacy_
        model.set_params(ledger=ledger).fit(*data)
        charged = model.privacy_
        ledger.check_report(charged)
        with pytest.raises(ValueError, match="a fit in the report has no receipt"):
            ledger.check_report(bare)
        with pytest.raises(ValueError, match="in memory is not the ledger"):
            PrivacyLedger().check_report(charged)
        with pytest.raises(ValueError, match="is not the ledger that the fit of the"):
            PrivacyLedger(tmp_path / "other.db").check_report(charged)
        with pytest.raises(ValueError, match="'default' .* does not hold all events"):
            PrivacyLedger(path).check_report(charged)
        lent = dataclasses.replace(charged, events=charged.events * 2)
        with pytest.raises(ValueError, match="does not hold all events"):
            ledger.check_report(lent)
        with pytest.raises(TypeError, match="must be a PrivacyReport, got dict"):
            ledger.check_report(charged.to_dict())


def test_nothing_public_is_not_an_open_set(path):
    ledger = PrivacyLedger(path)
    assert ledger._store.read()[0].public is None
    assert PrivacyLedger(path, public=[])._store.read()[0].public == ()
    with pytest.raises(ValueError, match=r"public=\('age',\) differs from public="):
        PrivacyLedger(path, public=["age"])
    assert ledger._store.read()[0].public == ()


class TestEntries:
    """What a file or a text says of an entry is checked when it is read."""

    def test_malformed_fields_are_told(self):
        """Every field, replaced by every odd value: taken, or one sentence."""
        plan = calibrate(0.2, DELTA, n_steps=2, noise_decay=0.5)
        ledger = PrivacyLedger(epsilon=2.0, delta=DELTA, public=["age"])
        ledger.charge([plan.event], label="fit")
        values = json.loads(ledger.to_json())["entries"][0]
        refused = 0
        for place in places(values):
            for odd in ODD:
                broken = copy.deepcopy(values)
                inner = broken
                for key in place[:-1]:
                    inner = inner[key]
                inner[place[-1]] = odd
                if odd is MISSING:
                    del inner[place[-1]]
                try:
                    LedgerEntry.from_dict(broken)
                except ValueError as error:
                    refused += 1
                    assert len(str(error)) > 20, (place, odd)
                    assert "object is not" not in str(error)
        assert refused > 300


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
