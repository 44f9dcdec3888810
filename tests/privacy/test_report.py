"""The report: one source of truth, in words, in JSON, in HTML, and read again."""

import ast
import copy
import dataclasses
import hashlib
import html.parser
import importlib.resources
import json
import math
import pickle
import re
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skfdp
from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    LabelDPClassifier,
    PrivateCenteringTransformer,
)
from skfdp.privacy import (
    AddOrRemoveOne,
    Event,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivacyReport,
    compose,
    gdp_epsilon,
    read_report,
    report,
)
from skfdp.privacy.events import ASSUMED, Assumption
from skfdp.privacy.report_html import document
from skfdp.privacy.report_text import (
    annex,
    attack_power,
    detections,
    marked,
    page,
    replacement_epsilon,
)
from skfdp.solvers import NoisyGradientDescent, NoisySGD


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
        "assumptions": (Assumption("moon_round", "The moon is round."),),
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


SPECIAL = {"neighboring_relation": "replace_special"}


def of_ledger(*events, public=None, **limit):
    """Return the report of a ledger with a charge for each event."""
    ledger = PrivacyLedger(public=public, **limit)
    for one in events:
        ledger.charge([one])
    # Receipts are random, and have the day.
    return dataclasses.replace(report(ledger, delta=1e-5), receipts=())


