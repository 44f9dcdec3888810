"""Schemas: what a draft shows, and what a fit takes from one."""

import tomllib

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp.cli import main
from skfdp.cli import results as saving
from skfdp.cli.output import CommandError
from skfdp.cli.tables import look_at, named_as_identifier, read_schema

N = 240


def hospital(rng):
    """Return stays as they come: gaps, dates, umlauts, an identifier."""
    risk = rng.normal(size=N)
    frame = pd.DataFrame(
        {
            "Patienten-ID": [f"P{7 * i + 1000}" for i in range(N)],
            "Alter": rng.integers(18, 97, N),
            "Geschlecht": rng.choice(["w", "m"], N),
            "Aufnahme am": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 700, N), unit="D"),
            "BMI": (27 + 5 * risk).round(1),
            "Raucher": rng.choice(["ja", "nein", None], N),
            "Diagnose": rng.choice(["Fraktur", "Sepsis", "Übelkeit"], N),
            "Komplikation": np.where(risk > 0.8, "ja", "nein"),
        }
    )
    frame["Aufnahme am"] = frame["Aufnahme am"].dt.strftime("%Y-%m-%d")
    frame.loc[frame.index % 9 == 0, "BMI"] = None
    return frame


@pytest.fixture
def stays(tmp_path, monkeypatch):
    """Write the table, and stand beside it."""
    monkeypatch.chdir(tmp_path)
    frame = hospital(np.random.default_rng(0))
    frame.to_csv("stays.csv", index=False)
    return frame


def run(capsys, *argv):
    try:
        status = main([*map(str, argv)])
    except SystemExit as leaving:
        status = leaving.code
    return (status, *capsys.readouterr())


def refusal(capsys, *argv):
    status, out, err = run(capsys, *argv)
    assert (status, out, err.count("\n")) == (2, "", 1), (status, out, err)
    return err.removeprefix("skfdp: error: ")


DRAFT = ["schema", "stays.csv", "--target", "Komplikation"]
PUBLIC = ["--public", "Patienten-ID", "Alter", "Geschlecht", "Aufnahme am"]
FILLED = {
    "classes = []": 'classes = ["ja", "nein"]',
    'BMI = {role = "private", bounds = [], categories = []}': (
        'BMI = {role = "private", bounds = [15, 50], knots = 4}'
    ),
    'Raucher = {role = "private", bounds = [], categories = []}': (
        'Raucher = {role = "private", categories = ["ja", "nein"]}'
    ),
    'Diagnose = {role = "private", bounds = [], categories = []}': (
        'Diagnose = {role = "private", categories = ["Fraktur", "Sepsis", "Übelkeit"]}'
    ),
}


def filled(text):
    for empty, declared in FILLED.items():
        assert empty in text
        text = text.replace(empty, declared)
    return text


# -- the draft ------------------------------------------------------------------------
def test_a_draft_shows_public_columns_and_names(stays, capsys):
    status, out, err = run(capsys, *DRAFT, *PUBLIC)
    assert (status, err) == (0, "")
    draft = tomllib.loads(out)
    columns = draft.pop("columns")
    assert draft == {
        "target": "Komplikation",
        "public_target": False,
        "classes": [],
        "target_bounds": [],
        "epsilon": 1.0,
        "delta": 1e-5,
        "sep": ",",
        "decimal": ".",
        "encoding": "utf-8",
    }
    assert list(columns) == list(stays.columns[:-1])
    ages, days = stays["Alter"], stays["Aufnahme am"]
    assert columns["Alter"] == {"role": "public", "bounds": [ages.min(), ages.max()]}
    assert columns["Geschlecht"] == {"role": "public", "categories": ["m", "w"]}
    assert columns["Aufnahme am"]["bounds"] == [days.min(), days.max()]
    assert columns["Patienten-ID"] == {"role": "ignore"}
    empty = {"role": "private", "bounds": [], "categories": []}
    assert all(columns[name] == empty for name in ("BMI", "Raucher", "Diagnose"))
    assert "240 different texts in 240 rows: names or identifiers?" in out


