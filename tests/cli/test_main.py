"""The command line: what it prints, what it writes, and what it must not say."""

import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp.cli import fit as job
from skfdp.cli import main
from skfdp.cli import output as progress
from skfdp.cli import results as saving

# A value of a private text column and one of a private number, both outside of what
# is declared: no output may hold them.
CANARY_TEXT, CANARY_NUMBER = "canaryzyx", "918273645"
N = 200
DECLARED = ["--bounds", "hours=0:80", "--categories", "sector=private,state"]
PUBLIC = ["--public", "age", "town"]


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    rng = np.random.default_rng(0)
    hours = rng.integers(10, 70, N)
    sector = rng.choice(["private", "state"], N).astype(object)
    income = np.where(hours + 10 * (sector == "state") > 45, "high", "low")
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, N),
            "town": rng.choice(["01", "02", "Rome", ""], N),
            "hours": hours.astype(str).astype(object),
            "sector": sector,
            "income": income,
        }
    )
    frame.loc[3, "hours"], frame.loc[5, "hours"] = CANARY_NUMBER, ""
    frame.loc[4, "sector"], frame.loc[6, "sector"] = CANARY_TEXT, ""
    path = tmp_path_factory.mktemp("data") / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def run(people, capsys, monkeypatch):
    """Run the job on the file; return status, stdout and stderr."""
    monkeypatch.setattr(progress, "_PATIENCE", 600.0)

    def call(*options, path=people, target="income", classes="high,low"):
        argv = ["fit", str(path), "--target", target, *map(str, options)]
        if not {"--classes", "--public-target", "--target-bounds"} & set(options):
            argv += ["--classes", classes]
        try:
            status = main(argv)
        except SystemExit as leaving:
            status = leaving.code
        out, err = capsys.readouterr()
        for canary in (CANARY_TEXT, CANARY_NUMBER):
            assert canary not in out + err
        return status, out, err

    return call


def refusal(result):
    """Return the one sentence of a refusal."""
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1 and "Traceback" not in err
    return err.removeprefix("skfdp: error: ")


def labels_of(out):
    """Return the first column of the table."""
    lines = out.splitlines()
    rule = next(i for i, line in enumerate(lines) if re.fullmatch("[- ]{20,}", line))
    table = lines[rule + 1 :]
    return [re.split("  +", line)[0] for line in table[: table.index("")]]


def test_bundled_job_needs_no_extra(tmp_path):
    report = tmp_path / "report.json"
    code = """if True:
        import runpy, sys
        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name in ("pandas", "skops", "rich"):
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Absent())
        sys.argv[0] = "skfdp"
        runpy.run_module("skfdp", run_name="__main__")
    """
    options = ["--repeats", "1", "--seed", "0", "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-c", code, *options], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    table = labels_of(done.stdout)
    assert table[0] == "no privacy (scikit-learn)"
    assert table[1].startswith("public half and label")
    ours = "feature-DP, right half private, label public"
    assert table[2:] == ["DP on everything", ours] * 2
    assert "PRIVACY STATEMENT (VOID: integer seed): Feature" in done.stdout
    assert "integer seed" in done.stdout
    facts = skfdp.read_report(report)
    assert facts.epsilon == pytest.approx(1.0)
    assert facts.public_features == tuple(range(32)) and facts.public_target
    assert facts.seeded


