"""The three commands of the guide, on a table of the form that it shows."""

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skfdp

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "command_line.rst"
N = 2400
PRIVATE = ("Größe (cm)", "CRP (mg/l)", "Raucher")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not PAGE.is_file(), reason="the docs are not beside the tests"),
]


def stays(seed):
    """Return stays in a hospital, with the columns of the page."""
    rng = np.random.default_rng(seed)
    age, day = rng.integers(18, 100, N), rng.integers(0, 1094, N)
    age[:2], day[:2] = [18, 99], [0, 1094]
    crp = np.where(rng.random(N) < 0.1, np.nan, rng.gamma(1.2, 40, N).round(1))
    found = {
        "Fallnummer": np.arange(N),
        "Alter": age,
        "Größe (cm)": rng.normal(170, 10, N).round(1),
        "Station": rng.choice(["Chirurgie", "Innere", "Kardiologie", "Überwachung"], N),
        "Aufnahme": np.datetime64("2023-01-01") + day,
        "CRP (mg/l)": crp,
        "Rückkehr": np.where(rng.random(N) < age / 100, "ja", "nein"),
        "Raucher": rng.choice(["ja", "nein", "k. A."], N),
    }
    return pd.DataFrame(found)


def blocks(kind):
    """Return the blocks of the section "From a table to a model"."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("\nFrom a table to a model\n")[1].split("\n\nSmall tables")[0]
    found = re.findall(rf"{kind}\n\n((?:    .*\n|\n)+)", section + "\n")
    return [re.sub("^    ", "", block, flags=re.M) for block in found]


def commands():
    words = [shlex.split(block.replace("\\\n", " ")) for block in blocks("::")]
    found = [command[1:] for command in words if command[0] == "skfdp"]
    assert [command[0] for command in found] == ["schema", "fit", "predict"]
    return found


def test_three_commands_lead_from_a_table_to_predictions(tmp_path, command):
    form = {"sep": ";", "decimal": ","}
    stays(0).to_csv("stays.csv", index=False, **form)
    stays(1).drop(columns="Rückkehr").to_csv("new.csv", index=False, **form)
    schema, fit, predict = commands()
    status, _, err = command(*schema)
    assert status == 0
    path = tmp_path / "stays.toml"
    # The page shows the draft with what was empty filled in, and nothing else changed.
    (shown,) = blocks("toml")
    draft, filled = tomllib.loads(path.read_text("utf-8")), tomllib.loads(shown)
    columns = draft.pop("fields"), filled.pop("fields")
    assert draft | {"decimalChar": ","} == filled and list(columns[0]) == list(
        columns[1]
    )
    changed = {name for name in columns[0] if columns[0][name] != columns[1][name]}
    assert changed == {"Rückkehr", *PRIVATE}
    path.write_text(shown, encoding="utf-8")
    status, out, err = command(*fit, "--repeats", "1")
    assert (status, err) == (0, "")
    assert f"Private: {', '.join(PRIVATE)}, Rückkehr." in out
    assert "epsilon 2 at delta 1e-06" in " ".join(out.split())
    assert skfdp.privacy.read_report("stays.json").private_features == PRIVATE
    assert command(*predict)[0] == 0
    found = pd.read_csv("predicted.csv", **form)
    assert list(found) == ["Fallnummer", "prediction", "p(ja)", "p(nein)"]
    assert list(found["Fallnummer"]) == list(stays(1)["Fallnummer"])
    risk = stays(1)["Rückkehr"] == "ja"
    assert found["p(ja)"][risk].mean() > found["p(ja)"][~risk].mean() + 0.02
