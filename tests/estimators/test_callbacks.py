"""scikit-learn's callbacks: told nothing private, obeyed, and never a refund."""

import math
from functools import partial

import numpy as np
import pytest

import skfdp
from skfdp.solvers import NoisyGradientDescent, NoisySGD

pytestmark = pytest.mark.usefixtures("callbacks")
SOON = {"bounds": (0, 1), "solver": NoisyGradientDescent(max_iter=4)}
LOGISTIC = partial(skfdp.FeatureDPLogisticRegression, **SOON)
FITS = {
    "dpsgd-f": partial(skfdp.DPSGDFClassifier, **SOON),
    # Of a small budget a model of the public columns would have all.
    "feature-dp": partial(LOGISTIC, 10.0, public_features=[0]),
    "sampled": partial(LOGISTIC, solver=NoisySGD(batch_size=50, max_iter=4)),
    "regressor": partial(skfdp.FeatureDPRegressor, target_bounds=(0, 1), **SOON),
    "one-shot": partial(LOGISTIC, public_features="all", solver="one-shot", C=1.0),
}


@pytest.fixture(params=FITS)
def make(request):
    return FITS[request.param]


class Spy:
    """A callback that records everything that it is given."""

    def __init__(self, stop_after=math.inf):
        self.told = []
        self.models = []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        self.told.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.told.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, **given):
        self.told.append(("begin", context.task_name, context.max_subtasks, given))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, **given):
        steps = sum(told[:2] == ("end", "step") for told in self.told)
        self.told.append(("end", context.task_name, context.max_subtasks, given))
        if context.task_name == "step":
            self.models.append(fitted_estimator)
        return steps + 1 >= self.stop_after


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_steps_show_released_iterates_only(loss, small):
    spy = Spy()
    solver = NoisyGradientDescent(max_iter=7)
    model = skfdp.DPSGDFClassifier(bounds=(0, 1), loss=loss, solver=solver)
    model.set_callbacks(spy).fit(*small)
    steps, last = ["step"] * 7, spy.models[-1].coef_
    assert [told[1] for told in spy.told if told[0] == "begin"] == ["fit", *steps]
    assert [told[1] for told in spy.told if told[0] == "end"] == [*steps, "fit"]
    # The last iterate, and with the log loss times a number measured after the loop.
    factor = 1.0 if loss == "hinge" else float(model.coef_[0, 0] / last[0, 0])
    rtol = 0 if loss == "hinge" else 1e-7
    np.testing.assert_allclose(model.coef_, factor * last, rtol=rtol)
    assert 0 <= factor <= 1.2
    assert spy.models[0].n_iter_ == 1
    assert spy.models[0].predict(small[0]).shape == (300,)
    assert spy.models[2].privacy_.epsilon == model.privacy_.epsilon


def test_what_they_see_depends_on_private_data_through_releases_only(
    make, small, monkeypatch
):
    """With releases that say nothing, all data sets look the same to a callback."""

    def mute(query, theta, **_):
        return np.full(query.shape, 0.25)

    monkeypatch.setattr("skfdp.mechanisms.release._noisy_sum", mute)
    X, y = small
    other = X.copy()
    other[:, 1:] = np.random.default_rng(5).random((len(X), 3))
    public = make().get_params().get("public_features")
    stories = []
    for rows, labels in ((X, y), (X if public == "all" else other, 1 - y)):
        spy = Spy()
        model = make().set_callbacks(spy).fit(rows, labels)
        seen = [
            (one.coef_.tolist(), one.intercept_.tolist(), one.n_iter_, one.privacy_)
            for one in spy.models
        ]
        stories.append((spy.told, seen, model.coef_.tolist()))
    assert stories[0] == stories[1]


@pytest.mark.parametrize("name", ["dpsgd-f", "feature-dp", "sampled"])
def test_a_stop_is_obeyed_and_the_whole_plan_stays_charged(name, named):
    ledger = skfdp.PrivacyLedger()
    model = FITS[name](ledger=ledger).set_callbacks(Spy(stop_after=2)).fit(*named)
    assert model.n_iter_ == 2 and ledger.events == model.privacy_.events
    assert ledger.events[-1].n_steps == 4
    whole = skfdp.PrivacyLedger()
    FITS[name](ledger=whole).fit(*named)
    assert ledger.spent(1e-5) == whole.spent(1e-5)


def test_a_callback_that_fails_gets_no_refund(small):
    class Failing(Spy):
        def on_fit_task_end(self, estimator, context, **given):
            raise OSError("disk full")

    ledger = skfdp.PrivacyLedger()
    model = FITS["dpsgd-f"](ledger=ledger).set_callbacks(Failing())
    with pytest.raises(OSError, match="disk full"):
        model.fit(*small)
    assert ledger.spent(1e-5) == pytest.approx(1.0, abs=1e-3)
    assert not model.__sklearn_is_fitted__()


def test_a_fit_inside_a_callback_is_charged_too(small):
    """The ledger's lock is not held while a mechanism runs."""
    ledger = skfdp.PrivacyLedger()

    class Fitting(Spy):
        def on_fit_task_end(self, estimator, context, **given):
            if context.task_name == "step":
                FITS["sampled"](ledger=ledger).fit(*small)

    FITS["dpsgd-f"](ledger=ledger).set_callbacks(Fitting()).fit(*small)
    assert len({entry.charge for entry in ledger.entries}) == 1 + 4
