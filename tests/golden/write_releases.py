"""Record the golden releases again, and say what changed.

    python tests/golden/write_releases.py [--check] [part of a name]

Write them only from a version whose releases are known to be right: the file is what
later versions are held to. ``--check`` writes nothing.
"""

from __future__ import annotations

import sys
import time

from golden_cases import CASES, fit
from golden_compare import FILE, differences, machine, read, write
from golden_record import record

import skfdp


def main(arguments: list[str]) -> int:
    print(f"with {skfdp.__file__}")
    check = "--check" in arguments
    part = "".join(a for a in arguments if a != "--check")
    before = read() if FILE.exists() else {"machine": None, "cases": {}}
    same_machine = before["machine"] == machine()
    cases, changed, start = dict(before["cases"]), 0, time.perf_counter()
    for case in CASES:
        name = case["name"]
        if part not in name:
            continue
        try:
            found = record(case, fit)
        except Exception as error:
            print(f"{name}: FAILED: {type(error).__name__}: {error}")
            changed += 1
            continue
        if name not in before["cases"]:
            print(f"{name}: new, {len(found['releases'])} releases listed")
            changed += 1
        else:
            lines = differences(
                before["cases"][name], found, case=case, same_machine=same_machine
            )
            changed += bool(lines)
            for line in lines:
                print(f"{name}: {line}")
        cases[name] = found
    names = [case["name"] for case in CASES]
    for name in set(cases) - set(names):
        print(f"{name}: gone")
    print(f"{changed} of {len(names)} changed, {time.perf_counter() - start:.1f} s")
    if not check:
        write({name: cases[name] for name in names if name in cases})
    return int(check and changed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
