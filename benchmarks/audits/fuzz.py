"""Fuzz the public API: every call works, or is refused in a sentence without a datum.

Usage::

    python benchmarks/audits/fuzz.py --calls 5000 --seed 0 --output fuzz.txt

Calls are drawn by hypothesis: estimators with parameters, tables and targets by
``skfdp.audit.strategies``; functions and classes from templates; and files, among them
tables of the command line, after an edit. `skfdp.audit.fuzz.rule.check_call` is the
rule; besides, what reads files may raise the OSError of the operating system.

Every subject has a process of its own, in a temporary folder, so that a crash, or a
call that no signal stops, is counted and ends nothing else. A find is printed with the
smallest call that still shows it. ``--only`` names subjects.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import importlib.metadata
import inspect
import json
import os
import platform
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import Template

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase

import skfdp
from skfdp import audit, datasets, inspection, privacy

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent))
from _fuzz_files import command_calls, file_calls  # noqa: E402
from _fuzz_texts import DOMAINS as SLOTS  # noqa: E402
from _fuzz_texts import TEMPLATES, names_of, text_calls  # noqa: E402

from skfdp.audit.fuzz.expressions import value_of  # noqa: E402
from skfdp.audit.fuzz.parameters import SENSIBLE  # noqa: E402
from skfdp.audit.fuzz.rule import REFUSALS, Outcome, check_call  # noqa: E402
from skfdp.audit.strategies import estimator_calls  # noqa: E402

#: Seconds for one call, and for a worker to say anything at all.
LIMIT, SILENCE = 60.0, 240.0
#: Memory of a worker, in bytes.
MEMORY = 8 * 2**30
#: Public names that nobody calls.
NOT_CALLED = ("__version__", "datasets", "RELATIONS", "Difference", "Moved")
#: Those of results, which are called by `AuditResult`.
NOT_CALLED += ("MechanismResult", "OneRunResult", "ReleaseAudit", "ReplayResult")
NOT_CALLED += ("PrivateBounds",)
_SEARCHED = "DPSGDFClassifier(bounds=(0, 1), max_iter=2, delta=1e-3)"
#: Parameters without defaults, and others that make more calls work.
BASES = {
    "PrivateCompletionClassifier": {
        "estimator": "GaussianNB()",
        "public_features": "[0]",
    },
    "PrivateSearchCV": {
        "estimator": _SEARCHED,
        "param_distributions": "{'clip_norm': [0.1, 1.0]}",
        "mean_runs": "1.5",
    },
}
DOMAINS = {
    "PrivateCompletionClassifier": {
        "estimator": ("GaussianNB()", "LogisticRegression()", "Ridge()", "GaussianNB"),
    },
    "PrivateSearchCV": {
        "estimator": (
            _SEARCHED,
            "FeatureDPLogisticRegression(bounds=(0, 1), max_iter=2)",
            "FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1])",
            "make_pipeline(StandardScaler(), DPSGDFClassifier(bounds=False))",
            "DPSGDFClassifier(ledger=PrivacyLedger())",
            "DPSGDFRegressor(target_bounds=(0, 1))",
            "GaussianNB()",
            "DPSGDFClassifier",
        ),
        "param_distributions": (
            "{'clip_norm': [0.1, 1.0]}",
            "[{'clip_norm': [0.1]}, {'C': [1.0, 2.0]}]",
            "{}",
            "{'nobody': [1]}",
            "{'clip_norm': []}",
            "{'clip_norm': 0.1}",
            "{'epsilon': [1.0, 2.0]}",
            "{'ledger': [None]}",
            "{'clip_norm': [-1.0]}",
            "{'random_state': [0]}",
            "{'clip_norm': 'ab'}",
        ),
        "budget": ("'select'", "'compose'", "'x'"),
        "runs": ("'geometric'", "'logarithmic'", "'poisson'"),
        "mean_runs": ("1.5", "1", "3", "0", "1e9"),
        "eta": ("1.0", "0", "0.5", "-0.5", "1e20"),
        "n_iter": ("None", "1", "2", "0"),
        "scoring": ("'accuracy'", "'neg_log_loss'", "'roc_auc'"),
        "loss_bound": ("4.0", "1e-20", "0", "math.inf"),
        "validation_fraction": ("0.1", "0.5", "0.999", "1e-9", "0", "1"),
    },
}
FILES = ("report files", "ledger texts", "ledger files", "data set files")


def subjects() -> dict[str, tuple[Callable, int]]:
    """Return the strategy and the share of each subject."""
    found = {}
    for name in skfdp.__all__:
        kind = getattr(skfdp, name)
        if isinstance(kind, type) and hasattr(kind, "fit"):
            given = BASES.get(name), DOMAINS.get(name)
            found[name] = (_estimator(kind, *given), 10)
    for name in TEMPLATES:
        found[name] = (_bound(text_calls, name), 3)
    for name in FILES:
        found[name] = (_bound(file_calls, name), 5)
    found["command line"] = (command_calls, 8)
    rooms = (skfdp, privacy, audit, inspection, datasets)
    public = {name for room in rooms for name in room.__all__}
    missing = public - set(found) - set(NOT_CALLED)
    if missing:
        raise SystemExit(f"no calls are drawn of {sorted(missing)}: add templates.")
    return found


def _estimator(kind: type, base, domains) -> Callable:
    return lambda: estimator_calls(kind, base, domains)


def _bound(strategy: Callable, name: str) -> Callable:
    return lambda: strategy(name)


def judged(call: Callable) -> Outcome:
    """Return what became of a call of this script."""
    return check_call(
        call,
        time_limit=LIMIT,
        packages=("skfdp", "sklearn", "_fuzz_files"),
        refusals=(*REFUSALS, OSError),
    )


# -- the worker ------------------------------------------------------------------------
def work(name: str, calls: int, seed: int, log: Path) -> None:
    """Make the calls of one subject; a line of JSON for each event."""
    _limit_memory()
    strategy, _ = subjects()[name]
    _warm_up(name)
    made = 0
    with open(log, "a", encoding="utf-8", buffering=1) as out:

        def tell(**event) -> None:
            out.write(json.dumps(event) + "\n")

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=calls,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(strategy())
        def draw(drawn) -> None:
            nonlocal made
            if made >= calls:
                return
            tell(begin=repr(drawn))
            for step, call in drawn.calls():
                tell(step=step)
                outcome = judged(call)
                made += 1
                tell(worked=outcome.worked and not outcome.faults)
                for fault in outcome.faults[:1]:
                    tell(found=fault, step=step, call=_smallest(drawn, step, fault))

        draw()
        tell(end=True)


def _limit_memory() -> None:
    """Let a request for too much memory fail, instead of the machine."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # not a POSIX system


