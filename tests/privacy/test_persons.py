"""Events, reports and ledgers of persons."""

import dataclasses

import numpy as np
import pytest

from skfdp import FeatureDPLogisticRegression, PrivacyLedger
from skfdp.privacy import (
    Event,
    PrivacyBudgetError,
    PrivacyReport,
    composed_guarantee,
)
from skfdp.privacy.events import ASSUMED
from skfdp.solvers import NoisyGradientDescent

SOON = NoisyGradientDescent(max_iter=3)
RECORD = Event(label="a", noise_std=(5.0,), clip_norm=1.0, sensitivity=2.0)
PERSON = dataclasses.replace(RECORD, label="b", unit="person")
ENTRIES = "All rows of one person carry the same id in groups"
MIXED = "cannot be composed: pass groups to every fit"


def reported(*events, **more):
    """Return a report of 40 units."""
    return PrivacyReport.from_events(
        subject="it", events=events, delta=1e-5, n_records=40, **more
    )


def texts(found):
    """Return the assumptions of a report, by whether code enforces them."""
    return {one.text: one.enforced for one in found.assumptions}


class TestLedgers:
    def test_the_cost_is_that_of_the_noise(self):
        """Whoever is protected: the unit changes what a neighbour is, no number."""
        assert reported(PERSON).epsilon == reported(RECORD).epsilon

    @pytest.mark.parametrize("first, second", [(RECORD, PERSON), (PERSON, RECORD)])
    def test_they_take_one_unit(self, first, second, tmp_path):
        for ledger in (PrivacyLedger(), PrivacyLedger(tmp_path / "ledger.db")):
            ledger.charge([first])
            assert composed_guarantee([first, first]).unit == first.unit
            for use in (ledger.charge, lambda one: composed_guarantee([first, *one])):
                with pytest.raises(PrivacyBudgetError, match=MIXED):
                    use([second])
            answer = ledger.what_if(second, delta=1e-5)
            assert not answer.allowed
            assert "pass groups" in answer.reason
            assert answer.epsilon is None
            ledger.charge([first])
            assert ledger.events == (first, first)

    def test_several_fits_are_taken_to_have_the_same_persons(self):
        one = "The groups of all fits name the same persons."
        assert one not in texts(reported(PERSON))
        assert texts(reported(PERSON, PERSON, n_fits=2))[one] is False
        assert one not in texts(reported(RECORD, RECORD, n_fits=2))


class TestReports:
    """Their words are in `statements.txt`."""

    def test_fits_say_what_nobody_checks(self):
        rng = np.random.default_rng(0)
        X, y = rng.random((300, 3)), rng.integers(0, 2, 300)
        model = FeatureDPLogisticRegression(
            bounds=(0, 1), classes=[0, 1], centering=None, solver=SOON
        )
        told = texts(model.fit(X, y, groups=np.arange(300) // 3).privacy_)
        (said,) = [text for text in told if text.startswith(ENTRIES)]
        assert (
            told[said] is False
            and told[ASSUMED["person_contributions_clipped"].text] is True
        )
        assert ASSUMED["contributions_clipped"].text not in told
        found = model.fit(X, y, sample_weight=X[:, 0]).privacy_
        assert (found.unit, found.n_records) == ("record", 300)
