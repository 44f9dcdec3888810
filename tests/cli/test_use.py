"""Saved models used: predictions, scores, statements; and the tables they take."""

import contextlib
import dataclasses
import io
import json
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp.cli import commands as saving
from skfdp.cli import main
from skfdp.schema import Category, Date, Ignore, Label, Number, TableSchema

N = 300


def people(seed=0):
    rng = np.random.default_rng(seed)
    hours = rng.uniform(0, 80, N).round(1)
    frame = pd.DataFrame(
        {
            "person": [f"p{i}" for i in range(N)],
            "age": rng.integers(18, 80, N),
            "hours": hours,
            "town": rng.choice(["Köln", "Rom"], N),
            "since": pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d"),
            "income": np.where(hours + 5 * rng.normal(size=N) > 40, "high", "low"),
            "pay": (100 * hours + rng.normal(size=N)).round(2),
        }
    )
    frame.loc[5, ["hours", "town"]] = None
    return frame


SCHEMA = TableSchema(
    {
        "age": Number(18, 80, public=True),
        "hours": Number(0, 80),
        "town": Category(["Köln", "Rom"], public=True),
        "since": Date("2024-01-01", "2025-01-01"),
        "income": Label(["high", "low"]),
        "pay": Number(0, 8000),
    },
    outcomes=["income", "pay"],
)
BY = ["--schema", "s.toml"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with two tables, a classifier and a regressor."""
    path = tmp_path_factory.mktemp("models")
    for name, seed in (("people", 0), ("new", 1)):
        people(seed).to_csv(path / f"{name}.csv", index=False)
    SCHEMA.save(path / "s.toml")
    for target in SCHEMA.outcomes:
        argv = ["fit", path / "people.csv", "--schema", path / "s.toml"]
        argv += ["--epsilon", "8", "--target", target]
        argv += ["--model", path / f"{target}.skops", "--report"]
        assert main([*map(str, argv), str(path / f"{target}.json")]) == 0
    return path


@pytest.fixture
def run(folder, command, monkeypatch):
    """Run a command in the folder; return status, stdout and stderr."""
    monkeypatch.chdir(folder)
    return command


@pytest.fixture
def refused(run, refusal):
    """Run a command in the folder that is refused; return its one sentence."""
    return refusal


def rows_of(model, seed=1):
    return SCHEMA.select(people(seed))


# -- predict --------------------------------------------------------------------------
def test_predictions_are_those_of_the_model(run, tmp_path):
    model = saving.load("income.skops")
    path = tmp_path / "out.csv"
    argv = ["predict", "income.skops", "new.csv", *BY]
    status, out, err = run(*argv, "-o", path, "--keep", "person", "pay")
    assert (status, out, err) == (0, f"{N} predictions written to {path}.\n", "")
    found = pd.read_csv(path)
    assert list(found) == ["person", "pay", "prediction", "p(high)", "p(low)"]
    assert list(found["person"]) == list(people(1)["person"])
    assert list(found["prediction"]) == list(model.predict(rows_of(model)))
    chances = model.predict_proba(rows_of(model))
    np.testing.assert_allclose(found[["p(high)", "p(low)"]], chances)
    status, out, _ = run("predict", "income.skops", "new.csv", *BY)
    pd.testing.assert_frame_equal(
        pd.read_csv(io.StringIO(out)), found.drop(columns=["person", "pay"])
    )
    for name, read in (("out.pq", pd.read_parquet), ("out.ARROW", pd.read_feather)):
        assert run(*argv, "-o", tmp_path / name)[0] == 0
        assert list(read(tmp_path / name)) == ["prediction", "p(high)", "p(low)"]
    out = run("predict", "pay.skops", "new.csv", *BY)[1]
    model, found = saving.load("pay.skops"), pd.read_csv(io.StringIO(out))
    assert list(found) == ["prediction"]
    np.testing.assert_allclose(found["prediction"], model.predict(rows_of(model)))
    own = dataclasses.replace(SCHEMA, exposure="hours")
    own.save(tmp_path / "s.toml")
    rates = skfdp.FeatureDPRegressor(schema=own, loss="poisson")
    saving.save(rates.fit(people(), people()["pay"]), tmp_path / "m.joblib")
    argv = "predict", tmp_path / "m.joblib", "new.csv", "--schema", tmp_path / "s.toml"
    found = pd.read_csv(io.StringIO(run(*argv)[1]), skip_blank_lines=False)
    np.testing.assert_allclose(found["prediction"], rates.predict(people(1)))


def test_new_rows_may_hold_anything(run, tmp_path):
    rows = people(1).drop(columns=["income", "pay"]).astype(object)
    rows.loc[0] = ["p", "old", "1e999", "Paris", "31.12.2024"]
    rows.loc[1] = [None] * 5
    rows.to_csv(tmp_path / "odd.csv", index=False)
    status, out, err = run("predict", "income.skops", tmp_path / "odd.csv", *BY)
    assert status == 0
    assert err.splitlines() == [
        f"skfdp: warning: public column {name!r}: 1 of 300 values cannot be read as "
        f"{kind}."
        for name, kind in (
            ("age", "numbers, such as 'old'"),
            ("town", "categories, such as 'Paris'"),
        )
    ]
    assert np.isfinite(pd.read_csv(io.StringIO(out))["p(high)"]).all()


def test_refused_predictions(refused, tmp_path):
    less, bad = tmp_path / "less.csv", tmp_path / "bad.joblib"
    people().assign(prediction=1).to_csv(twice := tmp_path / "again.csv", index=False)
    people().drop(columns=["age", "town"]).to_csv(less, index=False)
    bad.write_bytes(b"nothing")
    for model, table, more, said in (
        ("income.skops", less, [], "lacks the columns age, town: check"),
        ("income.skops", "new.csv", ["--keep", "name"], "lacks the column name: check"),
        ("income.skops", "new.csv", ["-o", "new.csv"], "new.csv' is given twice"),
        ("income.skops", twice, ["--keep", "prediction"], "has the name of a predict"),
        ("m.pkl", "new.csv", [], "must end in .skops or .joblib"),
        ("absent.skops", "new.csv", [], "cannot open 'absent.skops': No such file"),
        ("income.skops", "new.csv", ["-o", "none/o"], "none/o cannot be written: No s"),
        (bad, "new.csv", [], "is not a model that 'skfdp fit' wrote"),
    ):
        assert said in refused("predict", model, table, *BY, *more)


def test_a_schema_of_another_model_is_refused(refused, tmp_path):
    other = TableSchema({**SCHEMA.columns, "age": Ignore()}, outcomes=SCHEMA.outcomes)
    other.save(tmp_path / "s.toml")
    options = "pay.skops", "new.csv", "--schema", tmp_path / "s.toml"
    sentence = refused("predict", *options)
    assert "declares other features than those of the model (age, hours" in sentence


# -- report ---------------------------------------------------------------------------
def test_reports_of_files_models_and_ledgers(run, tmp_path):
    report = skfdp.privacy.read_report("income.json")
    status, out, err = run("report", "income.json")
    agrees = "\nRecomputed from the listed releases: epsilon agrees."
    assert (status, out, err) == (0, f"{report.statement()}\n{agrees}\n", "")
    out = run("report", "income.skops")[1]
    assert "epsilon 8 at delta 1e-05" in out
    assert out.endswith(f"{agrees} The SHA-256 fits its released weights.\n")
    assert run("report", "income.json", "--full")[1] == (
        f"{report.statement(full=True)}\n{agrees}\n"
    )
    status, out, _ = run("report", "income.json", "--json")
    assert json.loads(out) == json.loads(report.to_json())
    page, path = tmp_path / "income.html", tmp_path / "b.sqlite"
    out = run("report", "income.json", "--html", page)[1]
    assert f"Web page written to {page}." in out and "SHA-256" in page.read_text()
    ledger = skfdp.PrivacyLedger(path, epsilon=2.0, delta=1e-5)
    ledger.charge([skfdp.privacy.calibrate(1.0, 1e-5, n_steps=1).event])
    statement = skfdp.report(ledger).statement()
    assert run("report", path)[1] == f"{statement}\n{agrees}\n"
    entry = tmp_path / "entry.yaml"
    out = run("report", "income.json", "--registry", entry)[1]
    assert f"Entry written to {entry}: fill in 11 fields." in out
    assert entry.read_text(encoding="utf-8") == report.to_registry()


def test_refused_reports(run, refused, tmp_path):
    assert "cannot open 'absent.json'" in refused("report", "absent.json")
    for name in ("people", "stays"):
        skfdp.PrivacyLedger(tmp_path / "two.sqlite", dataset=name)
    told = refused("report", tmp_path / "two.sqlite", "--html", tmp_path / "page.html")
    assert "has 2 data sets, and a web page" in told
    assert "is not a JSON file" in refused("report", "new.csv")
    edited = json.loads(Path("income.json").read_text()) | {"epsilon": 0.1}
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    assert "epsilon" in refused("report", tmp_path / "edited.json")


def test_a_model_with_other_numbers_than_its_report_is_refused(refused, tmp_path):
    model = saving.load("income.skops")
    model.coef_ = model.coef_ + 1e-9
    saving.save(model, tmp_path / "moved.joblib")
    told = refused("report", tmp_path / "moved.joblib")
    assert "holds other numbers than those of its report" in told


def test_a_saved_model_is_overwritten_only_if_asked(run, refused, tmp_path):
    path = tmp_path / "paid.joblib"
    path.write_text("the model of another charge")
    ledger = tmp_path / "b.sqlite"
    argv = ["fit", "people.csv", *BY, "--target", "income"]
    argv += ["--model", path, "--ledger", ledger, "--limit", "3"]
    assert "give --overwrite" in refused(*argv)
    assert not ledger.exists()
    assert path.read_text() == "the model of another charge"
    assert run(*argv, "--overwrite")[0] == 0
    assert saving.load(path).privacy_.epsilon < 1.01


# -- ledgers --------------------------------------------------------------------------
def test_a_ledger_is_shown(run, tmp_path):
    path = tmp_path / "budget.sqlite"
    ledgers = [
        skfdp.PrivacyLedger(path, epsilon=2.0, delta=1e-5, dataset=name)
        for name in ("people", "stays")
    ]
    ledgers[0].charge([skfdp.privacy.calibrate(1.0, 1e-5, n_steps=1).event])
    status, out, err = run("ledger", path)
    chain = "Hash chain: unbroken."
    older = f"{chain} An older copy passes, too: compare a report by --report."
    assert (status, out, err) == (0, f"{ledgers[0]}\n\n{ledgers[1]}\n\n{older}\n", "")
    assert "Remaining: epsilon 1.6584 for one more fit" in out


def test_the_hash_chain_of_a_ledger_is_checked(run, refused, tmp_path):
    def broken(*argv):
        status, out, err = run("ledger", *argv)
        assert (status, out, err.count("\n")) == (1, "", 1)
        return err

    names, chain = ("a.db", "old.db", "r.json", "s.json"), "Hash chain: unbroken."
    path, older, page, edited = (tmp_path / name for name in names)
    event = skfdp.privacy.calibrate(1.0, 1e-5, n_steps=1).event
    for dataset in ("people", "stays"):  # equal events in both
        ledger = skfdp.PrivacyLedger(path, epsilon=2.0, delta=1e-5, dataset=dataset)
        older.write_bytes(path.read_bytes())
        ledger.charge([event])
        page.write_text(skfdp.report(ledger).to_json())
        status, out, _ = run("ledger", path, "--report", page)
        assert status == 0 and f"{chain} It holds the charges of {page}, with" in out
        for name in ("spent", "left", "limit", "date"):
            forged = json.loads(page.read_text())
            forged["receipts"][0][name] = "2020-01-01" if name == "date" else 0.5
            edited.write_text(json.dumps(forged))
            assert "states other figures of charge" in broken(path, "--report", edited)
    assert "does not hold charge 2" in broken(older, "--report", page)
    assert "has no receipt" in broken(path, "--report", "income.json")
    assert "'new.csv' is not a JSON" in refused("ledger", path, "--report", "new.csv")
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TRIGGER chain_fixed")
        file.execute("UPDATE chain SET entries = '[]' WHERE charge = 1")
    assert "as it was recorded, so the ledger was edited" in broken(path)
    (tmp_path / "empty.sqlite").touch()
    for path in ("income.json", "people.csv", tmp_path / "empty.sqlite"):
        assert "is damaged, emptied or not a ledger of skfdp" in broken(path)
    assert "cannot be opened" in refused("ledger", "absent.sqlite")
    assert not Path("absent.sqlite").exists()


# -- formats --------------------------------------------------------------------------
def same_predictions(run, table, schema):
    expected = run("predict", "pay.skops", "new.csv", *BY)[1]
    status, out, err = run("predict", "pay.skops", table, "--schema", schema)
    assert status == 0, err
    np.testing.assert_allclose(
        pd.read_csv(io.StringIO(out))["prediction"],
        pd.read_csv(io.StringIO(expected))["prediction"],
    )


def test_a_table_of_german_excel(run, refused, tmp_path):
    table, schema, out = (tmp_path / n for n in ("t.csv", "s.toml", "out.csv"))
    form = {"decimal": ",", "encoding": "cp1252"}
    people(1).to_csv(table, index=False, sep=";", **form)
    declared = {"outcomes": SCHEMA.outcomes, "delimiter": ";", **form}
    TableSchema(SCHEMA.columns, **declared).save(schema)
    same_predictions(run, table, schema)
    # Written as it was read.
    argv = ["predict", "pay.skops", table, "--schema", schema]
    assert run(*argv, "-o", out)[0] == 0
    assert "," in out.read_text(encoding="cp1252").splitlines()[1]
    assert "lacks the columns age, hours" in refused(*argv[:3], *BY)
    TableSchema(SCHEMA.columns, **declared | {"encoding": "utf-8"}).save(schema)
    assert "is not in utf-8, as its column 'town' shows" in refused(*argv)


@pytest.mark.parametrize("form", ["typed", "text", "dates"])
def test_parquet(run, tmp_path, form):
    pytest.importorskip("pyarrow")
    frame = people(1)
    if form == "text":
        frame = frame.astype(object).where(frame.notna(), None)
        frame = frame.map(str, na_action="ignore")
    if form == "dates":
        frame["since"] = pd.to_datetime(frame["since"])
    frame.to_parquet(tmp_path / "new.parquet", index=False)
    same_predictions(run, tmp_path / "new.parquet", "s.toml")
    argv = ["fit", tmp_path / "new.parquet", *BY, "--target", "pay"]
    assert run(*argv)[0] == 0
    status, out, _ = run("schema", tmp_path / "new.parquet", "--public", "since", "age")
    limits = 'constraints = {minimum = "2024-01-01", maximum = "2024-10-26"}'
    assert f'since = {{type = "date", {limits}, public = true}}' in out


# -- schema ---------------------------------------------------------------------------
def test_drafts_and_checks(run, refused, tmp_path):
    path = tmp_path / "s.toml"
    draft = ["schema", "people.csv", "--outcomes", "income", "--group", "person"]
    draft += ["--public", "age", "t*n", "-o", path]
    status, out, err = run(*draft)
    assert (status, err) == (0, "")
    assert out == f"Draft written to {path}: fill in 4 places.\n"
    expected = TableSchema.draft(
        "people.csv", ["age", "town"], outcomes=["income"], group="person"
    )
    assert TableSchema.load(path) == expected
    assert run(*draft[:-2])[1] == path.read_text(encoding="utf-8")
    assert f"-o {path} exists: name a new file" in refused(*draft)
    with open(tmp_path / "out.toml", "w", encoding="cp1252") as out:
        with contextlib.redirect_stdout(out):
            assert main([*map(str, draft[:-2])]) == 0
    assert TableSchema.load(tmp_path / "out.toml") == expected
    argv = ["fit", "people.csv", "--schema", path]
    for use in (argv, ["schema", "people.csv", "--check", path]):
        sentence = refused(*use)
        assert "minimum and maximum, or enum, or type of 'hours'" in sentence
    check = "schema", "people.csv", "--check", "s.toml"
    assert run(*check)[0] == 0
    assert "--check takes no --skip-lines" in refused(*check, "--skip-lines", 1)
    assert "matches no column" in refused(*draft[:4], "--public", "Age")
    (tmp_path / "t.csv").write_text("a;b\n1,5;2\n")
    status, out, _ = run(
        "schema", tmp_path / "t.csv", "--decimal", ",", "--delimiter", ";"
    )
    assert 'decimalChar = ","' in out and 'delimiter = ";"' in out
    assert "encoding='x' is not known" in refused(*draft[:2], "--encoding", "x")


CLOSED = io.StringIO()
CLOSED.close()


@pytest.mark.parametrize("stream", [None, CLOSED, object()])
def test_no_stream_of_errors_ends_a_command(run, monkeypatch, stream, tmp_path):
    monkeypatch.setattr(sys, "stderr", stream)
    status, out, _ = run("predict", "pay.skops", "new.csv", *BY, "-o", tmp_path / "o")
    assert status == 0
    assert run("predict", "pay.skops", "absent.csv", *BY)[:2] == (2, "")


def test_a_closed_output_is_an_error_in_a_sentence(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", CLOSED)
    assert main(["predict", "pay.skops", "new.csv", *BY]) == 1
    assert "error: cannot print: standard output is closed." in capsys.readouterr().err
