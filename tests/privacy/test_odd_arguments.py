"""Arguments that fuzzing found: refused in a sentence, not by a library."""

import json
import sqlite3

import numpy as np
import pytest

from skfdp import PrivacyLedger
from skfdp.privacy import (
    Event,
    LedgerEntry,
    composed_guarantee,
    read_report,
)

EVENT = Event(label="x", noise_std=(9.0,), clip_norm=1.0, sensitivity=1.0)
NO_EVENTS = [None, 3, True, "auto", EVENT, [], [None], {"a": 1}, np.array(1.0)]


@pytest.fixture
def ledger():
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5)
    ledger.charge([EVENT])
    return ledger


def one_sentence(caught):
    return "\n" not in str(caught.value) and " at 0x" not in str(caught.value)


@pytest.mark.parametrize("events", NO_EVENTS, ids=lambda events: type(events).__name__)
def test_what_holds_no_events(events, ledger):
    calls = [lambda: composed_guarantee(events), lambda: ledger.charge(events)]
    calls += [lambda: ledger.what_if(events)] * (events is not EVENT)
    for call in calls:
        with pytest.raises(ValueError, match="must be at least one Event") as caught:
            call()
        assert one_sentence(caught)
    assert len(ledger) == 1


@pytest.mark.parametrize("public", [3, "age", [None], [[1]], np.array(1.0)])
def test_what_names_no_public_set(public):
    with pytest.raises(TypeError, match="public=.* must be a"):
        composed_guarantee([EVENT], public)
    with pytest.raises(TypeError, match="public=.* must be a list of names"):
        PrivacyLedger(public=public if public != "age" else 3)


@pytest.mark.parametrize("times", [10**30, 2.0, "2", None])
def test_times(times, ledger):
    with pytest.raises(ValueError, match="must be a positive int, at most"):
        ledger.what_if(EVENT, times=times)


@pytest.mark.parametrize("path", [7, b"a", "\0", ""])
def test_paths_of_ledgers(path):
    with pytest.raises(
        (TypeError, ValueError), match="must be the path of a file|None"
    ):
        PrivacyLedger(path)


CONTENTS = {"deep": b"[" * 100_000, "long": b"1" * 100_000, "no": b"{", "8": b"\xff"}


@pytest.mark.parametrize("content", CONTENTS)
def test_reports_that_are_no_json(content, tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(CONTENTS[content])
    with pytest.raises(ValueError, match="is not a JSON file") as caught:
        read_report(path)
    assert one_sentence(caught)


@pytest.mark.parametrize("path", [7, None])
def test_paths_of_reports(path):
    with pytest.raises(TypeError, match="must be the path of a file"):
        read_report(path)


def test_entries_of_other_types():
    with pytest.raises(ValueError, match="date=a list must be a day") as caught:
        LedgerEntry(date=[], label=None, event=None, versions={})
    assert one_sentence(caught)


EDITS = {
    "no number": "UPDATE chain SET terms = replace(terms, '1.0', '\"x\"')",
    "half a limit": "UPDATE chain SET terms = replace(terms, '1e-05', 'null')",
    "no JSON": "UPDATE chain SET terms = ''",
    "no text": "UPDATE chain SET terms = X'00ff'",
    "no names": "UPDATE chain SET terms = replace(terms, '[\"a\"]', '[1]')",
    "no mapping": "UPDATE chain SET terms = '[]'",
    "another mapping": "UPDATE chain SET terms = '{\"default\": 3}'",
}


@pytest.mark.parametrize("edit", EDITS)
def test_terms_of_an_edited_file(edit, tmp_path):
    path = tmp_path / "ledger.sqlite"
    PrivacyLedger(path, epsilon=1.0, delta=1e-5, public=["a"]).charge([EVENT])
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER chain_fixed")
    connection.execute(EDITS[edit])
    connection.commit()
    connection.close()
    with pytest.raises(ValueError, match="does not hold charge 0 as it") as caught:
        PrivacyLedger(path)
    assert one_sentence(caught)
    assert json.dumps(str(path))[1:-1] in str(caught.value).replace("\\\\", "\\")
