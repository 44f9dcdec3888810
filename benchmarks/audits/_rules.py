"""All rules, and the lines of which no one may be without a mutant."""

import re

import _rules_costs
import _rules_desk
import _rules_fits
import _rules_ledger
import _rules_noise
import _rules_partitions
import _rules_persons
import _rules_records
import _rules_resuming
import _rules_scores
import _rules_sums
from _mutants import Mutant, Source

RULES = [
    *_rules_costs.RULES,
    *_rules_ledger.RULES,
    *_rules_noise.RULES,
    *_rules_desk.RULES,
    *_rules_sums.RULES,
    *_rules_persons.RULES,
    *_rules_partitions.RULES,
    *_rules_records.RULES,
    *_rules_fits.RULES,
    *_rules_scores.RULES,
    *_rules_resuming.RULES,
]

#: What has to have a mutant: rooms, then a regular expression of lines.
MATTERS = (
    ("sensitivity", ("queries", "privacy"), r"relation\.moves\("),
    ("clip", ("queries",), r"np\.clip\(|/ np\.maximum\("),
    ("clip", ("kernels",), r"_clip_factor\(|clip_norm / norm"),
    ("charge", ("estimators",), r"\.charge\w*\("),
    (
        "coin",
        ("releases",),
        r"random_words\(|secrets\.|\.choice\(|\.draw\(\)|exact_gap\(",
    ),
    ("coin", ("estimators", "releases"), r"\.private\(\"|streams\.private\("),
    ("rounding", ("queries", "records", "releases"), r"np\.(trunc|rint|ceil|floor)\("),
    ("rounding", ("kernels",), r"np\.(trunc|rint|ceil|floor)\(|_certain"),
    ("release", ("estimators",), r"(desk|streams\))\.release\("),
)
#: What need not have one, and why.
SPARED = {
    ("queries/__init__.py", r"def exact_sum"): "a protocol",
    ("queries/temperature.py", r"np\.rint\(weights / unit\)"): "released weights",
    ("queries/temperature.py", r"np\.trunc\("): "cut to the bound after it",
    ("releases/journal.py", r"coins = secrets"): "a key of public coins",
    ("queries/network.py", r"np\.rint"): "the norm is that of what is rounded",
    (
        "kernels/contributions.py",
        r"return np\.trunc",
    ): "room for any rounding by a unit",
    ("kernels/network.py", r"np\.rint"): "the norm is that of what is rounded",
    ("kernels/tiles.py", r"np\.rint"): "released weights",
    ("records/units.py", r"np\.rint\(weights"): "public weights",
    ("records/grid.py", r"np\.rint\(value / GRID\)"): "released or public",
    (
        "kernels/sampling.py",
        r"np\.floor\(gap\)",
    ): "the distance from an edge",
}


def check_complete(mutants: list[Mutant], sources: dict[str, Source]) -> None:
    """Raise ValueError if a line that matters has no mutant."""
    changed = {
        (one.file, line)
        for one in mutants
        for line in range(one.line, one.line + 1 + one.text.count("\n"))
    }
    for what, rooms, pattern in MATTERS:
        for file, source in sources.items():
            if file.split("/")[1] not in rooms:
                continue
            for number, line in enumerate(source.lines, 1):
                if number in source.prose or re.match(r"\s*(def|from|import) ", line):
                    continue
                if not re.search(pattern, line) or (file, number) in changed:
                    continue
                if not _is_spared(file, line):
                    raise ValueError(
                        f"{file}:{number} has no mutant, and is a {what}: add a rule, "
                        f"or say why not: {line.strip()}"
                    )


def _is_spared(file: str, line: str) -> bool:
    return any(
        file == f"skfdp/{own}" and re.search(pattern, line) for own, pattern in SPARED
    )
