"""``skfdp`` and ``skfdp fit``: what they print and write, and must not say or lose."""

import contextlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp import FeatureDPLogisticRegression
from skfdp.cli import commands as saving
from skfdp.cli import main, output
from skfdp.schema import Category, Date, Label, Number, TableSchema
from skfdp.solvers.first_model import FirstModel

# A value of a private text column and one of a private number, both outside of what
# is declared: no output may hold them.
CANARY_TEXT, CANARY_NUMBER = "canaryzyx", "918273645"
N = 200
TYPES = {
    "age": Number(18, 80, public=True),
    "town": Category(["01", "02", "Rome"], public=True),
    "hours": Number(0, 80),
    "sector": Category(["private", "state"]),
    "income": Label(["high", "low"]),
}
FIT = ["fit", "people.csv", "--schema", "s.toml"]


def with_public(*names):
    return {
        name: type(one)(*one.bounds, public=name in names)
        if isinstance(one, Number)
        else type(one)(one.values, name in names)
        for name, one in TYPES.items()
    }


def people():
    rng = np.random.default_rng(0)
    hours, sector = rng.integers(10, 70, N), rng.choice(["private", "state"], N)
    income = np.where(hours + 10 * (sector == "state") > 45, "high", "low")
    age, town = rng.integers(18, 80, N), rng.choice(["01", "02", "Rome", ""], N)
    return pd.DataFrame(
        {"age": age, "town": town, "hours": hours, "sector": sector, "income": income}
    )


@pytest.fixture
def run(command, tmp_path):
    """Run a fit on a file; return status, stdout and stderr."""
    persons = [f"{CANARY_TEXT}{i % 60}" for i in range(N)]
    frame = people().assign(person=persons).astype({"hours": object})
    frame.loc[3, "hours"], frame.loc[5, "hours"] = CANARY_NUMBER, ""
    frame.loc[4, "sector"], frame.loc[6, "sector"] = CANARY_TEXT, ""
    frame.to_csv(tmp_path / "people.csv", index=False)

    def call(*options, types=TYPES, group=None):
        schema = TableSchema(types, outcomes=["income"], group=group)
        schema.save(tmp_path / "s.toml")
        status, out, err = command(*FIT, *options)
        for canary, name in ((CANARY_TEXT, "sector"), (CANARY_NUMBER, "hours")):
            # A warning shows one unreadable cell of a public column.
            assert types[name].public or canary not in out + err
        return status, out, err

    return call


def test_a_fit_prints_the_statement_and_writes_report_and_model(run):
    options = ["--epsilon", 3, "--report", "r.json"]
    context = ["--context", "by=R. Meyer", "purpose=planning of beds"]
    status, out, err = run(*options, "--model", "m.skops", *context)
    assert status == 0, err
    assert "by: R. Meyer; purpose: planning of beds" in " ".join(out.split())
    facts = skfdp.privacy.read_report("r.json")
    assert facts.epsilon == pytest.approx(3.0)
    assert facts.neighboring_relation == "replace_one"
    assert facts.n_records == N and not facts.seeded
    assert facts.private_features == ("hours", "sector")
    assert facts.target_name == "income"
    assert saving.load("m.skops").privacy_ == facts


@pytest.mark.parametrize("suffix", ["skops", "joblib"])
def test_saved_models_hold_no_datum_and_predict_as_in_python(run, tmp_path, suffix):
    path = tmp_path / f"model.{suffix}"
    options = ["--model", path, "--epsilon", 3, "--seed", 0]
    status, _, err = run(*options)
    assert status == 0, err
    content = path.read_bytes()
    if suffix == "skops":
        import skops.io

        unknown = skops.io.get_untrusted_types(file=path)
        assert set(unknown) <= set(saving.TRUSTED_TYPES)
        with zipfile.ZipFile(path) as archive:
            content = b"".join(map(archive.read, archive.namelist()))
    assert CANARY_TEXT.encode() not in content
    assert str(tmp_path).encode() not in content
    model = saving.load(path)
    facts = skfdp.report(model)
    assert facts.epsilon == pytest.approx(3.0) and facts.n_records == N
    assert facts.seeded
    # The same schema in Python is the same model, to the last bit.
    schema = TableSchema.load("s.toml")
    X, y = schema.split(pd.read_csv("people.csv", dtype=str, na_filter=False))
    own = FeatureDPLogisticRegression(3.0, schema=schema, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, own.coef_)
    np.testing.assert_array_equal(model.predict_proba(X), own.predict_proba(X))


