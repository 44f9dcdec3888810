"""Calls of functions that see private rows, a report or a ledger, as texts."""

import dataclasses
import functools
import re
import string
import tempfile
import warnings
from pathlib import Path

import numpy as np
from fuzz_values import BY_NAME, ODD, domains, value_of
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy.sparse import csr_array

import skfdp
from skfdp import audit, inspection, privacy
from skfdp.solvers import NoisyGradientDescent

#: What a slot may hold, the usual value first.
DOMAINS = BY_NAME | domains(
    r"""
    target_name: None | 'a' | 'y' | 7
    of_bounds_rows: X | X.tolist() | 1e308 * X | np.full((5, 2), np.nan) | np.full((5,
        2), -np.inf) | np.full((5, 2), 5e-324) | X > 0.5 | [1.0, 2.0] |
        X.astype('float32') | csr_array(X) | pd.DataFrame(X, columns=['a', 'b']) |
        pd.DataFrame({'a': ['1', 'x', None], 'b': [True, False, True]}) | X[:, 0] |
        X[:0] | [[1, 2], [3]]
    of_bounds_public: None | [0] | [1] | ['a'] | 'all' | [True, False]
    of_bounds_n: None | 10 | 1.5
    flag: False | True | 'no'
    groups: None | np.arange(len(X)) % 4 | list('ab' * (len(X) // 2)) | np.zeros(len(X))
        | np.full(len(X), np.nan) | [None] * len(X) | [object()] * len(X) | [[1]] *
        len(X) | pd.Series(range(len(X)), name='who') | X | X[:, 0] | 'a' | 'nobody' |
        [0] | iter([0]) | {0}
    scored_by: MODEL | MODEL | REGRESSOR | MULTICLASS | NETWORK | PIPELINE | UNFITTED |
        LogisticRegression()
    audited_rows: X | X.tolist() | X[:0] | X[:, 0] | X.astype(object) | X * 1j
    target: y | None | y[:3] | y * 0 | y.astype(str) | X[:, 0]
    delta_or_none: 1e-5 | None | 1e-12 | 0.5
    metrics: None | 'accuracy' | ('roc_auc', 'log_loss') | 'mean_squared_error' |
        'nobody' | 7 | ['accuracy', 7] | 'confusion_matrix'
    by: None | 0 | 'a' | 9 | y | X[:, :2] | ['a', 'b']
    confidence: 0.95 | 1 | 0.999999 | 1e-9
    n_bins: 'auto' | 2 | 600 | 1.5
    clip: 1.0 | 1e-20 | 1e20
    sample_weight: None | 1.0 | np.ones(len(X)) | np.arange(len(X)) | np.zeros(len(X)) |
        np.full(len(X), 1e308) | np.full(len(X), 5e-324) | -np.ones(len(X)) |
        np.full(len(X), np.nan) | ['a'] * len(X) | X | 'balanced'
    ledger_path: None | tmp / 'new.sqlite' | tmp | tmp / 'no' / 'a' | 7 | '' | '\x00'
    facts: {'label': None} | {'noise_std': []} | {'nobody': 1} | {'kind': 'x'} |
        {'n_steps': 1.5} | {'events': [{}]} | {'steps': [{'name': 1}]} |
        {'schema_version': 10**9} | {'delta': 'inf'} | {'receipts':
        [1]} | {'assumptions': [[]]}
    values: EVENT.to_dict() | PLAN.to_dict() | REPORT.to_dict()
    indent: 2 | None
    ax: None | AX() | 7 | [AX()] | np.array([AX()])
    reported: MODEL | PIPELINE | LEDGER() | MODEL.privacy_ | skfdp.DPSGDFClassifier() |
        skfdp.DPSGDFClassifier | UNFITTED
    path: tmp / 'a.json' | None | tmp | tmp / 'no' / 'a' | '' | 7
    limit: 1.0 | None | 1e-8 | 1e8
    public_set: None | ['a'] | 'a' | ['a', 'b', 'a'] | [0] | {'a'}
    dataset: 'default' | '' | 'é' | 7 | 'a\x00b'
    events: [EVENT] | (EVENT, EVENT) | [EVENT, OTHER] | [SAMPLED] | [SAMPLED, EVENT] |
        [PUBLIC, NAMED] | [PUBLIC, EVENT] | EVENT | PLAN.event | FITPLAN.events |
        [EVENT, 'x'] | {EVENT: 1} | iter([EVENT]) | np.array([EVENT], dtype=object)
    label: 'mean' | '' | 7 | 'a\nb'
    plan: PLAN | FITPLAN | EVENT | [EVENT] | PUBLIC
    report: REPORT | MODEL | skfdp.report(LEDGER())
    drawn: MODEL | REGRESSOR | PIPELINE | MULTICLASS | NETWORK | UNFITTED |
        skfdp.DPSGDFClassifier() | LogisticRegression()
    columns: None | ['coefficients'] | ['nobody'] | 'coefficients'
    label_target: None | 0 | 'a' | [0]
    audited: UNFITTED | PIPELINE | MODEL | skfdp.DPSGDFClassifier |
        skfdp.DPSGDFClassifier(epsilon=math.inf) |
        skfdp.DPSGDFClassifier(random_state=0, **SMALL) |
        skfdp.FeatureDPLogisticRegression(public_features=[0], **SMALL) |
        skfdp.FeatureDPRegressor(target_bounds=(0, 1), **SMALL) |
        skfdp.PrivateCenteringTransformer(bounds=(0, 1)) |
        LogisticRegression()
    neighbors: None | [] | [(X, y)] | [(X + (np.arange(12) == 3)[:, None] / 9, y)] |
        [(X + 1, y)] | [X] | X | 3 | [(X[:3], y[:3])] | iter([])
    n_neighbors: 3 | 0 | -1 | 1.5 | None
    fit_params: None | {} | {'sample_weight': [1]} | 3
    n_trials: 100 | 99 | 0 | 101.5 | 10**30
    """
)
#: Texts of calls by public name; ``$slot`` is one of `DOMAINS`, or an odd value.
TEMPLATES = domains(
    r"""
    private_bounds: skfdp.private_bounds($of_bounds_rows,
        epsilon=$epsilon, delta=$delta).plan |
        skfdp.private_bounds($of_bounds_rows, public_features=$of_bounds_public,
        delta=1e-3, neighboring_relation=$neighboring_relation).plan |
        skfdp.private_bounds($of_bounds_rows, plan_only=$flag,
        delta=1e-3) | skfdp.private_bounds($of_bounds_rows, groups=$groups,
        delta=1e-3).plan
    private_score: skfdp.private_score($scored_by, $audited_rows, $target, $epsilon,
        $delta_or_none, metrics=$metrics, by=$by, model_is_public=$flag,
        confidence=$confidence).intervals | skfdp.private_score(MODEL, X, y, 1.0,
        threshold=$confidence, n_bins=$n_bins, loss_bound=$clip,
        n_records=$of_bounds_n, neighboring_relation=$neighboring_relation,
        target_name=$target_name) | skfdp.private_score(MODEL, X, y, 1.0,
        groups=$groups, sample_weight=$sample_weight, metrics=$metrics,
        by=$by).intervals | skfdp.private_score(REGRESSOR, X, $target, 1.0,
        error_bound=$clip, metrics=$metrics, ledger=LEDGER())
    PrivateScore: skfdp.private_score(MODEL, X, y, 1.0, metrics=$metrics,
        by=$by).intervals
    make_private_scorer: skfdp.make_private_scorer($metrics, epsilon=$epsilon,
        delta=$delta_or_none, ledger=LEDGER(), threshold=$confidence)($scored_by, X, y)
        | skfdp.make_private_scorer($metrics, epsilon=1.0, ledger=$ledger_path) |
        skfdp.make_private_scorer(epsilon=1.0, ledger=LEDGER(), groups=$groups)
    PrivacyReport: PrivacyReport.from_dict(MERGED(REPORT.to_dict(), $facts)) |
        PrivacyReport.from_dict($values) | REPORT.at_delta($delta).statement() |
        REPORT.to_json(indent=$indent)
    report: skfdp.report($reported, delta=$delta_or_none)
    open_table: skfdp.open_table($path) | skfdp.open_table($values)
    FitPlan: FITPLAN.to_dict() | skfdp.DPSGDFClassifier(epsilon=$epsilon, delta=$delta,
        classes=$classes, bounds=$bounds).plan(np.zeros((30, 3))).to_dict() |
        skfdp.FeatureDPRegressor(epsilon=$epsilon, delta=$delta,
        target_bounds=$target_bounds, bounds=$bounds).plan(np.zeros((30, 3))).epsilon
    PrivacyLedger: PrivacyLedger($ledger_path, epsilon=$limit, delta=$delta_or_none,
        neighboring_relation=$neighboring_relation, public=$public_set,
        dataset=$dataset) | PrivacyLedger(tmp / 'a.sqlite',
        dataset=$dataset).charge($events) | LEDGER().charge($events, label=$label) |
        LEDGER().charge($events) | LEDGER().charge_nonprivate(label=$label) |
        LEDGER().spent($delta_or_none) | LEDGER().remaining($delta_or_none) |
        LEDGER().to_json(indent=$indent) |
        LEDGER().check_report($report) |
        PrivacyLedger(tmp / 'b.sqlite').check_report($report) |
        PrivacyLedger.resolve($ledger_path) | repr(PrivacyLedger($ledger_path,
        public=$public_set))
    EffectsDisplay: EffectsDisplay.from_estimator($drawn, columns=$columns,
        target=$label_target, ax=$ax) | EffectsDisplay.from_estimator($drawn,
        encoder=$encoder)
    audit_replay: audit_replay($audited, $audited_rows, $target, neighbors=$neighbors,
        n_neighbors=$n_neighbors, fit_params=$fit_params,
        random_state=$random_state)
    audit_mechanism: audit_mechanism($plan, n_trials=$n_trials, confidence=$confidence,
        delta=$delta_or_none, random_state=$random_state) | audit_mechanism($events,
        n_trials=100, random_state=0)
    """
)
#: Slots whose odd texts would be paths, or arrays of gigabytes.
_NO_ODD = ("n_trials", "n_neighbors", "ledger_path", "path", "facts")


