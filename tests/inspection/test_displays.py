"""The data of the displays; their looks are for people."""

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skfdp import DPSGDFClassifier
from skfdp.inspection import EffectsDisplay
from skfdp.solvers import NoisyGradientDescent

mpl.use("Agg")


@pytest.fixture(autouse=True)
def no_figures_left():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def test_without_matplotlib(monkeypatch, small):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    model = DPSGDFClassifier(
        bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2)
    ).fit(*small)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'skfdp\[pl"):
        EffectsDisplay.from_estimator(model)


class TestOddArguments:
    """What fuzzing found: a sentence, and no error of matplotlib or NumPy."""

    MODEL = DPSGDFClassifier(bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2))

    @pytest.fixture
    def data(self):
        return np.random.default_rng(0).random((40, 2)), np.arange(40) % 2

    @pytest.mark.parametrize("ax", [7, "x", False, (0, 1), np.array(1.0)])
    def test_axes(self, ax, data):
        model = clone(self.MODEL).fit(*data)
        with pytest.raises((TypeError, ValueError), match="must be None or h|ax has"):
            EffectsDisplay.from_estimator(model, ax=ax)

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
