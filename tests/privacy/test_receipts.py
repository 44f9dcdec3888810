"""Receipts of charges."""

import pickle

import numpy as np
import pandas as pd
import pytest
from problems import FITS
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.privacy import PrivacyReport

RNG = np.random.default_rng(0)

N = 120
X = pd.DataFrame(RNG.random((N, 3)), columns=["a", "b", "c"])
X["region"] = np.repeat([1.0, 2.0], N // 2)
Y = pd.Series((X["a"] > 0.5).astype(int), name="y")


def fitted(model, ledger, **more):
    return clone(model).set_params(ledger=ledger, **more).fit(X, Y)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return skfdp.PrivacyLedger(tmp_path / "l.db" if request.param == "file" else None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", FITS.values(), ids=FITS)
def test_attack_3_every_charge_has_a_receipt_that_comparisons_leave_out(model, ledger):
    one, other = (fitted(model, ledger, random_state=3).privacy_ for _ in range(2))
    assert one == other and hash(one.events) == hash(other.events)
    assert len(one.receipts) == len(other.receipts) == 1
    assert one.receipts[0].head != other.receipts[0].head
    assert one.receipts[0].ledger == other.receipts[0].ledger
    assert PrivacyReport.from_dict(one.to_dict()).receipts == one.receipts
    assert pickle.loads(pickle.dumps(one)).receipts == one.receipts
    ledger.check_report(one)


def test_attack_3_score_claims_a_shared_ledger_only_with_the_receipt(ledger):
    counted = fitted(FITS["classifier"], ledger)
    uncounted = fitted(FITS["classifier"], None)
    elsewhere = fitted(FITS["classifier"], skfdp.PrivacyLedger())
    assert counted.privacy_.events == uncounted.privacy_.events
    assert counted.privacy_ == elsewhere.privacy_
    for model, holds in ((counted, True), (uncounted, False), (elsewhere, False)):
        model.set_params(ledger=None)  # one in memory cannot be pickled
        for scored in (model, pickle.loads(pickle.dumps(model))):
            said = skfdp.private_score(scored, X, Y, 0.1, delta=1e-6, ledger=ledger)
            told = [a for a in said.privacy_.assumptions if "holds the fit" in a.text]
            assert bool(told) == holds


@pytest.mark.filterwarnings("ignore")
def test_attack_3_a_pipeline_is_counted_only_if_each_step_is(ledger):
    def pipeline(first, last):
        return make_pipeline(
            skfdp.PrivateCenteringTransformer(
                bounds=(0, 2), ledger=first, neighboring_relation="replace_one"
            ),
            skfdp.FeatureDPLogisticRegression(
                ledger=last, bounds=False, classes=[0, 1]
            ),
        ).fit(X, Y)

    both, half = pipeline(ledger, ledger), pipeline(None, ledger)
    ledger.check_report(skfdp.report(both))
    with pytest.raises(ValueError, match="cannot be compared"):
        ledger.check_report(skfdp.report(half))
    said = skfdp.private_score(half, X, Y, 0.1, ledger=ledger)
    assert not any("holds the fit" in a.text for a in said.privacy_.assumptions)
