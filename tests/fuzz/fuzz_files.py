"""Calls that read files: reports, ledgers, and the command line."""

import contextlib
import dataclasses
import functools
import gzip
import io
import itertools
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
from fuzz_values import split
from hypothesis import strategies as st

import skfdp
from skfdp import PrivacyLedger
from skfdp.cli import main
from skfdp.schema import Category, Label, Number, TableSchema
from skfdp.solvers import NoisyGradientDescent

_COUNT = itertools.count()
#: What may happen to the bytes of a file.
BYTES = {
    "as it is": lambda data: data,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "first byte": lambda data: bytes([data[0] ^ 255]) + data[1:] if data else b"x",
    "middle byte": lambda data: _flipped(data, len(data) // 2),
    "late byte": lambda data: _flipped(data, len(data) * 9 // 10),
    "zeros": lambda data: bytes(len(data)),
    "twice": lambda data: data + data,
    "utf-16": lambda data: data.decode("latin1").encode("utf-16"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "latin1": lambda data: b"\xe9\xff" + data,
    "NUL": lambda data: data[:20] + b"\x00" + data[20:],
    "deep": lambda data: b"[" * 100_000,
    "long number": lambda data: b"1" * 100_000,
    "text": lambda data: b"s3cr3t-1\n" * 5,
    "lines": lambda data: data.replace(b"\n", b"\r\n\r\n"),
    "no first line": lambda data: data.partition(b"\n")[2],
    "first line": lambda data: data.partition(b"\n")[0] + b"\n",
    "two lines": lambda data: b"\n".join(data.split(b"\n")[:2]) + b"\n",
    "first line twice": lambda data: data.partition(b"\n")[0] + b"\n" + data,
    "semicolons": lambda data: data.replace(b",", b";"),
    "tabs": lambda data: data.replace(b",", b"\t"),
    "open quote": lambda data: data.replace(b",", b',"', 9),
    "one more field": lambda data: data.replace(b"\n", b",1\n", 4),
    "one field less": lambda data: data.replace(b",", b"", 7),
    "long field": lambda data: data + b"s3cr3t" * 50_000 + b"\n",
    "one name twice": lambda data: data.replace(b"town", b"age"),
    "no name": lambda data: data.replace(b"town", b""),
    "gzip": lambda data: gzip.compress(data),
}
#: Values of JSON that take the place of others.
JSON_VALUES = split(
    r"""
    null | true | -1 | 0 | 1 | 2.5 | 1e308 | 1e999 | -1e999 | NaN | 1e-320 |
    123456789012345678901234567890 | "x" | "" | "inf" | "é" | "\ud800" | "1" |
    [] | {} | [[]] | {"a": 1} | [null] | ["x", "x"]
    """
)
JSON_VALUES += ('"' + "a" * 400 + '"',)
_SQL = (
    "UPDATE {table} SET {column} = {value}",
    "UPDATE {table} SET {column} = {value} WHERE rowid = 1",
    "DELETE FROM {table}",
    "DELETE FROM {table} WHERE rowid = 1",
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO renamed",
    "ALTER TABLE {table} ADD COLUMN more TEXT",
    "PRAGMA user_version = {value}",
    "PRAGMA application_id = 7",
)
_SQL_VALUES = ("NULL", "-1", "1e999", "'x'", "''", "X'00ff'", "'{{}}'", "'[]'", "9e18")


class RefusedError(ValueError):
    """A refusal of the command line."""


class FailedError(Exception):
    """A failure of the command line that is no refusal."""


def _flipped(data, place):
    return data[:place] + bytes([(data[place] ^ 16) if data else 0]) + data[place + 1 :]


def _new(suffix):
    return Path(f"file{next(_COUNT)}{suffix}")


@functools.cache
def _report_text():
    rows = np.random.default_rng(0).random((60, 3))
    X = pd.DataFrame(rows, columns=["a", "b", "c"])
    model = skfdp.FeatureDPLogisticRegression(
        bounds=(0, 1),
        public_features=[0],
        ledger="reported.sqlite",
        target="y",
        solver=NoisyGradientDescent(max_iter=2),
    )
    return model.fit(X, np.arange(60) % 2).privacy_.to_json()


@functools.cache
def _ledger_file():
    path = Path("base.sqlite")
    ledger = PrivacyLedger(path, epsilon=9.0, delta=1e-5)
    plan = skfdp.privacy.calibrate(0.5, 1e-5, n_steps=5)
    for _ in range(2):
        ledger.charge([plan.event], label="fit")
    return path


def _places(values):
    """Return the paths of all values below a value of JSON."""
    found = [()]
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in items:
        deeper = _places(value) if isinstance(value, dict | list) else [()]
        found += [(key, *place) for place in deeper]
    return found


def _edited_json(text, place, value):
    """Return a text with one value replaced; "" deletes it."""
    values = json.loads(text)
    path = _places(values)[place % len(_places(values))]
    if not path:
        return value or "7"
    holder = values
    for key in path[:-1]:
        holder = holder[key]
    if value:
        holder[path[-1]] = "\u2603"
        return json.dumps(values).replace('"\\u2603"', value)
    del holder[path[-1]]
    return json.dumps(values)


def _edited_sqlite(place, statement, value):
    """Return a copy of the ledger's file after one statement."""
    path = _new(".sqlite")
    shutil.copy(_ledger_file(), path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        triggers = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for (name,) in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        cells = [
            (table, row[1])
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall()
            for row in connection.execute(f"PRAGMA table_info({table})").fetchall()
        ]
        table, column = cells[place % len(cells)]
        with contextlib.suppress(sqlite3.Error):
            connection.execute(
                statement.format(table=table, column=column, value=value)
            )
        connection.commit()
    return path


def _written(data, edit, suffix):
    path = _new(suffix)
    if edit == "folder":
        path.mkdir()
    elif edit != "no file":
        path.write_bytes(BYTES[edit](data))
    return path


@dataclasses.dataclass(frozen=True)
class FileCall:
    """A call that reads a file, after one edit of it."""

    subject: str
    edit: str
    place: int = 0
    value: str = ""

    def calls(self):
        yield from READERS[self.subject](self)


def _edited_text(call, text, suffix):
    """Return a file of the text, edited as JSON or as bytes."""
    if call.edit == "json":
        edited = _edited_json(text, call.place, call.value)
        return _written(edited.encode("utf-8", "surrogatepass"), "as it is", suffix)
    return _written(text.encode(), call.edit, suffix)


def _reports(call):
    path = _edited_text(call, _report_text(), ".json")
    yield "read_report", lambda: skfdp.privacy.read_report(path).statement()
    yield (
        "check_report",
        lambda: PrivacyLedger(_ledger_file()).check_report(
            skfdp.privacy.read_report(path)
        ),
    )


def _ledger_files(call):
    if call.edit == "sqlite":
        statement = _SQL[int(call.value.partition(" ")[0])]
        path = _edited_sqlite(call.place, statement, call.value.partition(" ")[2])
    else:
        path = _written(_ledger_file().read_bytes(), call.edit, ".sqlite")
    yield "open", lambda: PrivacyLedger(path).spent(1e-5)
    yield "entries", lambda: PrivacyLedger(path).entries
    yield "repr", lambda: repr(PrivacyLedger(path))
    yield "report", lambda: skfdp.report(PrivacyLedger(path), delta=1e-5).statement()
    event = skfdp.privacy.calibrate(0.1, 1e-5, n_steps=1).event
    yield "charge", lambda: PrivacyLedger(path).charge([event])


READERS = {
    "report files": _reports,
    "ledger files": _ledger_files,
}


@st.composite
def file_calls(draw, subject):
    """Draw a file and what is wrong with it."""
    edits = [*BYTES, "folder", "no file"]
    kind = {"report files": "json", "ledger files": "sqlite"}
    if subject in kind and draw(st.integers(0, 4)):
        place = draw(st.integers(0, 400))
        if kind[subject] == "json":
            return FileCall(
                subject, "json", place, draw(st.sampled_from(("", *JSON_VALUES)))
            )
        which = draw(st.integers(0, len(_SQL) - 1))
        value = draw(st.sampled_from(_SQL_VALUES))
        return FileCall(subject, "sqlite", place, f"{which} {value}")
    return FileCall(subject, draw(st.sampled_from(edits)))


# -- the command line ------------------------------------------------------------------
_PEOPLE_ROWS = 60
_BASE = ("--schema", "declared.toml", "--no-evaluate")
#: Options of a fit or a draft: drawn ones come after those of the base.
OPTIONS = {
    "--target": ("income", "nobody", "", "hours"),
    "--epsilon": ("1", "0", "-1", "nan", "inf", "1e400", "x", "1e-9"),
    "--delta": ("1e-5", "0", "1", "2", "nan", "x"),
    "--relation": ("replace_one", "replace_special", "add_or_remove_one", "x"),
    "--n-records": ("60", "0", "-1", "x", "1000000000000000000000000"),
    "--ledger": ("cli.sqlite", "", "no/folder/l.sqlite", "."),
    "--limit": ("1", "0", "nan", "x"),
    "--seed": ("0", "-1", "x", "99999999999999999999999"),
    "--test-size": ("0.25", "0", "1", "0.999", "nan", "x"),
    "--repeats": ("1", "0", "-1", "x"),
    "--report": ("cli.json", "no/folder/r.json", ".", ""),
    "--model": ("cli.joblib", "cli.skops", "cli.pkl", "no/folder/m.skops", "."),
    "--schema": ("schema.toml", "nobody.toml", ".", "broken.toml", "tableschema.json"),
    "--evaluate": ("",),
    "--debug": ("",),
    "--nobody": ("1",),
    "--public": ("age", "all", "a*", "nobody", "income", ""),
    "--outcomes": ("income", "nobody", "age town", ""),
    "--group": ("town", "nobody", "income", ""),
    "--check": ("schema.toml", "declared.toml", "nobody.toml", "tableschema.json"),
    "--delimiter": (";", ",", "\t", "", "ab", "\\"),
    "--decimal": (",", ".", "", "ab"),
    "--thousands": (",", ".", "'", "ab"),
    "--encoding": ("latin1", "utf-16", "nobody", ""),
    "--skip-lines": ("0", "1", "-1", "1000000", "x"),
    "--header": ("",),
}
_SCHEMAS = (
    "",
    "[",
    "outcomes = 1",
    "outcomes = ['income']\n[fields]\nincome = {constraints = {enum = ['high']}}\n",
    "[fields]\nhours = {constraints = {minimum = 0, maximum = 1}}\n",
    "[fields.hours]\ntype = 'number'\n[fields.sector]\nconstraints = {enum = ['a']}\n",
    "[fields.hours]\ntype = 'number'\nconstraints = {minimum = 2, maximum = 1}\n",
    "fields = 3\n",
    "nobody = 1\n[fields]\n",
    "group = 'town'\nmaxRowsPerGroup = 'x'\n[fields]\n",
    "missingValues = [[1], {a = 1}]\n[fields]\nage = {type = 'integer'}\n",
    "[dialect]\nheaderRows = [-3]\n[fields]\n",
    '{"fields": [{"name": "age", "type": "integer"}, {"name": 3}, 4]}',
    '{"resources": [7]}',
)
_COMMANDS = (
    "fit",
    "fit",
    "fit",
    "predict",
    "score",
    "report",
    "schema",
    "schema",
    "x",
    "",
)


def _people():
    rng = np.random.default_rng(0)
    lines = ["age,town,hours,sector,income"]
    for i in range(_PEOPLE_ROWS):
        hours = (0.735194 + int(rng.integers(10, 90)) * 1e-8) / 10 ** (i % 3)
        cells = [
            str(20 + i),
            ("Rome", "Oslo")[i % 2],
            "s3cr3t-1" if i == 5 else f"{hours:.8f}",
            "s3cr3t-2" if i == 7 else "ab"[i % 2],
            "s3cr3t-3" if i == 9 else ("high", "low")[i % 2],
        ]
        lines.append(",".join(cells))
    return ("\n".join(lines) + "\n").encode()


@functools.cache
def _saved():
    Path("people.csv").write_bytes(_people())
    columns = {
        "age": Number(0, 100, public=True),
        "hours": Number(0, 1),
        "sector": Category(["a", "b"]),
        "income": Label(["high", "low"]),
    }
    TableSchema(columns, outcomes="income").save("declared.toml")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["fit", "people.csv", *_BASE, "--model", "saved.joblib"]) == 0
    return "saved.joblib"


@dataclasses.dataclass(frozen=True)
class CommandCall:
    """A command, its table and its options."""

    command: str
    edit: str
    suffix: str
    options: tuple[str, ...]
    schema: int = 0

    def calls(self):
        Path("broken.toml").write_text("[", encoding="utf-8")
        for name in ("schema.toml", "tableschema.json"):
            Path(name).write_text(_SCHEMAS[self.schema], encoding="utf-8")
        saved = _saved()
        path = str(_written(_people(), self.edit, self.suffix))
        arguments = {
            "fit": ["fit", path, *_BASE],
            "predict": ["predict", saved, path, *_BASE[:2]],
            "score": ["score", saved, path, *_BASE[:2]],
            "report": ["report", path if len(self.options) % 2 else saved],
            "schema": ["schema", path, "--outcomes", "income", "--public", "age"],
        }
        argv = [*arguments.get(self.command, [self.command]), *self.options]
        yield f"skfdp {self.command}", lambda: run_command(argv)


def run_command(argv):
    """Run a command; RefusedError is its status 2, FailedError any other but 0."""
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            status = main(argv)
    except SystemExit as leaving:
        status = leaving.code
    text = err.getvalue()
    print(text)  # looked through for data by who called
    if status == 2:
        told = [line for line in text.splitlines() if line.startswith("skfdp: error:")]
        raise RefusedError(told[-1] if told else "no word")
    if status not in (0, None):
        raise FailedError(f"status {status}: {text}")
    return 0


@st.composite
def command_calls(draw):
    """Draw a command line."""
    edit = "as it is"
    if draw(st.integers(0, 2)) == 0:
        edit = draw(st.sampled_from([*BYTES, "folder", "no file"]))
    options = []
    for name in draw(
        st.lists(st.sampled_from(list(OPTIONS)), max_size=1 + (edit == "as it is"))
    ):
        options += [name, draw(st.sampled_from(OPTIONS[name]))]
    return CommandCall(
        command=draw(st.sampled_from(_COMMANDS)),
        edit=edit,
        suffix=draw(st.sampled_from((*(".csv",) * 9, ".parquet", ".gz", ""))),
        options=tuple(options),
        schema=draw(st.integers(0, len(_SCHEMAS) - 1)),
    )
