"""Files of earlier versions stay readable, and keep what they said.

`formats_record.py` wrote them. A pickled model is read by the same minor version only.
"""

import dataclasses
import json
import pickle
import shutil
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import skfdp
from skfdp import PrivacyBudgetError, PrivacyLedger, TableSchema
from skfdp.privacy import LedgerEntry, read_report
from skfdp.privacy.events import ASSUMED

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from formats_record import DELTA, SCHEMA, spent, table  # noqa: E402

VERSIONS = sorted(one.name for one in HERE.iterdir() if (one / "ledger.db").is_file())
THIS = ".".join(skfdp.__version__.split(".")[:2])


@pytest.fixture(params=VERSIONS)
def folder(request, tmp_path):
    """The files of one version; a ledger may be written to."""
    return Path(shutil.copytree(HERE / request.param, tmp_path / request.param))


@pytest.fixture
def expected(folder):
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def test_this_version_has_files():
    assert THIS in VERSIONS


def test_ledgers_have_their_sums(folder, expected):
    found = spent(folder / "ledger.db")
    assert found.keys() == expected["spent"].keys() == {"fits", "batch", "open"}
    assert found["open"] == expected["spent"]["open"] == "inf"
    # The second is of a privacy loss distribution, whose discretisation may differ.
    for name, rtol in (("fits", 1e-9), ("batch", 0.01)):
        one, wanted = float(found[name]), float(expected["spent"][name])
        np.testing.assert_allclose(one, wanted, rtol=rtol)


def test_ledgers_have_their_entries(folder):
    fits, batch, none = (
        PrivacyLedger(folder / "ledger.db", dataset=name)
        for name in ("fits", "batch", "open")
    )
    assert (fits.epsilon, fits.delta) == (3.0, DELTA)
    assert {one.label for one in fits.entries} == {"FeatureDPLogisticRegression"}
    assert [one.event for one in none.entries] == [None]
    assert batch.public == ("age", "ill")
    assert [one.label for one in batch.entries] == ["batches", "batches"]
    assert batch.events[1].sampling_rate == 0.1
    written = json.loads((folder / "ledger.json").read_text(encoding="utf-8"))
    assert json.loads(batch.to_json()) == written
    assert (*map(LedgerEntry.from_dict, written["entries"]),) == batch.entries


def test_ledgers_go_on(folder):
    fits = PrivacyLedger(folder / "ledger.db", dataset="fits")
    before, (event, *_) = fits.spent(), fits.events
    fits.charge([event], label="of this version")
    assert fits.spent() > before
    small = dataclasses.replace(event, noise_std=(0.01,))
    with pytest.raises(PrivacyBudgetError, match="limit"):
        fits.charge([small])


@pytest.mark.parametrize("name", ["report", "pipeline"])
def test_reports(folder, name):
    path = folder / f"{name}.json"
    found, values = read_report(path), json.loads(path.read_text(encoding="utf-8"))
    for field in ("epsilon", "delta", "n_records", "seeded"):
        np.testing.assert_allclose(getattr(found, field), values[field], rtol=1e-9)
    told = {one["key"]: one["enforced"] for one in values["assumptions"]}
    assert {one.key: one.enforced for one in found.assumptions} == told
    assert found.guarantee is values["guarantee"] is (name == "report")
    assert ("VOID" in found.statement()) is (name == "pipeline")
    if name == "report":
        ledger = PrivacyLedger(folder / "ledger.db", dataset="fits")
        ledger.check_report(found)
    else:
        assert [one.learns for one in found.learnt] == ["nothing", "rows"]
        assert len(found.unknown_steps) == 1 and found.context["purpose"]


def test_keys_of_enforced_assumptions_stay(expected):
    """A key that is gone would lose its mark in reports of earlier versions."""
    ours = {key for key, one in ASSUMED.items() if one.enforced}
    assert {*expected["enforced"]} <= ours


def test_the_newest_files_follow_the_json_schema():
    path = Path(skfdp.__file__).parent / "privacy" / "report.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    for name in ("report.json", "pipeline.json"):
        text = (HERE / VERSIONS[-1] / name).read_text(encoding="utf-8")
        jsonschema.validate(json.loads(text), schema)


def test_schemas(folder):
    assert TableSchema.load(folder / "schema.toml") == SCHEMA


def test_models_are_read_by_the_same_minor_version(folder, expected):
    text = (folder / "model.pickle").read_bytes()
    if folder.name != THIS:
        with pytest.raises(ValueError, match=f"load it with skfdp {folder.name}"):
            pickle.loads(text)
        return
    model = pickle.loads(text)
    found = model.predict_proba(table()[0])[:, 1]
    np.testing.assert_allclose(found, expected["predict_proba"], rtol=1e-12)
    assert "_skfdp_version" not in vars(model)


@pytest.mark.parametrize("version", ["0.0.9", "0.2.0", "1.1.0.dev0"])
def test_a_model_of_another_minor_version_is_refused(version, monkeypatch):
    X, y = table()
    model = skfdp.DPSGDFClassifier(bounds=(0, 1), classes=[0, 1])
    encoder = skfdp.DeclaredEncoder(TableSchema({"a": skfdp.schema.Number(0, 1)}))
    for one in (model, encoder):
        text = pickle.dumps(one)
        with monkeypatch.context() as patched:
            patched.setattr("skfdp.addresses.__version__", version)
            with pytest.raises(ValueError, match=r"was saved by skfdp .* load it with"):
                pickle.loads(text)
            other = pickle.dumps(one)
            assert repr(pickle.loads(other)) == repr(one)
        with pytest.raises(ValueError, match=f"was saved by skfdp {version}, which"):
            pickle.loads(other)