@dataclasses.dataclass(frozen=True)
class TextCall:
    """A call as a text."""

    template: str
    slots: dict[str, str]

    @property
    def text(self):
        """The call."""
        return string.Template(self.template).substitute(self.slots)

    def calls(self):
        """Yield the call."""
        names = names_of(self.text)
        yield self.text.partition("(")[0], lambda: value_of(self.text, **names)

    def __repr__(self):
        return self.text


@st.composite
def text_calls(draw, name):
    """Draw a call of a public name."""
    template = draw(st.sampled_from(TEMPLATES[name]))
    slots = string.Template(template).get_identifiers()
    found = {slot: DOMAINS[slot][0] for slot in slots}
    changed = draw(st.lists(st.sampled_from(slots), max_size=3)) if slots else []
    for slot in changed:
        odd = draw(st.integers(0, 4)) == 0 and slot not in _NO_ODD
        found[slot] = draw(st.sampled_from(ODD if odd else DOMAINS[slot]))
    return TextCall(template, found)


#: What texts may name, as texts; each is made when it is first used: fits take a while.
_MADE = {
    name: text
    for name, (text,) in domains(
        r"""
    EVENT: Event(**FACTS)
    OTHER: Event(**FACTS, neighboring_relation="replace_special")
    SAMPLED: Event(**FACTS, n_steps=5, sampling_rate=0.1)
    PUBLIC: Event(**FACTS, public_features=("a",))
    NAMED: Event(**FACTS, public_features=("a",), target_name="y")
    PLAN: privacy.calibrate(1.0, 1e-5, n_steps=3)
    FITPLAN: UNFITTED.plan(X, y)
    REPORT: MODEL.privacy_
    MECHANISM: audit_mechanism(FITPLAN, n_trials=100, random_state=0)
    REPLAY: audit_replay(UNFITTED, X, y, n_neighbors=2)
    UNFITTED: skfdp.DPSGDFClassifier(**SMALL)
    MODEL: skfdp.DPSGDFClassifier(**SMALL).fit(X, y)
    REGRESSOR: skfdp.DPSGDFRegressor(**SMALL, target_bounds=(0, 1)).fit(X, y)
    MULTICLASS: skfdp.DPSGDFClassifier(**SMALL).fit(X, np.arange(12) % 3)
    NETWORK: skfdp.FeatureDPMLPClassifier(**SMALL, hidden_layer_sizes=(3,)).fit(X, y)
    PIPELINE: make_pipeline(StandardScaler(), UNFITTED).fit(X, y)
    """
    ).items()
}
_ROWS = np.random.default_rng(0).random((12, 2)) * (np.arange(12) % 2)[:, None]


