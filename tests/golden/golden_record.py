"""What a fit releases under keys that are fixed by label, and the file of such records.

Seeded streams are keyed by the spelling of every parameter, by the class and by the
data. A change of any of them draws other noise, and a seed says nothing about whether
two versions of the package compute the same. Here each stream is keyed by a hash of
(name of the case, label, how many streams of this label were drawn from before in the
fit), so that whatever releases the same sums in the same order releases the same
integers, under whatever names. `bound` alone knows where the package draws; where a
label changes its name, `LABELS` maps the new one to the one that was recorded.

    python tests/golden/golden_record.py [--check] [part of a name]

records the cases again and says what changed; ``--check`` writes nothing. Write them
only from a version whose releases are known to be right: the file is what later
versions are held to.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import sys
import warnings
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import randomgen
from golden_cases import CASES, fit

FILE = Path(__file__).with_name("releases.json")
#: Of floating-point results on another machine than the one that wrote the file.
RTOL = 1e-9
#: From the label of a stream in this version to the recorded one.
LABELS: dict[str, str] = {"descent": "noise"}
#: A stream that only seeds something whose own streams are bound here as well.
_SEEDS = frozenset({"fit"})
#: Releases that are listed one by one; later ones enter one hash together.
LISTED = 8
#: Fields of an event that are names, not costs.
_NAMES = frozenset({"target_name", "unnamed", "label", "seeded", "classes_source"})


def digest(*parts: bytes) -> str:
    """Return 16 bytes of BLAKE2b, in hex."""
    return hashlib.blake2b(b"/".join(parts), digest_size=16).hexdigest()


def integers(array: np.ndarray) -> str:
    """Return the digest of an array of integers, of whatever byte order."""
    return digest(np.ascontiguousarray(array, dtype="<i8").tobytes())


class Stream:
    """A generator that gets its key when something is first drawn from it."""

    __class__ = property(lambda self: np.random.Generator)

    def __init__(self, label: str, recorder: Recorder):
        self.label, self._recorder, self._generator = label, recorder, None

    def __getattr__(self, name: str):
        if self._generator is None:
            self._generator = self._recorder.opened(self.label)
        return getattr(self._generator, name)


class Recorder:
    """Everything that one fit draws and releases, in order."""

    def __init__(self, case: str):
        self._case = case
        self._seen: Counter[str] = Counter()
        self._open: dict[str, np.random.Generator] = {}
        self.releases: list[list] = []
        self.batches: list[str] = []

    def stream(self, label: str) -> Stream:
        """Return the next stream of this label."""
        return Stream(LABELS.get(label, label), self)

    def opened(self, label: str) -> np.random.Generator:
        """Return a generator keyed by case, label and occurrence."""
        name = f"{label}#{self._seen[label]}"
        self._seen[label] += 1
        key = int(digest(self._case.encode(), name.encode()), 16)
        generator = np.random.Generator(randomgen.AESCounter(key=key))
        if label not in _SEEDS:
            self._open[name] = generator
        return generator

    def ends(self) -> dict[str, str]:
        """Return the word that each stream would draw next: how far it was read."""
        return {
            name: f"{generator.integers(2**32):08x}"
            for name, generator in sorted(self._open.items())
        }


@contextlib.contextmanager
def bound(recorder: Recorder):
    """Bind streams, the sampler of noise and private batches to a recorder."""
    from skfdp.mechanisms import release

    sampler, draw = release.add_integer_gaussian, release.PoissonBatches.draw

    def recorded(total, std, generator):
        if type(generator) is not Stream:  # compiles the noise, which nobody gets
            return sampler(total, std, generator)
        before = integers(total)
        out = sampler(total, std, generator)
        listed = [generator.label, list(total.shape), float(std), before, integers(out)]
        recorder.releases.append(listed)
        return out

    def drawn(self):
        batch = draw(self)
        recorder.batches.append(integers(batch))
        return batch

    def stream(self, label, *_):
        return recorder.stream(label)

    with (
        mock.patch.multiple(release.Streams, private=stream, public=stream),
        mock.patch.object(release, "add_integer_gaussian", recorded),
        mock.patch.object(release.PoissonBatches, "draw", drawn),
    ):
        yield


def sketch(array) -> list:
    """Return shape, norm and three projections of an array of floats.

    A change of any entry changes all of them. They stand beside the digest of the bits
    because BLAS differs between processors: elsewhere a digest would be useless, and
    rounded values would jump at the edges of rounding.
    """
    values = np.asarray(array, dtype=np.float64)
    flat = values.ravel()
    weights = np.arange(1, flat.size + 1)
    numbers = [math.sqrt(math.fsum(flat**2))]
    numbers += [math.fsum(flat * np.cos(k * weights)) for k in (1, 2, 3)]
    return [list(values.shape), *(float(f"{number:.13g}") for number in numbers)]


def _plain(value):
    """Return what JSON can hold, with nine significant digits of a float."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return f"{value:.9g}" if isinstance(value, float) else value


