"""What field and newcomer tests found on the command line; named after the findings."""

import io
import re
import tomllib

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp.cli import main
from skfdp.cli import results as saving
from skfdp.cli.arguments import parse

N = 240
RECORD = "looks like a record, not names: add a line of names, or give --header"


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command in an empty folder; return status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skfdp.cli.output._PATIENCE", 600.0)

    def call(*argv):
        try:
            status = main([*map(str, argv)])
        except SystemExit as leaving:
            status = leaving.code
        return (status, *capsys.readouterr())

    return call


def lines_of(first, n=N):
    """Return a table with a first line, and rows of an identifier, numbers and text."""
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 80, n)
    rows = [
        f"R-{i} x,{h},{h % 3},{'no' if h < 40 else 'yes'}\n"
        for i, h in enumerate(hours)
    ]
    return f"{first}\n{''.join(rows)}"


# -- F01: the first line --------------------------------------------------------------
VALUES = ["45", "-3", "4.5", "4,5", "1e5", "1.234,56", "1,234.56", "1 234", "1'234"]
VALUES += ["45 %", "$5", "5 €", "EUR 5", "(1,234.50)", '="0045"', "'45'", "٣", "NaN"]
VALUES += ["2024-01-31", "2024-1-3", "2021/01/31", "31.12.2024", "31. 12. 2024"]
VALUES += ["12/31/2024", "1/2/24", "13-Aug-22", "13AUG2022", "13. August 2022"]
VALUES += ["August 13, 2022", "Aug-20", "2024-05", "05/2024", "2024-W05", "24.12."]
VALUES += ["2022-08-13T12:30:00Z", "2022-08-13 12:30:00+02:00", "1/2/2024 0:00"]
VALUES += ["20240131T101500", "12:30", "12:30:15.5", "10 pm", "10h30", "10:00 Uhr"]
VALUES += ["Sat, 13 Aug 2022 12:30:00 GMT", "13 de agosto de 2022", "2024年1月31日"]
NAMES = ["age", "2nd visit", "visit 2", "65+", "0-14", "Q1", "a.1", "May", "Sun", "NA"]
NAMES += ["inf", "T", "E5", "x 5", "bmi (kg/m2)", "income 2019", "PM2.5", "12b", "true"]
NAMES += ["R-0001 x", "sep=", "# export of 2024-05-01", "-", "%", "24 h volume"]


@pytest.mark.parametrize("cell", VALUES)
def test_f01_a_first_line_with_a_value_is_refused(run, tmp_path, cell):
    quoted = cell.replace('"', '""')
    (tmp_path / "t.csv").write_text(lines_of(f'id,"{quoted}",stage,ill'), "utf-8")
    status, out, err = run("schema", "t.csv", "--target", "ill")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert RECORD in err and cell not in err.replace("'t.csv'", "")


@pytest.mark.parametrize("cell", NAMES)
def test_f01_unusual_names_are_names(run, tmp_path, cell):
    (tmp_path / "t.csv").write_text(lines_of(f"id,{cell},stage,ill"))
    status, out, err = run("schema", "t.csv", "--target", "ill")
    assert (status, err) == (0, "")
    assert list(tomllib.loads(out)["columns"]) == ["id", cell, "stage"]


FIT = ["--target", "ill", "--classes", "no,yes", "--drop", "id", "--no-evaluate"]
FIT += ["--categories", "stage=0,1,2", "--bounds"]


