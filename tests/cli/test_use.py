"""Saved models used: predictions, scores, statements; and the tables they take."""

import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, r2_score, roc_auc_score

import skfdp
from skfdp.cli import main
from skfdp.cli import output as progress
from skfdp.cli import results as saving

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


DECLARED = ["--public", "age", "--drop", "person", "--bounds", "hours=0:80"]
DECLARED += ["since=2024-01-01:2025-01-01", "--categories", "town=Köln,Rom"]
DECLARED += ["--no-evaluate", "--epsilon", "8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with two tables, a classifier and a regressor."""
    path = tmp_path_factory.mktemp("models")
    for name, seed in (("people", 0), ("new", 1)):
        people(seed).to_csv(path / f"{name}.csv", index=False)
    for target, more in (
        ("income", ["--classes", "high,low", "--drop", "pay"]),
        ("pay", ["--target-bounds", "0:8000", "--drop", "income"]),
    ):
        argv = ["fit", str(path / "people.csv"), "--target", target, *more, *DECLARED]
        argv += ["--model", str(path / f"{target}.skops")]
        assert main([*argv, "--report", str(path / f"{target}.json")]) == 0
    return path


@pytest.fixture
def run(folder, capsys, monkeypatch):
    """Run a command in the folder; return status, stdout and stderr."""
    monkeypatch.chdir(folder)

    def call(*argv):
        try:
            status = main([*map(str, argv)])
        except SystemExit as leaving:
            status = leaving.code
        return (status, *capsys.readouterr())

    return call


def refusal(result):
    status, out, err = result
    assert (status, out, err.count("\n")) == (2, "", 1), result
    return err.removeprefix("skfdp: error: ")


def rows_of(model, seed=1):
    return people(seed)[list(model.feature_names_in_)]


# -- predict --------------------------------------------------------------------------
def test_predictions_are_those_of_the_model(run, tmp_path):
    model = saving.load("income.skops")
    path = tmp_path / "out.csv"
    status, out, err = run(
        *("predict", "income.skops", "new.csv", "-o", path, "--keep", "person", "pay")
    )
    assert (status, out, err) == (0, f"{N} predictions written to {path}.\n", "")
    found = pd.read_csv(path)
    assert list(found) == ["person", "pay", "prediction", "p(high)", "p(low)"]
    assert list(found["person"]) == list(people(1)["person"])
    assert list(found["prediction"]) == list(model.predict(rows_of(model)))
    chances = model.predict_proba(rows_of(model))
    np.testing.assert_allclose(found[["p(high)", "p(low)"]], chances)
    status, out, _ = run("predict", "income.skops", "new.csv")
    pd.testing.assert_frame_equal(
        pd.read_csv(io.StringIO(out)), found.drop(columns=["person", "pay"])
    )


def test_predictions_of_numbers(run, tmp_path):
    model = saving.load("pay.skops")
    path = tmp_path / "out.csv"
    assert run("predict", "pay.skops", "new.csv", "-o", path)[0] == 0
    found = pd.read_csv(path)
    assert list(found) == ["prediction"]
    np.testing.assert_allclose(found["prediction"], model.predict(rows_of(model)))


def test_new_rows_may_hold_anything(run, tmp_path):
    rows = people(1).drop(columns=["income", "pay"]).astype(object)
    rows.loc[0] = ["p", "old", "1e999", "Paris", "31.12.2024"]
    rows.loc[1] = [None] * 5
    rows.to_csv(tmp_path / "odd.csv", index=False)
    status, out, err = run("predict", "income.skops", tmp_path / "odd.csv")
    assert (status, err) == (0, "")
    assert np.isfinite(pd.read_csv(io.StringIO(out))["p(high)"]).all()


def test_refused_predictions(run, tmp_path):
    people().drop(columns=["age", "town"]).to_csv(tmp_path / "less.csv", index=False)
    sentence = refusal(run("predict", "income.skops", tmp_path / "less.csv"))
    assert "lacks the columns age, town: names are case-sensitive" in sentence
    sentence = refusal(run("predict", "income.skops", "new.csv", "--keep", "name"))
    assert "lacks the column name:" in sentence
    assert "must end in .skops or .joblib" in refusal(
        run("predict", "m.pkl", "new.csv")
    )
    sentence = refusal(run("predict", "absent.skops", "new.csv"))
    assert "cannot read 'absent.skops': No such file" in sentence
    sentence = refusal(run("predict", "income.skops", "new.csv", "-o", "none/out.csv"))
    assert "there is no folder 'none'" in sentence
    (tmp_path / "bad.joblib").write_bytes(b"nothing")
    sentence = refusal(run("predict", tmp_path / "bad.joblib", "new.csv"))
    assert "is not a model that 'skfdp fit' wrote" in sentence


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_full_disks_are_said(run):
    for argv in (
        ("predict", "pay.skops", "new.csv", "-o", "/dev/full"),
        ("report", "pay.json"),
    ):
        with open("/dev/full", "w") as full, contextlib.redirect_stdout(full):
            status, _, err = run(*argv)
        assert status == 1 and "No space left on device" in err


# -- score ----------------------------------------------------------------------------
def line_of(out, start):
    return next(line for line in out.splitlines() if line.startswith(start)).split()


def test_scores_are_those_of_scikit_learn(run):
    status, out, err = run("score", "income.skops", "new.csv")
    assert (status, err) == (0, "")
    model, y = saving.load("income.skops"), people(1)["income"]
    chances = model.predict_proba(rows_of(model))
    found = line_of(out, "income.skops")
    assert found[1] == "8"
    assert float(found[2]) == pytest.approx(
        100 * model.score(rows_of(model), y), abs=0.1
    )
    auc, loss = roc_auc_score(y == "low", chances[:, 1]), log_loss(y, chances)
    assert [*map(float, found[-2:])] == pytest.approx([auc, loss], abs=1e-3)
    assert line_of(out, "base rate: most frequent label")[-2] == "0.500"
    assert "no statement covers it" in out


def test_scores_of_numbers(run):
    status, out, err = run("score", "pay.skops", "new.csv")
    assert (status, err) == (0, "")
    model = saving.load("pay.skops")
    explained = r2_score(people(1)["pay"], model.predict(rows_of(model)))
    assert float(line_of(out, "pay.skops")[-2]) == pytest.approx(explained, abs=1e-3)
    assert float(line_of(out, "base rate: mean")[-2]) == 0


def test_rows_without_a_known_target_are_left_out(run, tmp_path):
    frame = people(1)
    frame.loc[:9, "income"] = [None, "?"] * 5
    frame.to_csv(tmp_path / "some.csv", index=False)
    _, out, _ = run("score", "income.skops", tmp_path / "some.csv")
    assert f"some.csv: {N - 10} rows with a known target 'income'." in out
    sentence = refusal(run("score", "income.skops", "new.csv", "--target", "town"))
    assert "no row has a target 'town' that the model knows" in sentence


# -- report ---------------------------------------------------------------------------
def test_reports_of_files_and_models(run):
    report = skfdp.read_report("income.json")
    status, out, err = run("report", "income.json")
    assert (status, out, err) == (0, report.statement() + "\n", "")
    assert "epsilon = 8 at delta = 1e-05" in run("report", "income.skops")[1]
    status, out, _ = run("report", "income.json", "--json")
    assert json.loads(out) == json.loads(report.to_json())
    status, out, _ = run("report", "income.skops", "--registry")
    drafted = json.loads(out)
    drafted["deployment"]["implementation"].pop("mechanisms")  # versions
    expected = report.to_registry()
    expected["deployment"]["implementation"].pop("mechanisms")
    assert (status, drafted) == (0, expected)


def test_refused_reports(run, tmp_path):
    free = skfdp.DPSGDFClassifier(float("inf"), bounds=(0, 1), classes=[0, 1])
    free.fit([[0.0], [1.0], [0.3]] * 9, [0, 1, 0] * 9)
    (tmp_path / "free.json").write_text(free.privacy_.to_json())
    refused = refusal(run("report", tmp_path / "free.json", "--registry"))
    assert "has nothing to register" in refused
    assert "cannot read 'absent.json'" in refusal(run("report", "absent.json"))
    assert "is not a JSON file" in refusal(run("report", "new.csv"))
    edited = json.loads(Path("income.json").read_text()) | {"epsilon": 0.1}
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    assert "epsilon" in refusal(run("report", tmp_path / "edited.json"))


# -- pictures -------------------------------------------------------------------------
def test_a_picture_that_cannot_be_drawn_costs_nothing_else(run, tmp_path):
    pytest.importorskip("matplotlib").use("agg")
    schema = tmp_path / "s.toml"
    schema.write_text('interactions = [["age", "hours"]]')
    model, plot = tmp_path / "m.joblib", tmp_path / "effects.svg"
    options = ["--target", "income", "--classes", "high,low,none", *DECLARED]
    options += ["--drop", "pay", "person", "--schema", schema]
    status, out, err = run(
        *("fit", "people.csv", *options, "--model", model, "--plot", plot)
    )
    assert (status, out) == (1, "") and not plot.exists() and model.exists()
    assert "effects.svg could not be drawn: target=None: a map shows one class" in err
    assert f"Model written to {model}" in err
    options.remove("--schema"), options.remove(schema)
    assert run("fit", "people.csv", *options, "--plot", plot)[0] == 0
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    sentence = refusal(run("fit", "people.csv", *options, "--plot", "effects.gif"))
    assert "must end in .png, .pdf or .svg" in sentence


# -- formats --------------------------------------------------------------------------
def excel(path, frame):
    """Write a table as Excel does in German."""
    frame.to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252")


GERMAN = ["--sep", ";", "--decimal", ",", "--encoding", "cp1252"]


def same_predictions(run, table, *options):
    expected = run("predict", "pay.skops", "new.csv")[1]
    status, out, err = run("predict", "pay.skops", table, *options)
    assert status == 0, err
    np.testing.assert_allclose(
        pd.read_csv(io.StringIO(out))["prediction"],
        pd.read_csv(io.StringIO(expected))["prediction"],
    )


def test_a_table_of_german_excel(run, tmp_path):
    excel(tmp_path / "excel.csv", people(1))
    table = tmp_path / "excel.csv"
    same_predictions(run, table, *GERMAN)
    sentence = refusal(run("predict", "pay.skops", table))
    assert "has no comma and semicolons: give --sep ';' --decimal ','" in sentence
    sentence = refusal(run("predict", "pay.skops", table, *GERMAN[:2]))
    assert "say --decimal , or --decimal . too" in sentence
    sentence = refusal(run("predict", "pay.skops", table, *GERMAN[:4]))
    assert "is not in utf-8, as its column 'town' shows" in sentence
    # Written as it was read.
    out = tmp_path / "out.csv"
    assert run("predict", "pay.skops", table, *GERMAN, "-o", out)[0] == 0
    assert "," in out.read_text(encoding="cp1252").splitlines()[1]


def test_the_format_may_stand_in_the_schema(run, tmp_path):
    excel(tmp_path / "excel.csv", people(1))
    schema = tmp_path / "s.toml"
    schema.write_text("sep = ';'\ndecimal = ','\nencoding = 'cp1252'\n")
    same_predictions(run, tmp_path / "excel.csv", "--schema", schema)


@pytest.mark.parametrize(
    "options, reason",
    [
        (["--sep", "ab"], "--sep='ab' must be one character"),
        (["--sep", "."], "--sep='.' must be one character"),
        (["--decimal", ","], "must be a point or a comma, and not the separator"),
        (["--sep", ";", "--decimal", "'"], "must be a point or a comma"),
        (["--encoding", "utf-9"], "--encoding='utf-9' is not known"),
    ],
)
def test_formats_that_mean_nothing(run, options, reason):
    assert reason in refusal(run("predict", "pay.skops", "new.csv", *options))


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
    same_predictions(run, tmp_path / "new.parquet")
    status, out, err = run(
        *("fit", tmp_path / "new.parquet", "--target", "pay", "--target-bounds", "0:9"),
        *(*DECLARED, "--drop", "income", "person"),
    )
    assert status == 0, err
    status, out, _ = run("schema", tmp_path / "new.parquet", "--public", "since", "age")
    assert 'since = {role = "public", bounds = ["2024-01-01", "2024-10-26"]}' in out


# -- progress -------------------------------------------------------------------------
class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_progress(run, monkeypatch, tmp_path):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert run("predict", "pay.skops", "new.csv", "-o", tmp_path / "o.csv")[0] == 0
    for text in ("loading the model", "reading the table", "predicting"):
        assert text in terminal.getvalue()


def test_a_terminal_without_rich_sees_lines(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert run("predict", "pay.skops", "new.csv", "-o", tmp_path / "o.csv")[0] == 0
    stages = ["loading the model", "reading the table", "predicting"]
    assert terminal.getvalue().splitlines() == [f"skfdp: {text}" for text in stages]


def test_a_file_sees_slow_stages_only(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with progress.watched():
        progress.stage("quick")
        progress.stage("slow", slow=True)
        progress._watcher._timer.join()
    assert capsys.readouterr().err == "skfdp: slow\n"