def test_add_or_remove_one_hides_the_number_of_rows(run):
    options, private = ["--relation", "add_or_remove_one"], with_public()
    assert "pass --n-records with a" in run(*options, types=private)[2]
    for n_records in (0, 10**24):
        status, _, err = run(*options, "--n-records", n_records, types=private)
        assert status == 2 and f"--n-records={n_records} must be an int" in err
    options += ["--n-records", 1000]
    assert run(*options)[0] == 2  # something is public
    status, out, err = run(*options, types=private)
    assert status == 0, err
    assert str(N) not in re.sub("200 Gaussian", "", out)


def test_all_rows_of_a_person_are_protected(run, command):
    options = ["--report", "r.json", "--model", "m.skops"]
    status, out, err = run(*options, group="person")
    assert status == 0, err
    found = skfdp.privacy.read_report("r.json")
    assert (found.unit, found.n_records) == ("person", 60)
    frame = pd.read_csv("people.csv")
    frame.drop(columns="person").to_csv("new.csv", index=False)
    assert command("predict", "m.skops", "new.csv", "--schema", "s.toml")[0] == 0
    assert "lacks the column patient" in run(group="patient")[2]
    frame.loc[3, "person"] = None
    frame.to_csv("people.csv", index=False)
    assert "groups has missing entries" in run(group="person")[2]


@pytest.mark.parametrize(
    "options, sentence",
    [
        (
            ["--target", "age"],
            "--target='age' must name an outcome of the schema",
        ),
        (["--schema", "absent.toml"], "cannot read 'absent.toml'"),
        (["--epsilon", "0"], "--epsilon=0.0 must be a positive, finite"),
        (["--epsilon", "inf"], "must be a positive, finite"),
        (["--epsilon", "1", "2"], "unrecognized arguments: 2"),
        (["--epsilon", "x"], "invalid float value: 'x'"),
        (["--delta", "1"], "--delta=1.0 must be a number strictly between 0 and 1"),
        (["--ledger", "l.db", "--limit", "1e13"], "--limit=10000000000000.0 must be"),
        (["--context", "by"], "--context 'by' must have the form KEY=TEXT"),
        (["--n-records", "9"], "--n-records needs --relation add_or_remove_one"),
        (["--report", "people.csv"], "people.csv' is given twice: name another file"),
        (["--context", "x=y"], "a key of --context='x' is unknown"),
        (["--context", f"by={999 * 'x'}"], "--context by has 999 characters"),
        (["--relation", "other"], "invalid choice: 'other'"),
        (["--model", "m.pkl"], "must end in .skops or .joblib"),
        (["--report", "none/r.json"], "none/r.json cannot be written: No such"),
        (["--unknown"], "unrecognized arguments"),
        (["--bounds", "a=0:1"], "unrecognized arguments"),
    ],
)
def test_refused_options(run, options, sentence):
    status, out, err = run(*options)
    assert (status, out, err.count("\n")) == (2, "", 1) and sentence in err