def test_f01_holds_for_every_command(run, tmp_path):
    """The first record of a file without names is refused by all that read one."""
    named, bare = lines_of("id,hours,stage,ill"), lines_of("R-0 x,45,1,no")
    (tmp_path / "t.csv").write_text(named)
    (tmp_path / "bare.csv").write_text(bare)
    model = ["--model", "m.joblib"]
    assert run("fit", "t.csv", *FIT, "hours=0:80", *model)[0] == 0
    options = ["--target", "no", "--classes", "no,yes", "--drop", "R-0 x", "--bounds"]
    options += ["45=0:80", "--categories", "1=0,1,2", "--report", "r.json"]
    for argv in (
        ["schema", "bare.csv"],
        ["schema", "bare.csv", "--public", "all", "-o", "s.toml"],
        ["fit", "bare.csv", *options],
        ["bare.csv", *options],
        ["predict", "m.joblib", "bare.csv"],
        ["score", "m.joblib", "bare.csv"],
    ):
        status, out, err = run(*argv)
        assert (status, out, err.count("\n")) == (2, "", 1), argv
        assert f"the first line of 'bare.csv' {RECORD}" in err
        assert "R-0" not in err and "45" not in err
    assert not (tmp_path / "s.toml").exists() and not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    "sep, encoding", [(";", "utf-8-sig"), ("\t", "utf-16"), ("|", "cp1252")]
)
def test_f01_every_separator_and_encoding(run, tmp_path, sep, encoding):
    format_ = ["--sep", {"\t": "tab"}.get(sep, sep), "--decimal", "."]
    format_ += ["--encoding", encoding.removesuffix("-sig")]
    path = tmp_path / "t.csv"
    for first, status in (('"45",Köln,a,b', 2), ('"x45",Köln,a,b', 0)):
        text = lines_of(first).replace(",", sep)
        path.write_text(text, encoding=encoding)
        found = run("schema", "t.csv", *format_)
        assert found[0] == status and (RECORD in found[2]) is (status == 2)


def test_f01_a_wrong_separator_hides_no_record(run, tmp_path):
    """Fields with commas look like several cells of text to a reader of commas."""
    for record in ("R-1 x;45,5;4,2;no", "R-1\t45,5\tno", "R-1  45 4 no"):
        (tmp_path / "t.csv").write_text(f"{record}\n{record}\n")
        status, out, err = run("schema", "t.csv")
        assert (status, out) == (2, "") and RECORD in err


def test_f01_names_that_are_numbers_are_confirmed(run, tmp_path):
    """By --header, by a schema of all columns, or by the model that takes them."""
    (tmp_path / "t.csv").write_text(lines_of("id,2019,2020,ill"))
    draft = ["schema", "t.csv", "--target", "ill", "--header"]
    status, out, err = run(*draft)
    assert (status, err) == (0, "")
    empty = 'role = "private", bounds = [], categories = []'
    text = out.replace("classes = []", 'classes = ["no", "yes"]')
    text = text.replace(empty, "bounds = [0, 80]")
    (tmp_path / "s.toml").write_text(text)
    options = ["--no-evaluate", "--model", "m.joblib"]
    status, _, err = run("fit", "t.csv", "--schema", "s.toml", *options)
    assert status == 0, err
    assert list(saving.load("m.joblib").feature_names_in_) == ["2019", "2020"]
    assert run("predict", "m.joblib", "t.csv")[0] == 0
    assert run("score", "m.joblib", "t.csv")[0] == 0
    # A schema of some columns confirms nothing, nor do options.
    (tmp_path / "s.toml").write_text(text.replace("2020 =", "#"))
    assert RECORD in run("fit", "t.csv", "--schema", "s.toml", *options)[2]
    argv = ["fit", "t.csv", *FIT[:6], "--no-evaluate", "--bounds"]
    argv += ["2019=0:80", "2020=0:80"]
    assert RECORD in run(*argv)[2]
    assert run(*argv, "--header")[0] == 0
    # A model confirms its own names only.
    (tmp_path / "t.csv").write_text(lines_of("2018,2019,2020,ill"))
    assert RECORD in run("predict", "m.joblib", "t.csv")[2]
    assert run("predict", "m.joblib", "t.csv", "--header")[0] == 0


def test_f01_repeated_names_are_no_reason_to_refuse(run, tmp_path):
    """They get the names of pandas, which are not judged: "a.1", but also "1.1"."""
    (tmp_path / "t.csv").write_text(lines_of("id,score,score,ill"))
    status, out, err = run("schema", "t.csv", "--target", "ill")
    assert (status, err) == (0, "")
    assert list(tomllib.loads(out)["columns"]) == ["id", "score", "score.1"]
    (tmp_path / "t.csv").write_text(lines_of("id,v 1,v 1,ill"))
    assert run("schema", "t.csv", "--target", "ill")[0] == 0


