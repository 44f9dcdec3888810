"""Which fits on one table share a ledger: one public set, by name, target included."""

import enum
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivateCenteringTransformer,
    report,
)
from skfdp.privacy import Event, gdp_epsilon
from skfdp.solvers import NoisyGradientDescent

DELTA = 1e-5
MU = 0.1


def event(**facts) -> Event:
    facts.setdefault("label", "sum")
    facts.setdefault("neighboring_relation", "replace_one")
    reach = 2.0 if facts["neighboring_relation"] == "replace_one" else 1.0
    return Event(noise_std=(reach / MU,), clip_norm=1.0, sensitivity=reach, **facts)


def public(*columns: str, **facts) -> Event:
    return event(public_features=columns, **{"target_name": "outcome", **facts})


def without_privacy(ledger: PrivacyLedger) -> None:
    ledger.charge_nonprivate()


A, B = (event(public_target=True, target_name=name) for name in "ab")
TARGET, STEP = public(public_target=True), event()
NO_NAME = {"unnamed": ("target",)}
UNNAMED = event(public_features=("age",), **NO_NAME)
ARRAYS = event(unnamed=("columns", "target"))
NO_COLUMNS = event(public_target=True, unnamed=("columns",), target_name="a")
SPECIAL = public(neighboring_relation="replace_special")
BATCHES = public(sampling_rate=0.1, label="batches")
#: Case -> declared set, first charge, second charge.
CASES = {
    "nothing public": (None, event(target_name="a"), event(target_name="a")),
    "same set": (None, public("age"), public("age")),
    "smaller set": (None, public("age", "sex"), public("age")),
    "larger set": (None, public("age"), public("age", "sex")),
    "public after private": (None, public(), public("age")),
    "declared set": (["age", "sex"], public("age"), public("sex")),
    "outside the declared set": (["age"], public(), public("sex")),
    "same target": (None, TARGET, TARGET),
    "target public, then private": (None, TARGET, public()),
    "target public, then label-DP": (None, TARGET, public("age", "sex")),
    "crossed targets": (None, A, B),
    "crossed targets, declared": (["a", "b"], A, B),
    "derived column without its parent": (None, public("age"), public("age_sp_0")),
    "targets without names": (None, *[event(public_target=True)] * 2),
    "one target without a name": (None, A, event(**NO_NAME)),
    "unnamed target, larger set": (["age", "dx"], None, UNNAMED),
    "unnamed target, same set": (None, UNNAMED, UNNAMED),
    "step of a Pipeline": (None, STEP, TARGET),
    "step of a Pipeline, declared": (["outcome"], STEP, TARGET),
    "one target per label": (None, event(public_target=True, **NO_NAME), TARGET),
    "columns without names": (None, None, event(public_features=(0,), target_name="a")),
    "columns without names, target public": (None, None, NO_COLUMNS),
    "arrays, nothing public": (None, ARRAYS, ARRAYS),
    "two relations": (None, public(), SPECIAL),
    "full and Poisson batches": (None, public(), BATCHES),
    "seeded": (None, public(seeded=True), public()),
    "without privacy, under a limit": (None, public(), without_privacy),
}

#: Cases whose second charge the ledger refuses; the page on ledgers lists both kinds.
REFUSED = {
    "larger set",
    "public after private",
    "outside the declared set",
    "target public, then label-DP",
    "crossed targets",
    "derived column without its parent",
    "one target without a name",
    "unnamed target, larger set",
    "step of a Pipeline",
    "one target per label",
    "columns without names",
    "columns without names, target public",
    "two relations",
    "without privacy, under a limit",
}
assert REFUSED < CASES.keys()


def charge(ledger: PrivacyLedger, what) -> None:
    if callable(what):
        what(ledger)
    else:
        ledger.charge([what])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("in_file", [False, True], ids=["memory", "file"])
def test_a_second_fit_is_taken_or_refused(case, in_file, tmp_path):
    declared, first, second = CASES[case]
    path = tmp_path / "ledger.sqlite" if in_file else None
    ledger = PrivacyLedger(path, epsilon=2.0, delta=DELTA, public=declared)
    if first is not None:
        charge(ledger, first)
    before = len(ledger)
    if case not in REFUSED:
        charge(ledger, second)
        assert len(ledger) == before + 1
        assert report(ledger).epsilon <= gdp_epsilon(DELTA, MU * math.sqrt(2)) + 1e-3
    else:
        with pytest.raises(PrivacyBudgetError, match=r"nothing was charged|limit"):
            charge(ledger, second)
        assert len(ledger) == before


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    columns = {"age": rng.random(300), "dose": rng.random(300)}
    flags = {name: (rng.random(300) > 0.5).astype(int) for name in ("dx", "stay")}
    return pd.DataFrame(columns | flags)


class TestReview:
    """What a second attack found in the first version of these rules."""

    def test_a_private_target_without_a_name_may_be_a_public_column(self, table):
        model = FeatureDPLogisticRegression(
            bounds=(0, 1),
            ledger=PrivacyLedger(),
            solver=NoisyGradientDescent(max_iter=2),
        )
        model.set_params(public_features=["dx"])
        model.fit(table[["dx", "dose"]], (table.age > 0.5).to_numpy())
        model.set_params(public_features=None)
        with pytest.raises(PrivacyBudgetError, match="may be one of 'dx'"):
            model.fit(table[["age", "dose"]], table.dx.to_numpy())

    def test_a_pipeline_sees_it_behind_an_array(self, table):
        model = make_pipeline(
            PrivateCenteringTransformer(
                bounds=(0, 1), neighboring_relation="replace_one"
            ),
            FeatureDPLogisticRegression(public_target=True, bounds=False),
        ).fit(table, table.dx)
        with pytest.raises(PrivacyBudgetError, match="discloses its target 'dx'"):
            report(model)

    def test_names_have_one_spelling(self):
        class Column(str, enum.Enum):  # noqa: UP042 -- the kind whose str() differs
            DX = "dx"

        for spelled in (" dx", "dx ", Column.DX):
            assert event(target_name=spelled).target_name == "dx"
            assert public(spelled).public_features == ("dx",)
        ledger = PrivacyLedger(public=["é"])
        ledger.charge([public("e\u0301")])
        assert ledger.public == ("é",)


