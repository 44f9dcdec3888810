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
    """Return stays in a hospital, as plot_hospital.py of the gallery makes them."""
    rng = np.random.default_rng(seed)
    age, crp = rng.integers(18, 100, N), rng.gamma(1.2, 40, N).round(1)
    ward = rng.choice(["Chirurgie", "Innere", "Kardiologie", "Überwachung"], N)
    day = np.datetime64("2023-01-01") + rng.integers(0, 1094, N)
    age[:2], day[:2] = [18, 99], ["2023-01-01", "2025-12-30"]
    risk = ((age - 55) / 25) ** 2 - 2.5 + 1.2 * np.minimum(crp / 60, 2)
    risk += (ward == "Überwachung") + 0.6 * np.cos(day.astype(int) / 58)
    again = np.where(rng.random(N) < 1 / (1 + np.exp(-risk)), "ja", "nein")
    found = pd.DataFrame({"Fallnummer": np.arange(N), "Alter": age})
    found["Größe (cm)"] = rng.normal(170, 10, N).round(1)
    found = found.assign(
        Station=ward, Aufnahme=day, **{"CRP (mg/l)": crp}, Rückkehr=again
    )
    found["Raucher"] = rng.choice(["ja", "nein", "k. A."], N, p=[0.2, 0.6, 0.2])
    found.loc[rng.random(N) < 0.1, "CRP (mg/l)"] = None
    found.loc[rng.random(N) < 0.02, "Größe (cm)"] = 1.7  # metres, by mistake
    return found


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