@pytest.mark.parametrize("options", [[], ["--public", "stage", "--target", "ill"]])
def test_f01_no_private_cell_decides(run, tmp_path, options):
    """Tables that differ in private cells give the same bytes, refused or not."""
    cells = ["45", "31.12.2024", "canary", "", '"a, b"', "3.667", "-", "hours", "1e999"]
    for first, status in (("id,hours,stage,ill", 0), ("id,45,stage,ill", 2)):
        found = set()
        for cell in cells:
            lines = lines_of(first).splitlines()
            lines[1] = re.sub("[^,]+", cell, lines[1].partition(",")[2], count=1)
            lines[1] = f"R-0 x,{lines[1]}"
            (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
            found.add(run("schema", "t.csv", *options))
        assert len(found) == 1 and found.pop()[0] == status
    # Of two files without names the message does not say which cell it was.
    found = set()
    for first in ("R-0 x,45,1,no", "R-0 x,a,b,2024-01-31", "7,a,b,c"):
        (tmp_path / "t.csv").write_text(lines_of(first))
        found.add(run("schema", "t.csv"))
    assert len(found) == 1


@pytest.mark.parametrize("first", ["sep=,", "# export of 2024-05-01", "Clinic A,,,"])
def test_f15_other_first_lines_end_in_one_sentence(run, tmp_path, first):
    (tmp_path / "t.csv").write_text(f"{first}\n" + lines_of("id,hours,stage,ill"))
    status, out, err = run("fit", "t.csv", *FIT, "hours=0:80")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "R-" not in err and "unexpected" not in err


# -- F17: columns without a name ------------------------------------------------------
def unnamed(tmp_path):
    """Write a table whose lines end in two separators, and whose index has no name."""
    first, *lines = lines_of(",hours,stage,ill,,").splitlines()
    text = "\n".join([first, *(f"{line},," for line in lines)])
    (tmp_path / "t.csv").write_text(text.replace("R-3 x", "canary"))


def test_f17_columns_without_a_name_are_ignored(run, tmp_path):
    unnamed(tmp_path)
    told = "columns 1, 5, 6 of 't.csv' have no name in the first line and are ignored."
    status, out, err = run("schema", "t.csv", "--target", "ill", "--public", "all")
    assert status == 0 and err == f"skfdp: warning: {told}\n"
    assert list(tomllib.loads(out)["columns"]) == ["hours", "stage"]
    fit = ["fit", "t.csv", "--target", "ill", "--classes", "no,yes", "--no-evaluate"]
    fit += ["--bounds", "hours=0:80", "--categories", "stage=0,1,2"]
    for public in ([], ["--public", "all"]):
        status, out, err = run(*fit, *public, "--report", "r.json")
        assert status == 0 and err == f"skfdp: warning: {told}\n"
        assert "Unnamed" not in out and "canary" not in out + err
        report = skfdp.read_report("r.json")
        assert {*report.private_features, *report.public_features} == {"hours", "stage"}


def test_f17_a_column_that_is_named_as_pandas_does_is_used(run, tmp_path):
    unnamed(tmp_path)
    fit = ["fit", "t.csv", "--target", "ill", "--classes", "no,yes", "--no-evaluate"]
    fit += ["--bounds", "hours=0:80", "Unnamed: 4=0:1", "--drop", "stage", "Unnamed: 0"]
    status, _, err = run(*fit, "--model", "m.joblib")
    assert status == 0 and "column 6 of 't.csv' has no name" in err
    names = list(saving.load("m.joblib").feature_names_in_)
    assert names == ["hours", "Unnamed: 4"]


# -- F04: the decimal mark ------------------------------------------------------------
def amounts(tmp_path, cells, name="t.csv"):
    """Write a German table whose private and public amounts are given."""
    rng = np.random.default_rng(0)
    ill = rng.choice(["ja", "nein"], len(cells))
    lines = [f"{cell};{cell};{label}" for cell, label in zip(cells, ill, strict=True)]
    (tmp_path / name).write_text("\n".join(["open;hidden;ill", *lines, ""]))


GERMAN = ["--sep", ";", "--decimal", ","]
MODEL = ["--target", "ill", "--classes", "ja,nein", "--no-evaluate", "--bounds"]
MODEL += ["hidden=0:40000", "--seed", "0", "--model", "m.joblib"]


@pytest.mark.parametrize(
    "cell, meaning",
    [
        ("3.667", ""),
        ("3.667,81", ""),
        ("3667.81", ""),
        ("1.5e3", ""),
        (".5", ""),
        ("1.", ""),
        ("3667,81", "3667.81"),
        ("1,5e3", "1500"),
        ("995", "995"),
        ("-1e3", "-1000"),
    ],
)
def test_f04_a_point_is_no_decimal_mark_where_a_comma_is(run, tmp_path, cell, meaning):
    cells = [f"{i},25" for i in range(0, 4 * N, 4)]
    amounts(tmp_path, cells)
    fit = ["fit", "t.csv", *GERMAN, *MODEL, "--bounds", "open=0:40000"]
    assert run(*fit)[0] == 0
    amounts(tmp_path, [cell, *cells[1:]])
    status, out, err = run("predict", "m.joblib", "t.csv", *GERMAN)
    assert status == 0, err
    found = pd.read_csv(io.StringIO(out))["p(ja)"]
    row = pd.DataFrame({"open": [meaning or None], "hidden": [meaning or None]})
    expected = saving.load("m.joblib").predict_proba(row)[0, 0]
    assert found[0] == pytest.approx(expected, abs=1e-12)


def test_f04_points_are_told_of_public_columns_only(run, tmp_path):
    cells = [f"{i},25" for i in range(N - 2)]
    amounts(tmp_path, [*cells, "3.667", "4.667"])
    fit = ["fit", "t.csv", *GERMAN, *MODEL, "--bounds", "open=0:40000"]
    public = run(*fit, "--public", "open")[2]
    assert "2 values of the public column 'open' are no numbers" in public
    assert "hidden" not in public and run(*fit)[2] == ""


def test_f04_drafts_take_no_point_for_a_decimal_mark(run, tmp_path):
    draft = ["schema", "t.csv", *GERMAN, "--public", "open", "--target", "ill"]
    amounts(tmp_path, [*(f"{i},25" for i in range(N - 1)), "1.006"])
    status, out, err = run(*draft)
    entry = tomllib.loads(out)["columns"]["open"]
    assert (status, err, entry["bounds"]) == (0, "", [0.25, N - 2 + 0.25])
    assert "1 values are no numbers and count as missing." in out
    assert "1 value looks like a number but cannot be read: is --decimal right" in out
    # All of them: they are no numbers, and the draft says what they look like.
    amounts(tmp_path, [f"{1000 + i}"[:1] + f".{i:03}" for i in range(N)])
    status, out, err = run(*draft)
    assert tomllib.loads(out)["columns"]["open"] == {"role": "ignore"}
    assert f"{N} values look like numbers but cannot be read" in out
    # The other direction.
    amounts(tmp_path, [f"{1000 + i}"[:1] + f",{i:03}" for i in range(N)])
    status, out, err = run(*(word.replace(",", ".") for word in draft))
    assert tomllib.loads(out)["columns"]["open"] == {"role": "ignore"}
    assert f"{N} values look like numbers but cannot be read" in out


def test_f04_public_text_keeps_its_commas_and_points(run, tmp_path):
    """A category of a public column is spelt as in the file, in draft and model."""
    amounts(tmp_path, ["Köln, Süd", "1.10", "2,50"] * (N // 3))
    draft = ["schema", "t.csv", *GERMAN, "--public", "open", "--target", "ill"]
    levels = tomllib.loads(run(*draft)[1])["columns"]["open"]["categories"]
    assert "Köln, Süd" in levels and "2,50" in levels
    fit = ["fit", "t.csv", *GERMAN, *MODEL[:-2], "--model", "m.joblib"]
    status, _, err = run(*fit, "--public", "open")
    assert status == 0, err
    assert "values look like numbers but cannot be read" in err
    rows = pd.read_csv("t.csv", sep=";", dtype=str).drop(columns="ill")
    encoded = saving.load("m.joblib").encoder_.set_output(transform="pandas")
    assert not encoded.transform(rows)["open__other"].any()


def test_f04_a_public_target_with_commas_is_a_number(run, tmp_path):
    """Its numbers ask for --task, as numbers with points do."""
    amounts(tmp_path, [f"{i},5" for i in range(N)])
    fit = ["fit", "t.csv", *GERMAN, "--target", "open", "--public-target", "--drop"]
    fit += ["ill", "--bounds", "hidden=0:300", "--no-evaluate"]
    status, _, err = run(*fit)
    assert status == 2 and "holds numbers: say --task regression" in err
    draft = ["schema", "t.csv", *GERMAN, "--target", "open", "--public-target"]
    assert tomllib.loads(run(*draft)[1])["target_bounds"] == [0.5, N - 0.5]


# -- F20, A8: labels and values that cannot be read -----------------------------------
def stays(tmp_path):
    rng = np.random.default_rng(0)
    hours = rng.uniform(0, 80, N).round(1)
    frame = pd.DataFrame(
        {
            "hours": hours.astype(str),
            "sector": rng.choice(["a", "b"], N),
            "since": "2024-01-31",
            "ill": np.where(hours > 40, "1", "0"),
        }
    ).astype(object)
    frame.loc[:19, "hours"], frame.loc[20:29, "hours"] = "k.A.", None
    frame.loc[:39, "sector"], frame.loc[:49, "since"] = "c", "31.01.2024"
    frame.loc[:59, "ill"] = "2"
    frame.to_csv(tmp_path / "t.csv", index=False)
    return frame


DECLARED = ["--target", "ill", "--classes", "0,1", "--categories", "sector=a,b"]
DECLARED += ["--bounds", "hours=0:80", "since=2024-01-01:2025-01-01"]
COUNTED = {"hours": 20, "sector": 40, "since": 50}


def test_f20_the_unprotected_table_counts_what_cannot_be_read(run, tmp_path):
    """Labels and values of private columns, too, on both sides of the split."""
    stays(tmp_path)
    status, out, err = run("fit", "t.csv", *DECLARED, "--repeats", 1)
    assert status == 0, err
    table, _, after = out.partition("of what cannot be read are exact")
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


def test_f20_nothing_else_counts_private_values(run, tmp_path):
    frame = stays(tmp_path)
    argvs = (
        ["fit", "t.csv", *DECLARED, "--no-evaluate", "--seed", "0"],
        ["schema", "t.csv", "--target", "ill"],
    )
    with_errors = [run(*argv) for argv in argvs]
    for name in frame:
        frame[name] = frame[name].iloc[-1]
    frame.to_csv("t.csv", index=False)
    for argv, (status, out, err) in zip(argvs, with_errors, strict=True):
        assert status == 0 and run(*argv)[0] == 0
        assert not re.search("cannot be read as|of [0-9]+ held-out rows", out + err)


def test_f20_score_counts_what_cannot_be_read(run, tmp_path):
    stays(tmp_path)
    fit = ["fit", "t.csv", *DECLARED, "--no-evaluate", "--model", "m.joblib"]
    assert run(*fit)[0] == 0
    status, out, err = run("score", "m.joblib", "t.csv")
    assert (status, err) == (0, "")
    assert "t.csv: 180 rows with a known target 'ill'." in out
    assert "Target 'ill': of 240 rows 60 have no declared label." in out
    for name, count in COUNTED.items():
        assert f"Column '{name}': of 240 values {count} cannot be read as" in out
    frame = pd.read_csv("t.csv").iloc[60:]
    frame.to_csv("clean.csv", index=False)
    assert not re.search(
        "cannot be read|no declared", run("score", "m.joblib", "clean.csv")[1]
    )


def test_score_of_a_seeded_model_says_void(run, tmp_path):
    stays(tmp_path)
    fit = ["fit", "t.csv", *DECLARED, "--no-evaluate", "--model", "m.joblib"]
    for seed, epsilon in ([], "1"), (["--seed", 3], "void (integer seed)"):
        assert run(*fit, *seed)[0] == 0
        out = run("score", "m.joblib", "t.csv")[1]
        row = next(line for line in out.splitlines() if line.startswith("m.joblib"))
        assert row.removeprefix("m.joblib").lstrip().startswith(f"{epsilon}  ")


def test_f20_a_regression_counts_targets_that_are_no_numbers(run, tmp_path):
    frame = stays(tmp_path)
    frame.loc[:6, "ill"] = "k.A."
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", "t.csv", "--target", "ill", "--target-bounds", "0:2", *DECLARED[4:]]
    status, out, err = run(*fit, "--repeats", 1, "--model", "m.joblib")
    assert status == 0, err
    assert re.search(r"of 60 held-out rows \d+ have no number as target", out)
    out = run("score", "m.joblib", "t.csv")[1]
    assert "of 240 rows 7 have no number as target" in out


@pytest.mark.parametrize("spelt", ["{}.0", "0{}", " {}", "{}e0"])
def test_f12_score_brings_labels_to_the_declared_spelling(run, tmp_path, spelt):
    frame = stays(tmp_path).iloc[60:]
    frame.to_csv("t.csv", index=False)
    fit = ["fit", "t.csv", *DECLARED, "--no-evaluate", "--model", "m.joblib"]
    assert run(*fit)[0] == 0
    expected = run("score", "m.joblib", "t.csv")[1]
    frame.assign(ill=frame["ill"].map(spelt.format)).to_csv("t.csv", index=False)
    assert run("score", "m.joblib", "t.csv")[1] == expected


# -- F03: codes that read as numbers --------------------------------------------------
CODES = {
    "zip": ["01067", "80331", "20095"],
    "icd11": ["1E50", "1E51", "2E65"],
    "snomed": ["900000000000207008", "138875005", "73211009"],
}


def coded(tmp_path, codes):
    """Write a table of two columns of the same cells, and of labels."""
    cells = [*codes, ""] * (N // 4)
    table = pd.DataFrame({"open": cells, "hidden": cells, "ill": [0, 1] * (N // 2)})
    table.to_csv(tmp_path / "t.csv", index=False)


@pytest.mark.parametrize("kind", CODES)
def test_f03_a_public_column_of_codes_is_text(run, tmp_path, kind):
    coded(tmp_path, CODES[kind])
    draft = ["schema", "t.csv", "--target", "ill", "--public", "open"]
    status, out, err = run(*draft)
    columns = tomllib.loads(out)["columns"]
    assert (status, err) == (0, "")
    assert columns["open"] == {"role": "public", "categories": sorted(CODES[kind])}
    assert columns["hidden"] == {"role": "private", "bounds": [], "categories": []}
    (line,) = [line for line in out.splitlines() if line.startswith("hidden")]
    assert line.endswith("# one of the two")  # nothing of its cells
    assert "# some values look like codes" in out
    fit = ["fit", "t.csv", "--target", "ill", "--classes", "0,1", "--public", "open"]
    fit += ["--categories", "hidden=a,b", "--no-evaluate", "--model", "m.joblib"]
    status, _, err = run(*fit)
    assert status == 0, err
    assert "of the public column 'open' some values look like codes" in err
    names = saving.load("m.joblib").encoder_.get_feature_names_out()
    assert {f"open__{code}" for code in CODES[kind]} <= set(names)


def test_f03_many_codes_are_asked_about(run, tmp_path):
    table = pd.DataFrame({"open": [f"{i:05}" for i in range(N)], "ill": 0})
    table.to_csv(tmp_path / "t.csv", index=False)
    draft = ["schema", "t.csv", "--target", "ill", "--public", "open"]
    status, out, _ = run(*draft)
    assert tomllib.loads(out)["columns"]["open"] == {"role": "ignore"}
    assert "names or identifiers? some values look like codes" in out
    fit = ["fit", "t.csv", "--target", "ill", "--classes", "0,1", "--public", "open"]
    status, _, err = run(*fit)
    assert status == 2 and "some values look like codes" in err


def test_f03_numbers_stay_numbers(run, tmp_path):
    cells = ["0", "0.5", "-0.25", "1e-05", "1.5E+03", "999999999999999"] * (N // 6)
    table = pd.DataFrame({"open": cells, "hidden": 1, "ill": [0, 1] * (N // 2)})
    table.to_csv(tmp_path / "t.csv", index=False)
    status, out, _ = run("schema", "t.csv", "--target", "ill", "--public", "open")
    bounds = tomllib.loads(out)["columns"]["open"]["bounds"]
    assert (status, bounds) == (0, [-0.25, 999999999999999])
    table["open"] = table["open"].astype(float) * 1e12
    table.to_parquet(tmp_path / "t.parquet")
    status, out, _ = run("schema", "t.parquet", "--target", "ill", "--public", "open")
    assert "bounds" in tomllib.loads(out)["columns"]["open"]


def test_f03_a_public_target_of_codes_is_labels(run, tmp_path):
    coded(tmp_path, CODES["zip"])
    draft = ["schema", "t.csv", "--target", "open", "--public-target"]
    found = tomllib.loads(run(*draft)[1])
    assert (found["classes"], found["target_bounds"]) == (sorted(CODES["zip"]), [])


@pytest.mark.parametrize("word", ["-1,1", "-2:2"])
def test_f02_negative_labels_and_bounds_are_values_not_options(word):
    """argparse takes "-1,1" for an option that it does not know."""
    option = "--target-bounds" if ":" in word else "--classes"
    found = parse(["fit", "table.csv", "--target", "y", option, word])
    wanted = (-2.0, 2.0) if ":" in word else ["-1", "1"]
    assert (found.target_bounds if ":" in word else found.classes) == wanted
