"""The three commands of the guide, on a table as it describes it."""

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "command_line.rst"
N = 2400

pytestmark = pytest.mark.skipif(
    not PAGE.is_file(), reason="the docs are not beside the tests"
)


def stays(seed):
    """Return stays in a hospital: gaps, dates, texts, names that are not ASCII."""
    rng = np.random.default_rng(seed)
    age, bmi = rng.integers(18, 96, N), rng.normal(27, 5, N)
    age[:2] = 18, 95
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 731, N), "D")
    risk = 0.1 * (age - 60) + 0.02 * (bmi - 26) ** 2 - 2
    frame = pd.DataFrame(
        {
            "Patienten-ID": [f"P{1000 + i // 2}" for i in range(N)],
            "Alter": age,
            "Aufnahme am": days.strftime("%Y-%m-%d"),
            "Station": rng.choice(["Innere", "Chirurgie", "Gynäkologie"], N),
            "BMI": bmi.round(1),
            "Größe": rng.normal(172, 9, N).round(1),
            "Komplikation": np.where(rng.random(N) < 1 / (1 + np.exp(-risk)), "ja", ""),
        }
    )
    frame.loc[:1, "Aufnahme am"] = ["2024-01-01", "2025-12-31"]
    frame["Komplikation"] = frame["Komplikation"].replace("", "nein")
    frame.loc[rng.random(N) < 0.1, "BMI"] = None
    return frame


def blocks(kind):
    """Return the blocks of the section "From a table to a model"."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("\nFrom a table to a model\n")[1].split("\n\nSmall tables")[0]
    found = re.findall(rf"{kind}\n\n((?:    .*\n|\n)+)", section + "\n")
    return [re.sub("^    ", "", block, flags=re.M) for block in found]


def commands():
    found = [shlex.split(block.replace("\\\n", " ")) for block in blocks("::")]
    assert [command[:2] for command in found if command[0] == "skfdp"] == [
        ["skfdp", "schema"],
        ["skfdp", "fit"],
        ["skfdp", "predict"],
    ]
    return [command[1:] for command in found if command[0] == "skfdp"]


def test_three_commands_lead_from_a_table_to_predictions(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    form = {"index": False, "sep": ";", "decimal": ",", "encoding": "latin1"}
    stays(0).to_csv("stays.csv", **form)
    stays(1).drop(columns="Komplikation").to_csv("new.csv", **form)
    schema, fit, predict = commands()
    assert main(schema) == 0, capsys.readouterr().err
    path = tmp_path / "stays.toml"
    # The page shows the draft with what was empty filled in, and nothing else changed.
    (shown,) = blocks("toml")
    draft, filled = tomllib.loads(path.read_text("utf-8")), tomllib.loads(shown)
    columns = draft.pop("columns"), filled.pop("columns")
    for empty, full in ((draft, filled), columns):
        assert list(empty) == list(full)
        changed = {name for name in empty if empty[name] != full[name]}
        assert changed <= {"classes", "epsilon", "Station", "BMI", "Größe"}
    path.write_text(shown, encoding="utf-8")
    capsys.readouterr()
    assert main([*fit, "--repeats", "1"]) == 0
    out, err = capsys.readouterr()
    assert err == "" or err.startswith("skfdp: training")
    assert "Private: Station, BMI, Größe, Komplikation." in out
    assert "epsilon = 2 at delta = 1e-05" in out
    report = skfdp.read_report("stays.json")
    assert report.private_features == ("Station", "BMI", "Größe")
    assert main(predict) == 0
    del form["index"]
    found = pd.read_csv("predicted.csv", **form)
    assert list(found) == ["Patienten-ID", "prediction", "p(ja)", "p(nein)"]
    assert list(found["Patienten-ID"]) == list(stays(1)["Patienten-ID"])
    risk = stays(1)["Komplikation"] == "ja"
    assert found["p(ja)"][risk].mean() > found["p(ja)"][~risk].mean() + 0.02
