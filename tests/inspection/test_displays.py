"""The data of the displays; their looks are for people."""

import math
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skfdp import DPSGDFClassifier, PrivacyLedger, report
from skfdp.inspection import EffectsDisplay, LedgerDisplay
from skfdp.privacy import Event, compose, gdp_epsilon

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


class TestLedger:
    def ledger(self):
        ledger = PrivacyLedger(epsilon=2.0, delta=DELTA, dataset="people")
        for mu in (0.3, 0.4):
            ledger.charge([full_batch(mu / math.sqrt(2))] * 2)
        return ledger

    def test_spent_after_each_charge(self):
        ledger = self.ledger()
        display = LedgerDisplay.from_ledger(ledger)
        expected = [gdp_epsilon(DELTA, mu) for mu in (0.3, 0.5)]
        np.testing.assert_allclose(display.epsilons, expected, rtol=1e-9)
        assert display.epsilons[-1] == ledger.spent()
        np.testing.assert_array_equal(display.line_.get_ydata(), display.epsilons)
        assert display.ceiling_line_.get_ydata()[0] == 2.0
        assert display.times.dtype == "datetime64[D]"
        assert (np.diff(display.times).astype(int) >= 0).all()
        assert "people" in display.ax_.get_title()

    def test_against_charges(self):
        display = LedgerDisplay.from_ledger(self.ledger())
        np.testing.assert_array_equal(display.line_.get_xdata(), [1, 2])
        display.plot(against="time")
        np.testing.assert_array_equal(display.line_.get_xdata(), display.times)

    def test_parts_count_once(self):
        ledger = PrivacyLedger()
        for start in (0, 10):
            ledger.part(rows=range(start, start + 10)).charge([full_batch()])
        display = LedgerDisplay.from_ledger(ledger, delta=DELTA)
        np.testing.assert_allclose(display.epsilons, [gdp_epsilon(DELTA, 0.3)] * 2)
        assert display.ceiling_line_ is None

    def test_a_fit_without_privacy(self):
        ledger = PrivacyLedger()
        ledger.charge([full_batch()])
        ledger.charge_nonprivate()
        display = LedgerDisplay.from_ledger(ledger, delta=DELTA)
        assert display.epsilons[1] == math.inf
        assert len(display.line_.get_ydata()) == 1
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert "fit without privacy: nothing is protected" in texts

    def test_refuses(self, tmp_path):
        PrivacyLedger(tmp_path / "l.db", epsilon=1.0, delta=DELTA)
        display = LedgerDisplay.from_ledger(str(tmp_path / "l.db"))
        assert len(display.epsilons) == 0
        with pytest.raises(ValueError, match="must be 'time' or 'charge'"):
            LedgerDisplay.from_ledger(PrivacyLedger(), delta=DELTA, against=np.eye(2))
        with pytest.raises(ValueError, match="delta=.* must be a number strictly"):
            LedgerDisplay.from_ledger(PrivacyLedger(), delta=iter([0, 1]))
        with pytest.raises(ValueError, match="delta=None needs a ledger with a ceil"):
            LedgerDisplay.from_ledger(PrivacyLedger())
        with pytest.raises(TypeError, match="must be a path or a PrivacyLedger"):
            LedgerDisplay.from_ledger(None)


class TestCurve:
    def test_it_is_the_curve_of_the_events(self, small):
        model = DPSGDFClassifier(bounds=(0, 1), max_iter=5).fit(*small)
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


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    display = LedgerDisplay(times=np.array([]), epsilons=np.array([]), delta=DELTA)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'skfdp\[pl"):
        display.plot()


class TestOddArguments:
    """What fuzzing found: a sentence, and no error of matplotlib or NumPy."""

    MODEL = DPSGDFClassifier(bounds=(0, 1), max_iter=2)

    @pytest.fixture
    def data(self):
        return np.random.default_rng(0).random((40, 2)), np.arange(40) % 2

    @pytest.mark.parametrize("ax", [7, "x", False, (0, 1), np.array(1.0)])
    def test_axes(self, ax, data):
        model = clone(self.MODEL).fit(*data)
        ledger = PrivacyLedger(epsilon=1.0, delta=DELTA)
        calls = [
            lambda: model.privacy_.plot_curve(ax),
            lambda: LedgerDisplay.from_ledger(ledger, ax=ax),
        ]
        for call in calls:
            with pytest.raises(TypeError, match="must be None or a matplotlib Axes"):
                call()
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
