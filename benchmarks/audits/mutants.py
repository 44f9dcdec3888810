"""A seeded sample of mutants of the privacy code, each against the tests of its line.

A mutant is a copy of the package with one small change: a number, an operator, a
comparison, a condition. A test that passes with the change did not need the old code.
cosmic-ray (``pip install cosmic-ray pytest-cov``) makes the changes; this script draws
them, finds the tests that reach the changed line, and keeps its state in a folder, so
that a run can stop and go on.

    python benchmarks/audits/mutants.py cover  --folder F        # once, half an hour
    python benchmarks/audits/mutants.py draw   --folder F --n 400 --seed 1
    python benchmarks/audits/mutants.py run    --folder F --minutes 150
    python benchmarks/audits/mutants.py report --folder F --output mutants.txt

Tests run with `-x`: those of the folder named after the changed one first, then by
duration, up to `SECONDS` of them. A line that runs at the import alone gets all tests
of its module. Annotations are not evaluated, so their mutants are not drawn.

The report adds a reason to each survivor, from `mutants_explained.json`: the test that
has killed it since, or why it is harmless.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PARTS = "privacy", "queries", "mechanisms"
#: Measured seconds of tests for a mutant, and the limit of a run.
SECONDS, TIMEOUT = 30.0, 200.0
REASONS = ROOT / "benchmarks" / "audits" / "mutants_explained.json"


def environment(folder: Path) -> dict:
    """Return the environment in which the copy is the package."""
    single = dict(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", CI="true")
    return {**os.environ, **single, "PYTHONPATH": str(folder / "copy")}


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]


def cover(folder: Path, workers: int) -> None:
    """Copy the last commit, and record the tests and their lines and durations."""
    copy = folder / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    copy.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", ROOT, "archive", "HEAD"], capture_output=True, check=True
    )
    subprocess.run(["tar", "-xC", copy], input=archive.stdout, check=True)
    commit = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
        capture_output=True,
        check=True,
        text=True,
    )
    (folder / "commit").write_text(commit.stdout.strip())
    shutil.copytree(copy / "skfdp", folder / "original")
    settings = "[run]\nsource_pkgs =\n" + "".join(f"    skfdp.{p}\n" for p in PARTS)
    (folder / "coverage.ini").write_text(settings)
    done = subprocess.run(
        pytest(
            *("-n", str(workers), "--dist", "worksteal"),
            *("-m", "not slow and not nightly"),
            *("--cov", f"--cov-config={folder / 'coverage.ini'}"),
            *("--cov-context=test", "--cov-report=json", "--durations=0", "-vv"),
            str(copy / "tests"),
        ),
        cwd=folder,
        env=environment(folder),
        stdout=(folder / "cover.log").open("w"),
    )
    if done.returncode:
        print("Some tests fail without any change: see cover.log; they are left out.")
    log = (folder / "cover.log").read_text()
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+::[^\n]*?)(?: - |$)", log, re.M))
    seconds = Counter()
    for time, name in re.findall(r"^([\d.]+)s \w+ +(\S+::.*)$", log, re.M):
        seconds[name.strip()] += float(time)
    lines = contexts(folder)
    for tests in lines.values():
        for place, names in tests.items():
            tests[place] = sorted(set(names) - failed)
    for name, tests in lines.items():
        known = sorted({test for names in tests.values() for test in names})
        number = {test: i for i, test in enumerate(known)}
        places = {line: [number[t] for t in names] for line, names in tests.items()}
        path = folder / "lines" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([known, places]))
    (folder / "seconds.json").write_text(json.dumps(seconds))


def contexts(folder: Path) -> dict[str, dict[int, list[str]]]:
    """Return the tests of each line of each file, from the recorded coverage."""
    from coverage import CoverageData

    data = CoverageData(str(folder / ".coverage"))
    data.read()
    found = {}
    for path in data.measured_files():
        name = str(Path(path).relative_to(folder / "copy"))
        own = data.contexts_by_lineno(path)
        found[name] = {
            line: [test.rpartition("|")[0] for test in tests if "|" in test]
            for line, tests in own.items()
        }
    return found


def in_annotations(source: str) -> list[tuple]:
    """Return the positions of annotations, as (start, end) of (line, column)."""
    places = []
    for node in ast.walk(ast.parse(source)):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if found is not None:
                start = found.lineno, found.col_offset
                places.append((start, (found.end_lineno, found.end_col_offset)))
    return places


def draw(folder: Path, n: int, seed: int) -> None:
    """Draw mutants; the session of cosmic-ray holds them and their results."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import WorkerOutcome, WorkResult

    modules = ", ".join(f'"skfdp/{part}"' for part in PARTS)
    test = f"{sys.executable} {__file__} test --folder {folder}"
    (folder / "settings.toml").write_text(
        f"[cosmic-ray]\nmodule-path = [{modules}]\ntimeout = {TIMEOUT}\n"
        f"excluded-modules = []\ntest-command = '{test}'\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    session = folder / "session.sqlite"
    session.unlink(missing_ok=True)
    ray = str(Path(sys.executable).with_name("cosmic-ray"))
    given = [ray, "init", str(folder / "settings.toml"), str(session)]
    subprocess.run(given, cwd=folder / "copy", check=True, env=environment(folder))
    annotations = {}
    with use_db(session, WorkDB.Mode.open) as db:
        items = []
        for item in db.work_items:
            (change,) = item.mutations
            path = folder / "copy" / change.module_path
            if path not in annotations:
                annotations[path] = in_annotations(path.read_text())
            place = change.start_pos
            if not any(a <= place < b for a, b in annotations[path]):
                items.append((str(change.module_path), place, item.job_id))
        items.sort(key=lambda item: (*item[:2], item[2]))
        # Job numbers are random: mutants at one position are interchangeable.
        chosen = np.random.default_rng(seed).choice(len(items), n, replace=False)
        kept = {items[i][2] for i in chosen}
        for item in list(db.work_items):
            if item.job_id not in kept:
                skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
                db.set_result(item.job_id, skipped)
    (folder / "drawn.json").write_text(json.dumps([n, seed, len(items)]))


def restore(folder: Path) -> None:
    """Undo a change that an interrupted run left behind."""
    for path in (folder / "original").rglob("*.py"):
        copy = folder / "copy" / "skfdp" / path.relative_to(folder / "original")
        if copy.read_bytes() != path.read_bytes():
            shutil.copyfile(path, copy)


def run(folder: Path, minutes: float) -> None:
    """Test the mutants that have no result yet."""
    restore(folder)
    ray = str(Path(sys.executable).with_name("cosmic-ray"))
    given = [ray, "exec", str(folder / "settings.toml"), str(folder / "session.sqlite")]
    try:
        subprocess.run(
            given, cwd=folder / "copy", env=environment(folder), timeout=60 * minutes
        )
    except subprocess.TimeoutExpired:
        restore(folder)


def changed(folder: Path) -> tuple[str, set[int]]:
    """Return the file that differs from the original, and its lines there."""
    for path in sorted((folder / "original").rglob("*.py")):
        name = path.relative_to(folder / "original")
        copy = folder / "copy" / "skfdp" / name
        old, new = path.read_text().splitlines(), copy.read_text().splitlines()
        if old != new:
            codes = difflib.SequenceMatcher(None, old, new, False).get_opcodes()
            spans = [(i, max(j, i + 1)) for tag, i, j, *_ in codes if tag != "equal"]
            return f"skfdp/{name}", {at + 1 for i, j in spans for at in range(i, j)}
    return "", set()


def statements(source: str, lines: set[int]) -> set[int]:
    """Return all lines of the innermost statements that hold some lines.

    Coverage names the first line of an expression that spans several.
    """
    found = set(lines)
    for line in lines:
        spans = [
            range(node.lineno, (node.end_lineno or node.lineno) + 1)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.stmt)
            and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        if spans:
            smallest = min(spans, key=len)
            # A compound statement ends at its header: its body is other lines.
            found.update(smallest if len(smallest) < 12 else [smallest[0]])
    return found


def test(folder: Path) -> int:
    """Run the tests of the changed line; return 0 if all pass."""
    name, lines = changed(folder)
    original = folder / "original" / Path(name).relative_to("skfdp")
    path = folder / "lines" / f"{name}.json"
    known, recorded = json.loads(path.read_text()) if path.exists() else ([], {})
    reached = statements(original.read_text(), lines)
    tests = {known[t] for line in reached for t in recorded.get(str(line), ())}
    tests = tests or set(known)  # the line runs when the module is imported
    seconds = json.loads((folder / "seconds.json").read_text())
    part = f"tests/{Path(name).parts[1]}/"

    def order(test: str) -> tuple:
        return part not in test, seconds.get(test, 0.0), test

    chosen, total = [], 0.0
    for one in sorted(tests, key=order):
        total += seconds.get(one, 0.0) + 0.005
        if total > SECONDS and chosen:
            break
        chosen.append(one)
    if not chosen:
        print("no test reaches this line")
        return 0
    listed = folder / "chosen.txt"
    listed.write_text("\n".join(chosen))
    done = subprocess.run(
        pytest("-x", "--tb=line", "-n", "0", "-m", "", f"@{listed}"),
        cwd=folder / "copy",
        env=environment(folder),
    )
    print(f"{len(chosen)} of {len(tests)} tests")
    return done.returncode


def first_line(diff: str, sign: str) -> str:
    """Return the first line that a mutant removes ("-") or adds ("+")."""
    for line in diff.splitlines():
        if line[:1] == sign and line[:3] != 3 * sign and line[1:].strip():
            return line[1:].strip()
    return "(nothing)"


def kind_of(reason: str) -> str:
    """Return how a survivor is settled, for the head of the report."""
    if reason == "NOT EXPLAINED":
        return "not explained"
    if reason.startswith("Killed since"):
        return "killed since"
    return "killed by other tests" if reason.startswith("Killed by") else "harmless"


def report(folder: Path, output: Path | None) -> None:
    """Print killed and surviving mutants, with the reason for each survivor."""
    from cosmic_ray.work_db import WorkDB, use_db

    n, seed, total = json.loads((folder / "drawn.json").read_text())
    reasons = json.loads(REASONS.read_text()) if REASONS.exists() else {}
    outcomes, survivors, operators = Counter(), [], {}
    with use_db(folder / "session.sqlite", WorkDB.Mode.open) as db:
        for item in db.work_items:
            operators[item.job_id] = item.mutations[0]
        for job, result in db.results:
            if result.worker_outcome == "skipped":
                continue
            late = "timeout" in (result.output or "").lower()[:40]
            outcome = "ran too long" if late else str(result.test_outcome.value)
            part = operators[job].module_path.parts[1]
            outcomes[part, outcome] += 1
            if outcome == "survived":
                survivors.append((operators[job], result))
    done = sum(outcomes.values())
    lines = [
        f"{n} of {total} mutants of {', '.join(PARTS)}, seed {seed}; {done} tested. "
        f"Commit {(folder / 'commit').read_text()}, cosmic-ray "
        f"{version('cosmic-ray')}, Python {sys.version.split()[0]}.",
        "",
    ]
    kinds = sorted({kind for _, kind in outcomes})
    lines.append(f"{'':12}" + "".join(f"{kind:>14}" for kind in kinds))
    for part in PARTS:
        lines.append(f"{part:12}" + "".join(f"{outcomes[part, k]:14}" for k in kinds))
    reported = len(lines)
    kinds_of_reasons: Counter[str] = Counter()
    survivors.sort(key=lambda one: (str(one[0].module_path), one[0].start_pos))
    for change, result in survivors:
        removed, added = (first_line(result.diff, sign) for sign in "-+")
        lines += [f"{change.module_path}:{change.start_pos[0]}"]
        lines += [f"  - {removed}", f"  + {added}"]
        tested = re.findall(r"(\d+ of \d+ tests|no test reaches)", result.output or "")
        lines.append(f"  {tested[-1] if tested else ''}")
        reason = reasons.get(f"{removed} -> {added}", "NOT EXPLAINED")
        kinds_of_reasons[kind_of(reason)] += 1
        lines.append(f"  {reason}")
    counts = ", ".join(f"{n} {kind}" for kind, n in kinds_of_reasons.most_common())
    lines[reported:reported] = ["", f"Survivors: {len(survivors)} ({counts})", ""]
    text = "\n".join(lines) + "\n"
    print(text)
    if output is not None:
        output.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["cover", "draw", "run", "test", "report"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=150.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    folder = given.folder.resolve()
    if given.step == "cover":
        cover(folder, given.workers)
    elif given.step == "draw":
        draw(folder, given.n, given.seed)
    elif given.step == "run":
        run(folder, given.minutes)
    elif given.step == "test":
        return test(folder)
    else:
        report(folder, given.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
