"""The file of golden releases, and what differs between a record and a fit."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
from pathlib import Path

FILE = Path(__file__).with_name("releases.json")

#: Of floating-point results on another machine than the one that wrote the file.
RTOL = 1e-9


def machine() -> dict[str, str]:
    """Return what the last bits of floating-point results depend on."""
    import llvmlite.binding
    import numpy as np
    import scipy.linalg  # noqa: F401 -- loads its BLAS
    import threadpoolctl

    blas = {
        f"{library['internal_api']} {library['version']} {library['architecture']}"
        for library in threadpoolctl.threadpool_info()
        if library["user_api"] == "blas"
    }
    packages = ("numpy", "scipy", "scikit-learn", "numba", "randomgen")
    simd = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return {
        "libc": " ".join((*platform.libc_ver(), tunables)).strip(),
        "blas": ", ".join(sorted(blas)),
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "simd": " ".join(simd),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def read() -> dict:
    """Return the recorded machine and cases."""
    return json.loads(FILE.read_text())


def write(cases: dict[str, dict]) -> None:
    """Write one line for each case, so that a change shows as one line."""
    lines = [
        f" {json.dumps(name)}: {json.dumps(case, separators=(',', ':'))}"
        for name, case in cases.items()
    ]
    head = json.dumps(machine())
    FILE.write_text(f'{{"machine": {head},\n"cases": {{\n' + ",\n".join(lines) + "}}\n")


def differences(
    wanted: dict, found: dict, *, case: dict | None = None, same_machine: bool
) -> list[str]:
    """Return what differs, in words, first the integers that were released.

    On the machine that wrote the file everything must be equal, to the last bit. On
    another one:

    * floating-point results may differ by `RTOL`, or by what the case says under
      "elsewhere", in proportion to the norm; None: by anything;
      "texts": False leaves out how many iterations a public optimiser took;
    * released integers must be equal, but for what comes after noise whose standard
      deviation has other last bits (it is found by root-finding, through the libraries
      of mathematics), and but for cases that say "integers": False.
    """
    allowed = {} if same_machine or case is None else case.get("elsewhere", {})
    exact = allowed.get("integers", True)
    lines, same_noise = _releases(wanted["releases"], found["releases"], exact)
    rests = [record.get("rest", [0, 0.0, ""]) for record in (wanted, found)]
    same_noise &= rests[0][1] == rests[1][1]
    exact &= same_noise or same_machine
    rtol = allowed.get("rtol", RTOL) if exact else None
    parts = ["events", "streams"]
    if allowed.get("texts", rtol is not None):
        parts += ["texts"]
    if exact:
        parts += ["rest", "batches"]
    elif rests[0][0] != rests[1][0]:
        lines.append(f"rest: {rests[0][0]} releases became {rests[1][0]}")
    for part in parts:
        if wanted.get(part) != found.get(part):
            lines.append(f"{part}: {wanted.get(part)} became {found.get(part)}")
    lines += _floats(wanted["floats"], found["floats"], rtol)
    if same_machine and wanted["bits"] != found["bits"]:
        lines.append("bits: floating-point results differ on the same machine")
    return lines


def _releases(wanted: list, found: list, exact: bool) -> tuple[list[str], bool]:
    """Return how listed releases differ, and whether all noise has the same bits."""
    if [r[:2] for r in wanted] != [r[:2] for r in found]:
        names = [[f"{r[0]} {r[1]}" for r in releases] for releases in (wanted, found)]
        return [f"releases: {names[0]} became {names[1]}"], True
    lines, same_noise = [], True
    for number, (old, new) in enumerate(zip(wanted, found, strict=True), 1):
        what = []
        if not math.isclose(old[2], new[2], rel_tol=RTOL):
            what.append(f"noise of {old[2]:.9g} became {new[2]:.9g}")
        if exact and same_noise and old[3] != new[3]:
            what.append("other sums before the noise")
        same_noise &= old[2] == new[2]
        if exact and same_noise and old[4] != new[4]:
            what.append("other integers released")
        if what:
            lines.append(f"release {number} ({old[0]}): {', '.join(what)}")
    return lines, same_noise


def _floats(wanted: dict, found: dict, rtol: float | None) -> list[str]:
    """Return which sketches differ; without a tolerance their shapes alone."""
    if wanted.keys() != found.keys():
        return [f"arrays: {[*wanted]} became {[*found]}"]
    lines = []
    for name, sketch in wanted.items():
        if sketch[0] != found[name][0]:
            lines.append(f"{name}: shape {sketch[0]} became {found[name][0]}")
        elif rtol is not None and (moved := _moved(sketch, found[name])) > rtol:
            lines.append(f"{name}: moved by {moved:.1e} of its norm")
    return lines


def _moved(wanted: list, found: list) -> float:
    """Return the largest difference of two sketches, relative to the norm."""
    size = max(wanted[1], 1e-300)
    pairs = zip(wanted[1:], found[1:], strict=True)
    return max(abs(old - new) for old, new in pairs) / size