@pytest.mark.slow
def test_file_job_as_a_command(people, tmp_path):
    report, model = tmp_path / "report.json", tmp_path / "model.skops"
    # Without the word "fit", as before there were commands.
    command = [sys.executable, "-m", "skfdp", str(people), "--target", "income"]
    command += [*PUBLIC, *DECLARED, "--epsilon", "3", "--repeats", "1"]
    command += ["--classes", "high,low"]
    command += ["--report", str(report), "--model", str(model)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert CANARY_TEXT not in done.stdout + done.stderr
    assert labels_of(done.stdout) == [
        "base rate: most frequent label",
        "no privacy (scikit-learn)",
        "public columns only, target private",
        "DP on everything",
        "feature-DP",
    ]
    assert "ends the protection of" in done.stdout
    assert "150 rows to train on, 50 held out." in done.stdout
    facts = skfdp.read_report(report)
    assert facts.epsilon == pytest.approx(3.0)
    assert facts.neighboring_relation == "replace_one"
    assert facts.n_records == 150 and not facts.seeded
    assert facts.private_features == ("hours", "sector")
    assert facts.target_name == "income"
    texts = [assumption.text for assumption in facts.assumptions]
    assert any("public columns of the file only: age, town" in text for text in texts)
    assert any("is not published" in text for text in texts)
    assert saving.load(model).privacy_ == facts


@pytest.mark.parametrize("suffix", ["skops", "joblib"])
def test_saved_model_predicts_from_raw_rows(run, people, tmp_path, suffix):
    path = tmp_path / f"model.{suffix}"
    status, _, err = run(
        *PUBLIC, *DECLARED, "--no-evaluate", "--model", path, "--epsilon", 3
    )
    assert status == 0, err
    content = path.read_bytes()
    if suffix == "skops":
        import skops.io

        unknown = skops.io.get_untrusted_types(file=path)
        assert set(unknown) <= set(saving.TRUSTED_TYPES)
        with zipfile.ZipFile(path) as archive:
            content = b"".join(map(archive.read, archive.namelist()))
    assert CANARY_TEXT.encode() not in content
    assert str(people.parent).encode() not in content
    model = saving.load(path)
    assert skfdp.report(model).epsilon == pytest.approx(3.0)
    # However pandas reads the file.
    typed, text = pd.read_csv(people), pd.read_csv(people, dtype=str)
    kept = pd.read_csv(people, dtype=str, keep_default_na=False)
    names = list(model.feature_names_in_)
    assert names == ["age", "town", "hours", "sector"]
    typed = typed[names]
    margins = model.decision_function(typed)
    assert set(model.predict(typed)) <= {"high", "low"}
    for frame in (text, kept):
        found = model.decision_function(frame[names])
        np.testing.assert_array_equal(found, margins)
    # Unknown categories, and what is no number, have levels of their own.
    row = typed.iloc[[0]]
    for changes, same in (
        ({"sector": "elsewhere"}, {"sector": "nowhere"}),
        ({"hours": np.nan}, {"hours": "many"}),
        ({"hours": 80}, {"hours": 1e9}),
    ):
        found = model.decision_function(row.assign(**changes))
        assert found == model.decision_function(row.assign(**same))


def test_label_privacy(run, tmp_path):
    report = tmp_path / "report.json"
    # Undeclared, the canary would become a public category, and be shown as such.
    options = ["--public", "all", "--categories", "sector=private,state"]
    status, out, err = run(*options, "--repeats", 1, "--report", report)
    assert status == 0, err
    assert labels_of(out) == [
        "base rate: public columns only (no targets): most frequent label",
        "no privacy (scikit-learn)",
        "DP on everything",
        "label-DP: only the target is private",
    ]
    facts = skfdp.read_report(report)
    assert facts.private_features == () and not facts.public_target


def test_public_target_and_nothing_public(run, people):
    status, out, err = run("--public-target", *PUBLIC, *DECLARED, "--repeats", 1)
    assert status == 0, err
    assert "public columns and target only (scikit-learn, free)" in labels_of(out)
    everything = ["--bounds", "hours=0:80", "age=18:80", "--categories"]
    everything += ["sector=private,state", "town=1,2,Rome", "--drop", "age"]
    assert "names the column 'age'" in refusal(run(*everything))
    everything.remove("age=18:80")
    status, out, err = run(*everything, "--repeats", 1)
    assert status == 0, err
    assert labels_of(out)[2:] == ["DP on everything: nothing is public"]


def test_no_evaluation_trains_on_all_rows(run, tmp_path):
    report = tmp_path / "report.json"
    status, out, err = run(
        *PUBLIC, *DECLARED, "--no-evaluate", "--report", report, "--seed", 3
    )
    assert status == 0, err
    assert "accuracy" not in out and "most frequent" not in out
    facts = skfdp.read_report(report)
    assert facts.n_records == N and facts.seeded
    assert not any("not published" in item.text for item in facts.assumptions)


def test_seed_repeats_the_output(run):
    options = [*PUBLIC, *DECLARED, "--repeats", 2]
    first, second = run(*options, "--seed", 1), run(*options, "--seed", 1)
    assert first[1] == second[1] and "integer seed" in first[1]
    assert run(*options, "--seed", 2)[1] != first[1]
    assert "cryptographic generator" in run(*options)[1]


def test_split_depends_on_nothing_but_the_number_of_rows(run, people, tmp_path):
    class Options:
        evaluate, test_size, seed = True, 0.25, None

    train, test = job._split(Options, 40)
    assert len(test) == 10 and sorted([*train, *test]) == list(range(40))
    np.testing.assert_array_equal(job._split(Options, 40)[1], test)
    Options.test_size = 0.01
    with pytest.raises(job.CommandError, match="leaves too few"):
        job._split(Options, 40)


def test_ledger_is_charged_for_the_released_fit_alone(run, tmp_path):
    ledger, model = tmp_path / "spent.sqlite", tmp_path / "model.joblib"
    options = [*PUBLIC, *DECLARED, "--ceiling", "1.5", "--ledger", ledger]
    sentence = refusal(run(*options, "--evaluate"))
    assert "--evaluate and --ledger exclude each other" in sentence
    assert not ledger.exists()
    status, out, err = run(*options, "--model", model)
    assert status == 0, err
    assert "epsilon 1 of 1.5 spent on these data so far" in out
    assert "most frequent label" not in out
    assert len({entry.charge for entry in skfdp.PrivacyLedger(ledger).entries}) == 1
    assert saving.load(model).ledger is None
    skfdp.PrivacyLedger(path := tmp_path / "ceiling.sqlite", epsilon=0.5, delta=1e-5)
    options[-4:] = ["--ledger", path]
    assert "budget exhausted" in refusal(run(*options))


def test_add_or_remove_one_hides_the_number_of_rows(run):
    options = ["--bounds", "hours=0:80", "age=18:80", "--categories"]
    options += ["sector=private,state", "town=1,2,Rome"]
    options += ["--relation", "add_or_remove_one"]
    assert "--n-records" in refusal(run(*options))
    options += ["--n-records", 1000]
    assert "exclude each other" in refusal(run(*options, "--evaluate"))
    assert "nothing of them can be public" in refusal(run(*options, "--public", "age"))
    status, out, err = run(*options)
    assert status == 0, err
    assert str(N) not in re.sub("200 Gaussian", "", out)


def test_undeclared_private_columns(run):
    sentence = refusal(run(*PUBLIC))
    assert "declared of the private columns hours, sector, and to learn it" in sentence
    assert "--bounds hours=LOW:HIGH for numbers and dates" in sentence
    assert "--categories hours=A,B,... for text" in sentence
    for value in ("private,", "state", "Rome"):
        assert value not in sentence
    sentence = refusal(run(*PUBLIC, "--bounds", "hours=0:80"))
    assert "declared of the private column sector, and" in sentence
    assert "--categories sector=A,B,... for text" in sentence


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["--public", "size"], "--public names the column 'size', which the file does"),
        (["--public", "income"], "names the target 'income': use --public-target"),
        (["--bounds", "size=0:1"], "--bounds names the column 'size'"),
        (["--categories", "size=a,b"], "--categories names the column 'size'"),
        (["--drop", "size"], "--drop names the column 'size'"),
        (["--bounds", "income=0:1"], "declared by --classes or --target-bounds"),
        (["--bounds", "hours"], "must have the form COLUMN=LOW:HIGH"),
        (["--bounds", "hours=1"], "form COLUMN=LOW:HIGH, two numbers or two dates"),
        (["--bounds", "hours=a:b"], "form COLUMN=LOW:HIGH, two numbers or two dates"),
        (["--bounds", "hours=5:5"], "must satisfy LOW < HIGH, both finite"),
        (["--bounds", "hours=9:1"], "must satisfy LOW < HIGH, both finite"),
        (["--bounds", "hours=0:inf"], "must satisfy LOW < HIGH, both finite"),
        (["--bounds", "hours=0:1", "hours=0:2"], "declares column 'hours' twice"),
        (["--bounds", "sector=0:1", *DECLARED[2:]], "has --bounds and --categories"),
        (["--categories", "sector=a,a"], "'a' and 'a', which are one category"),
        (["--categories", "sector="], "must list at least one value"),
        (["--schema", "absent.toml"], "cannot read 'absent.toml'"),
        (["--classes", "high"], "must list two labels or more"),
        (["--classes", "high,high"], "lists 'high' twice, or an empty label"),
        (["--classes", "a,b", "--target-bounds", "0:1"], "give one of them"),
        (["--classes", "a,b", "--task", "regression"], "is not for --task regression"),
        (["--classes", "NA,EU"], "lists 'NA', which readers of CSV files take for"),
        (["--categories", "sector=None,a"], "of 'sector' lists 'None', which readers"),
        (["--target-bounds", "1:0"], "must satisfy LOW < HIGH"),
        (["--target-bounds", "1"], "must have the form LOW:HIGH"),
        (["--public", "all", "--public-target"], "nothing to protect"),
        (["--public", "all", "--epsilon", "0"], "epsilon=0 must be a positive, finite"),
        (["--public", "all", "--epsilon", "inf"], "must be a positive, finite"),
        (["--public", "all", "--epsilon", "1", "2"], "unrecognized arguments: 2"),
        (["--public", "all", "--epsilon", "x"], "invalid float value: 'x'"),
        (["--public", "all", "--delta", "1"], "strictly between 0 and 1"),
        (["--public", "all", "--relation", "other"], "invalid choice: 'other'"),
        (["--public", "all", "--test-size", "1"], "strictly between 0 and 1"),
        (["--no-evaluate", "--test-size", ".5"], "needs the evaluation"),
        (["--public", "all", "--repeats", "0"], "must be at least 1"),
        (["--public", "all", "--seed", "-1"], "must not be negative"),
        (["--public", "all", "--model", "m.pkl"], "must end in .skops or .joblib"),
        (["--public", "all", "--report", "none/r.json"], "no folder 'none'"),
        (["--public", "all", "--unknown"], "unrecognized arguments"),
    ],
)
def test_refused_options(run, options, sentence):
    defaults = [] if "--public" in options else PUBLIC
    if options[0] == "--categories":
        defaults = [*PUBLIC, *DECLARED[:2]]
    if "spellings" in sentence or "lists 'NA'" in sentence:
        defaults = [*PUBLIC, *DECLARED]
    assert sentence in refusal(run(*defaults, *options))


