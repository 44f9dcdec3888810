"""Rules for what estimators charge, release and give to others."""

from _mutants import Each, Line
from _rules_nodes import called, inverted, keyword

#: Every test of a fit runs these lines; this file is about them.
_ORDER = "test_order_of_a_fit"

CHARGES = [
    Line(
        "ledger charged after",
        "a fit that fails, or is refused, has looked at the data",
        "estimators/base.py",
        r"told, receipt = charged\(ledger, told, journal\)",
        "method.run(records, prepared, plan, Desk(plan.releases, streams, "
        "records.void, public.units), lambda step, found: False); "
        "told, receipt = charged(ledger, told, journal)",
        also=_ORDER,
    ),
    Line(
        "charge left out",
        "fits are free",
        "estimators/resuming.py",
        r"return told, ledger\.charge\(.*\)",
        "return told, None",
        also=_ORDER,
    ),
    Line(
        "charge left out of audits",
        "an audit does not see what is charged",
        "estimators/resuming.py",
        r"receipt = ledger\.charge\(.*\)",
        "receipt = None",
    ),
    Line(
        "last event not charged",
        "the descent is free",
        "estimators/resuming.py",
        r"return told, ledger\.charge\(told\.events,",
        "return told, ledger.charge(told.events[:1],",
        also=_ORDER,
    ),
    Line(
        "last event not reported",
        "the report is of less than was released",
        "estimators/base.py",
        r"events=told\.events,",
        "events=told.events[:1],",
        also=_ORDER,
    ),
    Line(
        "fits without privacy not recorded",
        "a ledger that does not know of them",
        "estimators/base.py",
        r"receipt = ledger\.charge_nonprivate\(.*\)",
        "receipt = None",
        also=_ORDER,
    ),
    Line(
        "seeds not recorded",
        "a fit that anybody can redo passes for private",
        "estimators/base.py",
        r'"seeded": self\._seeded',
        '"seeded": False',
        also=_ORDER,
    ),
    Line(
        "seed not told",
        "a fit that anybody can redo gives no warning",
        "estimators/base.py",
        r"warn_of_seed\(self\.random_state\)",
        "pass",
        also=_ORDER,
    ),
    Line(
        "void records kept",
        "the desk does not know which records are null",
        "estimators/base.py",
        r"streams, records\.void, public\.units, journal\)",
        "streams, None, public.units, journal)",
        also=_ORDER,
    ),
    Line(
        "keys of public models left out",
        "two public models, one noise",
        "estimators/base.py",
        r"self\._streams\(records, prepared\.keys, journal\)",
        "self._streams(records, {}, journal)",
        also="test_seeded_streams",
    ),
    Line(
        "data left out of the keys",
        "one seed on two tables gives one noise",
        "estimators/base.py",
        r"self\._data\(records\),",
        "(),",
        also=_ORDER,
    ),
    Line(
        "public columns not told",
        "the event promises more than is kept",
        "estimators/base.py",
        r"^            public\.mask,",
        "            public.mask & False,",
    ),
    Line(
        "public target not told",
        "the event promises more than is kept",
        "estimators/base.py",
        r"public_target=public\.has_target,",
        "public_target=False,",
    ),
    Line(
        "plan from the data",
        "a plan reads private columns",
        "estimators/base.py",
        r"own\._records\(X, y, planning=True, \*\*of_rows\)",
        "own._records(X, y, **of_rows)",
    ),
    Line(
        "callbacks not guarded",
        "traps of the user's state stop a fit",
        "estimators/base.py",
        r"@guarded_fit",
        "@(lambda fit: fit)",
        least=2,
    ),
]

# Functions that plan; elsewhere the names are those of step sizes and queries.
_OF_A_PLAN = r"(plan|event|_plan\w*)$"

