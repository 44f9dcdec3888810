"""A replay is of one thread, ends with its audit, and says that it is none."""

import asyncio
import contextvars
import math
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import skfdp
from skfdp import DPSGDFClassifier
from skfdp.mechanisms import release as replay
from skfdp.mechanisms.release import Streams
from skfdp.solvers import NoisyGradientDescent

X = np.random.default_rng(0).random((40, 3))
Y = np.arange(40) % 2


class Quiet:
    """A replay that releases the sums without noise."""

    def __init__(self):
        self.asked = []

    def key(self, stream):
        return 7

    def release(self, asked, noisy_sum):
        self.asked.append(asked)
        unit = asked.query.unit(asked.noise_std)
        return asked.query.exact_sum(asked.theta, asked.batch, unit) * unit


def fitted():
    solver = NoisyGradientDescent(max_iter=2, row_norm=1.0)
    given = {"bounds": (0, 1), "classes": [0, 1], "centering": "gaussian"}
    return DPSGDFClassifier(**given, solver=solver).fit(X, Y)


def test_inside_the_audit_answers_and_the_report_says_that_nothing_is_private():
    with replay.opened(Quiet()) as _:
        one, other = fitted(), fitted()
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.privacy_.seeded
    assert all(event.seeded for event in one.privacy_.events)
    assert "(VOID: " in one.privacy_.statement()
    assert one.privacy_.to_dict()["guarantee"] is False


def test_it_is_told_what_was_charged_and_asked():
    audit = Quiet()
    with replay.opened(audit):
        model = fitted()
    assert [one.event.label for one in audit.asked] == [
        *("class counts", "mean", "descent", "descent", "temperature")
    ]
    assert {one.event for one in audit.asked} == set(model.privacy_.events)
    stds = [one.noise_std for one in audit.asked if one.event.label == "descent"]
    (event,) = (one for one in model.privacy_.events if one.label == "descent")
    assert stds == event.step_stds.tolist()


def real_noise():
    """Whether two fits differ, and claim to be private."""
    one, other = fitted(), fitted()
    return (one.coef_ != other.coef_).any() and not one.privacy_.seeded


def test_fits_after_it_have_real_noise():
    with replay.opened(Quiet()):
        assert not real_noise()
    assert real_noise()


def test_an_exception_closes_it():
    with pytest.raises(ZeroDivisionError), replay.opened(Quiet()):
        1 / 0  # noqa: B018
    assert replay.current() is None
    assert real_noise()


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(timeout=240)
    return found == [True]


def test_a_fit_in_another_thread_has_real_noise():
    with replay.opened(Quiet()):
        assert in_thread(real_noise)
        # Even where the context is handed over, as an executor may do.
        context = contextvars.copy_context()
        assert in_thread(lambda: context.run(real_noise))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_is_another_process():
    with replay.opened(Quiet()):
        child = os.fork()
        if not child:
            os._exit(0 if replay.current() is None else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_task_that_outlives_it_has_real_noise():
    async def audit():
        with replay.opened(Quiet()):
            task = asyncio.get_running_loop().create_task(later())
        return await task

    async def later():
        return real_noise()

    assert asyncio.run(audit())


def test_one_at_a_time():
    with replay.opened(Quiet()):
        with pytest.raises(RuntimeError, match="an audit runs inside another one"):
            with replay.opened(Quiet()):
                pass
        assert replay.current() is not None


def test_streams_are_keyed_by_their_names_alone():
    class Named(Quiet):
        def key(self, stream):
            self.asked.append(stream)
            return 7

    audit = Named()
    with replay.opened(audit):
        for _ in range(2):
            streams = Streams(None, DPSGDFClassifier)
            assert streams.private("mean", math.pi).integers(2**63) > 0
            streams.public("split")
    assert audit.asked == ["private/mean/", "public/split"] * 2


def test_nobody_but_audits_opens_one():
    root = Path(skfdp.__file__).parent
    users = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "release.opened(" in path.read_text() or "import opened" in path.read_text()
    ]
    assert users == ["audit/replay.py"]