A, B = (full_batch(public_target=True, target_name=name) for name in "ab")
PURE = full_batch(
    label="targets", noise_std=(), clip_norm=0, sensitivity=0, pure_epsilon=3.0
)
AGE = full_batch(public_features=("age",), target_name="dx")
REPORTS = {
    "closed form": make([full_batch(public_features=("age",))]),
    "poisson": make([poisson(), full_batch(label="mean"), poisson()]),
    "special": make([poisson(**SPECIAL)], n_records=None),
    "special, strong attack": make([full_batch(1.0, **SPECIAL)]),
    "gone": make([full_batch(6.0, neighboring_relation="add_or_remove_one")]),
    "seeded": make([full_batch()], seeded=True),
    "delta too large": make([full_batch()], n_records=200_000),
    "persons": make([poisson(unit="person")], n_records=40),
    "persons, special": make([full_batch(unit="person", **SPECIAL)], n_records=40),
    "changing noise": make(
        [
            full_batch(noise_std=(5.0, 7.0, 6.0), n_steps=3),
            full_batch(noise_std=(5.0,), n_steps=80, noise_decay=0.75),
        ]
    ),
    "many columns": make(
        [full_batch()],
        feature_names=[*(f"pixel{i}" for i in range(784)), *"a1 a2 x x02 x03".split()],
    ),
    "label-DP": make(
        [full_batch(public_features=(0, 1, 2), classes_source="data")],
        feature_names=(0, 1, 2),
        target_epsilon=None,
    ),
    "random labels": make([PURE], delta=0, target_epsilon=3.0),
    "not private": make([], target_epsilon=math.inf),
    "a ledger with crossed targets": of_ledger(A, B, public=["a", "b"]),
    "a public name that one fit treats as private": of_ledger(
        AGE, full_batch(target_name="stay"), public=["age", "dx"]
    ),
    "a disclosed target and a step without one": of_ledger(A, full_batch()),
    "a public target without a name": of_ledger(
        full_batch(public_target=True), full_batch(), epsilon=9.0, delta=1e-5
    ),
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
#: What the owner of a model adds to an entry of the registry of deployments.
OWNER = {
    "data_curators": "Hospital of Cologne; Ministry",
    "intended_use": 'A "planning" model:\n# not for care',
    **{"data_product_region": "Köln", "publication_date": "2026-11-30"},
    **{"data_product_sector": "Healthcare", "release_type": "One release"},
    **{"data_source_type": "Static", "justification": "Tier 1."},
    "registry_authors": "R. Meyer",
}


@pytest.fixture(params=REPORTS)
def example(request):
    return REPORTS[request.param]


#: Reports whose annex is on file, too.
WITH_ANNEX = ("closed form", "poisson", "special", "gone", "persons", "pipeline")
WITH_ANNEX += ("changing noise", "delta too large", "random labels")


def test_statements_are_those_on_file(tmp_path):
    """Each word, condition and number, but for versions of libraries."""
    texts = []
    for name, found in REPORTS.items():
        left_out = r"\n +Versions: .*?(?=\nLimits)|dp-accounting [0-9.]+"
        left_out += "|\nNot covered .*?(?=\nReleased)" * bool(texts)  # equal in all
        text = found.statement(full=name in WITH_ANNEX)
        text = re.sub(f"(?s){left_out}", "", text)
        texts.append(f"# {name}\n{text}\n")
    # Its fields are those of deployments-schema.yaml in November 2026.
    entry = REPORTS["closed form"].to_registry(OWNER)
    left_out = r"\\nVersions: [^\"]*|(?<=: 0\.7255)\d+"
    texts.append("# registry\n" + re.sub(left_out, "", entry))
    (tmp_path / "statements.txt").write_text("\n".join(texts), encoding="utf-8")
    golden = Path(__file__).with_name("statements.txt").read_text(encoding="utf-8")
    assert "\n".join(texts) == golden, f"compare with {tmp_path}/statements.txt"


def test_the_page_is_the_first_part_of_the_statement(example):
    text = example.statement(full=True)
    assert text.startswith(str(example)) and str(example) == example.statement()
    assert all(len(line) < 80 for line in text.splitlines())
    assert len(str(example).splitlines()) <= 48  # a printed page
    assert ("(VOID: " in text) == (not example.guarantee)


class TestNumbers:
    def test_positions_name_columns(self):
        made = make([full_batch(public_features=(0, 2))])
        assert made.private_features == ("education",)

    def test_at_another_delta(self):
        made = make([full_batch()]).at_delta(1e-3)
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


class TestStatement:
    @pytest.mark.parametrize(
        "name",
        ["a\n\nTrusted    \n---\n", "a\u202eb", "a\x1b[2J", "a " * 99, "9" * 5000],
    )
    def test_names_cannot_forge_the_layout(self, name):
        made = make([full_batch(public_features=(name,))], subject=name)
        lines = made.statement(full=True).splitlines()
        assert sum(line.startswith("Trusted") for line in lines) == 1
        assert all(line.isprintable() for line in lines)


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
        tags = []
        for column, title in ((name, subject), ("age", "x")):
            event = full_batch(public_features=(column,), target_name=column + ".")
            made = make([event], feature_names=event.public_features, subject=title)
            made = dataclasses.replace(made, context={"data": title, "by": column})
            checker = self.Checker()
            checker.feed(made._repr_html_() + document(made))
            tags.append(checker.tags)
        assert tags[0] == tags[1]

    def test_it_holds_the_statement(self, example):
        checker = self.Checker()
        checker.feed(example._repr_html_())
        for _, paragraphs in [*page(example), *annex(example)]:
            assert all(marked(one)[1] in checker.text for one in paragraphs)


def fitted(epsilon=1.0, width=3, groups=None, **changes):
    """Return a model of 200 rows in [0, 1]."""
    rng = np.random.default_rng(0)
    X = rng.random((200, width))
    X = pd.DataFrame(X, columns=[*"abc"]) if width == 3 else X
    model = FeatureDPLogisticRegression(
        epsilon, bounds=(0, 1), classes=[0, 1], **changes
    )
    return model.fit(X, np.arange(200) % 2, groups=groups)


class TestRegistry:
    def test_what_is_missing_lowers_the_tier(self):
        made = fitted().privacy_
        for left_out, tier in (("justification", 2), ("data_curators", 1)):
            given = {key: text for key, text in OWNER.items() if key != left_out}
            text = made.to_registry(given)
            assert f"tier: {tier}\n" in text
            assert f"    # {left_out}: missing\n" in text
        assert made.to_registry().count(": missing\n") == 11

    def test_numbers_are_no_text_in_yaml(self):
        """YAML 1.1 wants a point before an exponent."""
        pure = make([dataclasses.replace(PURE, pure_epsilon=1e-5)], delta=0)
        for made in (fitted(delta=1e-7).privacy_, pure):
            line = re.search("privacy_parameters: (.*)", made.to_registry())[1]
            assert re.fullmatch(r'\{("\w+": \d\.\d+(e-\d+)?(, )?)+\}', line), line

    def test_other_entries_are_refused(self):
        made = fitted().privacy_
        for context, match in (
            ({"mechanisms": "x"}, "context='mechanisms' is unknown; choose one of"),
            ({"data_product_sector": "Hope"}, "unknown; choose one of 'Technology'"),
            ({"publication_date": "30.11.2026"}, "must be a date such as '2026-01-31'"),
            ({"name": 3}, "must be a str"),
        ):
            with pytest.raises(ValueError, match=match):
                made.to_registry(context)
        with pytest.raises(ValueError, match="has no guarantee to register"):
            dataclasses.replace(made, seeded=True).to_registry()


class TestPage:
    """Its conditions, its context, and how strong it says that it is."""

    def test_every_condition_is_on_the_page_that_is_signed(self):
        names = [f"a column {i} with a long name" for i in range(64)]
        many = [Assumption("many", f"Condition {i} of many holds.") for i in range(60)]
        made = make([poisson()], feature_names=names, assumptions=many)
        page = made.statement()
        open_ones = [one for one in made.assumptions if not one.enforced]
        assert page.count("[ ]") == len(open_ones) >= 60
        assert page.index("Condition 59 of many") < page.index("Name, date, signature:")

    def test_the_page_of_a_fit_shows_what_its_ledger_has_left(self):
        ledger = PrivacyLedger(epsilon=4.0, delta=1e-5)
        made = [fitted(ledger=ledger) for _ in range(3)]
        for number, model in enumerate(made, 1):
            (receipt,) = model.privacy_.receipts
            assert (receipt.charge, receipt.limit) == (number, 4.0)
            assert receipt.date == ledger.entries[0].date
            page = " ".join(model.privacy_.statement().split())
            assert f"one more fit may cost epsilon {receipt.left:.4g} (epsilons" in page
        assert made[0].privacy_.receipts[0].spent == pytest.approx(1.0)
        assert receipt.spent == ledger.spent() > 1.7
        assert receipt.left == ledger.remaining()

    def test_the_fingerprint_is_the_sha256_of_the_released_numbers(self):
        made = fitted()
        parts = (made.coef_, made.intercept_)
        due = hashlib.sha256(b"".join(one.astype("<f8").tobytes() for one in parts))
        assert made.privacy_.sha256 == due.hexdigest()
        assert due.hexdigest() in "".join(made.privacy_.statement().split())

    def test_context_is_stated_and_changes_no_claim(self, example, tmp_path):
        context = {"purpose": "readmission", "data": "stays of 2026", "by": "R. Meyer"}
        found = report(Fitted(example), context=context)
        assert dataclasses.replace(found, context={}) == example
        page = " ".join(found.statement().split())
        assert (
            "Stated by the owner, not checked. data: stays of 2026; date: not" in page
        )
        (tmp_path / "r.json").write_text(found.to_json(), encoding="utf-8")
        assert read_report(tmp_path / "r.json") == found
        assert report(Fitted(found)).context == found.at_delta(1e-3).context == context

    def test_other_contexts_are_refused(self):
        made = make([full_batch()])
        for context, match in (
            ({"author": "x"}, "context='author' is unknown; choose one of 'data', 'da"),
            ({"by": 3}, "must be a str"),
            ("me", "must be a mapping"),
            ({"by": "x" * 121}, "has 121 characters: use at most 120"),
        ):
            with pytest.raises(ValueError, match=match):
                report(Fitted(made), context=context)
            with pytest.raises(ValueError, match=match):
                PrivacyReport.from_dict(made.to_dict() | {"context": context})

    def test_two_steps_with_poisson_batches(self):
        made = make([poisson(**SPECIAL)])
        # Group privacy gives (2 e, (1 + exp(e)) delta(e)) for each e.
        curve = compose(made.events)
        grid = np.linspace(0.1, 5, 200)
        held = [2 * e for e in grid if (1 + math.exp(e)) * curve.delta(e) <= 1e-5]
        assert made.epsilon < replacement_epsilon(made) <= min(held) * 1.01


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
        assert type(example).__module__ == "skfdp.privacy"  # the name in the file
        assert copy.deepcopy(example) == example

    def test_what_is_no_report(self, tmp_path):
        path, made = tmp_path / "report.json", make([]).to_dict()
        for values, match in (
            ({}, "pass what to_json wrote"),
            ([1], "pass what to_json wrote"),
            (made | {"schema_version": 2}, "has schema_version=2, but"),
            (made | {"price": 1}, r"unknown fields \['price'\]"),
            ({k: made[k] for k in made if k != "delta"}, "lacks the field 'delta'"),
        ):
            path.write_text(json.dumps(values))
            with pytest.raises(ValueError, match=match):
                read_report(path)


class TestReportOf:
    @pytest.mark.parametrize("obj", [StandardScaler(), 3, make_pipeline(Fitted())])
    def test_what_has_no_report(self, obj):
        match = "no privacy_ inside: pass a fitted .*, or the ledger that the fits insi"
        with pytest.raises(ValueError, match=match):
            report(obj)


class TestPipelines:
    def pipeline(self, *steps):
        return Pipeline([(f"step{i}", step) for i, step in enumerate(steps)])

    def test_steps_compose_exactly(self):
        first = Fitted(make([full_batch(0.3)], delta=1e-6))
        found = report(self.pipeline(first, Fitted(make([full_batch(0.4)]))))
        assert found.delta == 1e-5
        assert found.epsilon == pytest.approx(gdp_epsilon(1e-5, 0.5), rel=1e-9)
        assert report(first) is first.privacy_
        assert [name for name, _ in found.steps] == ["step0", "step1"]
        assert found.n_records == 1000
        nested = self.pipeline(
            self.pipeline(
                FunctionTransformer(), Fitted(make([full_batch(0.3)], seeded=True))
            ),
            Fitted(make([full_batch(0.4, public_target=True)])),
        )
        assert report(nested).mu == pytest.approx(0.5)
        assert report(nested).seeded and report(nested).public_target
        bare = self.pipeline(Fitted(make([full_batch()])), Fitted(make([])))
        assert report(bare).epsilon == math.inf

    def test_columns_behind_a_whole_record_step_are_not_public(self):
        """Its row norm mixes all columns, so that every output column is private."""
        first = Fitted(make([full_batch()], feature_names=None))
        last = Fitted(make([full_batch(public_features=("age",))]))
        with pytest.raises(PrivacyBudgetError, match="step1 treats columns .* as publ"):
            report(self.pipeline(first, last))

    def test_mixed_public_sets_are_refused(self):
        steps = [
            Fitted(make([full_batch(public_features=(name,))])) for name in ("a", "b")
        ]
        with pytest.raises(PrivacyBudgetError, match="give both steps the same"):
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
        assert found.n_fits == 2
        assert found.events == ledger.events
        assert PrivacyReport.from_dict(found.to_dict()) == found

    def test_without_a_release_and_without_privacy(self):
        empty = report(PrivacyLedger(epsilon=2.0, delta=1e-6))
        assert empty.epsilon == 0.0 and "Nothing was released yet" in empty.statement()
        ledger = PrivacyLedger()
        ledger.charge([full_batch()])
        ledger.charge_nonprivate(label="fit")
        found = report(ledger, delta=1e-5)
        assert found.epsilon == math.inf
        for one in (empty, found):
            assert PrivacyReport.from_dict(one.to_dict()) == one

    def test_budgets_chosen_by_results_are_an_assumption_of_sampled_batches(self):
        """Composing curves is a filter for Gaussian releases, and not in general."""
        told = []
        for event in (full_batch(0.3), poisson()):
            ledger = PrivacyLedger(epsilon=9.0, delta=1e-6)
            for _ in range(2):
                ledger.charge([event])
                text = report(ledger).statement(full=True)
                told.append("results of earlier ones" in " ".join(text.split()))
        assert told == [False, False, False, True]


def test_a_fit_of_many_steps_is_as_short_to_tell_as_one_of_few(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=9.0, delta=1e-5)
    many = {"solver": NoisyGradientDescent(max_iter=20_000), "centering": None}
    model = fitted(width=1, ledger=ledger, target="y", **many)
    assert len(model.privacy_.to_json()) < 10_000 > len(ledger.to_json())
    assert (tmp_path / "ledger.db").stat().st_size < 100_000
    *others, event = ledger.events
    assert ledger.events == model.privacy_.events
    assert (event.n_steps, event.noise_decay) == (20_000, 0.75)
    assert {other.n_steps for other in others} <= {1}
    assert {len(event.noise_std) for event in ledger.events} == {1}


# -- what an editor may change --------------------------------------------------------
FULL, POISSON = make([full_batch()]), make([poisson()])
NO_PRIVACY = make([full_batch()], nonprivate=True)


def read(report, **edit):
    return PrivacyReport.from_dict(json.loads(report.to_json()) | edit)


def test_a_closed_form_changed_by_less_than_one_per_cent_is_refused():
    for share in (0.991, 0.999, 1 - 1e-6, 1.001):
        with pytest.raises(ValueError, match=r"states epsilon=.*it was edited"):
            read(FULL, epsilon=share * FULL.epsilon)
        with pytest.raises(ValueError, match=r"states mu=.*it was edited"):
            read(FULL, mu=share * FULL.mu)
    for edit in ({"delta": 1e-3}, {"events": []}):
        with pytest.raises(ValueError, match="it was edited: ask for the original"):
            read(FULL, **edit)


def test_a_lowered_distribution_is_raised():
    """Another version's discretisation is no edit, but no smaller number holds."""
    epsilon = POISSON.epsilon
    assert read(POISSON, epsilon=0.991 * epsilon) == read(POISSON) == POISSON
    assert read(POISSON, epsilon=1.005 * epsilon).epsilon == epsilon
    for edit in ({"epsilon": 0.98 * epsilon}, {"epsilon": 1.02 * epsilon}, {"mu": 0.1}):
        with pytest.raises(ValueError, match="it was edited"):
            read(POISSON, **edit)


@pytest.mark.parametrize("seeded", [False, True])
def test_not_checked_cannot_become_enforced(seeded):
    """Nor a seed a secret; and assumptions that were cut come back."""
    unread = Assumption("bounds", "Bounds were not read.")
    events = [full_batch(seeded=seeded)]
    report, bare = (make(events, assumptions=a) for a in ((unread,), ()))
    values = json.loads(report.to_json())
    for assumption in values["assumptions"]:
        assumption["enforced"] = True
    found = PrivacyReport.from_dict(values)
    assert found == report
    held = {one.key: one.enforced for one in report.assumptions}
    assert held["noise_secret"] != seeded
    assert "Bounds were not read. [NOT checked]" in found.statement(full=True)
    assert read(report, seeded=False) == report
    assert read(bare, assumptions=[]) == bare


def test_there_is_one_list_of_what_is_enforced_and_each_key_has_one_meaning():
    """No other module marks a sentence; no key is used twice, or changes."""
    keys = [*ASSUMED]
    for path in Path(skfdp.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if "Assumption(" in text else ():
            name = getattr(getattr(call, "func", None), "id", None)
            if name == "Assumption" and isinstance(call.args[0], ast.Constant):
                keys.append(call.args[0].value)
                assert len(call.args) == 2 and not call.keywords, f"{path}"
    assert len(keys) == len(set(keys)) > 50
    assert all(re.fullmatch("[a-z]+(_[a-z]+)+", key) for key in keys)


def test_an_assumption_is_recognised_by_its_key():
    """Also if another version worded it differently; a reader sees our own text."""
    report = make([full_batch()], assumptions=(ASSUMED["no_step_before"],))
    stated = report.to_dict()["assumptions"]
    for ours in (ASSUMED["contributions_clipped"], ASSUMED["no_step_before"]):
        edited = [
            one | {"text": "Other words."} if one["key"] == ours.key else one
            for one in stated
        ]
        assert edited != stated and read(report, assumptions=edited) == report


def test_a_key_lends_no_mark_to_another_sentence():
    forged = Assumption(
        ASSUMED["values_clipped"].key, "Bounds were not read.", enforced=True
    )
    found = read(FULL, assumptions=[dataclasses.asdict(forged)])
    assert found == make([full_batch()], assumptions=(ASSUMED["values_clipped"],))
    assert "Bounds were not read" not in found.statement(full=True)
    other = dataclasses.replace(forged, key="values_were_clipped")
    found = read(FULL, assumptions=[dataclasses.asdict(other)])
    assert dataclasses.replace(other, enforced=False) in found.assumptions


PIPELINE = report(Pipeline([("a", Fitted(FULL)), ("b", Fitted(POISSON))]))


def test_a_pipeline_cannot_leave_out_a_step():
    assert read(PIPELINE) == read(PIPELINE, n_fits=1) == PIPELINE
    values, alone = (json.loads(one.to_json()) for one in (PIPELINE, FULL))
    with pytest.raises(ValueError, match="its steps have 2 other events"):
        PrivacyReport.from_dict(alone | {"steps": values["steps"]})
    values["steps"][0]["report"]["epsilon"] *= 0.995
    with pytest.raises(ValueError, match="it was edited"):
        PrivacyReport.from_dict(values)


def test_a_seeded_step_seeds_the_whole_and_one_without_privacy_leaves_none():
    values = json.loads(PIPELINE.to_json())
    values["steps"][1]["report"]["seeded"] = True
    assert values["seeded"] is False and PrivacyReport.from_dict(values).seeded
    values["steps"][0]["report"] = NO_PRIVACY.to_dict()
    with pytest.raises(ValueError, match="states epsilon="):
        PrivacyReport.from_dict(values)


LEARNT = {"step": "a", "reason": "x"}


@pytest.mark.parametrize(
    "edit",
    [
        *({"learnt": [LEARNT | one]} for one in ({}, {"learns": "little"})),
        *({"learnt": "x"}, {"steps": [{"name": "a"}]}, {"audit": 0}),
        {"assumptions": [{"key": "a", "text": "x", "enforced": "yes"}]},
    ],
)
def test_fields_of_another_form(edit):
    """All fields of a ledger's report are in `test_ledger_files.py`."""
    with pytest.raises(ValueError, match=r"\w+") as error:
        read(FULL, **edit)
    assert "\n" not in str(error.value)


def test_public_columns_are_not_listed_as_private():
    report = REPORTS["closed form"]
    columns = ["age", *report.private_features]
    assert read(report, private_features=columns) == read(report) == report
    assert read(report, public_features=[]) == report
    assert read(report, neighboring_relation="replace_special") == report


def test_without_privacy_nothing_else_is_claimed():
    edited = read(NO_PRIVACY, neighboring_relation="replace_one")
    assert read(NO_PRIVACY) == edited == NO_PRIVACY
    with pytest.raises(ValueError, match="states mu="):
        read(NO_PRIVACY, mu=0.1)


# -- reports of fits: the schema, pickle and skops ------------------------------------
SCHEMA = json.loads(
    (importlib.resources.files("skfdp.privacy") / "report.schema.json").read_text()
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.random((300, 3)), rng.integers(0, 2, 300)


SOON = NoisyGradientDescent(max_iter=3)
LOGISTIC = FeatureDPLogisticRegression(bounds=(0, 1), public_features=[0], solver=SOON)
SAMPLED = NoisySGD(batch_size=30, max_iter=3)
SGD = DPSGDFClassifier(bounds=(0, 1), solver=SOON)
MODELS = {
    "feature-dp": LOGISTIC,
    "sampled": clone(LOGISTIC).set_params(random_state=0, solver=SAMPLED),
    "one-shot": clone(LOGISTIC).set_params(public_features="all", solver="one-shot"),
    "public target": clone(LOGISTIC).set_params(public_target=True),
    "regressor": FeatureDPRegressor(8.0, bounds=(0, 1), target_bounds=(0, 1)),
    "whole records": clone(SGD).set_params(neighboring_relation=AddOrRemoveOne(300)),
    "random labels": LabelDPClassifier(LogisticRegression(), 3.0),
    "not private": clone(SGD).set_params(epsilon=math.inf),
    "pipeline": make_pipeline(
        FunctionTransformer(),
        PrivateCenteringTransformer(bounds=(0, 1)),
        clone(SGD).set_params(bounds=False, centering=None),
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, data):
    return clone(MODELS[request.param]).fit(*data)


def check(found):
    jsonschema.validate(
        json.loads(found.to_json()), SCHEMA, cls=jsonschema.Draft202012Validator
    )


def test_reports_follow_the_schema_and_travel(model, tmp_path):
    found = report(model)
    check(found)
    check(report(model, delta=1e-3))
    assert report(pickle.loads(pickle.dumps(model))) == found
    (tmp_path / "report.json").write_text(found.to_json(), encoding="utf-8")
    assert read_report(tmp_path / "report.json") == found
    assert all(
        a in ASSUMED.values()
        for a in found.assumptions
        if a.enforced and a.key != "noise_secret"
    )


def test_the_reports_of_ledgers_and_persons_follow_it():
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5)
    check(report(ledger))
    for _ in range(2):
        ledger.charge([full_batch(public_features=("a",), unit="person")])
    check(report(ledger))


def test_it_names_every_field_with_a_description_of_its_own():
    """A new field of the report is a new field of the schema."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    fields = {field.name for field in dataclasses.fields(PrivacyReport)}
    events = {field.name for field in dataclasses.fields(Event)}
    assert fields < set(SCHEMA["properties"])
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"])
    assert events == set(SCHEMA["$defs"]["event"]["properties"])
    # Gaussian events lack the epsilon of pure releases, as before there were any.
    assert events - {"pure_epsilon"} == set(SCHEMA["$defs"]["event"]["required"])


def test_the_schema_refuses_what_is_no_report():
    check(FULL)
    for edit in (
        *({"epsilon": "infinite"}, {"epsilon": -1}, {"delta": 1}, {"extra": 1}),
        *({"neighboring_relation": "substitute"}, {"events": [{}]}),
        {"schema_version": 2},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(FULL.to_dict() | edit, SCHEMA)


def test_skops_keeps_a_ledger_in_a_file_as_a_handle(data, tmp_path):
    skops = pytest.importorskip("skops.io")
    ledger = PrivacyLedger(tmp_path / "l.db", epsilon=9.0, delta=1e-5)
    model = clone(LOGISTIC).set_params(ledger=ledger)
    X = pd.DataFrame(data[0], columns=["a", "b", "c"])
    raw = skops.dumps(model.fit(X, data[1]))
    restored = skops.loads(raw, trusted=skops.get_untrusted_types(data=raw))
    restored.fit(X, data[1])
    assert len({entry.charge for entry in ledger.entries}) == 2
    assert report(restored) == restored.privacy_
    model.set_params(ledger=PrivacyLedger())  # in memory
    with pytest.raises(pickle.PicklingError, match=r"use PrivacyLedger\(path\)"):
        skops.dumps(model)
