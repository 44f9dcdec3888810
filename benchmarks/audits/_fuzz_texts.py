"""Calls of functions and classes as texts: templates, and what their slots may hold."""

from __future__ import annotations

import dataclasses
import functools
import string
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skfdp
from skfdp import audit, datasets, inspection, privacy
from skfdp.audit.fuzz.expressions import ODD, value_of
from skfdp.audit.fuzz.parameters import BY_NAME

_EVENTS = (
    "[EVENT]",
    "(EVENT, EVENT)",
    "[SELECTION]",
    "[EVENT, SELECTION]",
    "[EVENT, OTHER]",
    "[SAMPLED]",
    "[SAMPLED, EVENT]",
    "[PUBLIC, NAMED]",
    "[PUBLIC, EVENT]",
    "[]",
    "EVENT",
    "PLAN.event",
    "FITPLAN.events",
    "[None]",
    "[EVENT, 'x']",
    "{EVENT: 1}",
    "iter([EVENT])",
    "np.array([EVENT], dtype=object)",
)
_COLUMN_SETS = (
    "()",
    "('a',)",
    "('a', 'a')",
    "(0,)",
    "('a', 0)",
    "'a'",
    "['a']",
    "(None,)",
)
DOMAINS: dict[str, tuple[str, ...]] = {
    **BY_NAME,
    "n_steps": ("3", "1", "100", "0", "-1", "2**53", "2**53 + 1", "2.0", "10**30"),
    "of_bounds_rows": (
        "X",
        "X.tolist()",
        "1e308 * X",
        "np.full((5, 2), np.nan)",
        "np.full((5, 2), -np.inf)",
        "np.full((5, 2), 5e-324)",
        "X > 0.5",
        "[1.0, 2.0]",
        "pd.Series([1.0, 2.0])",
        "X.astype('float32')",
        "csr_array(X)",
        "pd.DataFrame(X, columns=['a', 'b'])",
        "pd.DataFrame({'a': ['1', 'x', None], 'b': [True, False, True]})",
        "X[:, 0]",
        "X[:0]",
        "[[1, 2], [3]]",
    ),
    "groups": (
        "None",
        "np.arange(len(X)) % 4",
        "list('ab' * (len(X) // 2))",
        "np.zeros(len(X))",
        "np.full(len(X), np.nan)",
        "[None] * len(X)",
        "[object()] * len(X)",
        "[[1]] * len(X)",
        "pd.Series(range(len(X)), name='who')",
        "X",
        "X[:, 0]",
        "'a'",
        "'nobody'",
        "''",
        "0",
        "[0]",
        "iter([0])",
        "{0}",
    ),
    "sample_weight": (
        "None",
        "1.0",
        "np.ones(len(X))",
        "np.arange(len(X))",
        "np.zeros(len(X))",
        "np.full(len(X), 1e308)",
        "np.full(len(X), 5e-324)",
        "-np.ones(len(X))",
        "np.full(len(X), np.nan)",
        "['a'] * len(X)",
        "[1.0]",
        "X",
        "1j",
        "10**400",
        "True",
        "'balanced'",
    ),
    "of_bounds_columns": (
        "None",
        "[0]",
        "[1, 0]",
        "['a']",
        "'a'",
        "[0, 0]",
        "[]",
        "[9]",
    ),
    "of_bounds_n_knots": ("8", "2", "1000", "1", "1001", "2.5", "'auto'"),
    "of_bounds_public": ("None", "[0]", "[1]", "['a']", "'all'", "[True, False]"),
    "of_bounds_n": ("None", "10", "0", "1.5"),
    "sampling_rate": ("1.0", "0.1", "1e-8", "0.999999", "0", "1.5", "1", "1e-300"),
    "clip": ("1.0", "1e-20", "1e20", "1e300", "0", "-1"),
    "sensitivity": ("1.0", "2.0", "None", "1e-20", "2.1", "0"),
    "noise_decay": ("0.0", "0.75", "9", "11", "-1"),
    "noise_weights": (
        "None",
        "[1, 1, 1]",
        "[1, 2, 3.0]",
        "[1]",
        "[0, 1, 1]",
        "[1e-200, 1, 1]",
    ),
    "other_events": ("()", *_EVENTS),
    "events": _EVENTS,
    "accountant": ("'auto'", "'pld'", "'rdp'"),
    "noise_std": (
        "(2.0,)",
        "(1.0, 2.0, 3.0)",
        "2.0",
        "(0,)",
        "(-1,)",
        "(1e-200,)",
        "(1e200,)",
    ),
    "label": ("'mean'", "''", "None", "7", "'a\\nb'"),
    "public_names": _COLUMN_SETS,
    "public_set": (
        "None",
        "['a']",
        "[]",
        "'a'",
        "['a', 'b', 'a']",
        "[0]",
        "{'a'}",
        "[None]",
    ),
    "target_name": ("None", "'a'", "'y'", "''", "7"),
    "unnamed": (
        "()",
        "('columns',)",
        "('target',)",
        "('unknown',)",
        "('x',)",
        "'columns'",
    ),
    "unit": ("'record'", "'user'", "None"),
    "classes_source": ("None", "'declared'", "'data'", "'public target'", "'x'"),
    "flag": ("False", "True", "1", "'no'"),
    "eta": ("1.0", "0.0", "0.5", "-1", "1e300", "1e-300", "5"),
    "gamma": ("1.0", "0.5", "1e-3", "1e-12", "0", "2"),
    "mu": ("0.3", "0", "1e-200", "1e8", "1e200", "-1"),
    "number": ("1.0", "0.0", "1e-5", "1e300", "-1"),
    "delta_or_none": ("1e-5", "None", "1e-300", "1e-12", "0.5", "0", "1"),
    "ceiling": ("1.0", "None", "1e-8", "1e8", "0", "math.inf"),
    "dataset": ("'default'", "''", "'é'", "7", "'a\\x00b'"),
    "rows": (
        "range(3)",
        "range(0)",
        "range(0, 9, 2)",
        "range(-3, 3)",
        "range(2**70)",
        "None",
    ),
    "column": ("None", "'a'", "0", "''"),
    "part_value": ("None", "'x'", "1", "1.5", "''"),
    "step": ("'scale: StandardScaler'", "''"),
    "audited": (
        "UNFITTED",
        "PIPELINE",
        "MODEL",
        "skfdp.DPSGDFClassifier",
        "skfdp.DPSGDFClassifier(epsilon=math.inf)",
        "skfdp.DPSGDFClassifier(bounds=(0, 1), max_iter=2, random_state=0)",
        "skfdp.FeatureDPLogisticRegression(bounds=(0, 1), max_iter=2, "
        "public_features=[0])",
        "skfdp.FeatureDPRegressor(target_bounds=(0, 1), max_iter=2)",
        "skfdp.PrivateCenteringTransformer(bounds=(0, 1))",
        "LogisticRegression()",
        "None",
        "'x'",
    ),
    "audited_rows": (
        "X",
        "X.tolist()",
        "X[:0]",
        "X[:, 0]",
        "None",
        "X.astype(object)",
        "X * 1j",
    ),
    "scored_by": (
        *("MODEL", "MODEL", "REGRESSOR", "MULTICLASS", "NETWORK", "PIPELINE"),
        *("UNFITTED", "LogisticRegression()", "None", "'x'"),
    ),
    "metrics": (
        *("None", "'accuracy'", "('roc_auc', 'log_loss')", "'mean_squared_error'"),
        *("()", "'nobody'", "7", "['accuracy', 7]", "'confusion_matrix'"),
    ),
    "by": ("None", "0", "'a'", "9", "y", "X[:, :2]", "['a', 'b']"),
    "choice_metric": (
        *("'f1'", "'accuracy'", "'nobody'", "None", "7", "['f1']"),
        "{'false_positive': 1.0, 'false_negative': 5.0}",
        "{'false_positive': 1.0, 'false_negative': math.nan}",
    ),
    "n_bins": ("'auto'", "2", "1", "0", "600", "1.5"),
    "target": ("y", "None", "y[:3]", "y * 0", "y.astype(str)", "X[:, 0]"),
    "neighbours": (
        "None",
        "[]",
        "[(X, y)]",
        "[(X + (np.arange(12) == 3)[:, None] / 9, y)]",
        "[(X + 1, y)]",
        "[X]",
        "X",
        "3",
        "[(X[:3], y[:3])]",
        "iter([])",
    ),
    "n_neighbours": ("3", "0", "-1", "1.5", "None"),
    "trace": ("'calls'", "None", "'lines'", "'x'"),
    "fit_params": ("None", "{}", "{'sample_weight': [1]}", "3"),
    "n_trials": ("100", "99", "0", "101.5", "10**30"),
    "confidence": ("0.95", "1", "0", "0.999999", "1e-9", "math.nan"),
    "n_canaries": ("None", "3", "0", "1", "13", "2.5"),
    "canaries": (
        "None",
        "'flip'",
        "'mirror'",
        "'noise'",
        "'swap'",
        "'x'",
        "(X, y)",
        "(X,)",
        "3",
    ),
    "tails": ("'auto'", "'other'", "'null'", "'x'"),
    "score": (
        "None",
        "lambda *a: np.zeros(12)",
        "lambda *a: 0.0",
        "lambda *a: [math.nan] * 12",
        "3",
    ),
    "learns": ("'rows'", "'nothing'", "'x'"),
    "times": ("1", "2", "1000", "0", "2.0"),
    "plan": (
        "PLAN",
        "FITPLAN",
        "EVENT",
        "[EVENT]",
        "SELECTION",
        "None",
        "[]",
        "PUBLIC",
    ),
    "reported": (
        "MODEL",
        "PIPELINE",
        "LEDGER()",
        "MODEL.privacy_",
        "skfdp.DPSGDFClassifier()",
        "skfdp.DPSGDFClassifier",
        "UNFITTED",
    ),
    "report": ("REPORT", "MODEL", "None", "skfdp.report(LEDGER())"),
    "text": (
        "LEDGER().to_json()",
        "'{}'",
        "'[]'",
        "''",
        "'null'",
        "b'{}'",
        "'[' * 10**5",
    ),
    "indent": ("2", "None", "0", "-1", "'x'"),
    "path": ("tmp / 'a.json'", "None", "tmp", "tmp / 'no' / 'a'", "''", "7"),
    "ledger_path": (
        "None",
        "tmp / 'new.sqlite'",
        "tmp",
        "tmp / 'no' / 'a'",
        "7",
        "''",
        "'\\x00'",
    ),
    "values": (
        "EVENT.to_dict()",
        "PLAN.to_dict()",
        "SELECTION.to_dict()",
        "REPORT.to_dict()",
        "{}",
        "[]",
    ),
    "facts": (
        "{'label': None}",
        "{'noise_std': []}",
        "{'nobody': 1}",
        "{'kind': 'x'}",
        "{'n_steps': 1.5}",
        "{'events': [{}]}",
        "{'steps': [{'name': 1}]}",
        "{'schema_version': 10**9}",
        "{'delta': 'inf'}",
        "{'findings': [{}]}",
        "{'receipts': [1]}",
        "{'assumptions': [[]]}",
    ),
    "ax": ("None", "AX()", "7", "[AX()]", "np.array([AX()])", "'x'"),
    "against": ("'charge'", "'time'", "'x'"),
    "columns": ("None", "['coefficients']", "[]", "['nobody']", "'coefficients'"),
    "label_target": ("None", "0", "1", "'a'", "[0]"),
    "drawn": (
        "MODEL",
        "REGRESSOR",
        "PIPELINE",
        "MULTICLASS",
        "NETWORK",
        "UNFITTED",
        "'x'",
        "skfdp.DPSGDFClassifier()",
        "LogisticRegression()",
    ),
    "points": (
        "None",
        "[0.1, 1.0]",
        "[]",
        "[-1]",
        "'x'",
        "[math.nan]",
        "[[0.1], [1.0]]",
        "[math.inf]",
    ),
    "n_samples": ("30", "2", "1", "0", "2.5"),
    "n_features": ("3", "600", "1", "0"),
    "n_classes": ("3", "2", "100", "1", "0"),
    "return_X_y": ("True", "False", "1", "'x'"),
    "subset": ("'train'", "'test'", "'all'", "'x'"),
    "folder": ("tmp", "str(tmp)", "tmp / 'no'", "7", "''", "'\\x00'"),
    "cv": (
        "None",
        "2",
        "1",
        "'x'",
        "KFold(2)",
        "StratifiedKFold(2)",
        "[(np.arange(9), np.arange(9, 12))]",
        "iter([])",
    ),
    "scoring": ("None", "'accuracy'", "'nobody'", "lambda m, X, y: 1.0"),
    "baselines": (
        "None",
        "'auto'",
        "{}",
        "{'x': 3}",
        "{'x': LogisticRegression()}",
        "'x'",
    ),
    "parameter": ("'epsilon'", "'nobody'", "'delta'", "''"),
    "n_repeats": ("1", "2", "0"),
    "test_size": ("0.25", "0", "1", "0.999"),
    "features_out": ("None", "['c0', 'c1']", "['a']", "[]", "'ab'"),
}
#: Texts of calls by public name; ``$slot`` is one of `DOMAINS`, or an odd value.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "calibrate": (
        "calibrate($epsilon, $delta, n_steps=$n_steps, sampling_rate=$sampling_rate, "
        "clip_norm=$clip, sensitivity=$sensitivity, "
        "neighboring_relation=$neighboring_relation)",
        "calibrate($epsilon, $delta, n_steps=$n_steps, noise_decay=$noise_decay, "
        "noise_weights=$noise_weights, other_events=$other_events, "
        "accountant=$accountant)",
        "calibrate($epsilon, $delta, n_steps=$n_steps).epsilon($delta)",
    ),
    "compose": (
        "compose($events, accountant=$accountant).epsilon($delta)",
        "compose($events, accountant=$accountant).delta($number)",
        "compose($events).mu",
    ),
    "private_bounds": (
        "skfdp.private_bounds($of_bounds_rows, $of_bounds_columns, epsilon=$epsilon, "
        "delta=$delta, n_knots=$of_bounds_n_knots).plan",
        "skfdp.private_bounds($of_bounds_rows, public_features=$of_bounds_public, "
        "delta=1e-3, neighboring_relation=$neighboring_relation, "
        "n_records=$of_bounds_n).plan",
        "skfdp.private_bounds($of_bounds_rows, delta=1e-3, on_invalid=$on_invalid)",
        "skfdp.private_bounds($of_bounds_rows, plan_only=$flag, delta=1e-3)",
        "skfdp.private_bounds($of_bounds_rows, groups=$groups, delta=1e-3).plan",
    ),
    "private_score": (
        "skfdp.private_score($scored_by, $audited_rows, $target, $epsilon, "
        "$delta_or_none, metrics=$metrics, by=$by, model_is_public=$flag, "
        "confidence=$confidence).intervals",
        "skfdp.private_score(MODEL, X, y, 1.0, threshold=$confidence, n_bins=$n_bins, "
        "loss_bound=$clip, on_invalid=$on_invalid, n_records=$of_bounds_n, "
        "neighboring_relation=$neighboring_relation, target_name=$target_name)",
        "skfdp.private_score(MODEL, X, y, 1.0, groups=$groups, "
        "sample_weight=$sample_weight, metrics=$metrics, by=$by).intervals",
        "skfdp.private_score(REGRESSOR, X, $target, 1.0, error_bound=$clip, "
        "metrics=$metrics, ledger=LEDGER())",
    ),
    "PrivateScore": (
        "skfdp.private_score(MODEL, X, y, 1.0, metrics=$metrics, by=$by).to_dict()",
    ),
    "PrivateThreshold": (
        "skfdp.private_score(MODEL, X, y, 1.0, n_bins=$n_bins, metrics=$metrics)"
        ".best_threshold($choice_metric).apply($scored_by).predict($audited_rows)",
    ),
    "PrivateTemperature": (
        "skfdp.private_score(MODEL, X, y, $epsilon, metrics=$metrics)"
        ".best_temperature().apply($scored_by).predict_proba($audited_rows)",
    ),
    "make_private_scorer": (
        "skfdp.make_private_scorer($metrics, epsilon=$epsilon, delta=$delta_or_none, "
        "ledger=LEDGER(), threshold=$confidence)($scored_by, X, y)",
        "skfdp.make_private_scorer($metrics, epsilon=1.0, ledger=$ledger_path)",
        "skfdp.make_private_scorer(epsilon=1.0, ledger=LEDGER(), groups=$groups)",
    ),
    "gdp_delta": ("gdp_delta($number, $mu)",),
    "gdp_epsilon": ("gdp_epsilon($delta, $mu)",),
    "gdp_mu": ("gdp_mu($epsilon, $delta)",),
    "promise": ("promise($events, $public_set)",),
    "Promise": ("Promise($neighboring_relation, $unit, $public_set)",),
    "Relation": ("Relation.of($neighboring_relation)",),
    "Event": (
        "Event(label=$label, noise_std=$noise_std, clip_norm=$clip, "
        "sensitivity=$sensitivity, n_steps=$n_steps, sampling_rate=$sampling_rate, "
        "neighboring_relation=$neighboring_relation)",
        "Event(label=$label, noise_std=$noise_std, clip_norm=1.0, sensitivity=1.0, "
        "public_features=$public_names, public_target=$flag, "
        "target_name=$target_name, unnamed=$unnamed, unit=$unit, seeded=$flag, "
        "classes_source=$classes_source, noise_decay=$noise_decay)",
        "Event.from_dict(MERGED($values, $facts))",
        "Event.from_dict($values)",
    ),
    "Selection": (
        "Selection(label=$label, noise_std=$noise_std, clip_norm=$clip, "
        "sensitivity=$sensitivity, eta=$eta, gamma=$gamma)",
        "Selection(label='x', noise_std=(5.0,), clip_norm=1.0, sensitivity=1.0, "
        "eta=$eta, gamma=$gamma).mean_runs",
        "compose([Selection(label='x', noise_std=$noise_std, clip_norm=1.0, "
        "sensitivity=1.0, eta=$eta, gamma=$gamma)]).epsilon($delta)",
        "Selection.from_dict(MERGED($values, $facts))",
    ),
    "PrivacyPlan": (
        "PrivacyPlan(target_epsilon=$epsilon, target_delta=$delta, n_steps=$n_steps, "
        "sampling_rate=$sampling_rate, clip_norm=$clip, sensitivity=$sensitivity, "
        "neighboring_relation=$neighboring_relation, noise_multipliers=$noise_std, "
        "other_events=$other_events, accountant=$accountant, "
        "noise_decay=$noise_decay)",
        "PrivacyPlan.from_dict(MERGED(PLAN.to_dict(), $facts))",
        "PLAN.epsilon($delta)",
    ),
    "PrivacyReport": (
        "PrivacyReport.from_dict(MERGED(REPORT.to_dict(), $facts))",
        "PrivacyReport.from_dict($values)",
        "REPORT.at_delta($delta).statement()",
        "REPORT.to_json(indent=$indent)",
        "REPORT.plot_curve($ax, epsilons=$points)",
    ),
    "report": ("skfdp.report($reported, delta=$delta_or_none)",),
    "read_report": ("skfdp.read_report($path)",),
    "open_table": ("skfdp.open_table($path)", "skfdp.open_table($values)"),
    "FitPlan": (
        "FITPLAN.to_dict()",
        "skfdp.DPSGDFClassifier(epsilon=$epsilon, delta=$delta, classes=$classes, "
        "bounds=$bounds).plan(np.zeros((30, 3))).to_dict()",
        "skfdp.FeatureDPRegressor(epsilon=$epsilon, delta=$delta, "
        "target_bounds=$target_bounds, bounds=$bounds).plan(np.zeros((30, 3))).epsilon",
    ),
    "LedgerEntry": (
        "LedgerEntry(time=$label, label=$label, event=EVENT, versions={})",
        "LedgerEntry(time='2026-01-31', label=$label, event=None, versions={}).seeded",
    ),
    "Receipt": ("Receipt(ledger=$label, charge=$times, head=$label)",),
    "Lesson": ("Lesson(step=$step, learns=$learns, reason=$step).private",),
    "WhatIf": ("LEDGER().what_if($plan, times=$times, delta=$delta_or_none)",),
    "PrivacyLedger": (
        "PrivacyLedger($ledger_path, epsilon=$ceiling, delta=$delta_or_none, "
        "neighboring_relation=$neighboring_relation, public=$public_set, "
        "dataset=$dataset)",
        "PrivacyLedger(tmp / 'a.sqlite', dataset=$dataset).charge($events)",
        "LEDGER().charge($events, label=$label, plan=$plan)",
        "LEDGER().charge($events)",
        "LEDGER().charge_nonprivate(label=$label)",
        "LEDGER().part(rows=$rows, column=$column, value=$part_value)",
        "LEDGER().part(rows=$rows).charge($events)",
        "LEDGER().part(column=$column, value=$part_value).charge([PUBLIC])",
        "LEDGER().spent($delta_or_none)",
        "LEDGER().remaining($delta_or_none)",
        "LEDGER().to_json(indent=$indent)",
        "LEDGER().to_dataframe()",
        "PrivacyLedger.from_json($text, $ledger_path)",
        "LEDGER().check_report($report)",
        "PrivacyLedger(tmp / 'b.sqlite').check_report($report)",
        "PrivacyLedger.resolve($ledger_path)",
        "repr(PrivacyLedger($ledger_path, public=$public_set))",
    ),
    "EffectsDisplay": (
        "EffectsDisplay.from_estimator($drawn, columns=$columns, "
        "target=$label_target, ax=$ax)",
        "EffectsDisplay.from_estimator($drawn, encoder=$encoder)",
    ),
    "LedgerDisplay": (
        "LedgerDisplay.from_ledger(LEDGER(), delta=$delta_or_none, "
        "against=$against, ax=$ax)",
        "LedgerDisplay.from_ledger($ledger_path, delta=$delta_or_none)",
    ),
    "PrivacyUtilityDisplay": (
        "PrivacyUtilityDisplay.from_estimator(UNFITTED, X, y, epsilons=$points, "
        "cv=$cv, n_repeats=$n_repeats, scoring=$scoring, baselines=$baselines)",
        "PrivacyUtilityDisplay.from_estimator(UNFITTED, X, y, epsilons=[1.0], "
        "parameter=$parameter, test_size=$test_size, n_repeats=1, ax=$ax)",
    ),
    "make_offset_classes": (
        "make_offset_classes($n_samples, $n_features, offset=$number, "
        "separation=$number, noise=$number, return_X_y=$return_X_y, "
        "random_state=$random_state)",
    ),
    "make_purchase100": (
        "make_purchase100($n_samples, $n_features, $n_classes, "
        "return_X_y=$return_X_y, random_state=$random_state)",
    ),
    "load_purchase100": ("load_purchase100($path, return_X_y=$return_X_y)",),
    "fetch_adult": (
        "fetch_adult(data_home=$folder, subset=$subset, return_X_y=$return_X_y, "
        "download_if_missing=False)",
    ),
    "fetch_mnist": (
        "fetch_mnist(data_home=$folder, subset=$subset, return_X_y=$return_X_y, "
        "download_if_missing=False)",
    ),
    "fetch_fashion_mnist": (
        "fetch_fashion_mnist(data_home=$folder, subset=$subset, "
        "return_X_y=$return_X_y, download_if_missing=False)",
    ),
    "Finding": ("Finding.from_dict(MERGED(FINDING.to_dict(), $finding))",),
    "audit_replay": (
        "audit_replay($audited, $audited_rows, $target, neighbours=$neighbours, "
        "n_neighbours=$n_neighbours, trace=$trace, fit_params=$fit_params, "
        "random_state=$random_state)",
    ),
    "audit_mechanism": (
        "audit_mechanism($plan, n_trials=$n_trials, confidence=$confidence, "
        "delta=$delta_or_none, random_state=$random_state)",
        "audit_mechanism($events, n_trials=100, random_state=0)",
    ),
    "audit_estimator": (
        "audit_estimator($audited, $audited_rows, $target, n_canaries=$n_canaries, "
        "n_guesses=$n_canaries, canaries=$canaries, tails=$tails, "
        "confidence=$confidence, score=$score)",
        "audit_estimator($audited, X, y, public_features=$public_features, "
        "public_target=$public_target, random_state=$random_state)",
    ),
    "AuditResult": (
        "MECHANISM.attach_to($report)",
        "MECHANISM.plot($ax)",
        "REPLAY.attach_to($report)",
        "str(REPLAY) + str(MECHANISM) + repr(RUN)",
        "RUN.plot($ax)",
        "REPLAY.plot($ax)",
        "RUN.attach_to($report)",
    ),
    "PrivacyWarning": ("repr(PrivacyWarning($label))",),
    "UtilityWarning": ("repr(skfdp.UtilityWarning($label))",),
    "PrivacyBudgetError": ("repr(PrivacyBudgetError($label))",),
    "PrivacyCurve": ("PLAN.curve.epsilon($delta)", "PLAN.curve.delta($number)"),
}
_FINDING = ("audit", "subject", "claimed_epsilon", "delta", "confidence", "n_trials")
DOMAINS["finding"] = (
    "{}",
    *(
        f"{{'{name}': {value}}}"
        for name in _FINDING
        for value in ("None", "-1", "'inf'")
    ),
)
#: Slots whose odd texts would be paths, or arrays of gigabytes.
_NO_ODD = (
    "n_trials",
    "n_neighbours",
    "n_canaries",
    "ledger_path",
    "path",
    "folder",
    "n_samples",
    "n_features",
    "n_classes",
    "facts",
    "finding",
    "step",
    "learns",
)


