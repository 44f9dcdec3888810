"""The newcomer's path, timed: new environment, main job, own CSV file, report.

``python benchmarks/newcomer.py`` goes it in a temporary folder with the interpreter
that runs it, as somebody would who has the checkout and nothing else, and prints each
command, its seconds and how many there were. pip needs its index. Kernels are compiled
in the new environment, since their cache lies beside the installed sources.
"""

import argparse
import csv
import os
import platform
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
N_ROWS = 5000

#: What is typed, in the folder of the newcomer; {checkout} is where the clone is.
COMMANDS = {
    "a new environment": "{python} -m venv private",
    "install": 'private/bin/python -m pip install -q "{checkout}[cli]"',
    "the main job": "private/bin/skfdp",
    "a draft of the declarations": (
        "private/bin/skfdp schema stays.csv --target readmitted --public age ward "
        "-o stays.toml"
    ),
    "(the draft is filled in with an editor)": None,
    "fit, compare, write": (
        "private/bin/skfdp fit stays.csv --schema stays.toml --model stays.skops "
        "--report stays.json"
    ),
    "predict new rows": (
        "private/bin/skfdp predict stays.skops new.csv --schema stays.toml "
        "-o predicted.csv"
    ),
    "the statement again": "private/bin/skfdp report stays.json",
}
#: What a newcomer knows of the private columns.
BOUNDS = {"crp": "[0, 300]", "stays": "[0, 20]"}


def write_stays(path: Path, n: int, *, seed: int, target: bool = True) -> None:
    """Write made-up hospital stays: two columns public, two private, empty cells."""
    rng = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ["age", "ward", "crp", "stays"] + ["readmitted"] * target
        writer.writerow(names)
        for _ in range(n):
            age, crp = rng.randint(18, 95), rng.gammavariate(1.2, 40)
            stays = min(20, int(rng.expovariate(0.5)))
            risk = 0.03 * (age - 60) + crp / 80 + stays / 3 - 1.5 + rng.gauss(0, 1.5)
            row = [age, rng.choice(["surgery", "internal", "cardiology"])]
            row += ["" if rng.random() < 0.1 else round(min(crp, 300), 1), stays]
            writer.writerow(row + ["yes" if risk > 0 else "no"] * target)


def fill_in(path: Path) -> None:
    """Write into a draft what it asks for, as with an editor."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for place, line in enumerate(lines):
        name = line.split(" = ")[0].lstrip("# ").strip('"')
        if name in BOUNDS:
            lines[place] = f'{name} = {{role = "private", bounds = {BOUNDS[name]}}}'
        elif line.startswith("classes"):
            lines[place] = 'classes = ["yes", "no"]'
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(command: str, folder: Path) -> tuple[float, str]:
    """Run a command in the folder; return its seconds and what it printed."""
    given = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    started = time.monotonic()
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=given, capture_output=True, text=True
    )
    seconds = time.monotonic() - started
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    return seconds, done.stdout


def main() -> None:
    """Go the path and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--show", action="store_true", help="print what they print, too"
    )
    arguments = parser.parse_args()
    total = count = 0
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"Python {platform.python_version()}, {N_ROWS} rows")
    print(f"{os.cpu_count()} cores, load averages before {load}")
    print(f"{'seconds':>8}  command")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_stays(folder / "stays.csv", N_ROWS, seed=0)
        write_stays(folder / "new.csv", 100, seed=1, target=False)
        for title, command in COMMANDS.items():
            if command is None:
                fill_in(folder / "stays.toml")
                print(f"{'':8}  {title}")
                continue
            typed = command.format(python=sys.executable, checkout=CHECKOUT)
            seconds, printed = run(typed, folder)
            total, count = total + seconds, count + 1
            shown = command.format(python="python", checkout=".")
            print(f"{seconds:8.1f}  {shown}", flush=True)
            if arguments.show:
                print(printed, flush=True)
        lines = (folder / "predicted.csv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == 101
    print(f"{total:8.1f}  in all, {count} commands")


if __name__ == "__main__":
    main()
