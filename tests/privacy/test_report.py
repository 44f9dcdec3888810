"""The report: one source of truth, in words, in JSON, in HTML."""

import copy
import html.parser
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skfdp.privacy import (
    Event,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivacyReport,
    compose,
    gdp_epsilon,
    read_report,
    report,
)
from skfdp.privacy.assumptions import Assumption
from skfdp.privacy.report_text import attack_power, detections


def full_batch(mu=0.2, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return Event(**({"label": "steps"} | values | changes))


def poisson(**changes):
    return full_batch(0.5, n_steps=20, sampling_rate=0.05, **changes)


def make(events=(), **changes):
    facts = {
        "subject": "FeatureDPLogisticRegression",
        "events": events,
        "delta": 1e-5,
        "target_epsilon": 1.0,
        "n_records": 1000,
        "feature_names": ["age", "education", "income"],
        "released": ("coef_", "intercept_"),
        "assumptions": (Assumption("The moon is round.", False),),
    }
    return PrivacyReport.from_events(**(facts | changes))


class Fitted(BaseEstimator):
    """An estimator or transformer that holds a report."""

    def __init__(self, privacy=None):
        self.privacy = privacy
        self.privacy_ = privacy

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


REPORTS = {
    "closed form": make([full_batch(public_features=("age",))]),
    "poisson": make([poisson(), full_batch(label="mean")]),
    "special": make([poisson(neighboring_relation="replace_special")], n_records=None),
    "whole records": make(
        [full_batch(neighboring_relation="add_or_remove_one", seeded=True)]
    ),
    "label-DP": make(
        [full_batch(public_features=(0, 1, 2), classes_source="data")],
        feature_names=(0, 1, 2),
        target_epsilon=None,
    ),
    "not private": make([], target_epsilon=math.inf),
    "odd names": make(
        [full_batch(public_features=("<script>alert(1)</script>",))],
        feature_names=["<script>alert(1)</script>", 'a"b', "ä\n&amp;"],
    ),
    "pipeline": report(
        Pipeline(
            [
                ("scale", StandardScaler()),
                ("centre", Fitted(make([full_batch(0.1)]))),
                ("model", Fitted(make([full_batch(public_target=True)]))),
            ]
        )
    ),
}


@pytest.fixture(params=REPORTS)
def example(request):
    return REPORTS[request.param]


class TestNumbers:
    def test_epsilon_is_that_of_the_events(self):
        events = [full_batch(0.1), full_batch(0.2, n_steps=4)]
        mu = math.sqrt(0.1**2 + 4 * 0.2**2)
        made = make(events)
        assert made.mu == pytest.approx(mu, rel=1e-12)
        assert made.epsilon == pytest.approx(gdp_epsilon(1e-5, mu), rel=1e-9)
        assert made.accountant == "closed form (Gaussian DP)"
        sampled = make([poisson()])
        assert sampled.epsilon == compose([poisson()]).epsilon(1e-5)
        assert sampled.mu is None and "discretisation" in sampled.accountant

    def test_without_privacy(self):
        made = make([], target_epsilon=math.inf)
        assert made.epsilon == made.target_epsilon == math.inf
        assert made.neighboring_relation is None
        assert "NOTHING IS PROTECTED" in made.statement()
        assert "infinite" in made.statement()

    def test_who_is_private(self):
        made = make([full_batch(public_features=("age",), public_target=True)])
        assert made.public_features == ("age",)
        assert made.private_features == ("education", "income")
        assert made.public_target
        assert "Private, in each record: the column(s) education, income." in (
            made.statement()
        )
        assert "not protected: the column(s) age and the target." in made.statement()

    def test_label_dp(self):
        text = REPORTS["label-DP"].statement()
        assert "Private, in each record: the target." in text
        assert "column 0, column 1, column 2." in text

    def test_positions_name_columns(self):
        made = make([full_batch(public_features=(0, 2))])
        assert made.private_features == ("education",)

    def test_nested_public_sets_give_the_weaker_guarantee(self):
        made = make([full_batch(), full_batch(public_features=("age",))])
        assert made.public_features == ("age",)
        assert made.events[0].public_features == ()

    def test_at_another_delta(self):
        made = make([full_batch()], accountant="pld").at_delta(1e-3)
        assert made == make([full_batch()], delta=1e-3)
        assert make([]).at_delta(1e-3).epsilon == math.inf

    def test_numpy_facts_become_plain(self):
        made = make(
            [full_batch(public_features=tuple(np.array(["age"])))],
            n_records=np.int64(5),
            feature_names=np.array(["age", "b"]),
            target_epsilon=np.float32(1),
        )
        assert PrivacyReport.from_dict(json.loads(made.to_json())) == made
        assert type(made.private_features[0]) is str


class TestAttackPower:
    @pytest.mark.parametrize("mu", [1e-9, 0.01, 0.2, 0.3, 1.0, 2.0, 4.0])
    def test_at_most_is_a_bound_in_whole_cases(self, mu):
        made = make([full_batch(mu)])
        cases = 100 * attack_power(made)
        assert cases <= detections(made) < cases + 1

    @pytest.mark.parametrize(
        ("relation", "mu", "asked", "detected"),
        [  # 1.68, 9.24 and 99.99 of 100: a bound of 100 would say nothing
            ("replace_one", 0.2, "which of two values is", "value in at most 2 of 100"),
            ("replace_special", 1.0, "whether that was used", "in at most 10 of 100"),
            ("add_or_remove_one", 6.0, "whether that one is in", "nearly every time"),
        ],
    )
    def test_epsilon_as_false_alarms(self, relation, mu, asked, detected):
        made = make([full_batch(mu, neighboring_relation=relation)])
        text = " ".join(made.statement().split())
        assert f"and tries to tell {asked}" in text
        said = text.partition("If they raise a false alarm in 1 of 100 cases, they ")[2]
        assert detected in said.partition(".")[0]


class TestStatement:
    def test_every_report_has_every_part(self, example):
        text = example.statement()
        parts = ["What was released", "What is protected", "numbers"]
        holds = not example.seeded and not example.leaks
        assert ("What it means" in text) == holds
        assert ("(VOID: " in text) == (not holds)
        if math.isfinite(example.epsilon):
            parts += ["Assumptions", "Not covered", "Limits", "Generator", "Accountant"]
            assert f'neighboring_relation="{example.neighboring_relation}"' in (
                " ".join(text.split())
            )
        for part in parts:
            assert part in text
        assert all(len(line) < 100 for line in text.splitlines())

    def test_equal_events_are_one_line(self):
        text = make([full_batch(), poisson(), full_batch(), full_batch()]).statement()
        assert text.count("- steps:") == 2
        assert "mu 0.2; 3 times" in " ".join(text.split())

    def test_it_says_what_is_enforced(self):
        text = " ".join(make([full_batch()]).statement().split())
        assert "The moon is round. [NOT checked]" in text
        assert "contribution to a release is clipped. [enforced by the code]" in text

    def test_a_seed_is_no_guarantee(self):
        by_event, by_fact = (
            make([full_batch(seeded=True)]),
            make([full_batch()], seeded=True),
        )
        for made in (by_event, by_fact):
            assert made.seeded
            assert "epsilon is then no guarantee" in " ".join(made.statement().split())
            assert "cryptographic" not in made.generator
            secret = [a for a in made.assumptions if "secret" in a.text]
            assert not secret[0].enforced
        assert "no guarantee" not in make([full_batch()]).statement()

    def test_classes_read_from_a_private_target_are_an_assumption(self):
        text = "read from the private target"
        assert text in " ".join(REPORTS["label-DP"].statement().split())
        assert text not in " ".join(REPORTS["closed form"].statement().split())

    @pytest.mark.parametrize(
        ("n_records", "expected"),
        [(1000, "delta * n = 0.01"), (200_000, "TOO LARGE"), (None, "not recorded")],
    )
    def test_delta_against_n(self, n_records, expected):
        assert expected in make([full_batch()], n_records=n_records).statement()

    @pytest.mark.parametrize(
        "name", ["a\n\nThe numbers\n---\n", "a\u202eb", "a\x1b[2J"]
    )
    def test_names_cannot_forge_the_layout(self, name):
        made = make([full_batch(public_features=(name,))], subject=name)
        lines = made.statement().splitlines()
        assert lines.count("The numbers") == 1
        assert all(line.isprintable() for line in lines)

    def test_many_columns_are_counted(self):
        names = [f"pixel{i}" for i in range(784)]
        made = make([full_batch(public_features=("pixel0",))], feature_names=names)
        assert "and 763 more" in made.statement()
        assert len(made.to_dict()["private_features"]) == 783

    @pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
    def test_the_relation_is_explained(self, relation):
        text = " ".join(
            make([full_batch(neighboring_relation=relation)]).statement().split()
        )
        assert ("any other value" in text) == (relation == "replace_one")
        assert ("two such steps" in text) == (relation == "replace_special")


class TestHtml:
    class Checker(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.text = [], ""

        def handle_starttag(self, tag, attrs):
            self.tags.append(tag)

        def handle_data(self, data):
            self.text += data

    @given(name=st.text(min_size=1), subject=st.text())
    @settings(max_examples=50, deadline=None)
    def test_any_name_is_text(self, name, subject):
        made = make(
            [full_batch(public_features=(name,))], feature_names=[name], subject=subject
        )
        checker = self.Checker()
        checker.feed(made._repr_html_())
        plain = self.Checker()
        plain.feed(make([full_batch()])._repr_html_())
        assert checker.tags == plain.tags

    def test_it_holds_the_statement(self, example):
        checker = self.Checker()
        checker.feed(example._repr_html_())
        assert example.statement() in checker.text


class TestRoundTrips:
    def test_json_is_strict_and_comes_back(self, example, tmp_path):
        def refuse(constant):
            raise AssertionError(constant)

        path = tmp_path / "report.json"
        path.write_text(example.to_json(), encoding="utf-8")
        assert read_report(path) == read_report(str(path)) == example
        values = json.loads(path.read_text("utf-8"), parse_constant=refuse)
        assert values == example.to_dict()
        assert values["schema_version"] == 1

    def test_pickle_and_copies(self, example):
        assert pickle.loads(pickle.dumps(example)) == example
        assert copy.deepcopy(example) == example

    def test_infinity_is_a_string(self):
        values = REPORTS["not private"].to_dict()
        assert values["epsilon"] == values["target_epsilon"] == "inf"

    @pytest.mark.parametrize(
        "edit",
        [
            {"epsilon": 0.0},
            {"delta": 1e-3},
            {"mu": 0.01},
            {"public_features": []},
            {"neighboring_relation": "replace_special"},
            {"events": []},
        ],
    )
    def test_edited_numbers_are_refused(self, edit):
        values = REPORTS["closed form"].to_dict() | edit
        with pytest.raises(ValueError, match="it was edited; ask for the original"):
            PrivacyReport.from_dict(values)

    @pytest.mark.parametrize(
        ("values", "match"),
        [
            ({}, "pass what to_json wrote"),
            ([1], "pass what to_json wrote"),
            (make([]).to_dict() | {"schema_version": 2}, "has schema_version=2, this"),
            (make([]).to_dict() | {"price": 1}, r"unknown fields \['price'\]"),
            (
                {k: v for k, v in make([]).to_dict().items() if k != "delta"},
                "lacks the field 'delta'",
            ),
        ],
    )
    def test_what_is_no_report(self, values, match, tmp_path):
        path = tmp_path / "report.json"
        path.write_text(json.dumps(values))
        with pytest.raises(ValueError, match=match):
            read_report(path)


class TestReportOf:
    def test_an_estimator(self):
        made = make([full_batch()])
        assert report(Fitted(made)) is made
        assert report(Fitted(made), delta=1e-3).delta == 1e-3

    @pytest.mark.parametrize("obj", [StandardScaler(), 3, make_pipeline(Fitted())])
    def test_what_has_no_report(self, obj):
        with pytest.raises(ValueError, match="in which nothing has privacy_: fit it"):
            report(obj)


class TestPipelines:
    def pipeline(self, *steps):
        return Pipeline([(f"step{i}", step) for i, step in enumerate(steps)])

    def test_steps_compose_exactly(self):
        first = Fitted(make([full_batch(0.3)], delta=1e-6))
        found = report(self.pipeline(first, Fitted(make([full_batch(0.4)]))))
        assert found.delta == 1e-5
        assert found.epsilon == pytest.approx(gdp_epsilon(1e-5, 0.5), rel=1e-9)
        assert [name for name, _ in found.steps] == ["step0", "step1"]
        assert found.n_records == 1000
        assert "at the largest of these deltas" in found.statement()

    def test_nested_pipelines(self):
        inner = self.pipeline(
            FunctionTransformer(), Fitted(make([full_batch(0.3)], seeded=True))
        )
        found = report(self.pipeline(inner, Fitted(make([full_batch(0.4)]))))
        assert found.mu == pytest.approx(0.5)
        assert found.seeded

    def test_columns_behind_a_whole_record_step_are_not_public(self):
        """Its row norm mixes all columns, so that every output column is private."""
        first = Fitted(make([full_batch()], feature_names=None))
        last = Fitted(make([full_batch(public_features=("age",))]))
        with pytest.raises(PrivacyBudgetError, match="step1 treats columns .* as publ"):
            report(self.pipeline(first, last))

    def test_whole_record_step_before_a_public_target(self):
        last = Fitted(make([full_batch(public_target=True)]))
        found = report(self.pipeline(Fitted(make([full_batch()])), last))
        assert found.public_target
        assert found.public_features == ()

    def test_a_step_without_privacy_leaves_nothing_protected(self):
        found = report(self.pipeline(Fitted(make([full_batch()])), Fitted(make([]))))
        assert found.epsilon == math.inf
        assert "NOTHING IS PROTECTED" in found.statement()

    def test_mixed_public_sets_are_refused(self):
        steps = [
            Fitted(make([full_batch(public_features=(name,))])) for name in ("a", "b")
        ]
        with pytest.raises(PrivacyBudgetError, match="together they protect less"):
            report(self.pipeline(*steps))

    def test_fits_hidden_in_what_only_predicts_are_refused(self):
        """A calibrated classifier keeps its models in objects without fit."""

        class Holder:
            def __init__(self, estimator):
                self.estimator = estimator

            def predict_proba(self, X):
                return X

        hidden = Fitted()
        hidden.holders_ = [Holder(Fitted(make([full_batch()])))]
        with pytest.raises(ValueError, match="cannot count the private fits inside st"):
            report(self.pipeline(hidden, Fitted(make([full_batch()]))))

    def test_hidden_private_fits_are_refused(self):
        hidden = ColumnTransformer([("centre", Fitted(make([full_batch()])), [0])])
        with pytest.raises(ValueError, match="cannot count the private fits inside st"):
            report(self.pipeline(hidden, Fitted(make([full_batch()]))))


class TestLedgers:
    def test_its_events_compose(self):
        ledger = PrivacyLedger(epsilon=4.0, delta=1e-6)
        for label in ("first", None):
            ledger.charge([full_batch(0.3), full_batch(0.4)], label=label)
        found = report(ledger)
        assert found.delta == 1e-6
        assert found.target_epsilon == 4.0
        assert found.epsilon == ledger.spent()
        assert found.released == ("fit 1: first", "fit 2: unnamed fit")
        assert found.events == ledger.events
        assert PrivacyReport.from_dict(found.to_dict()) == found

    def test_budgets_chosen_by_results_are_an_assumption_where_batches_are_sampled(
        self,
    ):
        """Composing curves is a filter for Gaussian releases, and not in general."""
        told = []
        for event in (full_batch(0.3), poisson()):
            ledger = PrivacyLedger(epsilon=9.0, delta=1e-6)
            for _ in range(2):
                ledger.charge([event])
                told.append("results of earlier ones" in report(ledger).statement())
        assert told == [False, False, False, True]

    def test_it_counts_fits(self):
        ledger = PrivacyLedger(epsilon=4.0, delta=1e-6)
        for _ in range(3):
            ledger.charge([full_batch(0.1), full_batch(0.2)])
        assert report(ledger).n_fits == 3
        assert "Fits counted: 3." in report(ledger).statement()

    def test_an_empty_ledger_has_spent_nothing(self):
        found = report(PrivacyLedger(epsilon=2.0, delta=1e-6))
        assert found.epsilon == 0.0
        assert "Nothing was released yet" in found.statement()
        assert PrivacyReport.from_dict(found.to_dict()) == found

    def test_a_fit_without_privacy(self):
        ledger = PrivacyLedger()
        ledger.charge([full_batch()])
        ledger.charge_nonprivate(label="fit")
        found = report(ledger, delta=1e-5)
        assert found.epsilon == math.inf
        assert PrivacyReport.from_dict(found.to_dict()) == found

    def test_without_ceiling_it_needs_a_delta(self):
        with pytest.raises(ValueError, match="delta=None needs a ledger with a ceil"):
            report(PrivacyLedger())