PLANS = [
    Each(
        "sensitivity halved",
        "the plan is for half of what neighbours move",
        "estimators/*.py",
        keyword("sensitivity", "({}) / 2", scope=_OF_A_PLAN),
        least=10,
    ),
    Each(
        "clip norm of another query",
        "the plan is for half of what a record contributes",
        "estimators/*.py",
        keyword("clip_norm", "({}) / 2", r"^\w+\.clip_norm$|^clip_norm$", _OF_A_PLAN),
        least=8,
    ),
    Each(
        "count dropped",
        "releases of a scale are charged once",
        "estimators/linear_model/scales.py",
        keyword("n_steps", "1", r"n_means"),
        least=2,
    ),
    Each(
        "earlier releases left out of the budget",
        "they come on top of epsilon",
        "estimators/*.py",
        keyword("other_events", "()"),
        least=5,
    ),
    Line(
        "orthant bound beside a subtracted mean",
        "sqrt 2 is claimed where entries have any sign",
        "estimators/linear_model/descent.py",
        r"orthant = signed and not learns",
        "orthant = signed",
    ),
    Line(
        "orthant bound beside a subtracted mean",
        "sqrt 2 is claimed where the released mean was long enough to be subtracted",
        "estimators/linear_model/descent.py",
        r"if plan\.centred is not None and coordinates.*",
        "if False:",
    ),
    Line(
        "orthant bound for rows without signs",
        "the released mean decides where the target or the bounds leave signs open",
        "estimators/linear_model/descent.py",
        r"decides = signed and learns",
        "decides = learns",
    ),
    Line(
        "orthant bound beside a public loss",
        "sqrt 2 is claimed for differences",
        "estimators/linear_model/descent.py",
        r"and self\.padding is None$",
        "",
    ),
    Line(
        "orthant bound of all layers",
        "sqrt 2 is claimed where entries have any sign",
        "estimators/neural_network/training.py",
        r'signs = layers == "last" and public\.has_target',
        "signs = public.has_target",
    ),
    Line(
        "label bound where columns are private",
        "what a label moves stands for what a record moves",
        "estimators/linear_model/descent.py",
        r"return self\.scales is None and bool\(public\.mask\.all\(\)\)",
        "return self.scales is None and bool(public.mask.any())",
    ),
    Line(
        "label bound beside private margins",
        "the plan under one bound, the query under another",
        "estimators/linear_model/descent.py",
        r"label_bound=plan\.label_bound,",
        "label_bound=None,",
        also="test_a_wide_clip_costs",
    ),
    Line(
        "orthant not handed on",
        "the plan under one bound, the query under another",
        "estimators/linear_model/descent.py",
        r"orthant=plan\.orthant,",
        "orthant=False,",
    ),
    Line(
        "public target claimed",
        "the public gradient reads private labels",
        "estimators/*.py",
        r"public_target=public\.has_target,",
        "public_target=True,",
        scope="_query",
        also="test_only_the_desk",
    ),
    Line(
        "public target claimed",
        "the public gradient of a linear model reads private labels",
        "estimators/linear_model/descent_sums.py",
        r"public_target=public\.has_target,",
        "public_target=True,",
        also="test_only_the_desk",
    ),
    Line(
        "whole share of mu",
        "the share of the second moments is all of the budget",
        "estimators/completion/method.py",
        r"budget\.mu \* math\.sqrt\(_SECOND_SHARE\)",
        "budget.mu",
    ),
    Line(
        "batch of another rate",
        "the loop is for a rate that was not charged",
        "estimators/method.py",
        r"self\.epsilon,$",
        "2 * self.epsilon,",
        scope="calibrate",
    ),
    Line(
        "relation of another name",
        "plans under the relation of nulls",
        "estimators/method.py",
        r"neighboring_relation=self\.relation\.name",
        'neighboring_relation="replace_special"',
    ),
    Line(
        "share of epsilon for a share of mu",
        "two parts of the budget add up to more than it",
        "estimators/method.py",
        r"math\.sqrt\(share\) \* self\.mu",
        "math.sqrt(2 * share) * self.mu",
    ),
]

