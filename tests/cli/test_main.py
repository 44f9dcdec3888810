"""``skfdp`` and ``skfdp fit``: what they print and write, and must not say."""

import importlib
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import skfdp
from skfdp import FeatureDPLogisticRegression
from skfdp.cli import fit as job
from skfdp.cli import main
from skfdp.cli import results as saving
from skfdp.schema import Category, Label, Number, TableSchema

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


@pytest.fixture
def run(command, tmp_path):
    """Run a fit on a file; return status, stdout and stderr."""
    rng = np.random.default_rng(0)
    hours = rng.integers(10, 70, N)
    sector = rng.choice(["private", "state"], N).astype(object)
    income = np.where(hours + 10 * (sector == "state") > 45, "high", "low")
    frame = pd.DataFrame(
        {
            "person": [f"{CANARY_TEXT}{i % 60}" for i in range(N)],
            "age": rng.integers(18, 80, N),
            "town": rng.choice(["01", "02", "Rome", ""], N),
            "hours": hours.astype(str).astype(object),
            "sector": sector,
            "income": income,
        }
    )
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


def labels_of(out):
    """Return the first column of the table."""
    lines = out.splitlines()
    rule = next(i for i, line in enumerate(lines) if re.fullmatch("[- ]{20,}", line))
    table = lines[rule + 1 :]
    return [re.split("  +", line)[0] for line in table[: table.index("")]]


@pytest.mark.nightly
def test_the_bundled_job(command):
    status, out, err = command("--repeats", 1, "--seed", 0, "--report", "r.json")
    assert status == 0 and "Warning" not in err
    assert labels_of(out) == [
        "base rate: most frequent label",
        "no privacy (scikit-learn)",
        "public columns and target only (scikit-learn, free)",
        "DP on everything",
        "feature-DP",
    ]
    assert "--seed: the noise is not secret" in out
    facts = skfdp.privacy.read_report("r.json")
    assert facts.epsilon == pytest.approx(1.0) and facts.seeded
    assert len(facts.public_features) == 32 and facts.public_target


def test_a_fit_prints_a_table_and_writes_report_and_model(run):
    options = ["--epsilon", 3, "--repeats", 1, "--report", "r.json"]
    status, out, err = run(*options, "--model", "m.skops")
    assert status == 0, err
    assert labels_of(out) == [
        "base rate: most frequent label",
        "no privacy (scikit-learn)",
        "public columns only, target private",
        "DP on everything",
        "feature-DP",
    ]
    assert "Do not publish this table" in out
    assert "150 rows to train on, 50 held out." in out
    facts = skfdp.privacy.read_report("r.json")
    assert facts.epsilon == pytest.approx(3.0)
    assert facts.neighboring_relation == "replace_one"
    assert facts.n_records == 150 and not facts.seeded
    assert facts.private_features == ("hours", "sector")
    assert facts.target_name == "income"
    assert any("is not published" in item.text for item in facts.assumptions)
    assert saving.load("m.skops").privacy_ == facts


@pytest.mark.parametrize("suffix", ["skops", "joblib"])
def test_saved_models_hold_no_datum_and_predict_as_in_python(run, tmp_path, suffix):
    path = tmp_path / f"model.{suffix}"
    options = ["--no-evaluate", "--model", path, "--epsilon", 3, "--seed", 0]
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
    assert skfdp.report(model).epsilon == pytest.approx(3.0)
    # The same schema in Python is the same model, to the last bit.
    schema = TableSchema.load("s.toml")
    X, y = schema.split(pd.read_csv("people.csv", dtype=str, na_filter=False))
    own = FeatureDPLogisticRegression(3.0, schema=schema, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, own.coef_)
    np.testing.assert_array_equal(model.predict_proba(X), own.predict_proba(X))


def test_what_is_public_decides_the_lines_of_the_table(run):
    for public, first, last in (
        ("age town hours sector", "public columns only (no targets): most frequent", 2),
        ("age town income", "most frequent label", 2),
        ("", "most frequent label", 2),
    ):
        status, out, err = run(
            "--repeats", 1, "--report", "r.json", types=with_public(*public.split())
        )
        assert status == 0, err
        lines = labels_of(out)
        assert lines[0].startswith(f"base rate: {first}")
        facts = skfdp.privacy.read_report("r.json")
        assert facts.public_target is ("income" in public)
        assert lines[last:] == {
            "": ["DP on everything: nothing is public"],
            "age town income": [
                "public columns and target only (scikit-learn, free)",
                "DP on everything",
                "feature-DP",
            ],
        }.get(public, ["DP on everything", "label-DP: only the target is private"])


def test_no_evaluation_trains_on_all_rows(run):
    status, out, err = run("--no-evaluate", "--report", "r.json", "--seed", 3)
    assert status == 0, err
    assert "accuracy" not in out and "most frequent" not in out
    facts = skfdp.privacy.read_report("r.json")
    assert facts.n_records == N and facts.seeded
    assert not any("not published" in item.text for item in facts.assumptions)


@pytest.mark.nightly
def test_seed_repeats_the_output(run):
    first, second = (run("--repeats", 2, "--seed", 1) for _ in range(2))
    assert first[1] == second[1] and "integer seed" in first[1]
    assert run("--repeats", 2, "--seed", 2)[1] != first[1]
    assert "VOID" not in run("--repeats", 2)[1]


def test_a_split_depends_on_the_number_of_rows_and_the_groups_alone():
    class Asked:
        evaluate, test_size, seed = True, 0.25, None

    train, test = job.split(Asked, 40)
    assert len(test) == 10 and sorted([*train, *test]) == list(range(40))
    np.testing.assert_array_equal(job.split(Asked, 40)[1], test)
    persons = pd.Series(np.arange(N) % 60)
    own, others = (set(persons[part]) for part in job.split(Asked, N, persons))
    assert not own & others and len(others) == 15 and len(own) == 45
    Asked.test_size = 0.01
    with pytest.raises(job.CommandError, match="leaves too few"):
        job.split(Asked, 40)


