"""Attributes that are no parameters change nothing that a fit declares or charges."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    TableSchema,
    UtilityWarning,
    private_score,
)
from skfdp.base import Declared
from skfdp.schema import Number
from skfdp.solvers import FeatureDPSGD, NoisySGD

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.random((80, 3)), columns=["age", "bmi", "dose"])
Y = pd.Series((X["age"] > 0.5).astype(int), name="ill")
SEED = {"epsilon": 2.0, "bounds": (0, 1), "random_state": 0}
MODELS = {
    "DPSGDFClassifier": DPSGDFClassifier(classes=[0, 1], **SEED),
    "DPSGDFRegressor": DPSGDFRegressor(target_bounds=(0, 1), **SEED),
    "FeatureDPLogisticRegression": FeatureDPLogisticRegression(classes=[0, 1], **SEED),
    "FeatureDPRegressor": FeatureDPRegressor(target_bounds=(0, 1), **SEED),
    "FeatureDPMLPClassifier": FeatureDPMLPClassifier(
        classes=[0, 1], hidden_layer_sizes=(2,), solver=NoisySGD(max_iter=2), **SEED
    ),
    "PrivateCenteringTransformer": PrivateCenteringTransformer(**SEED),
}
VALUES = {
    "public_features": ["age"],
    "public_target": True,
    "target": "other",
    "schema": TableSchema({"age": Number(0, 1)}),
    "bounds": (0, 9),
    "classes": [0, 1, 2],
    "target_bounds": (0, 9),
    "class_weight": {0: 3.0, 1: 1.0},
    "loss": "poisson",
    "solver": FeatureDPSGD(public_loss="gaussian"),
}
MISSING = [
    (name, declared)
    for name, model in MODELS.items()
    for declared in sorted(VALUES.keys() - model.get_params().keys())
]


def fitted(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, Y)


def test_every_shared_declaration_is_tried():
    shared = {field.name for field in dataclasses.fields(Declared)}
    shown = {name for model in MODELS.values() for name in model.get_params()}
    assert VALUES.keys() >= shared & shown


@pytest.mark.parametrize(("name", "declared"), MISSING)
def test_attack_2_attribute_without_parameter_has_no_effect(name, declared):
    model, plain = clone(MODELS[name]), fitted(clone(MODELS[name]))
    before = dict(vars(model))
    with pytest.warns(UtilityWarning, match=f"no parameter '{declared}'"):
        setattr(model, declared, VALUES[declared])
    assert vars(model) == before
    fitted(model)
    assert model.privacy_ == plain.privacy_
    assert model.privacy_.public_features == ()
    for released in model._released:
        np.testing.assert_equal(getattr(model, released), getattr(plain, released))


@pytest.mark.parametrize(("name", "declared"), MISSING)
def test_attack_2_class_attribute_has_no_effect(name, declared):
    model = clone(MODELS[name])
    kind = type(model)
    own = type(kind.__name__, (kind,), {declared: VALUES[declared]})
    found, plain = fitted(own(**model.get_params(deep=False))), fitted(model)
    assert found.privacy_ == plain.privacy_
    for released in model._released:
        np.testing.assert_equal(getattr(found, released), getattr(plain, released))


def test_attack_2_subclass_with_fixed_parameters_ignores_other_attributes():
    class Fixed(FeatureDPLogisticRegression):
        def __init__(self, epsilon=1.0):
            super().__init__(epsilon, bounds=(0, 1), classes=[0, 1])

    model = Fixed(2.0)
    with pytest.warns(UtilityWarning, match="no parameter 'public_features'"):
        model.public_features = ["age"]
    with pytest.warns(UtilityWarning, match="no parameter 'public_target'"):
        model.public_target = True
    assert model.fit(X, Y).privacy_.public_features == ()
    assert not model.privacy_.public_target


def test_attack_2_score_takes_no_bound_from_an_attribute():
    model = LinearRegression().fit(X, X["dose"])
    model.target_bounds = (0, 1)
    with pytest.raises(ValueError, match="declares no target_bounds"):
        private_score(
            model,
            X,
            X["dose"],
            1.0,
            metrics="mean_absolute_error",
            model_is_public=True,
        )
