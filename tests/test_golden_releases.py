"""Released integers and coefficients are those that were recorded, to the last bit.

The file ``golden/releases.json`` was written by a version whose releases are trusted
(``golden/write_releases.py``). A version that moves code must reproduce it; one that
changes what is released writes the cases anew, and says why each of them changed.

What the package must provide for that is a label for every stream, one sampler of
noise, and one place that draws private batches; ``golden/golden_record.py`` says how
they are bound (`bound`) and where a label that is called something else is translated
(`LABELS`). Nothing else there knows the package. The sabotages below patch it where it
is today, and move with it.
"""

import copy
import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from packaging.version import Version

GOLDEN = Path(__file__).parent / "golden"
sys.path.append(str(GOLDEN))

from golden_cases import CASES, fit  # noqa: E402
from golden_compare import FILE, differences, machine, read  # noqa: E402
from golden_record import record  # noqa: E402

BY_NAME = {case["name"]: case for case in CASES}
POISSON = "DPSGDFClassifier: Poisson"
# With older libraries the noise has other last bits, and ends the comparison earlier.
OLDER = Version(sklearn.__version__) < Version("1.7")
BATCHES = "batches: |other sums before" if OLDER else "batches: "
CLIPPED = "FeatureDPLogisticRegression: clip norm, rate"
COVARIANCE = "PrivateCompletionClassifier: covariance"
CENTRING = "PrivateCenteringTransformer: conditional"
PADDED = "FeatureDPLogisticRegression: zero padding, public batches"


@pytest.fixture(scope="module")
def golden():
    return read()


@pytest.fixture(scope="module")
def here(golden):
    """Whether this is the machine that wrote the file."""
    return golden["machine"] == machine()


@pytest.mark.parametrize("name", BY_NAME)
def test_releases_are_those_that_were_recorded(name, golden, here):
    found, case = record(BY_NAME[name], fit), BY_NAME[name]
    wanted = golden["cases"][name]
    assert not differences(wanted, found, case=case, same_machine=here)


def test_the_file_holds_every_case_once(golden):
    assert [*golden["cases"]] == [case["name"] for case in CASES]
    assert FILE.stat().st_size < 250_000


def test_every_estimator_and_label_is_in_the_file(golden):
    import skfdp
    from skfdp.experimental import PrivateSearchCV

    fitted = {case["estimator"] for case in CASES}
    public = {n: getattr(skfdp, n) for n in skfdp.__all__}
    public["PrivateSearchCV"] = PrivateSearchCV
    assert fitted == {
        n for n, one in public.items() if hasattr(one, "fit") and hasattr(one, "plan")
    }
    drawn = {
        stream.split("#")[0]
        for case in golden["cases"].values()
        for stream in case["streams"]
    }
    assert drawn == {
        *("noise", "coins", "batch", "mean", "row length", "class counts"),
        *("temperature", "target histogram", "target mean", "target spread"),
        *("mean rate", "label statistic", "target statistic"),
        *("second moments", "cross moments", "padding", "class sums", "network"),
        *("draws", "split", "candidates", "score", "binades", "bins"),
        *("rotation", "rough binades", "rough bins 1", "rough bins 2"),
        *("distances from the rough mean", "distances from the mean"),
    }


def test_threads_do_not_change_the_record():
    two = BY_NAME["DPSGDFClassifier: two threads, Poisson"]
    assert two["params"]["n_jobs"] == 2
    one = {**two, "params": {**two["params"], "n_jobs": 1}}
    assert record(one, fit) == record(two, fit)