@pytest.mark.parametrize("public", [[], ["Alter", "Geschlecht"]])
def test_a_draft_is_the_same_whatever_private_values_are(stays, capsys, public):
    options = [*DRAFT, *(["--public", *public] if public else [])]
    before = run(capsys, *options)
    assert before[0] == 0
    rng = np.random.default_rng(1)
    private = [name for name in stays if name not in public]
    for values in (
        np.full(N, "canary"),
        np.array([None] * N),
        rng.integers(0, 9, N),
        np.array(["1e999", "\ufffd", "2024-01-01", "nan"] * (N // 4)),
        np.array(['a "quoted", text', "two\nlines", "", "k.A."] * (N // 4)),
    ):
        stays.assign(**dict.fromkeys(private, values)).to_csv("stays.csv", index=False)
        assert run(capsys, *options) == before
    rows = stays.to_csv(index=False).encode("latin1")  # bytes that are no UTF-8
    open("stays.csv", "wb").write(rows)
    assert run(capsys, *options) == before


def test_a_draft_of_a_public_target(stays, capsys):
    stays.assign(Komplikation=range(N)).to_csv("stays.csv", index=False)
    status, out, _ = run(capsys, *DRAFT, "--public-target")
    draft = tomllib.loads(out)
    assert (draft["target_bounds"], draft["classes"]) == ([0, N - 1], [])
    stays.to_csv("stays.csv", index=False)
    draft = tomllib.loads(run(capsys, *DRAFT, "--public-target")[1])
    assert (draft["target_bounds"], draft["classes"]) == ([], ["ja", "nein"])
    assert draft["public_target"] is True


def test_a_draft_does_not_overwrite_a_schema(stays, capsys, tmp_path):
    (tmp_path / "s.toml").write_text("filled in")
    assert "s.toml exists: name a new file" in refusal(capsys, *DRAFT, "-o", "s.toml")
    assert (tmp_path / "s.toml").read_text() == "filled in"


def test_names_survive_toml(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ['a "b"', "c\\d", "e#f", "ü = [1]", "\x7f", "g.h", "42"]
    pd.DataFrame([[1] * len(names)], columns=names).to_csv("t.csv", index=False)
    status, out, _ = run(capsys, "schema", "t.csv", "--public", "42", "--header")
    assert status == 0 and list(tomllib.loads(out)["columns"]) == names


def test_what_public_values_are():
    few = ["01", "02", "Rome"] * 20
    assert look_at(pd.Series(few)).categories == ("01", "02", "Rome")
    mixed = look_at(pd.Series(["k.A.", None, *map(str, range(40))]))
    assert (mixed.bounds, mixed.unread, mixed.running) == ((0, 39), 1, False)
    assert look_at(pd.Series(range(40))).running
    assert look_at(pd.Series(["7", "7.0", ""] * 20)).bounds == (7, 14)
    assert look_at(pd.Series(["", None])).n_values == 0
    assert look_at(pd.Series([True, None])).categories == ("True",)
    days = pd.Series(["2024-02-29", "2024-02-29 10:00"] * 9)
    assert look_at(days).bounds == ("2024-02-29", "2024-03-01")
    assert look_at(pd.to_datetime(days.str[:10])).bounds == look_at(days).bounds
    names = look_at(pd.Series([f"n{i}" for i in range(40)]))
    assert (names.bounds, names.categories, names.n_values) == (None, None, 40)


@pytest.mark.parametrize(
    "name",
    ["Patienten-ID", "patient_id", "PatientID", "id", "ID", "Fallnummer", "Case no"]
    + ["Nachname", "Name", "name of the patient", "E-Mail", "Kunden-Nr.", "UUID"],
)
def test_identifiers_by_name(name):
    assert named_as_identifier(name)


@pytest.mark.parametrize("name", ["Alter", "ideal", "no of children", "hid", "", "42"])
def test_no_identifiers_by_name(name):
    assert not named_as_identifier(name)


# -- what a fit takes from it ---------------------------------------------------------
FIT = ["fit", "stays.csv", "--schema", "s.toml", "--no-evaluate"]


@pytest.fixture
def schema(stays, capsys, tmp_path):
    """Draft a schema and fill it in."""
    assert run(capsys, *DRAFT, *PUBLIC, "-o", "s.toml")[0] == 0
    path = tmp_path / "s.toml"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    return path


def test_a_fit_of_a_draft(stays, schema, capsys):
    status, out, err = run(capsys, *FIT, "--report", "r.json", "--model", "m.joblib")
    assert status == 0, err
    report = skfdp.read_report("r.json")
    assert report.epsilon == pytest.approx(1)
    assert report.private_features == ("BMI", "Raucher", "Diagnose")
    assert "Public: Alter, Geschlecht, Aufnahme am.\n" in out
    # What a schema declares was not read from these rows.
    assert not any("were read from" in item.text for item in report.assumptions)
    model = saving.load("m.joblib")
    assert "Patienten-ID" not in model.feature_names_in_
    assert list(model.classes_) == ["ja", "nein"]


def test_options_go_before_the_schema(stays, schema, capsys):
    options = ["--epsilon", 3, "--bounds", "BMI=10:60", "--drop", "Diagnose"]
    options += ["--public", "Raucher", "--report", "r.json", "--classes", "nein,ja,?"]
    status, out, err = run(capsys, *FIT, *options)
    assert status == 0, err
    report = skfdp.read_report("r.json")
    assert report.epsilon == pytest.approx(3)
    assert report.private_features == ("BMI",)
    assert "predicting 'Komplikation', 3 classes." in out


def test_a_draft_that_is_not_filled_in_is_refused(stays, capsys):
    assert run(capsys, *DRAFT, *PUBLIC, "-o", "s.toml")[0] == 0
    assert "declare --classes A,B,... for a label" in refusal(capsys, *FIT)
    sentence = refusal(capsys, *FIT, "--classes", "ja,nein")
    assert "of the private columns BMI, Raucher, Diagnose, and to learn" in sentence


@pytest.mark.parametrize(
    "text, reason",
    [
        ("target = ", "is not a TOML file"),
        ("targets = 'y'", "has no meaning for 'targets': it takes target, task,"),
        ("target = 3", "target of 's.toml' must be the name of a column"),
        ("classes = 'a,b'", "classes of 's.toml' must be a list of different labels"),
        ("classes = ['a', 'a']", "must be a list of different labels"),
        ("target_bounds = [1, 0]", "must be two numbers, [LOW, HIGH]"),
        ("target_bounds = [2024-01-01, 2025-01-01]", "must be two numbers"),
        ("epsilon = '1'", "epsilon of 's.toml' must be a number"),
        ("public_target = 1", "must be true or false"),
        ("interactions = ['ab']", "must be a list of pairs of columns"),
        ("columns = 3", "[columns] of 's.toml' must be a table"),
        ("[columns]\na = 1", "column 'a' in 's.toml' must be a table, such as"),
        ("[columns]\na = {rolle = 'x'}", "has no meaning for 'rolle'"),
        ("[columns]\na = {role = 'secret'}", "one of public, private, ignore"),
        ("[columns]\na = {bounds = [1]}", "must be two numbers or two dates"),
        ("[columns]\na = {bounds = [1, inf]}", "must be two numbers or two dates"),
        ("[columns]\na = {bounds = [1, 2024-01-01]}", "two numbers or two dates"),
        ("[columns]\na = {bounds = [0, 1], categories = ['x']}", "numbers or text?"),
        ("[columns]\na = {knots = 1}", "a whole number above 1, or a list"),
        ("[columns]\na = {knots = [2, 1]}", "a whole number above 1, or a list"),
    ],
)
def test_schemas_that_mean_nothing(tmp_path, monkeypatch, text, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(CommandError) as caught:
        read_schema("s.toml")
    assert reason in str(caught.value)


def test_schemas_take_dates_and_knots(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(
        "interactions = [['a', 'b']]\nclasses = [0, 1]\n[columns]\n"
        "a = {bounds = [2024-01-01, 2025-06-01T12:00:00]}\n"
        "b = {role = 'public', bounds = ['2024-01-01', '2025-01-01']}\n"
        "c = {bounds = [0, 10], knots = [0, 1, 10], spacing = 'even', cyclic = false}\n"
        "d = {bounds = [], categories = [true, 2, 'x']}\n"
    )
    settings, columns = read_schema(path)
    assert settings == {"interactions": [("a", "b")], "classes": ["0", "1"]}
    assert columns["a"]["bounds"] == ("2024-01-01", "2025-06-01T12:00:00")
    assert columns["b"] == {"role": "public", "bounds": ("2024-01-01", "2025-01-01")}
    assert columns["c"]["knots"] == [0, 1, 10]
    assert columns["d"] == {"role": "private", "categories": [True, 2, "x"]}


def test_unknown_columns_of_a_schema(stays, schema, capsys):
    schema.write_text(schema.read_text() + "BMJ = {bounds = [0, 1]}\n")
    assert "the schema names the column 'BMJ', which the file" in refusal(capsys, *FIT)
    schema.write_text("target = 'BMI'\ntarget_bounds = [9, 99]\n[columns]\nBMI = {}\n")
    assert "names the target 'BMI' as a column" in refusal(capsys, *FIT)


def test_interactions_and_bases(stays, schema, capsys):
    text = schema.read_text(encoding="utf-8").replace("knots = 4", "basis = 'linear'")
    schema.write_text('interactions = [["BMI", "Raucher"]]\n' + text, encoding="utf-8")
    status, _, err = run(capsys, *FIT, "--model", "m.joblib")
    assert status == 0, err
    names = list(saving.load("m.joblib").encoder_.get_feature_names_out())
    assert [name for name in names if name.startswith("BMI__")] == [
        "BMI__linear",
        "BMI__missing",
    ]
    assert "BMI:Raucher__linear:ja" in names
