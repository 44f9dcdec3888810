"""The loop of the linear estimators with weights and persons, and who takes none."""

import math

import numpy as np
import pandas as pd
import pytest

from skfdp import (
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    TableSchema,
)
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Relation
from skfdp.schema import Label, Number
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent
from skfdp.solvers.method import Budget

pytestmark = pytest.mark.filterwarnings("ignore")

N_ROWS, N_PERSONS = 240, 40
RNG = np.random.default_rng(0)
X = RNG.random((N_ROWS, 3))
Y = (X[:, 0] + RNG.normal(size=N_ROWS) / 4 > 0.5).astype(int)
GROUPS = RNG.permutation(
    np.repeat(np.arange(N_PERSONS), np.r_[np.ones(20, int), np.full(20, 11)])
)
WEIGHTS = RNG.random(N_ROWS)
TABLE = pd.DataFrame(X, columns=list("abc")).assign(person=GROUPS)
HEAVY = np.where(np.arange(N_ROWS) == 0, 10.0, 1.0)


def classifier(**more):
    given = {
        "bounds": (0, 1),
        "classes": [0, 1],
        "solver": NoisyGradientDescent(max_iter=5, clip_norm=0.4),
    }
    return FeatureDPLogisticRegression(**(given | more))


def first_rows(shown, **more):
    """Return a classifier of one row of each person of TABLE."""
    columns = {name: Number(0, 1, public=name in shown) for name in "abc"}
    schema = TableSchema(
        columns | {"ill": Label([0, 1], public=True)},
        outcomes=["ill"],
        group="person",
        max_rows_per_group=1,
    )
    return classifier(schema=schema, bounds=None, classes=None, **more)


def loop_of(model, table=X, **rows):
    """Return the event of the loop."""
    (event,) = (e for e in model.plan(table, Y, **rows).events if e.label == "descent")
    return event


@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
def test_the_loop_charges_a_person_as_it_charges_a_record(relation):
    """Two clip norms, whatever the number of rows."""
    model = classifier(neighboring_relation=relation)
    event = loop_of(model, groups=GROUPS, sample_weight=WEIGHTS)
    assert event.unit == "person"
    assert event.clip_norm == 0.4
    assert event.sensitivity == (0.8 if relation == "replace_one" else 0.4)


@pytest.mark.parametrize("kind", [DPSGDFRegressor, FeatureDPRegressor])
def test_regressors_do_so_too(kind):
    model = kind(
        bounds=(0, 1),
        target_bounds=(0, 1),
        solver=NoisyGradientDescent(max_iter=5, clip_norm=0.4),
    )
    event = loop_of(model, groups=GROUPS)
    assert (event.clip_norm, event.unit) == (0.4, "person")
    assert event.sensitivity <= 0.8


def test_the_mechanism_gives_out_what_the_loop_charged(monkeypatch):
    """Its query clips persons, and says the bounds of the event."""
    seen, release = [], Mechanism.release

    def noted(self, label, query, theta=None, **more):
        if label == "descent":
            seen.append((query.of_units(self._units), self.event(label)))
        return release(self, label, query, theta, **more)

    monkeypatch.setattr(Mechanism, "release", noted)
    classifier().fit(X, Y, groups=GROUPS, sample_weight=WEIGHTS)
    assert len(seen) == 5
    for query, event in seen:
        assert query.units.joint
        assert query.clip_norm == event.clip_norm
        assert query.sensitivity(event.relation) == event.sensitivity


# -- the lemmas ----------------------------------------------------------------------
def test_weights_keep_the_orthant_and_persons_do_not():
    model = classifier(public_target=True, centering=None)
    root = math.sqrt(2) * 0.4
    assert loop_of(model).sensitivity == pytest.approx(root)
    weighted = loop_of(model, sample_weight=WEIGHTS)
    assert weighted.sensitivity == pytest.approx(root)
    assert loop_of(model, groups=GROUPS).sensitivity == 0.8
    alone = loop_of(model, groups=np.arange(N_ROWS))
    assert (alone.unit, alone.sensitivity) == ("person", pytest.approx(root))