def _ledger():
    ledger = privacy.PrivacyLedger(epsilon=5.0, delta=1e-5)
    ledger.charge([_made("EVENT")], label="first")
    return ledger


def _merged(values, changes):
    """Return values with some of them changed, or what is no mapping as it is."""
    both = isinstance(values, dict) and isinstance(changes, dict)
    return values | changes if both else changes


_KNOWN = {
    name: getattr(home, name)
    for home in (privacy, inspection, audit)
    for name in home.__all__
}
_KNOWN |= {
    **{"skfdp": skfdp, "privacy": privacy, "csr_array": csr_array},
    **{"X": 0.735194 + 1e-6 * _ROWS, "y": np.arange(12) % 2},
    **{"LEDGER": _ledger, "AX": lambda: Figure().add_subplot(), "MERGED": _merged},
    "FACTS": {"label": "x", "noise_std": (9.0,), "clip_norm": 1.0, "sensitivity": 1.0},
    "SMALL": {
        "bounds": (0, 1),
        "delta": 1e-3,
        # An audit tells by how much a row moved the exact sum of norms.
        "solver": NoisyGradientDescent(max_iter=2, row_norm=1.0),
    },
}


@functools.cache
def _made(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value_of(_MADE[name], **names_of(_MADE[name]))


def names_of(text):
    """Return what a text names."""
    made = {name: _made(name) for name in _MADE if re.search(rf"\b{name}\b", text)}
    made |= {"tmp": Path(tempfile.mkdtemp(dir="."))} if "tmp" in text else {}
    return _KNOWN | made
