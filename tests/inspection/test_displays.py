"""The data of the displays; their looks are for people."""

import math
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skfdp import DPSGDFClassifier, PrivacyLedger, report
from skfdp.inspection import EffectsDisplay
from skfdp.privacy import Event, compose
from skfdp.solvers import NoisyGradientDescent

mpl.use("Agg")
DELTA = 1e-5


def full_batch(mu=0.3, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return Event(**({"label": "steps"} | values | changes))


@pytest.fixture(autouse=True)
def no_figures_left():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


class TestCurve:
    def test_it_is_the_curve_of_the_events(self, small):
        model = DPSGDFClassifier(
            bounds=(0, 1), solver=NoisyGradientDescent(max_iter=5)
        ).fit(*small)
        ax = model.privacy_.plot_curve()
        epsilons, deltas = ax.lines[0].get_data()
        curve = compose(model.privacy_.events)
        assert epsilons[0] == 0.0
        assert epsilons[-1] == 2 * model.privacy_.epsilon
        for eps, delta in zip(epsilons[::20], deltas[::20], strict=True):
            assert delta == pytest.approx(curve.delta(eps), rel=1e-9)
        point = [float(value) for value in np.ravel(ax.lines[1].get_data())]
        assert point == [model.privacy_.epsilon, DELTA]
        assert ax.get_yscale() == "log"

    def test_with_parts_it_is_the_largest(self):
        ledger = PrivacyLedger(epsilon=9.0, delta=DELTA)
        sampled = full_batch(0.9, n_steps=20, sampling_rate=0.1)
        ledger.part(rows=range(5)).charge([full_batch(0.3)])
        ledger.part(rows=range(5, 9)).charge([sampled])
        ax = report(ledger).plot_curve(epsilons=[0.1, 1.0, 2.0])
        for eps, delta in zip(*ax.lines[0].get_data(), strict=True):
            alone = [compose([e]).delta(eps) for e in (full_batch(0.3), sampled)]
            assert delta == pytest.approx(max(alone), rel=1e-9)

    def test_without_privacy(self, small):
        model = DPSGDFClassifier(epsilon=math.inf, bounds=(0, 1)).fit(*small)
        with pytest.raises(ValueError, match="epsilon=inf has no privacy curve"):
            model.privacy_.plot_curve()


def test_without_matplotlib(monkeypatch, small):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    model = DPSGDFClassifier(
        bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2)
    ).fit(*small)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'skfdp\[pl"):
        model.privacy_.plot_curve()


class TestOddArguments:
    """What fuzzing found: a sentence, and no error of matplotlib or NumPy."""

    MODEL = DPSGDFClassifier(bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2))

    @pytest.fixture
    def data(self):
        return np.random.default_rng(0).random((40, 2)), np.arange(40) % 2

    @pytest.mark.parametrize("ax", [7, "x", False, (0, 1), np.array(1.0)])
    def test_axes(self, ax, data):
        model = clone(self.MODEL).fit(*data)
        with pytest.raises(TypeError, match="must be None or a matplotlib Axes"):
            model.privacy_.plot_curve(ax)
        with pytest.raises((TypeError, ValueError), match="must be None or a|ax has"):
            EffectsDisplay.from_estimator(model, ax=ax)

    @pytest.mark.parametrize("epsilons", [[], "x", True, object(), [np.nan], [[1.0]]])
    def test_epsilons(self, epsilons, data):
        report = clone(self.MODEL).fit(*data).privacy_
        with pytest.raises(ValueError, match="epsilons=.* must be a list of numbers"):
            report.plot_curve(epsilons=epsilons)

    @pytest.mark.parametrize("columns", [True, 3, "coefficients", np.ma.masked])
    def test_columns(self, columns, data):
        model = clone(self.MODEL).fit(*data)
        with pytest.raises(ValueError, match="columns=.* must be a list of names"):
            EffectsDisplay.from_estimator(model, columns=columns)

    def test_target(self, data):
        model = clone(self.MODEL).fit(*data)
        EffectsDisplay.from_estimator(model, target=np.int64(1))
        for target in (pd.NA, [0], np.eye(2), "a"):
            with pytest.raises(ValueError, match=r"target=.* must be one of \[0, 1\]"):
                EffectsDisplay.from_estimator(model, target=target)

    def test_no_columns(self, data):
        with pytest.raises(ValueError, match="there is no effect to draw"):
            EffectsDisplay.from_estimator(clone(self.MODEL).fit(*data), columns=[])