def test_messages_name_options_and_entries_of_the_schema(run, refusal, tmp_path):
    """Wherever Python names a parameter; `command` looks for the names of Python."""
    ledger = skfdp.PrivacyLedger("l.db", epsilon=1.0, delta=1e-5)
    spent = run("--epsilon", 3, "--ledger", "l.db")[2]
    assert "would spend epsilon 3 at delta 1e-05, above its limit" in spent
    assert "may cost epsilon 1: see 'skfdp ledger'." in spent and not ledger.entries
    coded = TYPES | {"income": Label(["x", "y"])}
    found = run("--seed", 0, types=coded)[2]
    assert "no label of enum = ['x', 'y']" in found
    assert found.endswith("Declare the labels as they are in the table.\n")
    warned = run("--epsilon", 50)[2]
    assert "warning: --epsilon=50.0 is above 10" in warned
    Path("t.csv").write_text('a,b\n"1,5",2\n"2.5",3\n')
    for options, sentence in (
        (["--decimal", "x"], "--decimal='x' is unknown"),
        (["--public", "z"], "--public='z' matches no column"),
        (["--skip-lines", -1], "--skip-lines=-1 must be an int >= 0"),
        (["--outcomes", "a", "a"], "--outcomes=['a', 'a'] must be a list of unique"),
    ):
        assert sentence in refusal("schema", "t.csv", *options)
    Path("r.csv").write_text("1,2\n")
    assert "Pass --skip-lines if names" in refusal("schema", "r.csv")
    for text, sentence in (
        ("decimalChar = ';'", "decimalChar = ';' is unknown"),
        ("maxRowsPerGroup = 3", "maxRowsPerGroup = 3 needs a group: declare group, or"),
        ("missingValues = [1, '1']", "missingValues holds 1 and '1', which are the s"),
        ("outcomes = ['a', 'a']", "outcomes = ['a', 'a'] must be a list of unique"),
        ("[dialect]\nheaderRows = [0]", "headerRows=0 must be an int > 0"),
    ):
        Path("s.toml").write_text(f"{text}\n[fields]\na = {{}}\n")
        for use in (["schema", "t.csv", "--check"], ["fit", "t.csv", "--schema"]):
            assert sentence in refusal(*use, "s.toml")
    Path("s.toml").write_text("outcomes = ['a']\n[fields]\na = {}\n")
    assert 'declare type = "ig' in refusal("fit", "t.csv", "--schema", "s.toml")
    assert "'t.csv' is not a JSON file: give what 'skf" in refusal("report", "t.csv")


def test_refused_commands_and_files(run, refusal, tmp_path):
    assert "invalid choice: 'people.csv'" in refusal("people.csv")
    assert "unrecognized arguments: --target=income" in refusal("--target=income")
    assert "required: --schema" in refusal("fit", "people.csv")
    assert "the following arguments are required" in refusal("fit")
    run()
    assert "No such file" in refusal("fit", "absent.csv", *FIT[2:])
    # Without a header the first line is a record: it is not quoted.
    Path("people.csv").write_text(f"{CANARY_TEXT},high\nb,low\n")
    sentence = run()[2]
    assert "lacks the columns age, town, hours, sector, income" in sentence
    Path("people.csv").write_text("age,town,hours,sector,income\n")
    assert "holds no rows" in run()[2]
    everything = with_public(*TYPES)
    Path("people.csv").write_text(
        "age,town,hours,sector,income\n" + "1,1,1,1,low\n" * 9
    )
    status, out, err = run(types=everything)
    assert status == 2 and "nothing to protect" in err


def test_extras_are_named(run, monkeypatch):
    # Of a skops that is installed but cannot be imported, too, before the charge.
    monkeypatch.setitem(sys.modules, "skops.io", None)
    spent = ["--ledger", "spent.sqlite", "--limit", 2]
    sentence = run("--model", "model.skops", *spent)[2]
    assert "needs skops: pip install 'skfdp[cli]'" in sentence
    assert not Path("spent.sqlite").exists()
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert main(FIT) == 2


# -- mishaps of users: what the command line lost or let out ---------------------------
def columns(public=(), label=None):
    """Return declarations, without that of the town."""
    found = with_public(*public) | ({"income": label} if label else {})
    return {name: one for name, one in found.items() if name != "town"}


def written(folder, frame=None, types=None, **options):
    """Write a table and its schema, of which the age is public."""
    usual = people().drop(columns="town")
    (usual if frame is None else frame).to_csv(folder / "people.csv", index=False)
    types = types or columns(["age"])
    TableSchema(types, outcomes="income", **options).save(folder / "s.toml")
    return usual