def _warm_up(name: str) -> None:
    """Compile, and fit what texts name, so that no call has to wait for it."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["figure.max_open_warning"] = 0
    if name in TEMPLATES:
        for text in ("PIPELINE", "MULTICLASS", "NETWORK", "REGRESSOR", "REPLAY", "RUN"):
            if any(text in one for one in _slots(name)):
                names_of(text)
    kind = getattr(skfdp, name, None)
    if isinstance(kind, type) and hasattr(kind, "fit"):
        rng = np.random.default_rng(0)
        spelled = {k: v for k, v in BASES.get(name, {}).items()}
        settings = {k: value_of(v) for k, v in spelled.items()}
        names = inspect.signature(kind).parameters
        settings |= {k: value_of(v) for k, v in SENSIBLE.items() if k in names}
        kind(**settings).fit(rng.random((60, 3)), np.arange(60) % 2)


def _slots(name: str) -> list[str]:
    """Return all texts that may be part of the calls of a name."""
    slots = {
        slot for one in TEMPLATES[name] for slot in Template(one).get_identifiers()
    }
    return [*TEMPLATES[name], *(text for slot in slots for text in SLOTS[slot])]


def _smallest(drawn, step: str, fault: str) -> str:
    """Return a call with the same fault from which nothing can be taken."""
    for _ in range(9):
        for simpler in drawn.simpler():
            if _shows(simpler, step, fault):
                drawn = simpler
                break
        else:
            break
    return repr(drawn)


def _shows(drawn, step: str, fault: str) -> bool:
    """Whether a call has the fault too, its data aside."""
    for name, call in drawn.calls():
        outcome = judged(call)
        if name == step:
            return any(one[:40] == fault[:40] for one in outcome.faults)
    return False


# -- the parent ------------------------------------------------------------------------
@dataclasses.dataclass
class Tally:
    """What the calls of a subject came to."""

    calls: int = 0
    worked: int = 0
    finds: list[dict] = dataclasses.field(default_factory=list)


def run(name: str, calls: int, seed: int) -> Tally:
    """Make the calls of one subject in processes of their own."""
    tally = Tally()
    for attempt in range(9):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.jsonl"
            command = [sys.executable, str(HERE), "--worker", name, "--log", str(log)]
            command += ["--calls", str(calls - tally.calls)]
            command += ["--seed", str(seed + 1000 * attempt)]
            ended = _watch(command, Path(folder), log)
            _read(log, tally, ended)
        if ended == "end" or tally.calls >= calls:
            break
    return tally


def _watch(command: list[str], folder: Path, log: Path) -> str:
    """Return how a worker ended: "end", "hang", or with which status."""
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    environment.pop("SKFDP_DATA", None)
    with open(folder / "words.txt", "wb") as words:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=words, stderr=words
        )
        began = time.time()
        while process.poll() is None:
            time.sleep(0.2)
            last = log.stat().st_mtime if log.exists() else began
            if time.time() - last > SILENCE:
                process.kill()
                process.wait()
                return "hang"
    if process.returncode == 0:
        return "end"
    told = (folder / "words.txt").read_text(encoding="utf-8", errors="replace")
    return f"status {process.returncode}: {told[-300:]}"


def _read(log: Path, tally: Tally, ended: str) -> None:
    """Add what a worker told."""
    begun, step = "the first call", ""
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        event = json.loads(line)
        begun, step = event.get("begin", begun), event.get("step", step)
        if "worked" in event:
            tally.calls += 1
            tally.worked += event["worked"]
        if "found" in event:
            tally.finds.append(event)
    if ended != "end":
        tally.calls += 1
        tally.finds.append({"found": ended, "step": step, "call": begun})


def table(tallies: dict[str, Tally], seed: int) -> str:
    """Return the counts and the finds as text."""
    packages = ("numpy", "scikit-learn", "scipy", "pandas", "polars", "hypothesis")
    versions = [f"{one} {importlib.metadata.version(one)}" for one in packages]
    versions = [f"skfdp {skfdp.__version__}", f"Python {platform.python_version()}"] + (
        versions
    )
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [
        f"Fuzzed calls of the public API, seed {seed}, {today}",
        *textwrap.wrap(", ".join(versions), 88),
        "",
        f"{'subject':<32}{'calls':>8}{'worked':>8}{'refused':>9}{'finds':>7}",
    ]
    lines.append("-" * len(lines[-1]))
    total = Tally()
    for name, one in tallies.items():
        lines.append(_row(name, one))
        total.calls += one.calls
        total.worked += one.worked
        total.finds += one.finds
    lines += ["-" * len(lines[-1]), _row("all", total)]
    kinds: dict[tuple, list[dict]] = collections.defaultdict(list)
    for name, one in tallies.items():
        for find in one.finds:
            kinds[name, find["step"], find["found"][:60]].append(find)
    for (name, step, _), finds in kinds.items():
        shortest = min(finds, key=lambda find: len(find["call"]))
        lines += ["", f"{name}, {step}, {len(finds)} time(s):"]
        lines += textwrap.wrap(shortest["found"], 88, initial_indent="  ")
        lines += textwrap.wrap(shortest["call"], 92, initial_indent="    ")
    return "\n".join(lines) + "\n"


def _row(name: str, tally: Tally) -> str:
    refused = tally.calls - tally.worked - len(tally.finds)
    worked = tally.worked
    return f"{name:<32}{tally.calls:>8}{worked:>8}{refused:>9}{len(tally.finds):>7}"


def main() -> int:
    """Run the script; its status is 1 if there are finds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="SUBJECT")
    parser.add_argument("--jobs", type=int, default=1, help="subjects at a time")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(given.worker, given.calls, given.seed, given.log)
        return 0
    known = subjects()
    names = given.only or list(known)
    shares = sum(known[name][1] for name in names)

    def tallied(name: str) -> Tally:
        found = run(name, -(-given.calls * known[name][1] // shares), given.seed)
        print(_row(name, found), file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(given.jobs) as pool:
        tallies = dict(zip(names, pool.map(tallied, names), strict=True))
    text = table(tallies, given.seed)
    print(text)
    if given.output is not None:
        given.output.write_text(text, encoding="utf-8")
    return int(any(tally.finds for tally in tallies.values()))


if __name__ == "__main__":
    raise SystemExit(main())