_EXACT = (
    "(lambda query, unit: query.exact_sum(None, None, unit) * unit)({1}, {1}.unit(0.0))"
)

RELEASES = [
    Each(
        "released without noise",
        "an exact private sum",
        "estimators/*.py",
        called(r".*(desk|Desk\(.*\))\.release", _EXACT),
        least=10,
    ),
    Line(
        "rounding away from zero",
        "regressors are a little longer than 1",
        "estimators/centring/conditional.py",
        r"np\.trunc\(scaled\)",
        "np.sign(scaled) * np.ceil(np.abs(scaled))",
    ),
    Line(
        "regressors not weighted",
        "regressors of any length: leverage has no bound",
        "estimators/centring/conditional.py",
        r"weights = 1 / np\.linalg\.norm\(rows, axis=1\)",
        "weights = 1 / np.minimum(1.0, np.linalg.norm(rows, axis=1))",
    ),
    Line(
        "private columns learnt in public",
        "the start of a fit reads private columns",
        "estimators/centring/methods.py",
        r"public\.row_map\.of_public\(public\.mask\)\.scale\(public\.X\)",
        "public.row_map.scale(public._table)",
    ),
    Each(
        "mask inverted",
        "private columns where public ones are meant, or the other way round",
        "estimators/arrays.py estimators/tables.py estimators/linear_model/*.py "
        "estimators/completion/method.py estimators/centring/*.py "
        "estimators/neural_network/start.py",
        # Priors, reaches, and what is told of the noise.
        inverted(
            r"public|mask|private",
            r"away =|weights = \(theta|columns, norm, seen",
        ),
        least=10,
    ),
    Line(
        "plans see private columns",
        "a table for planning holds private values",
        "estimators/arrays.py",
        r"shown\[:, public\] = X\[:, public\]",
        "shown[:] = X",
    ),
    Line(
        "plans see private columns",
        "a large table for planning holds private values",
        "estimators/arrays.py",
        r"np\.where\(public, block, block\.dtype\.type\(0\)\)",
        "block",
    ),
    Line(
        "plans see the zeros of private columns",
        "the pattern of a sparse table is private",
        "estimators/arrays.py",
        r"kept = public\[X\.indices\]",
        "kept = public[X.indices] | True",
        also="test_tables_for_plans",
    ),
]

SEARCH = [
    Line(
        "runs are not checked",
        "a run releases more than was charged for it",
        "estimators/search/runs.py",
        r"self\._share\.check\(tuple\(self\._released\)\)",
        "pass",
        also="test_the_gate_counts",
    ),
    Line(
        "releases of a run forgotten",
        "each step of a run has the whole share",
        "estimators/search/runs.py",
        r"self\._released \+= events",
        "self._released[:] = events",
        also="test_the_gate_counts",
    ),
    Line(
        "missing square root of the candidates",
        "all candidates are published, each at the whole share",
        "estimators/search/runs.py",
        r"mu = mu / math\.sqrt\(together\) \* \(1 - MARGIN\)",
        "mu = mu * (1 - MARGIN)",
    ),
    Line(
        "share of a run not compared",
        "a candidate may spend more than its share",
        "estimators/search/runs.py",
        r"<= self\.mu\*\*2:",
        "<= 4 * self.mu**2:",
    ),
    Line(
        "spent share forgotten",
        "the last step has the whole share",
        "estimators/search/runs.py",
        r"self\.mu\*\*2 - math\.fsum\(.*\)",
        "self.mu**2",
    ),
    Line(
        "Poisson batches in a search",
        "a run without a Gaussian parameter",
        "estimators/search/runs.py",
        r"if any\(event\.mu is None for event in events\):",
        "if False:",
    ),
    Line(
        "other public columns in a candidate",
        "a candidate discloses more than was charged",
        "estimators/search/runs.py",
        r"if frozenset\(event\.public_features\) != columns:",
        "if False:",
    ),
    Line(
        "other relation in a candidate",
        "a candidate protects less than was charged",
        "estimators/search/runs.py",
        r"if other or event\.public_target > promise\.public_target:",
        "if False:",
    ),
    Line(
        "records in both parts",
        "the score is of records that were fitted",
        "estimators/search/runs.py",
        r"np\.sort\(order\[n_score:\]\), np\.sort\(order\[:n_score\]\)",
        "np.sort(order), np.sort(order[:n_score])",
    ),
    Line(
        "fixed seed",
        "the number of runs and their candidates are known",
        "estimators/search/method.py",
        r'streams\.private\("candidates"\)',
        "np.random.default_rng(0)",
    ),
    Line(
        "seed of a run shared",
        "runs of one candidate have one noise",
        "estimators/search/method.py",
        r'streams\.private\("fit", number\)',
        'streams.private("fit")',
        also="test_every_run_has_a_seed",
    ),
    Line(
        "fixed number of runs",
        "the theorem is for a random number",
        "estimators/search/method.py",
        r"n_runs = 1 \+ int\(np\.searchsorted\(.*\)",
        "n_runs = max(2, int(plan.share.promise.mean_runs))",
    ),
    Line(
        "runs share their noise",
        "with a seed the scores of all runs have one noise",
        "estimators/search/method.py",
        r'streams\.add\("run", \(number, params, share\.mu\)\)',
        "pass",
    ),
    Line(
        "message of a failed run",
        "what a step raises may quote the data",
        "estimators/search/runs.py",
        r"raise RuntimeError\(_WITHHELD\)",
        "raise",
    ),
]

