"""Words of a command line, and the files that it reads after an edit."""

import contextlib
import functools
import io
import itertools
from pathlib import Path

from hypothesis import strategies as st

from skfdp.cli import main
from skfdp.schema import Category, Label, Number, TableSchema

_COUNT = itertools.count()
BYTES = st.binary(max_size=4) | st.sampled_from((b"\n", b",", b'"', b"\x00", b"s3cr3t"))


@st.composite
def edited(draw, data, suffix):
    """Draw paths of files with other bytes, of folders, and of nothing."""
    path = Path(f"file{next(_COUNT)}{suffix}")
    kind = draw(st.sampled_from(("part", "part", "folder", "nothing")))
    if kind == "folder":
        path.mkdir()
    elif kind == "part":
        ends = st.integers(0, len(data))
        start, stop = sorted(draw(st.tuples(ends, ends)))
        path.write_bytes(data[:start] + draw(BYTES) + data[stop:])
    return path


# -- the command line ------------------------------------------------------------------
BASE = ("--schema", "declared.toml")
NUMBERS = ("1", "0", "-1", "nan", "inf", "1e400", "x", "1e-9", "9" * 24, "0.25")
PATHS = ("", ".", "no/folder/a", "nobody.toml", "schema.toml", "a.json", "a.skops")
COLUMNS = ("income", "nobody", "", "hours", "age", "a*", "age town", "town")
#: Options of a command: drawn ones come after those of the base.
OPTIONS = {
    **dict.fromkeys(("--epsilon", "--delta", "--limit", "--n-records"), NUMBERS),
    "--seed": NUMBERS,
    **dict.fromkeys(("--ledger", "--report", "--model", "--schema", "--check"), PATHS),
    **dict.fromkeys(("--target", "--outcomes", "--group"), COLUMNS),
    "--public": ("age", "a*", "nobody", "age town", ""),
    "--relation": ("replace_one", "replace_special", "add_or_remove_one", "x"),
    **dict.fromkeys(("--debug", "--nobody"), ("",)),
}
SCHEMAS = (
    *("", "[", "outcomes = 1", "fields = 3\n", "nobody = 1\n[fields]\n"),
    "outcomes = ['income']\n[fields]\nincome = {constraints = {enum = ['high']}}\n",
    "[fields]\nhours = {constraints = {minimum = 0, maximum = 1}}\n",
    "[fields.hours]\ntype = 'number'\n[fields.sector]\nconstraints = {enum = ['a']}\n",
    "[fields.hours]\ntype = 'number'\nconstraints = {minimum = 2, maximum = 1}\n",
    "group = 'town'\nmaxRowsPerGroup = 'x'\n[fields]\n",
    "missingValues = [[1], {a = 1}]\n[fields]\nage = {type = 'integer'}\n",
)
_HOURS = [f"{0.735194 / 10 ** (i % 3) + i * 1e-8:.8f}" for i in range(60)]
_SECTORS, _INCOMES = ["a", "b"] * 30, ["high", "low"] * 30
_HOURS[5], _SECTORS[7], _INCOMES[9] = "s3cr3t-1", "s3cr3t-2", "s3cr3t-3"
_TOWNS = ["Rome", "Oslo"] * 30
PEOPLE = "age,town,hours,sector,income\n" + "".join(
    f"{20 + i},{_TOWNS[i]},{_HOURS[i]},{_SECTORS[i]},{_INCOMES[i]}\n" for i in range(60)
)


@functools.cache
def saved():
    """Return the file of a model of these people."""
    Path("people.csv").write_text(PEOPLE)
    columns = {"age": Number(0, 100, public=True), "hours": Number(0, 1)}
    columns |= {"sector": Category(["a", "b"]), "income": Label(["high", "low"])}
    TableSchema(columns, outcomes="income").save("declared.toml")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["fit", "people.csv", *BASE, "--model", "saved.joblib"]) == 0
    return "saved.joblib"


@st.composite
def commands(draw):
    """Draw the words of a command line."""
    model, table = saved(), "people.csv"
    Path("schema.toml").write_text(draw(st.sampled_from(SCHEMAS)))
    if draw(st.integers(0, 2)) == 0:
        suffix = draw(st.sampled_from((*(".csv",) * 9, ".parquet", ".gz", "")))
        table = str(draw(edited(PEOPLE.encode(), suffix)))
    fit, draft = ["fit", table, *BASE], ["schema", table, "--outcomes", "income"]
    usual = [fit, fit, draft, ["predict", model, table, *BASE], ["report", model]]
    usual += [["score", model, table, *BASE], ["report", table], ["x"], [""]]
    words = draw(st.sampled_from(usual))
    for name in draw(st.lists(st.sampled_from([*OPTIONS]), max_size=2)):
        words = [*words, name, draw(st.sampled_from(OPTIONS[name]))]
    return words


def run_command(words):
    """Run a command; an error is its status 2."""
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            status = main(words)
    except SystemExit as leaving:
        status = leaving.code
    text = err.getvalue()
    print(text)  # looked through for data by who called
    if status == 2:
        told = [line for line in text.splitlines() if line.startswith("skfdp: error:")]
        raise ValueError(told[-1] if told else "no word")
    assert status in (0, None), f"status {status}: {text}"