def test_refused_files(run, tmp_path):
    assert "No such file" in refusal(run(path=tmp_path / "absent.csv"))
    # Without a header the first line is a record: it is not quoted.
    bare = tmp_path / "bare.csv"
    bare.write_text(f"{CANARY_TEXT},high\nb,low\n")
    sentence = refusal(run("--public", "all", path=bare))
    assert "--target names 'income', which is not in the first line" in sentence
    for name, (content, reason) in {
        "empty": (b"", "is empty"),
        "ragged": (
            f"a,income\n1,x\n1,x,{CANARY_TEXT}\n".encode(),
            "more fields than its first line",
        ),
        "surplus": (
            f"a,income\n1,x,{CANARY_TEXT}\n".encode(),
            "more fields than its first line",
        ),
        "bytes": (b"a,income\n\xff\xfe,x\n", "is not in utf-8"),
    }.items():
        path = tmp_path / f"{name}.csv"
        path.write_bytes(content)
        assert reason in refusal(run("--public", "all", path=path)), name


def test_refused_values_are_not_quoted(run, people, tmp_path):
    labels = ["--public-target", "--classes", "low,middle"]
    sentence = refusal(run(*PUBLIC, *DECLARED, *labels))
    assert "holds labels outside --classes low,middle" in sentence
    assert "high" not in sentence
    holes = tmp_path / "holes.csv"
    holes.write_text("a,income\n1,x\n2,\n3,y\n")
    private = ["--bounds", "a=0:9", "--public-target"]
    assert "has missing or unreadable values" in refusal(run(*private, path=holes))
    names = tmp_path / "names.csv"
    names.write_text("a,income\n" + "".join(f"n{i},{i % 2}\n" for i in range(2000)))
    assert "2000 different texts" in refusal(run("--public", "all", path=names))