# -- what is saved can be loaded ------------------------------------------------------
LOAD = """if True:
    import json, sys
    import pandas as pd
    from skfdp.cli import commands as saving
    rows = pd.read_csv("people.csv")[["age", "hours", "sector"]]
    models = map(saving.load, sys.argv[1:])
    print(json.dumps([model.predict_proba(rows).tolist() for model in models]))
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    "public", ["", "age", "income", "age income", "age hours sector"]
)
def test_saved_models_load_in_a_new_process(command, tmp_path, public):
    labels = ["high", "low", "none"]
    frame = written(tmp_path).assign(income=np.resize(labels, N))
    label = Label(labels, "income" in public)
    written(tmp_path, frame, columns(public.split(), label))
    for name in ("m.joblib", "m.skops"):
        assert command(*FIT, "--seed", "1", "--model", name)[0] == 0
    done = subprocess.run(
        [sys.executable, "-c", LOAD, "m.joblib", "m.skops"], capture_output=True
    )
    found, again = json.loads(done.stdout)
    if public != "age income":  # a public model, whose trees skops cannot hold
        np.testing.assert_allclose(found, again)
    for one in (found, again):
        assert np.ptp(one, axis=0).min() > 0


# -- files first, words afterwards ----------------------------------------------------
FILES = ["--report", "r.json", "--model", "m.joblib", "--ledger", "spent.sqlite"]
FILES += ["--limit", "2"]


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
    assert status == 1 and "/dev/full cannot be written" in err
    assert "Model written to" in err and os.path.exists("m.joblib")


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
    assert "spent.sqlite: this fit is charged and will not be refunded" in err
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
        status, out, _ = command(*FIT, *ledger, *options, "--model", f"{is_new}.joblib")
        assert (status, new in out) == (0, is_new)
        assert "of 1.6 spent on these data so far" in out
        assert saving.load(f"{is_new}.joblib").ledger is None
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
        assert f"--limit={float(value)} must be a positive, finite number" in sentence
    assert "One more fit may cost epsilon" in refusal(*FIT, *ledger, "--limit", 0.5)
    assert not (tmp_path / "spent.sqlite").exists()
    assert command(*FIT, *ledger, "--limit", 2)[0] == 0
    sentence = refusal(*FIT, *ledger, "--limit", 3)
    assert "epsilon 2, which cannot be changed: leave --limit out" in sentence
    written(tmp_path, exposure="hours")
    assert "exposure='hours' of the schema needs a regressor" in refusal(*FIT)
    written(tmp_path)
    # One that Python made without a limit gets one here, once.
    bare = ["--ledger", "bare.sqlite"]
    assert not skfdp.PrivacyLedger(bare[1]).entries
    assert "has no limit yet" in refusal(*FIT, *bare)
    assert command(*FIT, *bare, "--limit", 2)[0] == 0
    assert skfdp.PrivacyLedger(bare[1]).epsilon == 2


# -- private values decide nothing ----------------------------------------------------
CLEAN = {"age": 40, "hours": 40, "sector": "state", "since": "2024-03-01"}

MEASURED = ("hours", "sector", "since", "income")
#: Kind -> rows, and what they hold of these.
MALFORMED = {
    "clean": ([], ("", "", "", "")),
    "missing": (range(N), (None, None, None, None)),
    "texts": ([3], ("k.A.", "ca", "soon", "canary")),
    "numbers": ([3], ("1e999", 7, 45000, 17)),
    "odd": (range(N), (-9e9, "NaN", "9999-12-31", "?")),
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
    frame["income"] = pd.Series(labels * (N // 2), dtype=object)
    types = columns(["age"], declared) | {"since": Date("2024-01-01", "2025-01-01")}
    said = {}
    for kind, (rows, values) in MALFORMED.items():
        odd = frame.copy()
        for name, value in zip(MEASURED, values, strict=True):
            # Of many undeclared labels a release tells: see the next test.
            few = rows and name == "income" and task != "a regression"
            odd.loc[[3] if few else rows, name] = value
        written(tmp_path, odd, types)
        status, out, err = command(*FIT, "--epsilon", 8)
        # The fingerprint is that of the released numbers, with their noise.
        out, n_found = re.subn("(?s)Fingerprint.*?(?=Signed)", "", out)
        assert n_found == (status == 0)
        said[kind] = status, out, err
    assert said["clean"][0] == 0, said["clean"]
    assert set(said.values()) == {said["clean"]}


def test_released_counts_end_a_fit_without_declared_labels(refusal, tmp_path):
    written(tmp_path, pd.DataFrame([CLEAN | {"income": "canary"}] * N))
    sentence = refusal(*FIT, "--epsilon", 8, *FILES[4:], "--limit", 9)
    assert "no label of enum = " in sentence and "canary" not in sentence
    assert skfdp.PrivacyLedger("spent.sqlite").spent() == pytest.approx(8, rel=1e-3)


def test_messages_of_other_libraries_are_withheld(command, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("canary")

    written(tmp_path)
    monkeypatch.setattr("skfdp.cli.commands._model", fail)
    status, _, err = command(*FIT)
    assert status == 1 and "unexpected RuntimeError" in err and "canary" not in err
    with pytest.raises(RuntimeError):
        main([*FIT, "--debug"])


# -- files whose first line holds no names --------------------------------------------
USES = [
    [*FIT, "--model", "m.joblib", "--overwrite"],
    ["predict", "m.joblib", "people.csv", "--schema", "s.toml"],
]


def test_f01_holds_for_every_command(command, refusal, tmp_path):
    """The first record of a file without names is quoted by none that reads one."""
    people = written(tmp_path)
    assert all(command(*argv)[0] == 0 for argv in USES)
    people.assign(age=45, sector="canary").to_csv(
        "people.csv", index=False, header=False
    )
    for argv in USES:
        sentence = refusal(*argv)
        assert "'people.csv' lacks the columns age, hours, sector" in sentence
        assert "canary" not in sentence and "45" not in sentence
    for more in ([], ["--public", "all", "-o", "new.toml"]):
        sentence = refusal("schema", "people.csv", *more)
        assert "does not look like names" in sentence and "canary" not in sentence
    assert not (tmp_path / "new.toml").exists()


def test_f01_names_that_are_numbers_are_confirmed(command, refusal, tmp_path):
    written(tmp_path).rename(columns={"age": "2019"}).to_csv("people.csv", index=False)
    assert "does not look like names" in refusal("schema", "people.csv")
    status, out, err = command(
        "schema", "people.csv", "--header", "--outcomes", "income"
    )
    assert (status, err) == (0, "") and "\n2019 = {" in out
    types = columns()
    types = {"2019": types.pop("age"), **types}
    TableSchema(types, outcomes="income").save("s.toml")
    assert all(command(*argv)[0] == 0 for argv in USES)


# -- labels and values that cannot be read --------------------------------------------
def stays(tmp_path, label=None, **more):
    rng = np.random.default_rng(0)
    hours = rng.uniform(0, 80, 240).round(1)
    frame = pd.DataFrame({"hours": hours.astype(str), "since": "2024-01-31"})
    frame["sector"] = rng.choice(["a", "b"], 240)
    frame = frame.assign(ill=np.where(hours > 40, "1", "0")).astype(object)
    frame.loc[:19, "hours"], frame.loc[20:29, "hours"] = "k.A.", None
    frame.loc[:39, "sector"], frame.loc[:49, "since"] = "c", "31.01.2024"
    frame.loc[:59, "ill"] = "2"
    frame = frame.assign(**more)
    frame.to_csv(tmp_path / "people.csv", index=False)
    columns = {
        "hours": Number(0, 80),
        "sector": Category(["a", "b"]),
        "since": Date("2024-01-01", "2025-01-01"),
        "ill": label or Label([0, 1]),
    }
    TableSchema(columns, outcomes="ill").save(tmp_path / "s.toml")
    return frame


def test_f20_no_command_counts_private_values(command, tmp_path):
    frame = stays(tmp_path)
    argvs = ([*USES[0], "--seed", "0"], ["schema", "people.csv", "--check", "s.toml"])
    with_errors = [command(*argv) for argv in argvs]
    for name in frame:
        frame[name] = frame[name].iloc[-1]
    frame.to_csv("people.csv", index=False)
    for argv, (status, out, err) in zip(argvs, with_errors, strict=True):
        assert status == 0 and command(*argv)[0] == 0
        assert not re.search("cannot be read as", out + err)


def test_limits_of_a_foreign_file_are_reported_as_declared_by_it(command, tmp_path):
    written(tmp_path, declared_by="tableschema.json")
    assert command(*USES[0], "--report", "r.json")[0] == 0
    told = skfdp.privacy.read_report("r.json").assumptions
    (found,) = (one for one in told if "in the file 'tableschema.json'" in one.text)
    assert not found.enforced