ADAPTIVE = [
    Line(
        "counts at half of their sensitivity",
        "a record is in one bin of every column",
        "estimators/centring/distances.py",
        r"reach = query\.sensitivity\(budget\.relation\)",
        "reach = query.sensitivity(budget.relation) / 2",
    ),
    Line(
        "mean about a rough one at half of its sensitivity",
        "the plan is for half of what neighbours move",
        "estimators/centring/adaptive.py",
        r"reach = RowSum\.planned\(\)\.sensitivity\(budget\.relation\)",
        "reach = RowSum.planned().sensitivity(budget.relation) / 2",
    ),
    Line(
        "mean about a rough one taken for non-negative",
        "sqrt 2 is claimed where entries have any sign",
        "estimators/centring/adaptive.py",
        r"RowSum\.planned\(\)\.sensitivity",
        "RowSum.planned(nonnegative=True).sensitivity",
    ),
    Line(
        "columns before the rotation",
        "rotated rows have more columns, each with a bin",
        "estimators/centring/adaptive.py",
        r"width = rotated_width\(public\.n_private\)",
        "width = public.n_private",
    ),
    Line(
        "histograms charged once",
        "three are released",
        "estimators/centring/adaptive.py",
        r"budget, each, N_HISTOGRAMS\)",
        "budget, each, 1)",
    ),
    Line(
        "distances charged once",
        "two histograms are released",
        "estimators/centring/adaptive.py",
        r"n_steps = 1 \+ n_more",
        "n_steps = 1",
    ),
    Line(
        "rotation of the data",
        "what is public is drawn from a private stream",
        "estimators/centring/adaptive.py",
        r"desk\.streams\.public\(ROTATION\)",
        "desk.streams.private(ROTATION)",
        also="test_the_rotation_is_public",
    ),
    Line(
        "rotation by a product of matrices",
        "the bits of a row depend on the rows beside it",
        "records/moved.py",
        r"return _hadamard\(padded\)",
        "return padded @ _hadamard(np.eye(self.width))",
        also="test_a_row_has_the_same_bits",
    ),
    Line(
        "warnings of far rows let out",
        "an overflow tells of a private value",
        "records/moved.py",
        r'with np\.errstate\(all="ignore"\):',
        "with np.errstate():",
    ),
]

RULES = [*CHARGES, *PLANS, *RELEASES, *SEARCH, *ADAPTIVE]
