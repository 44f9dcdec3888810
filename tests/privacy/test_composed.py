"""Reports of Pipelines and of tools around estimators, from fit to text."""

import html
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)

from skfdp import (
    DeclaredEncoder,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
    TableSchema,
    report,
)
from skfdp.privacy import PrivacyBudgetError, compose, find_reports, read_report
from skfdp.privacy.events import ASSUMED
from skfdp.privacy.preprocessing_steps import REFUSES
from skfdp.schema import Category, Number
from skfdp.solvers import NoisyGradientDescent

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 120
SOON = NoisyGradientDescent(max_iter=2)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.uniform(18, 90, N),
            "sex": rng.choice(["f", "m"], N),
            "bmi": rng.uniform(15, 50, N),
            "hba1c": rng.uniform(3, 15, N),
        }
    )


@pytest.fixture(scope="module")
def labels():
    return np.arange(N) % 2


def logistic(**changes):
    given = {"classes": [0, 1], "bounds": (0, 1), "solver": SOON}
    return FeatureDPLogisticRegression(**given | changes)


def regressor(**changes):
    given = {"bounds": (0, 1), "target_bounds": (0, 1), "solver": SOON}
    return FeatureDPRegressor(**given | changes)


def columns(*parts, **changes):
    return ColumnTransformer(list(parts), **changes).set_output(transform="pandas")


def one_hot(*names):
    step = OneHotEncoder(
        categories=[["f", "m"]], handle_unknown="ignore", sparse_output=False
    )
    return ("public", step, list(names))


def private(*names, step="passthrough"):
    return ("private", step, list(names))


def parted(table, labels, *parts, **changes):
    """Return the report of a model behind parts of columns, "public" ones public."""
    model = logistic(**{"public_features": "public__*"} | changes)
    return report(make_pipeline(columns(*parts), model).fit(table, labels))


def text_of(found):
    return " ".join(found.statement(full=True).split())


def learns(found):
    return {one.step.partition(" ")[0]: one.learns for one in found.learnt}


def followed(found):
    """Return whether columns were followed, None if nothing is said of it."""
    told = {a.key: a.enforced for a in found.assumptions}
    assumed = told.get(ASSUMED["public_columns_assumed"].key)
    assert assumed in (None, False)
    assert not {
        ASSUMED["public_columns_assumed"].key,
        ASSUMED["public_columns_followed"].key,
    } <= set(told)
    return told.get(ASSUMED["public_columns_followed"].key, assumed)


