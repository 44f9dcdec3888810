"""Sabotage: one line of the package is changed, and its tests have to notice.

``python benchmarks/audits/sabotage.py`` copies the checkout, changes one line at a time
in the copy, and runs the tests that run that line, those about privacy first, until one
fails. Lines are drawn by rule (noise halved, clip left out, count dropped, ...: every
sensitivity, clip, charge, coin and rounding) and, beyond the rules, at random from all
expressions and statements of `privacy`, `releases`, `queries` and `records`. It prints
each change, which test noticed it first, and how long that took.

The lines of each test are recorded once, which takes as long as the tests of a
checkout; ``--coverage FILE`` keeps them for the next run. ``--killers FILE`` takes a
table of an earlier run, and asks of each change the test that noticed it then: first,
if lines are kept, and else alone.

Exit code 1 means that a change by rule went unnoticed. Tests of the documentation and
of the form of the source are never asked.
"""

import argparse
import contextlib
import dataclasses
import datetime
import importlib.metadata
import os
import platform
import re
import sys
import tempfile
import textwrap
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _slots
import _tests
from _anything import everything
from _mutants import Mutant, Source, by_rule, read_package, sample
from _rules import RULES, check_complete
from _slots import Outcome, Slot
from _tests import Asked, Coverage

ROOT = Path(__file__).parents[2]
#: Survivors, and why each is no gap in the tests.
EXPLAINED = ROOT / "benchmarks" / "results" / "audits" / "survivors.txt"
#: Seconds of recorded tests that are asked of one mutant.
LIMIT = 300.0
_WIDE = 98


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--random", type=int, default=300, help="mutants drawn at random (300)")
    add("--seed", type=int, default=0, help="of every draw (0)")
    add("--sample", type=int, help="draw so many of those by rule, and no others")
    add("--only", nargs="*", default=(), help="FILE:LINE, RULE or parts of them")
    add("--jobs", type=int, default=2, help="processes (2)")
    add("--limit", type=float, default=LIMIT, help="seconds of tests for one (300)")
    add("--coverage", type=Path, help="lines of each test: read, or written, here")
    add("--killers", type=Path, help="an earlier table: ask those tests first")
    add("--folder", type=Path, help="keep the copies and their compiled loops here")
    add("--output", type=Path, help="write the table here, too")
    add("--list", action="store_true", help="print the mutants, and run no test")
    return parser.parse_args(given)


def population(sources: dict[str, Source], options: argparse.Namespace) -> list[Mutant]:
    """Return the mutants that were asked for, those by rule first."""
    ruled = by_rule(RULES, sources)
    check_complete(ruled, sources)
    if options.sample is not None:
        if options.killers is not None:
            known = killers(options.killers)
            ruled = [m for m in ruled if (m.file, _new_line(m)) in known]
        return sample(ruled, options.sample, options.seed)
    drawn = sample(everything(sources), options.random, options.seed)
    found = [*ruled, *drawn]
    if options.only:
        found = [m for m in found if any(part in label(m) for part in options.only)]
    return found


def label(mutant: Mutant) -> str:
    """Return what a mutant is called by in tables."""
    return f"{mutant.file}:{mutant.line}  {mutant.rule}"