class TestDeclaration:
    def test_an_event_without_names_is_refused(self):
        for name in ("target_name", "unnamed", "unit"):
            values = event(public_target=True).to_dict()
            del values[name]
            with pytest.raises(ValueError, match=f"lacks the field '{name}'"):
                Event.from_dict(values)

    def test_a_promise_is_not_widened_later(self, tmp_path):
        path = tmp_path / "ledger.sqlite"
        PrivacyLedger(path).charge([public("age")])
        with pytest.raises(ValueError, match="declared too late"):
            PrivacyLedger(path, public=["age", "sex"])
        assert PrivacyLedger(path).public == ("age",)
        assert PrivacyLedger(path, public=["age"]).public == ("age",)


class TestFits:
    """The attack itself, with estimators: every one of them tells its names."""

    def test_fits_with_different_public_targets(self, table):
        ledger = PrivacyLedger(epsilon=2.0, delta=DELTA)
        model = FeatureDPLogisticRegression(
            epsilon=0.2, bounds=(0, 1), public_target=True, ledger=ledger
        )
        model.fit(table[["dx", "age"]], table["stay"])
        with pytest.raises(PrivacyBudgetError, match="'dx'.*outside the public set"):
            model.fit(table[["stay", "age"]], table["dx"])
        assert len({entry.charge for entry in ledger.entries}) == 1

    def test_columns_known_by_position(self, small):
        X, y = small
        ledger = PrivacyLedger()
        model = FeatureDPLogisticRegression(
            public_features=[0], bounds=(0, 1), ledger=ledger
        )
        with pytest.raises(PrivacyBudgetError, match="pass a DataFrame"):
            model.fit(X[:, [0, 1]], y)
        named = pd.DataFrame(X[:, [0, 1]], columns=["age", "dose"])
        model.set_params(target="dx").fit(named, y)
        # The same position, and another column.
        with pytest.raises(PrivacyBudgetError, match="'dose'.*outside the public set"):
            model.fit(named[["dose", "age"]], y)

    @pytest.mark.parametrize(
        "model",
        [
            FeatureDPLogisticRegression(public_features=[0]),
            FeatureDPLogisticRegression(public_features="all"),
            FeatureDPRegressor(public_features=[0], target_bounds=(0, 1)),
            FeatureDPMLPClassifier(public_features=[0], hidden_layer_sizes=(4,)),
            DPSGDFClassifier(),
            PrivateCenteringTransformer(public_features=[0]),
        ],
        ids=lambda model: type(model).__name__,
    )
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_every_estimator_hands_on_its_names(self, model, named):
        X, y = named
        ledger = PrivacyLedger(public=[*X.columns])
        facts = {"target": "t"} if "target" in model.get_params() else {}
        model.set_params(epsilon=1.0, bounds=(0, 1), ledger=ledger, **facts).fit(X, y)
        shown = model.get_params().get("public_features")
        columns = {None: (), "all": ("u0", "u1", "u2", "u3")}.get(
            shown if not isinstance(shown, list) else "first", ("u0",)
        )
        for one in ledger.events:
            assert one.public_features == columns
            assert one.target_name == facts.get("target")
            assert one.unnamed == ()
        assert model.privacy_.target_name == facts.get("target")

    def test_names_that_contradict_are_refused_before_the_charge(self, named):
        ledger = PrivacyLedger()
        model = FeatureDPLogisticRegression(
            public_features=["u0"], bounds=(0, 1), ledger=ledger
        )
        both = "is the name of a public and of a private column"
        for facts, match in (
            ({"target": "u0"}, both),
            ({"target": "u1", "public_target": True}, both),
            ({"target": ""}, "target='' must be the name of the column"),
        ):
            with pytest.raises(ValueError, match=match):
                clone(model).set_params(**facts).fit(*named)
        assert len(ledger) == 0


class TestTheorem:
    """Neighbours under the union are neighbours under each set: by brute force."""

    def test_nested_neighbours(self):
        columns = (0, 1, 2)
        records = list(itertools.product((0, 1), repeat=3))
        tables = list(itertools.product(records, repeat=2))

        def neighbours(one, other, public):
            moved = [i for i in range(2) if one[i] != other[i]]
            rows = list(zip(one, other, strict=True))
            agree = all(r[c] == s[c] for r, s in rows for c in public)
            return len(moved) <= 1 and agree

        subsets = [
            set(s) for size in range(4) for s in itertools.combinations(columns, size)
        ]
        checked = 0
        for small_set, large in itertools.product(subsets, repeat=2):
            pairs = [
                (one, other)
                for one in tables
                for other in tables
                if neighbours(one, other, large)
            ]
            inside = all(neighbours(one, other, small_set) for one, other in pairs)
            # The converse fails: what is outside is not protected.
            assert inside == (small_set <= large)
            checked += len(pairs)
        assert checked > 1000