def test_messages_of_other_libraries_are_withheld(run, monkeypatch):
    def fail(arguments):
        raise RuntimeError(CANARY_TEXT)

    monkeypatch.setattr(job, "run", fail)
    status, _, err = run("--public", "all")
    assert status == 1 and "unexpected RuntimeError" in err
    with pytest.raises(RuntimeError):
        run("--public", "all", "--debug")


def test_the_console_command_is_there():
    path = Path(__file__).parents[2] / "setup.py"
    if not path.is_file():
        pytest.skip("setup.py is not beside the tests")
    ((module, name),) = re.findall(r'"skfdp = (.+):(.+)"', path.read_text())
    assert callable(getattr(importlib.import_module(module), name))


def test_file_needs_pandas(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "pip install 'skfdp[cli]'" in refusal(run("--public", "all"))


def test_skops_file_needs_skops(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    sentence = refusal(run("--public", "all", "--model", "model.skops"))
    assert "needs skops: pip install 'skfdp[cli]'" in sentence


def test_bundled_statement_fits_a_screen_unless_asked(capsys):
    """Title, meaning, protection and numbers; the other parts are named, not hidden."""
    parts = ("Assumptions", "Not covered by these numbers", "Limits", "How it was")
    for options in ([], ["--statement"]):
        assert main(["--repeats", "1", "--epsilon", "1", *options]) == 0
        text = capsys.readouterr().out
        statement, _, after = text.partition("PRIVACY STATEMENT")[2].partition(
            "What next\n"
        )
        assert "epsilon = 1 at delta = 1e-05." in statement
        assert "Public, not protected" in statement
        assert "skfdp schema TABLE.csv" in after
        whole = re.findall(r"^([A-Z].*)\n-+$", statement, re.MULTILINE)
        assert ("Assumptions" in whole) == bool(options)
        assert all(part in " ".join(statement.split()) for part in parts)
        assert (statement.count("\n") < 40) != bool(options)


def test_bundled_data_take_no_column_options(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--target", "income"])
    err = capsys.readouterr().err
    assert "options come after a command: skfdp fit TABLE --target COLUMN" in err


def test_declarations(run, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text(
        "a=b,code,flag,y\n"
        + "".join(f'"p,q",{i % 3:02},{i % 2 == 0},{i % 2}\n' for i in range(60))
    )
    model = tmp_path / "model.joblib"
    status, _, err = run(
        *("--categories", 'a=b="p,q"', "code=0,1,2", "flag=TRUE,false"),
        *("--classes", "0,1", "--no-evaluate", "--epsilon", 8, "--model", model),
        path=path,
        target="y",
    )
    assert status == 0, err
    found = saving.load(model)
    assert list(found.encoder_.get_feature_names_out()) == [
        *("a=b__p,q", "a=b__other", "a=b__missing"),
        *("code__0", "code__1", "code__2", "code__other", "code__missing"),
        *("flag__TRUE", "flag__false", "flag__other", "flag__missing"),
    ]
    # Labels are numbers again, as pandas reads them; so are codes and flags.
    frame = pd.read_csv(path)
    rows = frame.drop(columns="y")
    assert found.score(rows, frame["y"]) > 0.9
    assert (found.encoder_.transform(rows).sum(axis=1) == 3).all()