@dataclasses.dataclass(frozen=True)
class TextCall:
    """A call as a text."""

    template: str
    slots: Mapping[str, str]

    @property
    def text(self) -> str:
        """The call."""
        return string.Template(self.template).substitute(self.slots)

    def calls(self) -> Iterator[tuple[str, Callable]]:
        """Yield the call."""
        names = names_of(self.text)
        yield self.text.partition("(")[0], lambda: value_of(self.text, **names)

    def simpler(self) -> Iterator[TextCall]:
        """Yield the call with one slot set back."""
        for name, text in self.slots.items():
            usual = DOMAINS[name][0]
            if text != usual:
                yield TextCall(self.template, {**self.slots, name: usual})

    def __repr__(self) -> str:
        return self.text


@st.composite
def text_calls(draw, name: str) -> TextCall:
    """Draw a call of a public name."""
    template = draw(st.sampled_from(TEMPLATES[name]))
    slots = string.Template(template).get_identifiers()
    found = {slot: DOMAINS[slot][0] for slot in slots}
    changed = draw(st.lists(st.sampled_from(slots), max_size=3)) if slots else []
    for slot in changed:
        odd = draw(st.integers(0, 4)) == 0 and slot not in _NO_ODD
        found[slot] = draw(st.sampled_from(ODD if odd else DOMAINS[slot]))
    return TextCall(template, found)