def entry(mutant: Mutant, found: Outcome | None, told: str = "") -> str:
    """Return the lines of a table about a mutant."""
    lines = [label(mutant)]
    if mutant.reason:
        lines.append(f"    ({mutant.reason})")
    lines += _wrapped("  - ", *_difference(mutant.old, mutant.new))
    if found is None:
        return "\n".join(lines) + "\n"
    outcome = {
        "killed": f"killed by ({found.error}, test {found.n_run})",
        "hangs": "stopped, since it hung, in",
        "crashes": f"crashed ({found.error}) in",
        "survived": f"SURVIVED {found.n_run} of {found.n_asked} tests",
    }[found.kind]
    lines.append(f"    {outcome} after {found.seconds:.1f} s" + ":" * bool(found.test))
    if found.test:
        lines += _of_test(found.test)
    lines += textwrap.wrap(told, _WIDE, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def _difference(old: str, new: str) -> tuple[str, str]:
    """Return a long line and what became of it, cut to where they differ."""
    start = len(os.path.commonprefix([old, new]))
    start = max(0, start - 40) if max(len(old), len(new)) > 2 * _WIDE else 0
    return tuple(
        ("…" if start else "") + text[start:][: 3 * _WIDE] for text in (old, new)
    )


def _wrapped(first: str, old: str, new: str) -> list[str]:
    width, lines = _WIDE - 4, []
    for mark, text in (("  - ", old), ("  + ", new)):
        parts = [text[i : i + width] for i in range(0, len(text), width)] or [""]
        lines += [mark + parts[0], *("    " + part for part in parts[1:])]
    return lines


def _of_test(name: str) -> list[str]:
    """Return the lines of a test: its file, and the rest in the lines after."""
    file, _, rest = name.partition("::")
    width = _WIDE - 8
    parts = [rest[i : i + width] for i in range(0, len(rest), width)]
    return [f"    {file}", *(f"      ::{part}" for part in parts)]


def killers(path: Path) -> dict[tuple[str, str], list[Asked]]:
    """Return the test that killed each mutant of a table, by file and new line."""
    found: dict[tuple[str, str], list[Asked]] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = block.strip("\n").split("\n")
        head = re.match(r"(skfdp/\S+):\d+  (.*)", lines[0])
        rest = "".join(line[8:] for line in lines if line.startswith("      ::"))
        if head and rest:
            file = next(line for line in lines if line.startswith("    tests/"))
            new = next(line for line in lines if line.startswith("  + "))
            found[head[1], new] = [Asked(f"{file.strip()}::{rest}", 1.0)]
    return found


def explanations(path: Path) -> dict[tuple[str, str], str]:
    """Return why mutants of a file of survivors are no gap, by file and new line."""
    found: dict[tuple[str, str], str] = {}
    if not path.exists():
        return found
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = block.strip("\n").split("\n")
        head = re.match(r"(skfdp/\S+):\d+  (.*)", lines[0])
        told = [line.strip() for line in lines if line.startswith("    ")]
        new = next((line for line in lines if line.startswith("  + ")), None)
        if head and new and told:
            found[head[1], new] = " ".join(told)
    return found


def asked_of(
    mutants: list[Mutant],
    sources: dict[str, Source],
    options: argparse.Namespace,
    first: Slot,
) -> list[list[Asked]]:
    """Return the tests of each mutant, as many as the limit allows."""
    known: dict[tuple[str, str], list[Asked]] = {}
    if options.killers is not None:
        known = killers(options.killers)
    found = [list(known.get((m.file, _new_line(m)), ())) for m in mutants]
    if options.killers is not None and options.coverage is None:
        missing = [label(m) for m, own in zip(mutants, found, strict=True) if not own]
        if missing:
            raise SystemExit(f"{options.killers} has no killer of {missing}: run anew.")
        return found
    path = options.coverage or first.tree.parent / "coverage.json.gz"
    if not path.exists():
        print("recording the lines of each test", flush=True)
        _tests.record(first.tree, first.cache, options.jobs, path)
    coverage = Coverage(path, ROOT, sources)
    for mutant, own in zip(mutants, found, strict=True):
        left, known_ones = options.limit, {one.name for one in own}
        for one in coverage.tests_of(mutant):
            left -= one.seconds
            if one.name not in known_ones and (left > 0 or not own):
                own.append(one)
    return found


def _new_line(mutant: Mutant) -> str:
    return next(
        line for line in entry(mutant, None).split("\n") if line.startswith("  + ")
    )


def heading(options: argparse.Namespace) -> str:
    """Return what a table begins with."""
    packages = ("skfdp", "numpy", "numba", "scikit-learn", "hypothesis", "pytest")
    versions = ", ".join(f"{name} {_version(name)}" for name in packages)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    what = f"seed {options.seed}, {options.jobs} processes"
    return f"{day}, Python {platform.python_version()}, {what}\n{versions}\n"


def _version(name: str) -> str:
    if name == "skfdp":
        text = (ROOT / "skfdp" / "_version.py").read_text(encoding="utf-8")
        return re.search(r'__version__ = "(.+)"', text)[1]
    return importlib.metadata.version(name)


@dataclasses.dataclass
class Totals:
    """Counts of outcomes."""

    name: str
    n: int = 0
    killed: int = 0
    hung: int = 0
    survived: int = 0
    explained: int = 0
    seconds: float = 0.0

    def add(self, found: Outcome, is_explained: bool) -> None:
        """Count one."""
        self.n += 1
        self.killed += found.kind in ("killed", "crashes")
        self.hung += found.kind == "hangs"
        self.survived += found.kind == "survived"
        self.explained += found.kind == "survived" and is_explained
        self.seconds += found.seconds

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.n} mutants, {self.killed} killed, {self.hung} hung, "
            f"{self.survived} survived ({self.explained} explained); "
            f"{self.seconds / max(1, self.n):.1f} s each"
        )


def main() -> int:
    """Run."""
    options, begin = arguments(), time.monotonic()
    sources = read_package(ROOT)
    mutants = population(sources, options)
    if options.list:
        print("\n".join(entry(mutant, None) for mutant in mutants))
        print(f"{len(mutants)} mutants")
        return 0
    with contextlib.ExitStack() as stack:
        folder = options.folder
        if folder is None:
            own = tempfile.TemporaryDirectory(prefix="skfdp-sabotage-")
            folder = Path(stack.enter_context(own))
        n_slots = max(1, min(options.jobs, len(mutants)))
        slots = [Slot.of(ROOT, folder.resolve() / f"{n}") for n in range(n_slots)]
        asked = asked_of(mutants, sources, options, slots[0])
        _slots.warm()
        found: dict[int, Outcome] = {}
        work = list(zip(mutants, asked, strict=True))
        for number, outcome in _slots.outcomes(work, slots):
            found[number] = outcome
            print(entry(mutants[number], outcome), flush=True)
        control = sorted({one.test for one in found.values() if one.kind == "killed"})
        control = [name for name in control if "(import)" not in name]
        work = [(None, [Asked(name, 60.0) for name in control])]
        failing = [one for _, one in _slots.outcomes(work, slots) if one.test]
    told = explanations(EXPLAINED)
    why = {n: told.get((m.file, _new_line(m)), "") for n, m in enumerate(mutants)}
    by = {True: Totals("by rule"), False: Totals("at random")}
    for number, outcome in found.items():
        by[bool(mutants[number].reason)].add(outcome, bool(why[number]))
    summary = [str(total) for total in by.values() if total.n]
    minutes = (time.monotonic() - begin) / 60
    summary.append(
        f"{len(control)} tests killed them, "
        + ("all of which pass without a change." if not failing else "of which")
    )
    summary += [f"FAILS WITHOUT A CHANGE: {one.test}" for one in failing]
    summary.append(f"{minutes:.0f} minutes")
    print("\n".join(summary))
    if options.output is not None:
        survived = {n for n, one in found.items() if one.kind == "survived"}
        table = [
            entry(mutants[n], found[n], why[n] if n in survived else "")
            for n in sorted(found)
        ]
        text = "\n".join([heading(options), *table, *summary])
        options.output.write_text(text + "\n", encoding="utf-8")
    return 1 if by[True].survived or failing else 0


if __name__ == "__main__":
    sys.exit(main())
