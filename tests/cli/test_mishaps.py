"""What the command line lost or let out: each case was found by a user's mishap.

What such mishaps showed of the reading of files is in `tests/test_schema.py`.
"""

import contextlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import skfdp
from skfdp.cli import main, output
from skfdp.cli import results as saving
from skfdp.schema import Category, Date, Label, Number, TableSchema
from skfdp.solvers.first_model import FirstModel

N = 200

COMMAND = [sys.executable, "-m", "skfdp"]

FIT = ["fit", "t.csv", "--schema", "s.toml"]


def columns(public=(), label=None):
    return {
        "age": Number(18, 80, public="age" in public),
        "hours": Number(0, 80, public="hours" in public),
        "sector": Category(["private", "state"], public="sector" in public),
        "y": label or Label(["high", "low"], public="y" in public),
    }


def written(folder, frame=None, types=None, **options):
    """Write a table and its schema, of which the age is public."""
    rng = np.random.default_rng(0)
    hours = rng.integers(10, 70, N)
    people = pd.DataFrame(
        {
            "age": rng.integers(18, 80, N),
            "hours": hours,
            "sector": rng.choice(["private", "state"], N),
            "y": np.where(hours > 40, "high", "low"),
        }
    )
    (people if frame is None else frame).to_csv(folder / "t.csv", index=False)
    types = types or columns(["age"])
    TableSchema(types, outcomes="y", **options).save(folder / "s.toml")
    return people


# -- what is saved can be loaded ------------------------------------------------------


