"""Rules for scores, for bounds that nobody declared, and for rehearsals."""

from _mutants import Line, Move

SCORES = [
    Line(
        "missing sqrt 2",
        "a replaced record leaves one cell and enters another",
        "queries/score_table.py",
        r"2\.0 \* \(self\.n_cells > 1\)",
        "1.0 * (self.n_cells > 1)",
    ),
    Line(
        "squares outside of the norm",
        "a record adds more than its norm",
        "queries/score_table.py",
        r"\(1 \+ SQUARES\*\*2\)",
        "1",
    ),
    Line(
        "clip left out",
        "one loss may be as large as it likes",
        "queries/score_table.py",
        r"np\.clip\((np\.where\(np\.isnan\(losses\), 1\.0, losses\)), 0\.0, 1\.0\)",
        r"\1",
    ),
    Line(
        "NaN guard left out",
        "NaN becomes any integer",
        "queries/score_table.py",
        r"np\.where\(np\.isnan\(losses\), 1\.0, losses\)",
        "losses",
    ),
    Line(
        "rounding away from zero",
        "a contribution is longer than its bound",
        "queries/score_table.py",
        r"np\.trunc\(values / unit\)",
        "np.ceil(values / unit)",
    ),
    Line(
        "charge left out",
        "scores are free",
        "estimators/scoring/private_score.py",
        r"if ledger is not None:",
        "if False:",
    ),
    Move(
        "ledger charged after",
        "a score that is refused has looked at the data",
        "estimators/scoring/private_score.py",
        r"if ledger is not None:",
        r"table = _released",
    ),
    Line(
        "fit left out of a report",
        "a model with a released threshold is reported as its score alone",
        "estimators/scoring/adjusted.py",
        r"\[\(\"estimator\", fit\.report\), (\(\"scores\", release\))\]",
        r"[\1]",
    ),
    Line(
        "score left out of a report",
        "a threshold is reported as if nobody had released it",
        "estimators/scoring/adjusted.py",
        r"\[(\(\"estimator\", fit\.report\)), \(\"scores\", release\)\]",
        r"[\1]",
    ),
    Line(
        "every model is public",
        "a model of private records is reported as its score alone",
        "estimators/scoring/adjusted.py",
        r"MODEL_IS_PUBLIC in self\.release\.assumptions",
        "True",
    ),
]

BOUNDS = [
    Line(
        "columns left out of a sensitivity",
        "a record is counted once in every column",
        "queries/bins.py",
        r"math\.sqrt\(2 \* self\.X\.shape\[1\]\)",
        "math.sqrt(2)",
    ),
    Line(
        "missing sqrt 2",
        "a replaced record leaves one bin and enters another",
        "queries/bins.py",
        r"math\.sqrt\(2 \* self\.X\.shape\[1\]\)",
        "math.sqrt(self.X.shape[1])",
    ),
    Line(
        "columns left out of a norm",
        "a record is counted once in every column",
        "queries/bins.py",
        r"return math\.sqrt\(self\.X\.shape\[1\]\)",
        "return 1.0",
    ),
    Line(
        "NaN guard left out",
        "NaN becomes any integer",
        "queries/bins.py",
        r"np\.where\(np\.isnan\(place\), 0, place\)\.astype\(np\.int64\)",
        "place",
    ),
]

REHEARSALS = [
    Line(
        "answers for other threads",
        "fits beside an audit get its fixed noise",
        "releases/rehearsal.py",
        r" and stage\.place == _here\(\)",
        "",
    ),
    Line(
        "rehearsal left open",
        "fits after an audit get its fixed noise",
        "releases/rehearsal.py",
        r"stage\.rehearsal = None",
        "pass",
    ),
    Line(
        "frozen fits pass for private",
        "a fit with noise that anybody can compute is reported as private",
        "estimators/base.py",
        r"self\.random_state is not None or rehearsal\.current\(\) is not None",
        "self.random_state is not None",
    ),
]

PERSONS = [
    Line(
        "scores of persons told as those of records",
        "a ledger of records takes them, and the report says too little",
        "estimators/scoring/private_score.py",
        r'facts\["unit"\], reach = units\.unit, units\.reach',
        "reach = units.reach",
    ),
    Line(
        "reach left out of a score",
        "somebody's rows move the table further than one row",
        "estimators/scoring/private_score.py",
        r'facts\["unit"\], reach = units\.unit, units\.reach',
        'facts["unit"] = units.unit',
    ),
    Line(
        "units left out of a score",
        "rows count alike, under the noise of persons who do",
        "estimators/scoring/private_score.py",
        r"Desk\(\(plan\.event,\), streams, units=units\)",
        "Desk((plan.event,), streams)",
    ),
    Line(
        "persons left out of private bounds",
        "rows are protected where persons were promised",
        "estimators/bounds/function.py",
        r"units = self\._units_of\(groups, X\.shape\)",
        "units = None",
    ),
    Line(
        "noise of bins not counted in steps",
        "integers that cannot carry the noise",
        "estimators/bounds/release.py",
        r"> MAX_STD \* step:",
        "> MAX_STD:",
    ),
    Line(
        "person changed in one row",
        "the others are taken to stay",
        "audit/replay/neighbours.py",
        r"for record in changed\.rows:",
        "for record in changed.rows[:1]:",
    ),
    Line(
        "person nulled in one row",
        "the distance of one row passes for that of the person",
        "audit/replay/rehearsing.py",
        r"np\.atleast_1d\(changed\)",
        "np.atleast_1d(changed)[:1]",
    ),
    Line(
        "audits of one run let persons in",
        "canaries of one person come and go by themselves",
        "audit/one_run/one_run.py",
        r'if found\.unit == "person":',
        "if False:",
    ),
]

RULES = [*SCORES, *BOUNDS, *REHEARSALS, *PERSONS]
