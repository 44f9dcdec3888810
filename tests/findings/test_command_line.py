"""What field and newcomer tests found on the command line; named after the findings.

What they found in the reading of files is in `tests/test_schema.py`.
"""

import re

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp.schema import Category, Date, Label, Number, TableSchema

N = 240
FIT = ["fit", "t.csv", "--schema", "s.toml", "--no-evaluate", "--model", "m.joblib"]
USES = [
    FIT,
    ["predict", "m.joblib", "t.csv", "--schema", "s.toml"],
    ["score", "m.joblib", "t.csv", "--schema", "s.toml"],
]


def lines_of(first, n=N):
    """Return a table with a first line, and rows of an identifier, numbers and text."""
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 80, n)
    rows = [
        f"R-{i} x,{h},{h % 3},{'no' if h < 40 else 'yes'}\n"
        for i, h in enumerate(hours)
    ]
    return f"{first}\n{''.join(rows)}"


def declared(**more):
    columns = {"hours": Number(0, 80), "stage": Category([0, 1, 2]), **more}
    columns["ill"] = Label(["no", "yes"])
    return TableSchema(columns, outcomes="ill")


def test_f01_holds_for_every_command(command, refusal, tmp_path):
    """The first record of a file without names is quoted by none that reads one."""
    declared().save(tmp_path / "s.toml")
    (tmp_path / "t.csv").write_text(lines_of("id,hours,stage,ill"))
    assert all(command(*argv)[0] == 0 for argv in USES)
    (tmp_path / "t.csv").write_text(lines_of("R-0 x,45,1,no"))
    for argv in USES:
        sentence = refusal(*argv)
        assert "'t.csv' lacks the column" in sentence and "hours, stage" in sentence
        assert "R-0" not in sentence and "45" not in sentence
    for more in ([], ["--public", "all", "-o", "new.toml"]):
        sentence = refusal("schema", "t.csv", *more)
        assert "does not look like names" in sentence and "R-0" not in sentence
    assert not (tmp_path / "new.toml").exists()


def test_f01_names_that_are_numbers_are_confirmed(command, refusal, tmp_path):
    (tmp_path / "t.csv").write_text(lines_of("id,2019,2020,ill"))
    assert "does not look like names" in refusal("schema", "t.csv")
    status, out, err = command("schema", "t.csv", "--header", "--outcomes", "ill")
    assert (status, err) == (0, "") and "\n2019 = {" in out
    columns = {"2019": Number(0, 80), "2020": Category([0, 1, 2])}
    columns["ill"] = Label(["no", "yes"])
    TableSchema(columns, outcomes="ill").save(tmp_path / "s.toml")
    for argv in USES:
        assert command(*argv)[0] == 0


def test_f17_columns_without_a_name_are_left_out(command, tmp_path):
    first, *lines = lines_of(",hours,stage,ill,,").splitlines()
    text = "\n".join([first, *(f"{line},," for line in lines)])
    (tmp_path / "t.csv").write_text(text.replace("R-3 x", "canary"))
    status, out, err = command("schema", "t.csv", "--public", "all")
    told = "columns without a name are left out: number 1, 5, 6."
    assert (status, err) == (0, f"skfdp: warning: {told}\n") and "Unnamed" not in out
    declared().save(tmp_path / "s.toml")
    for argv in USES:
        status, out, err = command(*argv)
        assert status == 0 and "Unnamed" not in out and "canary" not in out + err


def test_f04_a_wrong_mark_is_told_of_public_columns_only(command, tmp_path):
    rows = [f"{i % 40},5;{i % 40}.250;{i % 2}" for i in range(N)]
    (tmp_path / "t.csv").write_text("\n".join(["open;hidden;ill", *rows, ""]))
    schema = TableSchema(
        {"open": Number(0, 40, True), "hidden": Number(0, 40), "ill": Label([0, 1])},
        outcomes="ill",
        delimiter=";",
        decimal=".",
    )
    schema.save(tmp_path / "s.toml")
    status, _, err = command(*FIT)
    told = "public column 'open': 240 of 240 values cannot be read as numbers, such as "
    told += "'0,5'."
    told = f"skfdp: warning: {told}\n"
    assert status == 0 and told in err and "hidden" not in err
    for argv in USES[1:]:
        assert command(*argv)[2] == told


# -- F20, A8: labels and values that cannot be read -----------------------------------
COUNTED = {"hours": 20, "sector": 40, "since": 50}


def stays(tmp_path, label=None, **more):
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
    status, out, err = command(*FIT[:4], "--repeats", 1)
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
    argvs = ([*FIT, "--seed", "0"], ["schema", "t.csv", "--check", "s.toml"])
    with_errors = [command(*argv) for argv in argvs]
    for name in frame:
        frame[name] = frame[name].iloc[-1]
    frame.to_csv("t.csv", index=False)
    for argv, (status, out, err) in zip(argvs, with_errors, strict=True):
        assert status == 0 and command(*argv)[0] == 0
        assert not re.search("cannot be read as|of [0-9]+ held-out rows", out + err)


def test_f20_score_counts_what_cannot_be_read(command, tmp_path):
    stays(tmp_path)
    assert command(*FIT)[0] == 0
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
        assert command(*FIT, *seed)[0] == 0
        out = command(*USES[2])[1]
        row = next(line for line in out.splitlines() if line.startswith("m.joblib"))
        assert row.removeprefix("m.joblib").lstrip().startswith(f"{epsilon}  ")


def test_f20_a_regression_counts_targets_that_are_no_numbers(command, tmp_path):
    frame = stays(tmp_path)
    stays(tmp_path, Number(0, 2), ill=["k.A."] * 7 + frame["ill"].tolist()[7:])
    status, out, err = command(*FIT[:4], *FIT[5:], "--repeats", 1)
    assert status == 0, err
    assert re.search(r"of 60 held-out rows \d+ have no number as target", out)
    assert "of 240 rows 7 have no number as target" in command(*USES[2])[1]


@pytest.mark.parametrize("spelt", ["{}.0", "0{}", " {}", "{}e0"])
def test_f12_labels_are_brought_to_the_declared_spelling(command, tmp_path, spelt):
    frame = stays(tmp_path).iloc[60:]
    frame.to_csv("t.csv", index=False)
    assert command(*FIT)[0] == 0
    expected = command(*USES[2])[1]
    frame.assign(ill=frame["ill"].map(spelt.format)).to_csv("t.csv", index=False)
    assert command(*USES[2])[1] == expected


def test_limits_of_a_foreign_file_are_reported_as_declared_by_it(command, tmp_path):
    stays(tmp_path)
    schema = TableSchema.load(tmp_path / "s.toml")
    options = {"outcomes": "ill", "declared_by": "tableschema.json"}
    TableSchema(schema.columns, **options).save(tmp_path / "s.toml")
    assert command(*FIT, "--report", "r.json")[0] == 0
    (found,) = (
        item
        for item in skfdp.privacy.read_report("r.json").assumptions
        if "declared in the file 'tableschema.json'" in item.text
    )
    assert not found.enforced