def test_another_process_with_another_hash_seed_agrees():
    import skfdp

    script = [sys.executable, str(GOLDEN / "write_releases.py"), "--check", CENTRING]
    roots = [str(Path(skfdp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run(
        script, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 of {len(CASES)} changed" in done.stdout


# ------------------------------------------------------------------------ sabotages


def half_the_noise(monkeypatch):
    from skfdp.mechanisms import release as desk

    sampler = desk.add_integer_gaussian
    monkeypatch.setattr(
        desk,
        "add_integer_gaussian",
        lambda total, std, generator: sampler(total, std / 2, generator),
    )


def half_the_noise_of_a_release(monkeypatch):
    from skfdp.mechanisms import release

    honest = release._noisy_sum

    def half(*query, noise_std, **more):
        return honest(*query, noise_std=noise_std / 2, **more)

    monkeypatch.setattr(release, "_noisy_sum", half)


def a_clip_left_out(monkeypatch):
    from skfdp.queries.linear import LinearQuery

    clip = LinearQuery._clip

    def wide(self, unit):
        found = clip(self, unit)
        return found._replace(clip_norm=100 * found.clip_norm)

    monkeypatch.setattr(LinearQuery, "_clip", wide)


def one_grid_bit(monkeypatch):
    from skfdp.queries.linear import LinearQuery

    unit = LinearQuery.unit
    monkeypatch.setattr(LinearQuery, "unit", lambda self, std: 2 * unit(self, std))


def the_order_of_releases(monkeypatch):
    from skfdp.completion import Completion

    released = Completion._released

    def backwards(self, records, plan, desk):
        asked = {}

        def note(label, query):
            asked[label] = query
            return np.zeros(query.shape)

        released(self, records, plan, SimpleNamespace(release=note))
        labels = reversed(asked)
        found = {label: desk.release(label, asked[label]) for label in labels}
        known = SimpleNamespace(release=lambda label, query: found[label])
        return released(self, records, plan, known)

    monkeypatch.setattr(Completion, "_released", backwards)


def a_step_too_few(monkeypatch):
    from skfdp.solvers import descent as method

    descent = method.descent

    def shorter(desk, *args, on_step, **kwargs):
        def stop(step, theta):
            return step == desk.event("descent").n_steps - 2

        return descent(desk, *args, on_step=stop, **kwargs)

    monkeypatch.setattr(method, "descent", shorter)


def a_higher_sampling_rate(monkeypatch):
    from skfdp.mechanisms.release import PoissonBatches

    init = PoissonBatches.__init__
    monkeypatch.setattr(
        PoissonBatches,
        "__init__",
        lambda self, coins, n_rows, rate: init(self, coins, n_rows, 1.01 * rate),
    )


def a_public_batch_of_another_size(monkeypatch):
    from skfdp.solvers import public_model as public_loss

    batch = public_loss.uniform_batch
    monkeypatch.setattr(
        public_loss, "uniform_batch", lambda coins, n, size: batch(coins, n, size - 1)
    )


def an_event_that_says_less(monkeypatch):
    from skfdp import PrivacyReport

    build = PrivacyReport.from_events

    def smaller(*, events, **more):
        less = [dataclasses.replace(e, sensitivity=e.clip_norm) for e in events]
        return build(events=tuple(less), **more)

    monkeypatch.setattr(PrivacyReport, "from_events", smaller)


def weights_that_move_by_a_millionth(monkeypatch):
    from skfdp.data.input_scaler import Coordinates

    fold = Coordinates.fold

    def moved(self, theta):
        coef, intercept = fold(self, theta)
        return coef * (1 + 1e-6), intercept

    monkeypatch.setattr(Coordinates, "fold", moved)


@pytest.mark.parametrize(
    ("sabotage", "name", "says"),
    [
        (half_the_noise, CLIPPED, "other integers released"),
        (half_the_noise_of_a_release, CLIPPED, "(noise): noise of"),
        (a_clip_left_out, CLIPPED, "(noise): other sums before the noise"),
        (one_grid_bit, CLIPPED, "(noise): noise of"),
        (the_order_of_releases, COVARIANCE, "releases: ['second moments"),
        (a_step_too_few, CLIPPED, "releases: ['class counts"),
        (a_higher_sampling_rate, POISSON, f"{BATCHES}|other sums"),
        (a_public_batch_of_another_size, PADDED, "streams: "),
        (an_event_that_says_less, CLIPPED, "events: "),
        (weights_that_move_by_a_millionth, CLIPPED, "coef_: moved by "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("same_machine", [True, False])
def test_a_sabotage_is_seen(sabotage, name, says, same_machine, golden, monkeypatch):
    sabotage(monkeypatch)
    found, case = record(BY_NAME[name], fit), BY_NAME[name]
    wanted = golden["cases"][name]
    lines = differences(wanted, found, case=case, same_machine=same_machine)
    assert any(part in line for line in lines for part in says.split("|")), lines


# -------------------------------------------------------------------- other machines


@pytest.fixture
def pair(golden):
    """The record of a case, and a copy to change."""
    return golden["cases"][CLIPPED], copy.deepcopy(golden["cases"][CLIPPED])


def moved(found, factor):
    for sketch in found["floats"].values():
        sketch[1:] = [number * factor for number in sketch[1:]]
    return {**found, "bits": "other"}


def test_floats_may_differ_in_their_last_bits_elsewhere(pair):
    wanted, found = pair
    close = moved(found, 1 + 1e-11)
    assert differences(wanted, close, same_machine=True)
    assert not differences(wanted, close, same_machine=False)
    assert differences(wanted, moved(found, 1 + 1e-8), same_machine=False)


def test_integers_may_not_differ_elsewhere(pair):
    wanted, found = pair
    found["releases"][0][4] = "other"
    (line,) = differences(wanted, found, same_machine=False)
    assert line.endswith("other integers released")


def test_noise_with_other_last_bits_releases_other_integers_elsewhere(pair):
    wanted, found = pair
    first = found["releases"][0]
    first[2], first[4] = first[2] * (1 + 1e-14), "other"
    assert not differences(wanted, found, same_machine=False)
    first[3] = "other"  # the sums did not see the noise
    assert differences(wanted, found, same_machine=False)
    first[3], first[2] = wanted["releases"][0][3], first[2] * (1 + 1e-6)
    assert differences(wanted, found, same_machine=False)