def reads_back(found, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(found.to_json(), encoding="utf-8")
    return read_report(path) == found


class TestWhatIsSaid:
    def test_of_steps_that_learn_nothing(self, table, labels, tmp_path):
        found = parted(table, labels, one_hot("sex"), private("bmi", "hba1c"))
        assert set(learns(found).values()) == {"nothing"}
        assert not found.unknown_steps and not found.leaks
        assert found.public_sources == ("sex",) and followed(found)
        assert found.private_features == ("private__bmi", "private__hba1c")
        text = text_of(found)
        assert "VOID" not in text + found._repr_html_()
        assert "columntransformer__public (OneHotEncoder): nothing; all cat" in text
        assert reads_back(found, tmp_path)
        # No value of a public column is secret; a step of private ones may fail.
        assert REFUSES not in found.assumptions
        failing = private("bmi", "hba1c", step=PolynomialFeatures(1))
        assert REFUSES in parted(table, labels, one_hot("sex"), failing).assumptions

    def test_of_the_encoder(self, table, labels):
        columns = {"age": Number(0, 99), "bmi": Number(10, 60), "hba1c": Number(3, 15)}
        columns["sex"] = Category(["f", "m"])
        schema = TableSchema(columns)
        encoder = DeclaredEncoder(schema).set_output(transform="pandas")
        model = make_pipeline(
            encoder, logistic(bounds=False, public_features=["age__*", "sex__*"])
        )
        found = report(model.fit(table, labels))
        assert learns(found) == {"declaredencoder": "nothing"}
        assert found.public_sources == ("age", "sex") and followed(found)
        model.set_params(featuredplogisticregression__public_features=["age__0"])
        with pytest.raises(PrivacyBudgetError, match="treat both as public, or both"):
            report(model.fit(table, labels))

    def test_of_steps_that_learn_from_rows(self, table, labels, tmp_path):
        scaled = private("bmi", step=StandardScaler())
        found = parted(table, labels, one_hot("sex"), scaled)
        (leak,) = found.leaks
        assert leak.step == "columntransformer__private (StandardScaler)"
        sentence = f"Step {leak.step} learns from the rows without privacy: means and"
        text = text_of(found)
        assert sentence in text and "No epsilon holds for the whole" in text
        card = html.unescape(found._repr_html_())
        assert card.index("VOID") < card.index(sentence) < card.index("epsilon = ")
        keys = list(found.to_dict())
        assert keys.index("learnt") <= keys.index("epsilon") + 3
        assert followed(found) is False
        assert reads_back(found, tmp_path)

    def test_of_steps_that_learn_from_the_target(self, table, labels):
        model = make_pipeline(
            SelectKBest(k=2), logistic(bounds=(0, 90), public_features="all")
        )
        found = report(model.fit(table[["age", "bmi", "hba1c"]], labels))
        assert learns(found) == {"selectkbest": "target"}
        assert "learns from the target without privacy" in text_of(found)
        assert "selectkbest (SelectKBest): from target; which" in text_of(found)

    def test_of_public_columns_alone(self, table, labels):
        scaler = StandardScaler()
        nested = make_pipeline("passthrough", scaler)
        for step, end in ((scaler, ""), (nested, "__standardscaler")):
            found = parted(table, labels, ("public", step, ["age"]), private("bmi"))
            assert learns(found)["columntransformer__public" + end] == "public columns"
            assert not found.leaks and followed(found)

    @pytest.mark.parametrize("public_target", [False, True])
    def test_of_a_public_target(self, table, labels, public_target):
        step = ("public", TargetEncoder(target_type="binary"), ["sex"])
        known = {"public_target": public_target}
        found = parted(table, labels, step, private("bmi"), **known)
        expected = "public columns" if public_target else "target"
        assert learns(found)["columntransformer__public"] == expected
        assert bool(found.leaks) != public_target

    def test_with_label_dp_rows_are_free(self, table, labels):
        X = table[["age", "bmi", "hba1c"]]
        for first in (FunctionTransformer(lambda X: X), "passthrough"):
            model = make_pipeline(
                first, StandardScaler(), logistic(public_features="all")
            )
            found = report(model.fit(X, labels))
            assert learns(found) == {"standardscaler": "public columns"}
        # What is left out behind it is not among the public columns.
        model = make_pipeline(
            StandardScaler(),
            ColumnTransformer([("a", "passthrough", [0, 1])], sparse_threshold=0),
            logistic(public_features="all"),
        )
        assert report(model.fit(X, labels)).leaks

    def test_of_models_without_privacy_behind_a_private_step(self, table, labels):
        model = make_pipeline(
            PrivateCenteringTransformer(bounds=(0, 90)), LogisticRegression()
        )
        found = report(model.fit(table[["age", "bmi"]], labels))
        assert learns(found) == {"logisticregression": "target"}

    def test_of_nested_pipelines(self, table, labels):
        inner = Pipeline([("scale", StandardScaler()), ("model", logistic())])
        outer = Pipeline([("first", FunctionTransformer()), ("rest", inner)])
        found = report(outer.fit(table[["age"]], labels))
        assert learns(found) == {"first": "nothing", "rest__scale": "rows"}

    def test_of_what_one_fit_cannot_know(self, table, labels, tmp_path):
        X = table[["age", "bmi"]]
        search = GridSearchCV(logistic(), {"C": [0.1, 0.2]}, cv=KFold(2))
        found = report(search.fit(X, labels).best_estimator_)
        assert "cannot know whether its estimator is the best of a search" in (
            text_of(found)
        )
        assert "Charge" not in text_of(found)
        ledger = PrivacyLedger(tmp_path / "ledger.sqlite")
        fits = [logistic(ledger=ledger).fit(X, labels) for _ in range(2)]
        told = ["Charge 2 on" in text_of(report(one)) for one in fits]
        assert told == [False, True]


@pytest.mark.parametrize(
    ("fit_of", "places"),
    [
        (lambda: logistic(), [""]),
        (lambda: FrozenEstimator(logistic().fit([[0], [1]] * 9, [0, 1] * 9)), [""]),
        (lambda: make_pipeline(Binarizer(), logistic()), [".steps[1][1]"]),
        (
            lambda: GridSearchCV(
                make_pipeline("passthrough", logistic()),
                {"featuredplogisticregression__C": [0.1, 0.2]},
                cv=KFold(2),
            ),
            [".best_estimator_.steps[1][1]"],
        ),
        (
            lambda: CalibratedClassifierCV(logistic(), cv=KFold(2)),
            [f".calibrated_classifiers_[{k}].estimator" for k in (0, 1)],
        ),
        (
            lambda: VotingClassifier([("a", logistic()), ("b", LogisticRegression())]),
            [".estimators_[0]"],
        ),
        (lambda: LogisticRegression(), []),
    ],
    ids=["itself", "frozen", "Pipeline", "search", "calibrated", "voting", "none"],
)
def test_reports_inside_fitted_objects_are_found(fit_of, places, table, labels):
    X, y = table[["age", "bmi"]], labels
    fitted = fit_of().fit(X, y)
    for obj in (fitted, pickle.loads(pickle.dumps(fitted))):
        found = find_reports(obj)
        assert [*found] == places
        for place, one in found.items():
            assert eval("obj" + place).privacy_ == one
    models = np.empty(2, dtype=object)
    models[:] = fitted, fitted
    assert [*find_reports({"m": models})] == [f"['m'].flat[0]{one}" for one in places]
    looped = LogisticRegression()
    looped.itself = looped
    assert find_reports(looped) == find_reports([X, y, None, "text"]) == {}


class TestPublicColumns:
    """Which raw columns are public behind steps that move and mix columns."""

    def test_positions_behind_a_step_that_moves_columns(self, table, labels):
        moved = ColumnTransformer(
            [("numbers", "passthrough", ["age", "bmi", "hba1c"]), one_hot("sex")]
        )
        model = make_pipeline(moved, logistic(public_features=[0, 1, 2]))
        found = report(model.fit(table, labels))
        assert found.public_features == (0, 1, 2)
        assert found.public_sources == ("age", "bmi", "hba1c")
        told = "3 columns (age, bmi, hba1c) of the table of the Pipeline"
        assert told in " ".join(found.statement().split())
        text = text_of(found)
        assert (
            "Declared public: 3 columns (column 0 to column 2). Public in the" in text
        )
        assert told in html.unescape(found._repr_html_()).split("<details>")[0]

    def test_without_names_they_are_counted(self, table, labels):
        moved = ColumnTransformer(
            [("a", "passthrough", [2]), ("b", "passthrough", [0, 1])],
            sparse_threshold=0,
        )
        model = make_pipeline(moved, logistic(public_features=[0]))
        found = report(model.fit(table[["age", "bmi", "hba1c"]].to_numpy(), labels))
        assert found.public_sources == (2,)
        assert found.private_features == (1, 2)
        assert "1 column (column 2) of the table of the Pipeline" in text_of(found)

    def test_a_public_block_of_private_columns_is_said(self, table, labels):
        mixed = ("public", PolynomialFeatures(include_bias=False), ["age", "bmi"])
        found = parted(table, labels, mixed, private("hba1c"))
        assert found.public_sources == ("age", "bmi")

    def test_public_and_private_from_one_column_are_refused(self, table, labels):
        products = PolynomialFeatures(include_bias=False)
        mixed = ("public", products, ["age", "bmi"]), private("bmi", "hba1c")
        part = ("public", Binarizer(threshold=30), ["bmi"]), private("bmi")
        for parts, public in (
            (mixed, "public__*"),
            ([private("age", "bmi", step=products)], "private__age bmi"),
            (part, "public__*"),
            ((one_hot("sex"), private("bmi")), "public__sex_f"),
        ):
            match = "treat both as public, or both"
            with pytest.raises(PrivacyBudgetError, match=match):
                parted(table, labels, *parts, public_features=[public])

    def test_rows_that_were_normalised_are_refused(self, table, labels):
        X = table[["age", "bmi"]]
        model = make_pipeline(Normalizer(), logistic(public_features=["age"]))
        model.set_output(transform="pandas").fit(X, labels)
        with pytest.raises(
            PrivacyBudgetError, match="step normalizer computed both fr"
        ):
            report(model)

    def test_products_with_private_columns_are_private(self, table, labels):
        step = PolynomialFeatures(include_bias=False, interaction_only=True)
        model = make_pipeline(step, logistic(public_features=["age"]))
        model.set_output(transform="pandas").fit(table[["age", "bmi"]], labels)
        found = report(model)
        assert found.private_features == ("bmi", "age bmi")
        assert found.public_sources == ("age",) and followed(found)

    def test_what_cannot_be_followed_stays_an_assumption(self, table, labels):
        class Third(BaseEstimator):
            def fit(self, X, y=None):
                return self

            def transform(self, X):
                return X

        X = table[["age", "bmi"]]
        for step in (Third(), FunctionTransformer(lambda X: X)):
            model = make_pipeline(step, logistic(public_features=["age"]))
            found = report(model.fit(X, labels))
            assert followed(found) is False and found.public_sources is None
            assert len(found.unknown_steps) == 1

    def test_columns_that_a_user_chose_by_a_function_stay_an_assumption(
        self, table, labels
    ):
        """The function may look at values."""
        chosen = ("public", "passthrough", lambda X: ["age"])
        found = parted(table, labels, chosen, private("bmi"))
        assert found.unknown_steps == ("columntransformer (ColumnTransformer)",)
        assert followed(found) is False and found.public_sources == ("age",)

    def test_through_a_private_step(self, table, labels):
        same = {"public_features": ["age"], "neighboring_relation": "replace_one"}
        model = make_pipeline(
            FunctionTransformer(np.sqrt, feature_names_out="one-to-one"),
            PrivateCenteringTransformer(bounds=(0, 10), **same),
            logistic(bounds=False, centering=None, **same),
        ).set_output(transform="pandas")
        found = report(model.fit(table[["age", "bmi"]], labels))
        assert followed(found) and found.public_sources == ("age",)


def two():
    return np.arange(N) % 2


def three():
    return np.arange(N) % 3


def two_targets():
    return np.c_[np.arange(N) % 2, (np.arange(N) // 2) % 2]


def target():
    return np.linspace(0, 1, N)


def two_numbers():
    return np.column_stack([target(), target()])


WRAPPERS = {
    "one label each": (OneVsRestClassifier(logistic()), three, 3),
    "labels together": (OneVsRestClassifier(logistic()), two_targets, 2),
    "voting": (
        VotingClassifier([("a", logistic()), ("b", logistic()), ("c", "drop")]),
        two,
        2,
    ),
    "mean": (VotingRegressor([("a", regressor()), ("b", regressor())]), target, 2),
    "outputs": (MultiOutputClassifier(logistic()), two_targets, 2),
    "numbers": (MultiOutputRegressor(regressor()), two_numbers, 2),
    "threshold": (FixedThresholdClassifier(logistic(), threshold=0.3), two, 1),
}


@pytest.fixture(scope="module")
def X(table):
    return table[["age", "bmi", "hba1c"]] / 100


class TestWrappers:
    @pytest.mark.parametrize("name", WRAPPERS)
    def test_all_events_of_all_members_are_composed(self, name, X, tmp_path):
        model, y, n_fits = WRAPPERS[name]
        ledger = PrivacyLedger()
        names = [k for k in model.get_params() if k.split("__")[-1] == "ledger"]
        model = clone(model).set_params(**dict.fromkeys(names, ledger)).fit(X, y())
        found = report(model)
        assert found.n_fits == len({e.charge for e in ledger.entries}) == n_fits
        assert found.events == ledger.events
        assert found.epsilon == compose(ledger.events).epsilon(1e-5)
        assert not found.leaks and not found.unknown_steps
        assert reads_back(found, tmp_path)
        piped = report(make_pipeline(FunctionTransformer(), model))
        assert piped.epsilon == found.epsilon and piped.n_fits == n_fits

    def test_labels_are_read_from_a_private_target(self, X):
        for public in (False, True):
            model = OneVsRestClassifier(logistic(public_target=public))
            found = report(model.fit(X, three()))
            assert (ASSUMED["classes_public"] in found.assumptions) != public

    def test_a_label_of_all_rows_voids(self, X):
        y = two_targets()
        y[:, 1] = 1
        found = report(OneVsRestClassifier(logistic()).fit(X, y))
        assert [one.learns for one in found.leaks] == ["target"]

    def test_members_without_privacy_void(self, X, labels):
        both = [("a", logistic()), ("b", LogisticRegression())]
        found = report(VotingClassifier(both).fit(X, labels))
        assert learns(found) == {"b": "target"}
        assert "VOID" in found.statement().splitlines()[0]

    def test_a_frozen_member_is_what_it_was(self, X, labels):
        private_fit = logistic().fit(X, labels)
        model = FixedThresholdClassifier(FrozenEstimator(private_fit)).fit(X, labels)
        assert report(model).events == private_fit.privacy_.events

    def test_the_same_public_columns(self, X):
        model = OneVsRestClassifier(logistic(public_features=["age"]))
        found = report(make_pipeline(FunctionTransformer(), model).fit(X, three()))
        assert found.public_features == ("age",)
        assert found.private_features == ("bmi", "hba1c")
        assert followed(found)

    def test_what_uses_more_is_refused(self, X, labels):
        named, same = logistic(target="dx"), "different targets of the same name"
        two = labels.copy
        for model, y, why in (
            (OneVsOneClassifier(logistic(classes=None)), three, "enter which fit"),
            (ClassifierChain(logistic()), two_targets, "give them one ledger"),
            (TransformedTargetRegressor(regressor()), target, "may learn from the ta"),
            (MultiOutputClassifier(named), two_targets, same),
            (OneVsRestClassifier(named), two_targets, same),
            (CalibratedClassifierCV(logistic(), cv=2), two, "its calibrator"),
            (StackingClassifier([("a", logistic())], cv=2), two, "its final esti"),
            (BaggingClassifier(logistic(), n_estimators=2), two, "repeats records"),
        ):
            with pytest.raises(ValueError, match=why):
                report(model.fit(X, y()))

    def test_other_relations_do_not_compose(self, X, labels):
        other = logistic(neighboring_relation="replace_special")
        model = VotingClassifier([("a", logistic()), ("b", other)])
        with pytest.raises(PrivacyBudgetError, match="cannot be composed"):
            report(model.fit(X, labels))

    def test_members_that_count_columns_differently_are_refused(self, X, labels):
        def member(*order):
            move = ColumnTransformer(
                [("a", "passthrough", list(order))], sparse_threshold=0
            )
            return make_pipeline(move, logistic(public_features=[0]))

        alike = VotingClassifier([("a", member(1, 0)), ("b", member(1, 0))])
        assert report(alike.fit(X, labels)).public_features == (0,)
        other = VotingClassifier([("a", member(1, 0)), ("b", member(0, 1))])
        with pytest.raises(PrivacyBudgetError, match="mean other columns in other"):
            report(other.fit(X, labels))

    def test_a_tool_that_is_not_fitted(self, X, labels):
        model = VotingClassifier([("a", logistic().fit(X, labels))])
        with pytest.raises(ValueError, match="cannot count the private fits inside"):
            report(model)

    def test_a_class_of_the_same_name_is_not_believed(self, X, labels):
        class VotingClassifier(BaseEstimator):
            def fit(self, X, y):
                self.estimators = [("a", logistic())]
                self.estimators_ = [logistic().fit(X, y)]
                return self

        with pytest.raises(ValueError, match="cannot count the private fits inside"):
            report(VotingClassifier().fit(X, labels))