LOAD = """if True:
    import json, sys
    import pandas as pd
    from skfdp.cli import results as saving
    rows = pd.read_csv("t.csv")[["age", "hours", "sector"]]
    models = map(saving.load, sys.argv[1:])
    print(json.dumps([model.predict_proba(rows).tolist() for model in models]))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("public", ["", "age", "y", "age y", "age hours sector"])
def test_saved_models_load_in_a_new_process(command, tmp_path, public):
    labels = ["high", "low", "none"]
    frame = written(tmp_path).assign(y=np.resize(labels, N))
    written(tmp_path, frame, columns(public.split(), Label(labels, "y" in public)))
    for name in ("m.joblib", "m.skops"):
        more = ["--no-evaluate", "--seed", "1", "--model", name]
        assert command(*FIT, *more)[0] == 0
    done = subprocess.run(
        [sys.executable, "-c", LOAD, "m.joblib", "m.skops"], capture_output=True
    )
    found, again = json.loads(done.stdout)
    np.testing.assert_allclose(found, again)
    assert np.ptp(found, axis=0).min() > 0


# -- files first, words afterwards ----------------------------------------------------
FILES = ["--report", "r.json", "--model", "m.joblib", "--ledger", "spent.sqlite"]
FILES += ["--limit", "2"]


@pytest.mark.nightly
@pytest.mark.parametrize("lines", [0, 1])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_pipe_loses_nothing(tmp_path, lines, unbuffered):
    written(tmp_path)
    job = subprocess.Popen(
        [*COMMAND, *FIT, *FILES],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        cwd=tmp_path,
    )
    for _ in range(lines):
        assert job.stdout.readline()
    job.stdout.close()
    err = job.stderr.read().decode()
    job.stderr.close()
    assert job.wait(timeout=240) == 0
    assert all(line.startswith("skfdp: ") for line in err.splitlines()), err
    assert skfdp.privacy.read_report(tmp_path / "r.json").epsilon == pytest.approx(1)
    assert (tmp_path / "m.joblib").stat().st_size > 1000
    spent = skfdp.PrivacyLedger(tmp_path / "spent.sqlite").spent()
    assert spent == pytest.approx(1, rel=1e-3)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_full_disk_is_said_and_so_is_what_was_saved(command, tmp_path):
    written(tmp_path)
    with open("/dev/full", "w") as full, contextlib.redirect_stdout(full):
        status, _, err = command(*FIT, *FILES)
    assert status == 1
    for fact in (
        "error: cannot print: No space left on device.",
        "spent.sqlite: this fit is charged and will not be refunded; epsilon 1 of 2",
        "Privacy report written to r.json.",
        "Model written to m.joblib",
    ):
        assert fact in err.splitlines()[-1]
    assert skfdp.privacy.read_report("r.json").epsilon == pytest.approx(1)
    # The report meets a full disk: the model is written nevertheless.
    os.unlink("m.joblib")
    status, _, err = command(*FIT, "--report", "/dev/full", *FILES[2:])
    assert status == 1 and "/dev/full could not be written" in err
    assert "Model written to" in err and os.path.exists("m.joblib")


def test_files_are_told_before_the_table(command, tmp_path):
    written(tmp_path)
    status, out, err = command(*FIT, *FILES[:4], "--repeats", 1)
    assert status == 0, err
    places = [
        out.index(text)
        for text in ("r.json", "m.joblib", "most frequent", "PRIVACY STATEMENT")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("option", ["--report", "--model"])
def test_unwritable_paths_are_found_before_the_charge(refusal, tmp_path, option):
    written(tmp_path)
    (tmp_path / "folder.joblib").mkdir()
    sentence = refusal(*FIT, *FILES, option, "folder.joblib")
    assert f"{option} folder.joblib cannot be written: Is a directory" in sentence
    assert not (tmp_path / "spent.sqlite").exists()
    # The check leaves nothing behind.
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("kept")
    for path in (old, new):
        output.check_writable(path, option)
    assert old.read_text() == "kept" and not new.exists()


# -- Ctrl-C ---------------------------------------------------------------------------


def test_ctrl_c_says_what_stays_charged(command, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    written(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(FirstModel, "plan", interrupt)
        status, out, err = command(*FIT, *FILES)
    assert (status, out) == (130, "")
    assert err == "skfdp: interrupted.\n"  # nothing was charged yet
    monkeypatch.setattr(FirstModel, "run", interrupt)
    status, out, err = command(*FIT, *FILES)
    assert (status, out, err.count("\n")) == (130, "", 1)
    assert "interrupted. spent.sqlite: this fit is charged and will not be " in err
    assert skfdp.PrivacyLedger("spent.sqlite").spent() == pytest.approx(1, rel=1e-3)


# -- the ledger has a limit -----------------------------------------------------------
def test_third_run_passes_the_limit(command, refusal, tmp_path):
    written(tmp_path)
    ledger = ["--ledger", "spent.sqlite"]
    sentence = refusal(*FIT, *ledger)
    assert "has no limit yet: give --limit EPSILON" in sentence
    assert not (tmp_path / "spent.sqlite").exists()
    new = f"{tmp_path / 'spent.sqlite'} is a new ledger: no earlier fit counts in it."
    for options, is_new in ((["--limit", 1.6], True), ([], False)):
        status, out, _ = command(*FIT, *ledger, *options)
        assert (status, new in out) == (0, is_new)
    sentence = refusal(*FIT, *ledger)
    assert "budget exhausted" in sentence and "nothing was charged" in sentence
    entries = skfdp.PrivacyLedger("spent.sqlite").entries
    assert len({entry.charge for entry in entries}) == 2


def test_limits_that_mean_nothing(command, refusal, tmp_path):
    written(tmp_path)
    ledger = ["--ledger", "spent.sqlite"]
    assert "give --ledger FILE, too" in refusal(*FIT, "--limit", 1)
    for value in ("0", "inf", "nan", "-1"):
        sentence = refusal(*FIT, *ledger, f"--limit={value}")
        assert f"--limit={value} must be a positive, finite number" in sentence
    assert command(*FIT, *ledger, "--limit", 2)[0] == 0
    sentence = refusal(*FIT, *ledger, "--limit", 3)
    assert "epsilon 2, which cannot be changed: leave --limit out" in sentence
    # One that Python made without a limit gets one here, once.
    bare = ["--ledger", "bare.sqlite"]
    assert not skfdp.PrivacyLedger(bare[1]).entries
    assert "has no limit yet" in refusal(*FIT, *bare)
    assert command(*FIT, *bare, "--limit", 2)[0] == 0
    assert skfdp.PrivacyLedger(bare[1]).epsilon == 2


# -- the table ------------------------------------------------------------------------


def test_scores_of_one_class_and_of_an_unknown_label(small):
    """No ranking to speak of, and no chance."""
    X, y = small
    model = LogisticRegression().fit(X, y)
    assert "AUC" not in saving.scores(model, X[y == 1], y[y == 1])
    log_loss = saving.scores(model, X, y + 2)["log loss"]
    assert log_loss == pytest.approx((-np.log(1e-15), 0))


@pytest.mark.parametrize("kind", [LogisticRegression, LinearRegression])
def test_errors_of_scores_are_those_of_drawing_rows(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 1))
    y = X[:, 0] + rng.normal(size=4000)
    y = y if kind is LinearRegression else (y > 0).astype(int)
    model = kind().fit(X, y)
    found = saving.scores(model, X[:300], y[:300])
    drawn = [rng.integers(0, 4000, 300) for _ in range(200)]
    again = [saving.scores(model, X[rows], y[rows]) for rows in drawn]
    assert set(found) in ({"RMSE", "R2"}, {"accuracy", "log loss", "AUC"})
    for name, (_, error) in found.items():
        spread = np.std([one[name][0] for one in again])
        assert error == pytest.approx(spread, rel=0.3), name


# -- private values decide nothing ----------------------------------------------------
CLEAN = {"age": 40, "hours": 40, "sector": "state", "since": "2024-03-01"}

MALFORMED = {
    "clean": ([], CLEAN),
    "missing": (range(N), dict.fromkeys([*CLEAN, "y"])),
    "texts": ([3], {"hours": "k.A.", "sector": "ca", "since": "soon", "y": "canary"}),
    "numbers": ([3], {"hours": "1e999", "sector": 7, "since": 45000, "y": 17}),
    "odd": (
        range(N),
        {"hours": -9e9, "sector": "NaN", "since": "9999-12-31", "y": "?"},
    ),
}

TASKS = {
    "labels": (["no", "yes"], Label(["no", "yes"])),
    "flags": ([True, False], Label([True, False])),
    "integers": ([0, 1], Label([0, 1])),
    "fractions": ([0.5, 1.5], Label(["0.5", "1.5"])),
    "a regression": ([3, 8], Number(0, 10)),
}


@pytest.mark.parametrize("task", TASKS)
def test_private_values_decide_nothing(command, tmp_path, task):
    labels, declared = TASKS[task]
    frame = pd.DataFrame([CLEAN] * N).astype(object)
    frame["y"] = pd.Series(labels * (N // 2), dtype=object)
    types = columns(["age"], declared) | {"since": Date("2024-01-01", "2025-01-01")}
    said = {}
    for kind, (rows, values) in MALFORMED.items():
        odd = frame.copy()
        for name in values.keys() - {"age"}:
            # Of many undeclared labels a release tells: see the next test.
            few = name == "y" and task != "a regression"
            odd.loc[[3] if few else rows, name] = values[name]
        written(tmp_path, odd, types)
        status, out, err = command(*FIT, "--epsilon", 8, "--no-evaluate")
        # The fingerprint is that of the released numbers, with their noise.
        out, n_found = re.subn("(?s)Fingerprint.*?(?=Signed)", "", out)
        assert n_found == (status == 0)
        said[kind] = status, out, err
    assert said["clean"][0] == 0, said["clean"]
    assert set(said.values()) == {said["clean"]}


def test_released_counts_end_a_fit_without_declared_labels(refusal, tmp_path):
    written(tmp_path, pd.DataFrame([CLEAN | {"y": "canary"}] * N))
    sentence = refusal(*FIT, "--epsilon", 8, *FILES[4:], "--limit", 9)
    assert "no label of enum = " in sentence and "canary" not in sentence
    spent = skfdp.PrivacyLedger("spent.sqlite").spent()
    assert spent == pytest.approx(8, rel=1e-3)


@pytest.mark.parametrize("task", ["flags", "fractions", "a regression"])
def test_rows_without_a_target_are_compared_with_nothing(command, tmp_path, task):
    labels, declared = TASKS[task]
    frame = pd.DataFrame([CLEAN] * N).assign(y=labels * (N // 2)).astype(object)
    frame.loc[::7, "y"] = "canary"
    written(tmp_path, frame, columns((), declared))
    status, out, err = command(*FIT, "--repeats", 1)
    assert status == 0 and "canary" not in out + err, err
    assert " inf " in out


def test_a_target_of_no_label_at_all_leaves_nothing_to_compare(command, tmp_path):
    written(tmp_path, pd.DataFrame([CLEAN | {"y": "canary"}] * N), columns())
    # Released counts show nothing at this budget.
    status, out, err = command(*FIT, "--model", "m.joblib", "--epsilon", 0.01)
    assert status == 2 and "canary" not in out + err
    assert "there is nothing to compare: use --no-evaluate" in err
    assert "Model written to m.joblib" in err and (tmp_path / "m.joblib").exists()


def test_messages_of_other_libraries_are_withheld(command, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("canary")

    written(tmp_path)
    monkeypatch.setattr("skfdp.cli.fit.split", fail)
    status, _, err = command(*FIT)
    assert status == 1 and "unexpected RuntimeError" in err and "canary" not in err
    with pytest.raises(RuntimeError):
        main([*FIT, "--debug"])


# -- files whose first line holds no names --------------------------------------------
USES = [
    [*FIT, "--no-evaluate", "--model", "m.joblib", "--overwrite"],
    ["predict", "m.joblib", "t.csv", "--schema", "s.toml"],
    ["score", "m.joblib", "t.csv", "--schema", "s.toml"],
]


def test_f01_holds_for_every_command(command, refusal, tmp_path):
    """The first record of a file without names is quoted by none that reads one."""
    people = written(tmp_path)
    assert all(command(*argv)[0] == 0 for argv in USES)
    people.assign(age=45, sector="canary").to_csv("t.csv", index=False, header=False)
    for argv in USES:
        sentence = refusal(*argv)
        assert "'t.csv' lacks the columns age, hours, sector" in sentence
        assert "canary" not in sentence and "45" not in sentence
    for more in ([], ["--public", "all", "-o", "new.toml"]):
        sentence = refusal("schema", "t.csv", *more)
        assert "does not look like names" in sentence and "canary" not in sentence
    assert not (tmp_path / "new.toml").exists()


def test_f01_names_that_are_numbers_are_confirmed(command, refusal, tmp_path):
    written(tmp_path).rename(columns={"age": "2019"}).to_csv("t.csv", index=False)
    assert "does not look like names" in refusal("schema", "t.csv")
    status, out, err = command("schema", "t.csv", "--header", "--outcomes", "y")
    assert (status, err) == (0, "") and "\n2019 = {" in out
    types = columns()
    types = {"2019": types.pop("age"), **types}
    TableSchema(types, outcomes="y").save("s.toml")
    assert all(command(*argv)[0] == 0 for argv in USES)


def test_f17_columns_without_a_name_are_left_out(command, tmp_path):
    text = written(tmp_path).to_csv(index=False)
    first, *lines = text.splitlines()
    text = "\n".join([f",{first},,", *(f"canary,{line},," for line in lines)])
    (tmp_path / "t.csv").write_text(text)
    status, out, err = command("schema", "t.csv", "--public", "all")
    told = "columns without a name are left out: number 1, 6, 7."
    assert (status, err) == (0, f"skfdp: warning: {told}\n") and "Unnamed" not in out
    for argv in USES:
        status, out, err = command(*argv)
        assert status == 0 and "Unnamed" not in out and "canary" not in out + err


def test_f04_a_wrong_mark_is_told_of_public_columns_only(command, tmp_path):
    rows = [f"{i % 40},5;{i % 40}.250;{i % 2}" for i in range(240)]
    (tmp_path / "t.csv").write_text("\n".join(["open;hidden;ill", *rows, ""]))
    schema = TableSchema(
        {"open": Number(0, 40, True), "hidden": Number(0, 40), "ill": Label([0, 1])},
        outcomes="ill",
        delimiter=";",
        decimal=".",
    )
    schema.save(tmp_path / "s.toml")
    status, _, err = command(*USES[0])
    told = "public column 'open': 240 of 240 values cannot be read as numbers, such as "
    told += "'0,5'."
    told = f"skfdp: warning: {told}\n"
    assert status == 0 and told in err and "hidden" not in err
    for argv in USES[1:]:
        assert command(*argv)[2] == told


# -- labels and values that cannot be read --------------------------------------------
COUNTED = {"hours": 20, "sector": 40, "since": 50}


def stays(tmp_path, label=None, **more):
    rng = np.random.default_rng(0)
    hours = rng.uniform(0, 80, 240).round(1)
    frame = pd.DataFrame(
        {
            "hours": hours.astype(str),
            "sector": rng.choice(["a", "b"], 240),
            "since": "2024-01-31",
            "ill": np.where(hours > 40, "1", "0"),
        }
    ).astype(object)
    frame.loc[:19, "hours"], frame.loc[20:29, "hours"] = "k.A.", None
    frame.loc[:39, "sector"], frame.loc[:49, "since"] = "c", "31.01.2024"
    frame.loc[:59, "ill"] = "2"
    frame = frame.assign(**more)
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = {
        "hours": Number(0, 80),
        "sector": Category(["a", "b"]),
        "since": Date("2024-01-01", "2025-01-01"),
        "ill": label or Label([0, 1]),
    }
    TableSchema(columns, outcomes="ill").save(tmp_path / "s.toml")
    return frame


def test_f20_the_unprotected_table_counts_what_cannot_be_read(command, tmp_path):
    """Labels and values of private columns, too, on both sides of the split."""
    stays(tmp_path)
    status, out, err = command(*FIT, "--repeats", 1)
    assert status == 0, err
    table, _, after = out.partition("its scores and counts are exact")
    found = re.search(
        r"of 60 held-out rows (\d+) have no declared label, of 180 training rows (\d+)",
        table,
    )
    assert sum(map(int, found.groups())) == 60
    for name, count in COUNTED.items():
        found = re.search(
            rf"Column '{name}': of 60 held-out values (\d+) cannot be read as .*, of "
            r"180 training values (\d+)\.",
            table,
        )
        assert sum(map(int, found.groups())) == count
    assert "cannot be read as" not in after


def test_f20_nothing_else_counts_private_values(command, tmp_path):
    frame = stays(tmp_path)
    argvs = ([*USES[0], "--seed", "0"], ["schema", "t.csv", "--check", "s.toml"])
    with_errors = [command(*argv) for argv in argvs]
    for name in frame:
        frame[name] = frame[name].iloc[-1]
    frame.to_csv("t.csv", index=False)
    for argv, (status, out, err) in zip(argvs, with_errors, strict=True):
        assert status == 0 and command(*argv)[0] == 0
        assert not re.search("cannot be read as|of [0-9]+ held-out rows", out + err)


def test_f20_score_counts_what_cannot_be_read(command, tmp_path):
    stays(tmp_path)
    assert command(*USES[0])[0] == 0
    status, out, err = command(*USES[2])
    assert (status, err) == (0, "")
    assert "t.csv: 180 rows with a known target 'ill'." in out
    assert "Target 'ill': of 240 rows 60 have no declared label." in out
    for name, count in COUNTED.items():
        assert f"Column '{name}': of 240 values {count} cannot be read as" in out
    frame = pd.read_csv("t.csv").iloc[60:]
    frame.to_csv("t.csv", index=False)
    assert not re.search("cannot be read|no declared", command(*USES[2])[1])


def test_score_of_a_seeded_model_says_void(command, tmp_path):
    stays(tmp_path)
    for seed, epsilon in ([], "1"), (["--seed", 3], "void (integer seed)"):
        assert command(*USES[0], *seed)[0] == 0
        out = command(*USES[2])[1]
        row = next(line for line in out.splitlines() if line.startswith("m.joblib"))
        assert row.removeprefix("m.joblib").lstrip().startswith(f"{epsilon}  ")


def test_f20_a_regression_counts_targets_that_are_no_numbers(command, tmp_path):
    frame = stays(tmp_path)
    stays(tmp_path, Number(0, 2), ill=["k.A."] * 7 + frame["ill"].tolist()[7:])
    status, out, err = command(*FIT, "--model", "m.joblib", "--repeats", 1)
    assert status == 0, err
    assert re.search(r"of 60 held-out rows \d+ have no number as target", out)
    assert "of 240 rows 7 have no number as target" in command(*USES[2])[1]


def test_limits_of_a_foreign_file_are_reported_as_declared_by_it(command, tmp_path):
    written(tmp_path, declared_by="tableschema.json")
    assert command(*USES[0], "--report", "r.json")[0] == 0
    told = skfdp.privacy.read_report("r.json").assumptions
    (found,) = (one for one in told if "in the file 'tableschema.json'" in one.text)
    assert not found.enforced