def of_report(report) -> list:
    """Return the digest of the events of a report, and what they add up to."""
    facts = report.to_dict()
    events = [
        _plain({key: part for key, part in event.items() if key not in _NAMES})
        for event in facts["events"]
    ]
    text = json.dumps(events, sort_keys=True).encode()
    return [digest(text), len(events), _plain(facts["epsilon"])]


def record(case: dict) -> dict:
    """Fit one case, and return what it released, drew and fitted."""
    recorder = Recorder(case["name"])
    with bound(recorder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report, arrays, texts = fit(case)
    # Each: label, shape, standard deviation of the noise in grid units, digest of the
    # integers before the noise, and of those that were released.
    found = {"releases": recorder.releases[:LISTED]}
    rest = recorder.releases[LISTED:]
    if rest:
        text = json.dumps([[*release[:2], *release[3:]] for release in rest])
        found["rest"] = [len(rest), rest[-1][2], digest(text.encode())]
    if recorder.batches:
        together = digest(*(batch.encode() for batch in recorder.batches))
        found["batches"] = [len(recorder.batches), together]
    found["streams"] = recorder.ends()
    found["events"] = of_report(report)
    found["texts"] = texts
    found["floats"] = {name: sketch(value) for name, value in arrays.items()}
    bits = (np.ascontiguousarray(v, dtype="<f8").tobytes() for v in arrays.values())
    found["bits"] = digest(*bits)
    return found


# ----------------------------------------------------------------------- differences


def machine() -> dict[str, str]:
    """Return what the last bits of floating-point results depend on."""
    import llvmlite.binding
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


def differences(wanted: dict, found: dict, case: dict, same_machine: bool) -> list[str]:
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
    allowed = {} if same_machine else case.get("elsewhere", {})
    exact = allowed.get("integers", True)
    lines, same_noise = _releases(wanted["releases"], found["releases"], exact)
    rests = [one.get("rest", [0, 0.0, ""]) for one in (wanted, found)]
    same_noise &= rests[0][1] == rests[1][1]
    exact &= same_noise or same_machine
    rtol = allowed.get("rtol", RTOL) if exact else None
    parts = ["events", "streams"]
    parts += ["texts"] * allowed.get("texts", rtol is not None)
    parts += ["rest", "batches"] * exact
    if rests[0][0] != rests[1][0]:
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
    for name, (shape, *old) in wanted.items():
        other, *new = found[name]
        moved = np.abs(np.subtract(old, new)).max() / max(old[0], 1e-300)
        if shape != other:
            lines.append(f"{name}: shape {shape} became {other}")
        elif rtol is not None and moved > rtol:
            lines.append(f"{name}: moved by {moved:.1e} of its norm")
    return lines


def main(arguments: list[str]) -> int:
    """Record cases again; say what changed, and write the file."""
    check = "--check" in arguments
    part = "".join(a for a in arguments if a != "--check")
    before = json.loads(FILE.read_text()) if FILE.exists() else {"cases": {}}
    same, cases, changed = before.get("machine") == machine(), before["cases"], 0
    for case in CASES:
        name = case["name"]
        if part in name:
            found, lines = record(case), ["new"]
            if name in cases:
                lines = differences(cases[name], found, case, same)
            changed += bool(lines)
            print(*(f"{name}: {line}\n" for line in lines), sep="", end="")
            cases[name] = found
    print(f"{changed} of {len(CASES)} changed")
    if not check:  # one line for each case, so that a change shows as one line
        text = ",\n".join(
            f" {json.dumps(case['name'])}: "
            + json.dumps(cases[case["name"]], separators=(",", ":"))
            for case in CASES
        )
        head = json.dumps(machine())
        FILE.write_text(f'{{"machine": {head},\n"cases": {{\n{text}}}}}\n')
    return int(check and changed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
