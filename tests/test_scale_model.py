"""The model of scale, without a cluster: what it says of constants that are known."""

import dataclasses
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "reproduce"

pytestmark = pytest.mark.skipif(
    not FOLDER.exists(), reason="the benchmarks are not part of an installed package"
)


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import scale_model

    yield scale_model
    for name in ("scale_model", "dask_overhead"):
        sys.modules.pop(name, None)


def test_a_step_is_work_calls_and_latency(script):
    plain = script.Constants(2e-9, 0.0, 0.0, 0.0, 1e-8)
    assert plain.step(1e6, 100, 4) == pytest.approx(2e-9 * 1e8 / 4)
    assert plain.fit(1e6, 100, 4, 10) == pytest.approx(10 * 0.05 + 0.25)
    whole = dataclasses.replace(plain, call=1e-3, latency=5e-3)
    assert whole.step(1e6, 100, 4) == pytest.approx(0.05 + 4e-3 + 5e-3)
    uneven = dataclasses.replace(plain, spread=0.2)
    # The longest of two is longer than either, of one it is the mean.
    assert uneven.step(1e6, 100, 2) > 1.05 * plain.step(1e6, 100, 2)
    assert uneven.step(1e6, 100, 1) == pytest.approx(0.2, rel=0.05)


def test_tables_hold_every_size_and_mark_what_does_not_fit(script):
    lines = script.predicted(script.Constants(2e-9, 0.1, 1e-3, 5e-3, 1e-8))
    assert len(lines) == 1 + len(script.ROWS) * len(script.WORKERS)
    assert " ! " in lines[1] and " ! " not in lines[4]