def test_only_small_tables_limit_the_threads_of_blas(monkeypatch):
    def threads(*_):
        return {
            one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"
        }

    monkeypatch.setattr(job, "_job", threads)
    with threadpool_limits(2, "blas"):
        few, many = (
            job.job(
                job.Task(None, None, "y", pd.DataFrame(np.zeros((n, 16))), None), {}, ""
            )
            for n in (10, 2**16)
        )
        assert few == {1}
        assert many == threads()


def test_ledger_is_charged_for_the_released_fit_alone(run, refusal):
    ledger = ["--limit", "1.5", "--ledger", "spent.sqlite"]
    status, out, err = run(*ledger, "--evaluate")
    assert status == 2 and "--evaluate and --ledger exclude each other" in err
    assert not Path("spent.sqlite").exists()
    status, out, err = run(*ledger, "--model", "m.joblib")
    assert status == 0, err
    assert "epsilon 1 of 1.5 spent on these data so far" in out
    assert "most frequent label" not in out
    entries = skfdp.PrivacyLedger("spent.sqlite").entries
    assert len({entry.charge for entry in entries}) == 1
    assert saving.load("m.joblib").ledger is None


def test_add_or_remove_one_hides_the_number_of_rows(run):
    options, private = ["--relation", "add_or_remove_one"], with_public()
    assert "pass --n-records with a" in run(*options, types=private)[2]
    for n_records in (0, 10**24):
        status, _, err = run(*options, "--n-records", n_records, types=private)
        assert status == 2 and f"--n-records={n_records} must be an int" in err
    options += ["--n-records", 1000]
    assert "exclude each other" in run(*options, "--evaluate", types=private)[2]
    assert run(*options)[0] == 2  # something is public
    status, out, err = run(*options, types=private)
    assert status == 0, err
    assert str(N) not in re.sub("200 Gaussian", "", out)


def test_all_rows_of_a_person_are_protected(run, command):
    options = ["--report", "r.json", "--model", "m.skops", "--repeats", 1]
    status, out, err = run(*options, group="person")
    assert status == 0, err
    found = skfdp.privacy.read_report("r.json")
    assert (found.unit, found.n_records) == ("person", 45)
    assert "Protected: all rows of each of 45 persons together." in out
    assert "Private: hours, sector, income." in out
    assert "no privacy (scikit-learn)" in out
    frame = pd.read_csv("people.csv")
    frame.drop(columns="person").to_csv("new.csv", index=False)
    for use in ("predict", "score"):
        assert command(use, "m.skops", "new.csv", "--schema", "s.toml")[0] == 0
    assert "lacks the column patient" in run(group="patient")[2]
    frame.loc[3, "person"] = None
    frame.to_csv("people.csv", index=False)
    assert "groups has missing entries" in run(group="person")[2]


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["--target", "age"], "--target='age' is not an outcome of the schema: 'inco"),
        (["--schema", "absent.toml"], "cannot read 'absent.toml'"),
        (["--epsilon", "0"], "epsilon=0 must be a positive, finite"),
        (["--epsilon", "inf"], "must be a positive, finite"),
        (["--epsilon", "1", "2"], "unrecognized arguments: 2"),
        (["--epsilon", "x"], "invalid float value: 'x'"),
        (["--delta", "1"], "--delta=1.0 must be a number strictly between 0 and 1"),
        (["--ledger", "l.db", "--limit", "1e13"], "--limit=1e+13 must be a positive"),
        (["--context", "x=y"], "a key of --context='x' is unknown"),
        (["--context", f"by={999 * 'x'}"], "--context by has 999 characters"),
        (["--relation", "other"], "invalid choice: 'other'"),
        (["--test-size", "1"], "strictly between 0 and 1"),
        (["--repeats", "0"], "must be at least 1"),
        (["--seed", "-1"], "must not be negative"),
        (["--model", "m.pkl"], "must end in .skops or .joblib"),
        (["--report", "none/r.json"], "no folder 'none'"),
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
    spent = run("--no-evaluate", "--epsilon", 3, "--ledger", "l.db")[2]
    assert "would spend epsilon 3 at delta 1e-05, above its limit" in spent
    assert "may cost epsilon 1: see 'skfdp ledger'." in spent and not ledger.entries
    coded = TYPES | {"income": Label(["x", "y"])}
    found = run("--no-evaluate", "--seed", 0, types=coded)[2]
    assert "no label of enum = ['x', 'y']" in found
    assert found.endswith("Declare the labels as they are in the table.\n")
    warned = run("--no-evaluate", "--repeats", 1, "--epsilon", 50)[2]
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
    assert "invalid choice: 'add_or_rem" in refusal("--relation", "add_or_remove_one")


def test_refused_commands_and_files(run, refusal, tmp_path):
    assert "invalid choice: 'people.csv'" in refusal("people.csv")
    assert "unrecognized arguments: --target=income" in refusal("--target=income")
    assert "required: --schema" in refusal("fit", "people.csv")
    assert "the following arguments are required" in refusal("fit")
    run("--no-evaluate")
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
    status, out, err = run("--no-evaluate", types=everything)
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


def test_the_console_command_is_there():
    path = Path(__file__).parents[2] / "setup.py"
    if not path.is_file():
        pytest.skip("setup.py is not beside the tests")
    ((module, name),) = re.findall(r'"skfdp = (.+):(.+)"', path.read_text())
    assert callable(getattr(importlib.import_module(module), name))