# What texts may name. Each is made when it is first used: fits take a while.
_FACTS = {"label": "x", "noise_std": (9.0,), "clip_norm": 1.0, "sensitivity": 1.0}
_SMALL = {"bounds": (0, 1), "max_iter": 2, "delta": 1e-3}
_ROWS = np.random.default_rng(0).random((12, 2)) * (np.arange(12) % 2)[:, None]
_X, _Y = 0.735194 + 1e-6 * _ROWS, np.arange(12) % 2
_MADE: Mapping[str, Callable] = {
    "tmp": lambda: Path(tempfile.mkdtemp(dir=".")),
    "EVENT": lambda: privacy.Event(**_FACTS),
    "OTHER": lambda: privacy.Event(**_FACTS, neighboring_relation="replace_special"),
    "SAMPLED": lambda: privacy.Event(**_FACTS, n_steps=5, sampling_rate=0.1),
    "PUBLIC": lambda: privacy.Event(**_FACTS, public_features=("a",)),
    "NAMED": lambda: privacy.Event(**_FACTS, public_features=("a",), target_name="y"),
    "SELECTION": lambda: privacy.Selection(**_FACTS, gamma=0.5),
    "PLAN": lambda: privacy.calibrate(1.0, 1e-5, n_steps=3),
    "FITPLAN": lambda: _made("UNFITTED").plan(_X, _Y),
    "REPORT": lambda: _made("MODEL").privacy_,
    "FINDING": lambda: privacy.Finding(
        audit="replay",
        subject="x",
        claimed_epsilon=1.0,
        delta=1e-5,
        lower_bound=0.0,
        confidence=1.0,
        n_trials=1,
        passed=True,
        version="0",
    ),
    "MECHANISM": lambda: audit.audit_mechanism(
        _made("FITPLAN"), n_trials=100, random_state=0
    ),
    "REPLAY": lambda: audit.audit_replay(_made("UNFITTED"), _X, _Y, n_neighbours=2),
    "RUN": lambda: audit.audit_estimator(_made("UNFITTED"), _X, _Y, random_state=0),
    "UNFITTED": lambda: skfdp.DPSGDFClassifier(**_SMALL),
    "MODEL": lambda: skfdp.DPSGDFClassifier(**_SMALL).fit(_X, _Y),
    "REGRESSOR": lambda: skfdp.DPSGDFRegressor(**_SMALL, target_bounds=(0, 1)).fit(
        _X, _Y
    ),
    "MULTICLASS": lambda: skfdp.DPSGDFClassifier(**_SMALL).fit(_X, np.arange(12) % 3),
    "NETWORK": lambda: skfdp.FeatureDPMLPClassifier(
        **_SMALL, hidden_layer_sizes=(3,)
    ).fit(_X, _Y),
    "PIPELINE": lambda: make_pipeline(StandardScaler(), _made("UNFITTED")).fit(_X, _Y),
}


def _ledger():
    ledger = privacy.PrivacyLedger(epsilon=5.0, delta=1e-5)
    ledger.charge([_made("EVENT")], label="first")
    return ledger


def _merged(values, changes):
    """Return values with some of them changed, or what is no mapping as it is."""
    if isinstance(values, dict) and isinstance(changes, dict):
        return values | changes
    return changes


def _axes():
    from matplotlib.figure import Figure

    return Figure().add_subplot()


@functools.cache
def _made(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _MADE[name]()


@functools.cache
def _known() -> dict:
    """Return the public names, and what is made anew by each call."""
    found = {}
    for room in (privacy, datasets, inspection, audit):
        found |= {name: getattr(room, name) for name in room.__all__}
    return found | {
        "skfdp": skfdp,
        "X": _X,
        "y": _Y,
        "KFold": KFold,
        "StratifiedKFold": StratifiedKFold,
        "LogisticRegression": LogisticRegression,
        "LEDGER": _ledger,
        "AX": _axes,
        "MERGED": _merged,
        "csr_array": csr_array,
    }


def names_of(text: str) -> dict:
    """Return what a text names."""
    return _known() | {name: _made(name) for name in _MADE if name in text}
