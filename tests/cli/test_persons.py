"""The command line where a column tells whose rows are whose."""

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp.cli import fit as job
from skfdp.cli import main
from skfdp.cli import output as progress

N = 300


@pytest.fixture
def visits(tmp_path):
    rng = np.random.default_rng(0)
    patient = rng.integers(0, 60, N)
    hours = rng.integers(10, 70, N)
    frame = pd.DataFrame(
        {
            "patient": [f"canary{number}" for number in patient],
            "age": rng.integers(18, 80, N),
            "hours": hours,
            "stay": np.where(hours + rng.integers(0, 20, N) > 45, "long", "short"),
        }
    )
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


@pytest.fixture
def run(visits, capsys, monkeypatch):
    """Run the job on the file; return status, stdout and stderr."""
    monkeypatch.setattr(progress, "_PATIENCE", 600.0)

    def call(*options):
        given = ["--target", "stay", "--classes", "long,short", "--bounds"]
        given += ["age=0:100", "hours=0:80"]
        try:
            status = main(["fit", str(visits), *given, *map(str, options)])
        except SystemExit as leaving:
            status = leaving.code
        out, err = capsys.readouterr()
        assert "canary" not in out + err
        return status, out, err

    return call


def test_all_rows_of_a_person_are_protected(run, tmp_path):
    report, model = tmp_path / "report.json", tmp_path / "model.skops"
    options = ["--no-evaluate", "--report", report, "--model", model]
    status, out, err = run("--groups", "patient", *options)
    assert status == 0, err
    found = skfdp.read_report(report)
    n_persons = pd.read_csv(tmp_path / "visits.csv")["patient"].nunique()
    assert (found.unit, found.n_records) == ("person", n_persons)
    assert found.private_features == ("age", "hours")
    assert f"Protected: all rows of each of {n_persons} persons together." in out
    assert "Private: age, hours, stay." in out
    assert main(["predict", str(model), str(tmp_path / "visits.csv")]) == 0


def test_without_it_the_column_is_a_feature(run):
    status, _, err = run("--no-evaluate")
    assert status == 2
    assert "patient" in err  # a private column of text needs its categories


def test_held_out_rows_are_of_other_persons(visits):
    frame = pd.read_csv(visits)

    class Asked:
        evaluate, test_size, seed = True, 0.25, None

    train, test = job._split(Asked, N, frame["patient"])
    assert len(train) + len(test) == N
    own, others = (set(frame["patient"].iloc[rows]) for rows in (train, test))
    assert not own & others
    assert len(others) == round(0.25 * (len(own) + len(others)))


def test_the_comparison_protects_persons_too(run):
    status, out, err = run("--groups", "patient", "--seed", 0, "--repeats", 1)
    assert status == 0, err
    assert "no privacy (scikit-learn)" in out
    assert "all rows of each person together" in " ".join(out.split())


def test_a_drafted_schema_keeps_the_column(run, visits, tmp_path):
    path = tmp_path / "drafted.toml"
    given = ["--target", "stay", "--groups", "patient", "-o", str(path)]
    assert main(["schema", str(visits), *given]) == 0
    text = path.read_text()
    assert 'groups = "patient"' in text
    assert "canary" not in text and text.count("patient") == 1


def test_a_schema_names_the_column(run, tmp_path):
    path = tmp_path / "visits.toml"
    path.write_text('groups = "patient"\n')
    status, out, err = run("--no-evaluate", "--schema", path)
    assert status == 0, err
    assert "persons together." in out


@pytest.mark.parametrize("name", ["nobody", "stay"])
def test_other_columns_are_refused(run, name):
    status, _, err = run("--groups", name)
    assert status == 2
    assert f"--groups names {name!r}, which is not in the first line of" in err


def test_rows_of_nobody_are_refused(run, visits):
    frame = pd.read_csv(visits)
    frame.loc[3, "patient"] = None
    frame.to_csv(visits, index=False)
    status, _, err = run("--groups", "patient", "--no-evaluate")
    assert status == 2
    assert "groups has missing entries" in err
