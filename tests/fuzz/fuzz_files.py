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
from fuzz_values import domains
from hypothesis import strategies as st

import skfdp
from skfdp import PrivacyLedger
from skfdp.cli import main
from skfdp.inspection import LedgerDisplay

_COUNT = itertools.count()
#: What may happen to the bytes of a file.
BYTES = {
    "as it is": lambda data: data,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "middle byte": lambda data: bytes(
        byte ^ 16 * (place == len(data) // 2) for place, byte in enumerate(data)
    ),
    "utf-16": lambda data: data.decode("latin1").encode("utf-16"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "NUL": lambda data: data[:20] + b"\x00" + data[20:],
    "deep": lambda data: b"[" * 100_000,
    "text": lambda data: b"s3cr3t-1\n" * 5,
    "first line": lambda data: data.partition(b"\n")[0] + b"\n",
    "first line twice": lambda data: data.partition(b"\n")[0] + b"\n" + data,
    "semicolons": lambda data: data.replace(b",", b";"),
    "open quote": lambda data: data.replace(b",", b',"', 9),
    "one more field": lambda data: data.replace(b"\n", b",1\n", 4),
    "long field": lambda data: data + b"s3cr3t" * 50_000 + b"\n",
    "one name twice": lambda data: data.replace(b"town", b"age"),
    "gzip": gzip.compress,
}
_EDITS = (*BYTES, "folder", "no file")
#: What takes the place of values of JSON and of SQLite, and statements of SQLite.
_CHANGES = domains(
    r"""
    json: null | true | -1 | 0 | 1 | 2.5 | 1e308 | 1e999 | -1e999 | NaN | 1e-320 |
        123456789012345678901234567890 | "x" | "" | "inf" | "é" | "\ud800" | "1" | [] |
        {} | [[]] | {"a": 1} | [null] | ["x", "x"]
    cells: NULL | -1 | 1e999 | 'x' | '' | X'00ff' | '{{}}' | '[]' | 9e18
    sqlite: UPDATE {table} SET {column} = {value} |
        UPDATE {table} SET {column} = {value} WHERE rowid = 1 | DELETE FROM {table} |
        DELETE FROM {table} WHERE rowid = 1 | DROP TABLE {table} |
        ALTER TABLE {table} RENAME TO renamed |
        ALTER TABLE {table} ADD COLUMN more TEXT | PRAGMA user_version = {value} |
        PRAGMA application_id = 7
    """
)


class RefusedError(ValueError):
    """A refusal of the command line."""


class FailedError(Exception):
    """A failure of the command line that is no refusal."""


def _new(suffix):
    return Path(f"file{next(_COUNT)}{suffix}")


@functools.cache
def _report_text():
    X = np.random.default_rng(0).random((60, 3))
    model = skfdp.FeatureDPLogisticRegression(
        bounds=(0, 1),
        max_iter=2,
        public_features=[0],
        ledger="reported.sqlite",
        names=["a", "b", "c"],
        target_name="y",
    )
    return model.fit(X, np.arange(60) % 2).privacy_.to_json()


@functools.cache
def _ledger_file():
    path = Path("base.sqlite")
    ledger = PrivacyLedger(path, epsilon=9.0, delta=1e-5)
    plan = skfdp.calibrate(0.5, 1e-5, n_steps=5)
    for start in (0, 50):
        part = ledger.part(rows=range(start, start + 60))
        part.charge([plan.event], label="fit", plan=plan)
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
    holder = functools.reduce(lambda part, key: part[key], path[:-1], values)
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
        named = "SELECT name FROM sqlite_master WHERE type = ?"
        for (name,) in connection.execute(named, ("trigger",)).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        cells = [
            (table, row[1])
            for (table,) in connection.execute(named, ("table",)).fetchall()
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
    statement: str = ""

    def calls(self):
        yield from READERS[self.subject](self)

    def file(self, text):
        """Return a file of the text, edited as JSON or as bytes."""
        if self.edit == "json":
            edited = _edited_json(text, self.place, self.value)
            return _written(edited.encode("utf-8", "surrogatepass"), "as it is", "")
        return _written(text.encode(), self.edit, ".json")


def _reports(call):
    path, ledger = call.file(_report_text()), PrivacyLedger(_ledger_file())
    yield "read_report", lambda: skfdp.read_report(path).statement()
    yield "check_report", lambda: ledger.check_report(skfdp.read_report(path))


def _ledger_texts(call):
    path = call.file(PrivacyLedger(_ledger_file()).to_json())
    text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
    yield "from_json", lambda: PrivacyLedger.from_json(text).spent()
    yield "from_json to a file", lambda: PrivacyLedger.from_json(text, _new(".sqlite"))


def _ledger_files(call):
    if call.edit == "sqlite":
        path = _edited_sqlite(call.place, call.statement, call.value)
    else:
        path = _written(_ledger_file().read_bytes(), call.edit, ".sqlite")
    yield "open", lambda: PrivacyLedger(path).spent(1e-5)
    yield "entries", lambda: PrivacyLedger(path).entries
    yield "repr", lambda: repr(PrivacyLedger(path))
    yield "report", lambda: skfdp.report(PrivacyLedger(path), delta=1e-5).statement()
    yield "display", lambda: LedgerDisplay.from_ledger(path, delta=1e-5)
    event = skfdp.calibrate(0.1, 1e-5, n_steps=1).event
    yield "charge", lambda: PrivacyLedger(path).charge([event])


READERS = {
    "report files": _reports,
    "ledger texts": _ledger_texts,
    "ledger files": _ledger_files,
}


@st.composite
def file_calls(draw, subject):
    """Draw a file and what is wrong with it."""
    if draw(st.integers(0, 4)) == 0:
        return FileCall(subject, draw(st.sampled_from(_EDITS)))
    place = draw(st.integers(0, 400))
    if subject == "ledger files":
        statement = draw(st.sampled_from(_CHANGES["sqlite"]))
        value = draw(st.sampled_from(_CHANGES["cells"]))
        return FileCall(subject, "sqlite", place, value, statement)
    values = ("", *_CHANGES["json"], f'"{"a" * 400}"')
    return FileCall(subject, "json", place, draw(st.sampled_from(values)))


# -- the command line ------------------------------------------------------------------
_BASE = (
    *("--target", "income", "--classes", "high,low", "--no-evaluate", "--drop", "town"),
    *("--bounds", "hours=0:1", "--categories", "sector=a,b", "--public", "age"),
)
#: Options of a fit: drawn ones come after those of the base, and replace them. Each may
#: be empty, too.
OPTIONS = domains(
    r"""
    --target: income | nobody | hours | town
    --classes: high,low | a | " | high,low,low | 1,2 | ,
    --target-bounds: 0:1 | 1:0 | x | 0:inf | : | nan:1
    --public: age | all | a* | nobody | income | hours
    --drop: town | nobody | income | age town hours sector | *
    --bounds: hours=0:1 | hours=1:0 | hours | =0:1 | hours=x:y | hours=0:inf |
        nobody=0:1 | sector=0:1 | hours=2020-01-01:2021-01-01 | hours=0:1:2
    --categories: sector=a,b | sector= | sector | nobody=a | sector=a,a | hours=a,b |
        sector="
    --task: classification | regression | x
    --epsilon: 1 | 0 | -1 | nan | inf | 1e400 | x | 1e-9
    --delta: 1e-5 | 0 | 1 | 2 | nan | x
    --relation: replace_one | replace_special | add_or_remove_one | x
    --n-records: 60 | 0 | -1 | x | 1000000000000000000000000
    --ledger: cli.sqlite | no/folder/l.sqlite | .
    --ceiling: 1 | 0 | nan | x
    --seed: 0 | -1 | x | 99999999999999999999999
    --test-size: 0.25 | 0 | 1 | 0.999 | nan | x
    --repeats: 1 | 0 | -1 | x
    --report: cli.json | no/folder/r.json | .
    --model: cli.joblib | cli.skops | cli.pkl | no/folder/m.skops | .
    --plot: cli.png | cli.x | no/folder/p.png
    --sep: ; | , | tab | ab | \
    --decimal: , | . | ab
    --encoding: latin1 | utf-16 | nobody
    --schema: schema.toml | nobody.toml | . | broken.toml
    --nobody: 1
    """
)
OPTIONS |= dict.fromkeys(("--evaluate", "--public-target", "--debug"), ())
_SCHEMAS = (
    *("", "[", "target = 1", "epsilon = 'x'\n", "columns = 3\n", "nobody = 1\n"),
    "target = 'income'\nclasses = ['high', 'low']\n",
    "[columns]\nhours = {bounds = [0, 1]}\n",
    "[columns.hours]\nbounds = [1, 0]\n[columns.sector]\ncategories = ['a']\n",
    *("interactions = [['age', 'hours']]\n", "interactions = 'age'\n"),
)
_COMMANDS = (*("fit",) * 4, "predict", "score", "report", "schema", "x", "")


def _people():
    rng = np.random.default_rng(0)
    lines = ["age,town,hours,sector,income"]
    for i in range(60):
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
    schema: str

    def calls(self):
        Path("broken.toml").write_text("[", encoding="utf-8")
        Path("schema.toml").write_text(self.schema, encoding="utf-8")
        saved = _saved()
        path = str(_written(_people(), self.edit, self.suffix))
        arguments = {
            "fit": ["fit", path, *_BASE],
            "predict": ["predict", saved, path],
            "score": ["score", saved, path],
            "report": ["report", path if len(self.options) % 2 else saved],
            "schema": ["schema", path, "--target", "income", "--public", "age"],
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
        edit = draw(st.sampled_from(_EDITS))
    names = st.lists(st.sampled_from(list(OPTIONS)), max_size=1 + (edit == "as it is"))
    options = []
    for name in draw(names):
        options += [name, draw(st.sampled_from((*OPTIONS[name], "")))]
    return CommandCall(
        command=draw(st.sampled_from(_COMMANDS)),
        edit=edit,
        suffix=draw(st.sampled_from((*(".csv",) * 9, ".parquet", ".gz", ""))),
        options=tuple(options),
        schema=draw(st.sampled_from(_SCHEMAS)),
    )