def test_labels_move_persons_by_their_rows():
    """The longest person counts, all columns being public."""
    model = classifier(
        public_features=[0, 1, 2],
        solver=NoisyGradientDescent(max_iter=5, clip_norm=50.0),
    )
    record, person = loop_of(model), loop_of(model, groups=GROUPS)
    assert 0.5 < record.sensitivity < 5
    assert 0.5 < person.sensitivity < 5
    heavy = loop_of(model, sample_weight=HEAVY)
    assert heavy.sensitivity > 3 * record.sensitivity


# -- padded rows ---------------------------------------------------------------------
@pytest.mark.parametrize("padding", ["zero", "gaussian"])
def test_paddings_are_for_records_of_one_row(padding):
    solver = FeatureDPSGD(public_loss=padding, max_iter=5, clip_norm=0.4)
    model = classifier(public_features=[0], public_target=True, solver=solver)
    told = f"public_loss='{padding}' is not supported with groups"
    for call in (model.fit, model.plan):
        with pytest.raises(ValueError, match=told):
            call(X, Y, groups=GROUPS)
    cut = first_rows(["a"], solver=solver)
    assert loop_of(cut, TABLE).sensitivity == 0.8
    assert np.isfinite(cut.fit(TABLE, Y).coef_).all()
    assert loop_of(model, sample_weight=WEIGHTS).sensitivity == 0.8
    assert np.isfinite(model.fit(X, Y, sample_weight=WEIGHTS).coef_).all()


def test_a_callable_public_loss_is_the_users_own():
    def nothing(coef, intercept, X_public, y):
        return np.zeros_like(coef), np.zeros_like(intercept)

    given = {"public_features": [0], "random_state": 0, "public_model": None}
    solver = FeatureDPSGD(public_loss=nothing, max_iter=5, clip_norm=0.4)
    one = classifier(solver=solver, **given).fit(X, Y, groups=GROUPS)
    assert loop_of(one, groups=GROUPS).sensitivity == 0.8
    assert np.isfinite(one.coef_).all()


# -- events --------------------------------------------------------------------------
def test_events_of_records_become_those_of_persons():
    relation = Relation.of("replace_one")
    facts = {"neighboring_relation": "replace_one"}
    of = {reach: Budget(1.0, 1e-5, relation, facts, reach=reach) for reach in (1, 3)}
    one, three = (
        b.event("sum", 2.0, clip_norm=0.5, sensitivity=1.0) for b in of.values()
    )
    assert (three.clip_norm, three.sensitivity) == (1.5, 3.0)
    assert three.noise_std == (6.0,)
    assert three.mu == pytest.approx(one.mu)
    one, three = (
        b.calibrate(clip_norm=0.5, sensitivity=1.0, n_steps=7) for b in of.values()
    )
    assert (three.clip_norm, three.sensitivity) == (1.5, 3.0)
    np.testing.assert_allclose(three.noise_std, 3 * one.noise_std, rtol=1e-6)


# -- who takes no groups -------------------------------------------------------------
OTHERS = {
    "FeatureDPMLPClassifier": FeatureDPMLPClassifier(bounds=(0, 1)),
    "PrivateCenteringTransformer": PrivateCenteringTransformer(bounds=(0, 1)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("verb", ["fit", "plan"])
def test_groups_are_refused_where_nobody_reads_them(name, verb, monkeypatch):
    monkeypatch.setattr(Mechanism, "release", None)  # nothing is released
    told = f"{name}.{verb} takes no groups: only the linear estimators .*DPSGDF"
    with pytest.raises(TypeError, match=told):
        getattr(OTHERS[name], verb)(X, Y, groups=GROUPS)


def test_other_releases_are_those_of_a_record_times_the_reach():
    """And the loop has a clip of its own."""
    model = classifier()
    events = {e.label: e for e in model.plan(X, Y, sample_weight=HEAVY).events}
    plain = {e.label: e for e in model.plan(X, Y).events}
    assert set(events) == set(plain) != {"descent"}
    reach = 10 * N_ROWS / HEAVY.sum()
    for label in set(events) - {"descent"}:
        found, wanted = events[label], plain[label]
        assert found.clip_norm == pytest.approx(reach * wanted.clip_norm)
        assert found.sensitivity == pytest.approx(reach * wanted.sensitivity)
    assert events["descent"].clip_norm == plain["descent"].clip_norm
