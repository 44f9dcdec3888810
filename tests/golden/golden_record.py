"""What a fit releases under keys that are fixed by label, as text that can be compared.

Seeded streams are keyed by the spelling of every parameter, by the class and by the
data. A change of any of them draws other noise, and a seed says nothing about whether
two versions of the package compute the same. Here each stream is keyed by a hash of
(name of the case, label, how many streams of this label were drawn from before in the
fit), so that whatever releases the same sums in the same order releases the same
integers, under whatever names.

What the package must provide
-----------------------------
* One sampler that adds integer noise in place, ``(total, std, generator)``, through
  which every release goes.
* A label for each stream: "noise" and "coins" of a loop, "mean", "scale", ...

How to bind it again
--------------------
`bound` is the only function that knows where these are. Where a label changes its name,
`LABELS` maps the new one to the one that was recorded. A stream that nothing is drawn
from does not count, so that streams may be opened in any order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import warnings
from collections import Counter

import numpy as np
import randomgen

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
    """Bind streams, sampler and private batches to a recorder.

    This is what a new version has to rewrite, and nothing else.
    """
    from skfdp.mechanisms import noise
    from skfdp.mechanisms import release as coins
    from skfdp.mechanisms import release as desk

    sampler, draw = desk.add_integer_gaussian, coins.PoissonBatches.draw

    def recorded(total, std, generator):
        before = integers(total)
        out = sampler(total, std, generator)
        shape = list(total.shape)
        release = [generator.label, shape, float(std), before, integers(out)]
        recorder.releases.append(release)
        return out

    def drawn(self):
        batch = draw(self)
        recorder.batches.append(integers(batch))
        return batch

    with contextlib.ExitStack() as stack:
        for place, name, value in (
            (noise.Streams, "private", lambda self, label, *_: recorder.stream(label)),
            (noise.Streams, "public", lambda self, label: recorder.stream(label)),
            (desk, "add_integer_gaussian", recorded),
            (coins.PoissonBatches, "draw", drawn),
        ):
            stack.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, value)
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
    if isinstance(value, float):
        return f"{value:.9g}"
    return value


def costs(event: dict) -> dict:
    """Return an event without the names in it."""
    return {key: part for key, part in event.items() if key not in _NAMES}


def of_report(report) -> list:
    """Return the digest of the events of a report, and what they add up to."""
    facts = report.to_dict()
    events = [_plain(costs(event)) for event in facts["events"]]
    text = json.dumps(events, sort_keys=True).encode()
    return [digest(text), len(events), _plain(facts["epsilon"])]


def record(case: dict, fit) -> dict:
    """Run one case and return what it released, drew and fitted.

    Parameters
    ----------
    case : dict
        Only its "name" is read here.
    fit : callable
        Fits the case; returns the report, the fitted arrays by name (a dict), and
        whatever else must be equal, as text (a dict).
    """
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
