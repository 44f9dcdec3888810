"""Events, reports and ledgers of persons."""

import dataclasses
import importlib.resources
import json

import jsonschema
import numpy as np
import pytest

from skfdp import FeatureDPLogisticRegression, PrivacyLedger
from skfdp.privacy import (
    Event,
    PrivacyBudgetError,
    PrivacyReport,
    composed_guarantee,
    read_report,
)
from skfdp.privacy.assumptions import (
    BATCHES_OF_PERSONS,
    CLIPPED,
    CLIPPED_PERSONS,
)
from skfdp.solvers import NoisyGradientDescent

SOON = NoisyGradientDescent(max_iter=3)
RECORD = Event(label="a", noise_std=(5.0,), clip_norm=1.0, sensitivity=2.0)
PERSON = dataclasses.replace(RECORD, label="b", unit="person")
PARTITION = "Which rows belong to one person, and how many, is not protected"
ENTRIES = "All rows of one person carry the same id in groups"
MIXED = "cannot be composed: pass groups to every fit"


def reported(*events, **more):
    """Return a report of 40 units."""
    return PrivacyReport.from_events(
        subject="it", events=events, delta=1e-5, n_records=40, **more
    )


def flat(text):
    """Return a text without its line breaks."""
    return " ".join(text.split())


def texts(found):
    """Return the assumptions of a report, by whether code enforces them."""
    return {one.text: one.enforced for one in found.assumptions}


@pytest.fixture
def table():
    """300 rows of 100 persons, three for each."""
    rng = np.random.default_rng(0)
    return rng.random((300, 3)), rng.integers(0, 2, 300), np.repeat(np.arange(100), 3)


def model(**given):
    return FeatureDPLogisticRegression(
        bounds=(0, 1),
        classes=[0, 1],
        centering=None,
        solver=SOON,
        **given,
    )


class TestPromises:
    def test_persons_compose_with_persons(self):
        assert composed_guarantee([PERSON, PERSON]).unit == "person"
        assert composed_guarantee([RECORD]).unit == "record"

    def test_units_do_not_mix(self):
        with pytest.raises(PrivacyBudgetError, match=MIXED):
            composed_guarantee([RECORD, PERSON])
        with pytest.raises(PrivacyBudgetError, match=MIXED):
            reported(RECORD, PERSON)

    def test_the_cost_is_that_of_the_noise(self):
        """Whoever is protected: the unit changes what a neighbour is, no number."""
        assert reported(PERSON).epsilon == reported(RECORD).epsilon


class TestLedgers:
    @pytest.mark.parametrize("first, second", [(RECORD, PERSON), (PERSON, RECORD)])
    def test_they_take_one_unit(self, first, second, tmp_path):
        for ledger in (PrivacyLedger(), PrivacyLedger(tmp_path / "ledger.db")):
            ledger.charge([first])
            with pytest.raises(PrivacyBudgetError, match=MIXED):
                ledger.charge([second])
            answer = ledger.what_if(second, delta=1e-5)
            assert not answer.allowed
            assert "pass groups" in answer.reason
            assert answer.epsilon is None
            ledger.charge([first])
            assert len(ledger.entries) == 2

    def test_files_keep_the_unit(self, tmp_path):
        PrivacyLedger(tmp_path / "ledger.db").charge([PERSON])
        again = PrivacyLedger(tmp_path / "ledger.db")
        assert again.entries[0].event == PERSON
        with pytest.raises(PrivacyBudgetError, match=MIXED):
            again.charge([RECORD])

    def test_several_fits_are_taken_to_have_the_same_persons(self):
        one = "The groups of all fits name the same persons."
        assert one not in texts(reported(PERSON))
        assert texts(reported(PERSON, PERSON, n_fits=2))[one] is False
        assert one not in texts(reported(RECORD, RECORD, n_fits=2))


class TestReports:
    def test_it_speaks_of_persons(self):
        text = flat(reported(PERSON).statement(full=True))
        for said in (
            "In all rows of each of 40 persons together",
            "the private parts of all rows of one person",
            "The number of rows, which rows belong to one person",
            "Reasonable for all rows of one person",
            "knows everything but the private values in all rows of one person",
            PARTITION,
            "n = 40 persons; delta times persons is",
        ):
            assert said in text, said
        for never in ("Each person has one row", "The privacy unit is one record"):
            assert never not in text

    def test_it_speaks_of_records(self):
        text = flat(reported(RECORD).statement(full=True))
        assert "Each person has one row" in text and "Reasonable for one row:" in text
        assert PARTITION not in text
        assert "persons" not in text.replace("persons', ", "")

    @pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
    def test_relations_have_words_for_both(self, relation):
        both = [
            dataclasses.replace(e, neighboring_relation=relation, sensitivity=1.0)
            for e in (RECORD, PERSON)
        ]
        own = {
            "all rows of one person" in flat(reported(event).statement(full=True))
            for event in both
        }
        assert own == {False, True}

    def test_html_says_it(self):
        assert "all rows of each of 40 persons" in reported(PERSON)._repr_html_()
        assert "In each of 40 rows" in reported(RECORD)._repr_html_()
        assert "unit='person'" in repr(reported(PERSON))

    def test_they_come_back_from_files(self, tmp_path):
        schema = importlib.resources.files("skfdp.privacy") / "report.schema.json"
        found = reported(PERSON)
        values = json.loads(found.to_json())
        jsonschema.validate(values, json.loads(schema.read_text()))
        (tmp_path / "report.json").write_text(found.to_json())
        assert read_report(tmp_path / "report.json") == found

    def test_what_follows_from_the_unit_is_derived_again(self):
        values = json.loads(reported(PERSON).to_json())
        values["assumptions"] = []
        again = PrivacyReport.from_dict(values)
        assert again.unit == "person"
        assert again.assumptions == reported(PERSON).assumptions

    def test_batches_are_of_persons(self):
        batch = dataclasses.replace(PERSON, sampling_rate=0.5)
        assert texts(reported(batch))[BATCHES_OF_PERSONS.text] is True


class TestFits:
    def test_they_say_what_nobody_checks(self, table):
        X, y, groups = table
        plain = texts(model().fit(X, y, groups=groups).privacy_)
        (said,) = [text for text in plain if text.startswith(ENTRIES)]
        assert plain[said] is False
        assert plain[CLIPPED_PERSONS.text] is True
        assert CLIPPED.text not in plain

    def test_weights_alone_protect_records(self, table):
        X, y, _ = table
        found = model().fit(X, y, sample_weight=X[:, 0]).privacy_
        assert (found.unit, found.n_records) == ("record", 300)
