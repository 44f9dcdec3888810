"""The wording of a privacy report, for whoever must decide.

Everything here is derived from the report, so that text and numbers cannot disagree.
"""

from __future__ import annotations

import collections
import html
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from skfdp.privacy.accounting import detection_rate
from skfdp.privacy.assumptions import INTEGER_SEED, ONE_STEP
from skfdp.privacy.events import Event, Relation
from skfdp.privacy.preprocessing_steps import Lesson
from skfdp.privacy.public_sets import name_text

# A `PrivacyReport`, whose module imports this one.
Report = Any

_WIDTH = 79
# More names than this are counted, not listed, in text (and in a repr); JSON lists
# them all.
_LISTED, _LISTED_IN_REPR = 20, 4

# What is protected, by unit.
_PARTS = {
    "record": "the private part of one record",
    "person": "the private parts of all rows of one person",
}
# What neighbours are, what somebody tries to tell, and what they then detect.
_RELATIONS = {
    "replace_one": (
        "Two tables are neighbours if they agree in all but {part}, which may be "
        "replaced by any other value.",
        "which of two values is the true one",
        "the true value",
    ),
    "replace_special": (
        "Two tables are neighbours if they agree in all but {part}, in whose place one "
        "of them has an empty value, which contributes nothing to any release. This is "
        "weaker than replacement by another value, which takes two such steps.",
        "whether that was used at all",
        "its use",
    ),
    "add_or_remove_one": (
        "Two tables are neighbours if one of them has one more record. Nothing of a "
        "record is public.",
        "whether that one is in the table",
        "its presence",
    ),
}
#: Of every report where persons are protected.
PARTITION = (
    "Which rows belong to one person, and how many, is not protected: the partition is "
    "the same in neighbours."
)
_UNITS = {
    "record": (
        "The unit is one record. A person with several records, or whose data show in "
        "the records of others (household, family), is protected less."
    ),
    "person": (
        "The unit is one person, as groups has it. Whoever's data show in the rows of "
        "others (household, family) is protected less."
    ),
}
NOT_COVERED = (
    "Other fits: a report cannot know whether its estimator is the best of a search or "
    "of several tries (best_estimator_ of GridSearchCV). Every other fit on the same "
    "data costs privacy too, and so do parameters chosen by looking at results; they "
    "are counted only if every fit is charged to one ledger.",
    "Declared facts: bounds, categories and class lists that were read from the "
    "private data instead of being known beforehand.",
    "Upstream steps that learn from the data without a privacy report of their own.",
    "Splits that are stratified on a private target, and bootstraps "
    "(BaggingClassifier), which repeat records.",
    "Steps around the model that see the private target without noise: calibration "
    "(CalibratedClassifierCV), stacking (StackingClassifier), tuned thresholds "
    "(TunedThresholdClassifierCV).",
    "Scores and predictions computed on the private training data and then published.",
    "Public models: a pretrained model that was itself trained on these records.",
    "Side channels: running time, memory use, and refusals of types, shapes and "
    "malformed private values that on_invalid='replace' did not take.",
)
#: Where the noise came from, by whether it was seeded.
GENERATORS = {
    True: (
        "a user's integer seed: reproducible, for experiments only. Who knows or "
        "guesses the seed can remove the noise; epsilon is then no guarantee"
    ),
    False: (
        "a cryptographic generator keyed by the operating system for this fit alone; "
        "the key is not stored"
    ),
}
NUMERICS = (
    "Contributions are rounded to integers of a fixed grid before they are summed, "
    "sums are exact, and Gaussian noise is rounded to the same grid before it is "
    "added, so that the low-order bits of floating-point numbers reveal nothing. "
    "Timing is outside the model."
)


# Words and numbers: of values, columns, targets and units.


def number(value: float, digits: int = 6) -> str:
    """Return a number for people."""
    return "infinite" if math.isinf(value) else f"{value:.{digits}g}"


def names_text(names: Sequence[str | int], most: int = _LISTED) -> str:
    """Return a list of column names, shortened."""
    hidden = len(names) - most
    more = f" and {hidden} more" if hidden > 0 else ""
    return ", ".join(map(name_text, names[:most])) + more


def columns_text(names: Sequence[str | int]) -> str:
    """Return columns with their names, or with their positions."""
    positions = any(not isinstance(name, str) for name in names)
    return names_text(names) if positions else f"the column(s) {names_text(names)}"


def public_text(report: Report) -> str:
    """Return which part of a record is public."""
    parts = [columns_text(report.public_features)] * bool(report.public_features)
    parts += [_targets_text(report, public=True)] * report.public_target
    return " and ".join(filter(None, parts)) or "nothing"


def private_text(report: Report) -> str:
    """Return which part of a record is protected."""
    if math.isinf(report.epsilon):
        return "nothing"
    if report.private_features is None:
        # A public target of one fit may be a column of another one.
        other = report.public_target or report.public_features
        columns = "all other columns" if other else "all columns"
    else:
        columns = report.private_features and columns_text(report.private_features)
    target = "" if _no_private_target(report) else _targets_text(report, public=False)
    return " and ".join(filter(None, (columns, target)))


def _targets_text(report: Report, *, public: bool) -> str:
    """Return the public or the private targets of all fits, by name."""
    names = {e.target_name for e in report.events if e.public_target == public}
    others = {e.target_name for e in report.events if e.public_target and not public}
    named = sorted(
        name
        for name in names - others
        if name is not None and name not in report.public_features
    )
    if len(named) > 1:
        return f"the targets {names_text(named)}"
    if public and names and not named and None not in names:
        return ""  # they stand among the columns
    return " ".join(["the target", *named])


def _no_private_target(report: Report) -> bool:
    """Whether no fit had a target, or every target is in the public set."""
    public: set[str | int | None] = set(report.public_features)
    public |= {e.target_name for e in report.events if e.public_target}
    targets = [
        event
        for event in report.events
        if event.target_name is not None
        or event.public_target
        or "target" in event.unnamed
    ]
    if not targets:  # an event may say nothing of it; several would say too much
        return report.public_target or report.n_fits > 1
    return all(event.public_target or event.target_name in public for event in targets)


def relation_text(report: Report) -> str:
    """Return what neighbours are."""
    text, _, _ = _RELATIONS[report.neighboring_relation]
    return text.format(part=_PARTS[report.unit])


def unit_text(report: Report) -> str:
    """Return whose private part is protected, and of how many there are."""
    if report.unit is None:
        return "none"
    n = report.n_records
    if report.unit == "record":
        return "one record" if n is None else f"one record, of {n}"
    return "all rows of one person" + ("" if n is None else f", of {n} persons")


def limits(report: Report) -> tuple[str, ...]:
    """Return what differential privacy does not promise."""
    return (
        "Public columns are not protected at all, and neither is what can be inferred "
        "from them about the private ones.",
        _UNITS[report.unit or "record"],
        *(PARTITION,) * (report.unit == "person"),
        "Facts about the population are not protected: the model may teach that a "
        "group has a property, and a member's property may be guessed from it whether "
        "or not this member's record was used.",
        "Epsilons of several analyses of the same data add up, at worst.",
    )


# What makes epsilon no guarantee, and what the numbers do not count.


def leak_text(lesson: Lesson) -> str:
    """Return what a step learnt without privacy, as a sentence."""
    return (
        f"Step {lesson.step} learns from the {lesson.learns} without privacy: "
        f"{lesson.reason}."
    )


def refuted_texts(report: Report) -> list[str]:
    """Return the findings that refute a claim, those of steps included."""
    own = [str(finding) for finding in report.findings if not finding.passed]
    return own + [text for _, step in report.steps for text in refuted_texts(step)]


def void_text(report: Report) -> str | None:
    """Return in a few words why a report guarantees nothing, None if it does."""
    why = [INTEGER_SEED] * report.seeded
    why += ["a step learns without privacy"] * bool(report.leaks)
    why += ["an audit refuted it"] * bool(refuted_texts(report))
    return " and ".join(why) or None


def epsilon_text(report: Report, digits: int = 6) -> str:
    """Return epsilon, or "void" and the reason in its place."""
    why = void_text(report)
    return number(report.epsilon, digits) if why is None else f"void ({why})"


def unseen_text(report: Report) -> str:
    """Return the names of the unseen steps, "" if there are none."""
    steps = "step" if len(report.unseen) == 1 else "steps"
    return f"{steps} {names_text(report.unseen)}" if report.unseen else ""


def not_covered(report: Report) -> tuple[str, ...]:
    """Return the accesses to the data that the numbers do not count."""
    charges = (
        f"Charge {receipt.charge} of a ledger's file: charges before it are counted by "
        "the report of that ledger."
        for receipt in report.receipts
        if receipt.charge > 1
    )
    return (*map(leak_text, report.leaks), *charges, *NOT_COVERED)


# The meaning of epsilon for one person: what somebody could detect.


def attack_power(report: Report, false_alarms: float = 0.01) -> float:
    """Return the largest detection rate at a given false-alarm rate.

    It follows from the whole privacy curve, and holds for the most exposed record.
    """
    if math.isinf(report.epsilon):
        return 1.0
    return detection_rate(report.events, report.parts, false_alarms)


def detections(report: Report) -> int:
    """Return in how many of 100 cases a test with 1 % false alarms detects, at most."""
    return math.ceil(100 * attack_power(report))


def meaning_text(report: Report) -> str:
    """Return what epsilon means for one person."""
    if math.isinf(report.epsilon):
        return (
            "NOTHING IS PROTECTED. At least one of the fits ran without privacy "
            "(epsilon = infinity): what was released may reveal any record."
        )
    if not report.events:
        return "Nothing was released yet, so nothing was disclosed."
    factor = math.exp(min(report.epsilon, 700.0))
    _, question, truth = _RELATIONS[report.neighboring_relation]
    known = "every record except one"
    if Relation.of(report.neighboring_relation).counts_are_public:
        known = f"everything except {_PARTS[report.unit]}"
    cases = detections(report)
    detected = (
        f"they detect {truth} in at most {cases} of 100"
        if cases < 100
        else f"they may detect {truth} nearly every time"
    )
    return (
        f"Any outcome is at most e^epsilon = {factor:.4g} times as likely with one "
        "table as with its neighbour, apart from a probability delta. Suppose somebody "
        f"knows {known} and tries to tell {question}. If they raise a false alarm in 1 "
        f"of 100 cases, {detected}."
    )


# The statement, section by section, in the order in which to read them.


def statement(report: Report) -> str:
    """Return the whole report in plain language."""
    why, state = void_text(report), ""
    if why:
        state = f" (VOID: {why})"
    elif unseen := unseen_text(report):
        state = f" (NOT CHECKED: {unseen})"
    title = _wrapped(f"PRIVACY STATEMENT{state}: {report.subject}")
    lines = [title, "=" * min(_WIDTH, len(title))]
    if any(one.text == ONE_STEP for one in report.assumptions):
        lines += ["", _wrapped(ONE_STEP)]
    for name, paragraphs in _sections(report):
        if found := [*map(_wrapped, paragraphs)]:
            lines += ["", name, "-" * len(name), *found]
    return "\n".join(lines)


def _sections(report: Report) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield titles and paragraphs; a section without any is left out."""
    is_null = void_text(report) is not None
    private = math.isfinite(report.epsilon)  # otherwise there is nothing to assume
    yield "Warning", _warnings(report)
    yield "What is protected", _protected(report)
    yield "Public columns of the table", filter(None, [renamed_text(report)])
    yield "The numbers", numbers(report)
    yield "What it means", [meaning_text(report)] * (not is_null)
    yield "Assumptions", _bullets(_assumptions(report)) * private
    yield "Not covered by these numbers", _bullets(not_covered(report)) * private
    yield "What was released", _bullets(report.released or ("not recorded",))
    yield "Composed of", _bullets(_steps(report, is_null))
    yield "What other steps learnt", _bullets(_learnt(report))
    yield "How it was computed", _mechanism(report)
    yield "Audits", _bullets(_findings(report))
    yield "Limits", _bullets(limits(report)) * private


def _wrapped(paragraph: str) -> str:
    # Names come from data: a line break or a control character must not forge layout.
    paragraph = "".join(c if c.isprintable() else " " for c in paragraph)
    indent = "  " if paragraph.startswith("- ") else ""
    return textwrap.fill(
        paragraph, _WIDTH, subsequent_indent=indent, break_on_hyphens=False
    )


def _bullets(texts: Iterable[str]) -> list[str]:
    return [f"- {text}" for text in texts]


def _warnings(report: Report) -> Iterator[str]:
    if report.seeded:
        yield f"The noise came from {GENERATORS[True]}."
    yield from _bullets(refuted_texts(report))
    if report.leaks:
        yield from _bullets(map(leak_text, report.leaks))
        yield (
            "No epsilon holds for the whole: the fitted object and all that it returns "
            "depend on private values without noise."
        )


def _protected(report: Report) -> Iterator[str]:
    if report.unit is None:
        yield "Nothing."
        return
    persons = report.unit == "person"
    counts = (
        f"The number of {'rows and of persons' if persons else 'records'}, the column "
        "names and all parameters are public."
        if Relation.of(report.neighboring_relation).counts_are_public
        else "The number of records is protected too; n_records is a public nominal "
        "count."
    )
    whose = "in all rows of each person together" if persons else "in each record"
    yield f"Private, {whose}: {private_text(report)}."
    yield f"Public, not protected: {public_text(report)}."
    yield (
        f"{relation_text(report)} "
        f'(neighboring_relation="{report.neighboring_relation}") {counts}'
    )
    if persons:
        yield PARTITION


def renamed_text(report: Report) -> str:
    """Return which columns of a Pipeline's table are public, where this is news."""
    found = report.public_sources
    if not found or found == report.public_features or report.private_features == ():
        return ""
    return (
        f"Not protected, in the table that the Pipeline was given: "
        f"{columns_text(found)}. What its last step treats as public was computed "
        f"from that: {columns_text(report.public_features)}."
    )


def numbers(report: Report) -> Iterator[str]:
    """Yield the sentences on epsilon and delta."""
    holds = void_text(report) is None
    many = "persons" if report.unit == "person" else "records"
    yield f"epsilon = {epsilon_text(report)} at delta = {report.delta:g}."
    if report.target_epsilon is not None and holds:
        yield f"Budget asked for: epsilon = {number(report.target_epsilon)}."
    n = report.n_records
    if n is None:
        yield f"The number of {many} is not recorded here; delta should be below 1/n."
    else:
        product = f"delta * n = {report.delta * n:.3g}, with n = {n} {many}"
        if report.delta * n < 1:
            yield f"{product}; it should be small."
        else:
            yield (
                f"{product}: TOO LARGE. A mechanism that publishes one of these "
                f"{many} chosen at random would satisfy it."
            )
    if report.parts and holds:
        yield (
            f"Some fits used a part of the {many} only. These are the numbers of the "
            f"most exposed {report.unit}."
        )
    yield f"Fits counted: {report.n_fits}."
    if report.mu is not None and holds:
        yield f"Exact Gaussian-DP parameter of the whole: mu = {number(report.mu)}."


def _assumptions(report: Report) -> Iterator[str]:
    for assumption in report.assumptions:
        if assumption.text != ONE_STEP:  # printed below the title
            state = "enforced by the code" if assumption.enforced else "NOT checked"
            yield f"{assumption.text} [{state}]"


def _steps(report: Report, is_null: bool) -> Iterator[str]:
    for name, step in report.steps:
        own = f", epsilon = {number(step.epsilon)} at delta = {step.delta:g} by itself"
        yield f"{name}: {step.subject}" + own * (not is_null)
    if report.steps and not is_null:
        yield "The composition is exact, at the largest of these deltas."


def _learnt(report: Report) -> Iterator[str]:
    for lesson in report.learnt:
        origin = "nothing" if lesson.learns == "nothing" else f"from {lesson.learns}"
        yield f"{lesson.step}: {origin}; {lesson.reason}"


def _mechanism(report: Report) -> Iterator[str]:
    counts = collections.Counter(map(event_text, report.events))
    for text, count in counts.items():
        yield f"- {text}" + (f"; {count} times" if count > 1 else "")
    if report.accountant is not None:
        yield f"Accountant: {report.accountant}."
    if report.events:
        yield f"Generator: {GENERATORS[report.seeded]}."
        yield f"Numbers: {NUMERICS}"
    yield f"Versions: {_versions(report)}."


def _versions(report: Report) -> str:
    return ", ".join(f"{name} {one}" for name, one in report.versions.items())


def event_text(event: Event) -> str:
    """Return one event as a line of symbols."""
    (low, _), *_, (high, _) = [*event.grouped_stds] * 2  # sorted
    noise = number(low) if low == high else f"{number(low)} to {number(high)}"
    sampling = (
        "full batch"
        if event.sampling_rate == 1
        else f"Poisson batches of rate {number(event.sampling_rate)}"
    )
    mu = "" if event.mu is None else f", mu {number(event.mu)}"
    return (
        f"{event.label}: {event.n_steps} Gaussian release(s), noise standard deviation "
        f"{noise}, clip norm {number(event.clip_norm)}, sensitivity "
        f"{number(event.sensitivity)}, {sampling}{mu}"
    )


def _findings(report: Report) -> Iterator[str]:
    yield from map(str, report.findings)
    if report.findings:
        yield "An audit can refute a claim and never prove one."


# The report in a notebook: its repr, and HTML.


def summary(report: Report) -> str:
    """Return what fits a screen: the `repr` of a report."""
    names, more = report.public_features[:_LISTED_IN_REPR], ""
    if (hidden := len(report.public_features) - len(names)) > 0:
        more = f" and {hidden} more"
    unseen = unseen_text(report)
    checked = f"  # not checked: {unseen}" if unseen else ""
    return f"""{type(report).__name__}(
    subject={report.subject!r},
    epsilon={epsilon_text(report)}, delta={report.delta:g},{checked}
    seeded={report.seeded!r},
    neighboring_relation={report.neighboring_relation!r}, unit={report.unit!r},
    public_features={names!r}{more}, public_target={report.public_target!r},
    target_name={report.target_name!r},
    n_fits={report.n_fits}, n_releases={sum(e.n_steps for e in report.events)},
)"""


def to_html(report: Report) -> str:
    """Return the report as an HTML fragment; every value is escaped."""
    rows = {}
    if why := [*map(leak_text, report.leaks), *refuted_texts(report)]:
        rows["VOID"] = " ".join(why)
    elif unseen := unseen_text(report):
        rows["NOT CHECKED"] = unseen
    rows |= {
        "epsilon": epsilon_text(report),
        "delta": f"{report.delta:g}",
        "relation": report.neighboring_relation or "none",
        "unit": unit_text(report),
        "private": private_text(report),
        "public": ". ".join(filter(None, (public_text(report), renamed_text(report)))),
        "noise": "integer seed" if report.seeded else "cryptographic generator",
    }
    if any(one.text == ONE_STEP for one in report.assumptions):
        rows["Pipeline"] = ONE_STEP
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return (
        "<div class='skfdp-privacy-report'>"
        f"<table><caption>Privacy of {html.escape(report.subject)}</caption>"
        f"<tbody>{cells}</tbody></table>"
        "<details><summary>Privacy statement</summary>"
        f"<pre>{html.escape(statement(report))}</pre></details></div>"
    )


# Drafts for the registry of deployments of differential privacy.
#
# The fields are those of ``schemas/deployments-schema.yaml`` of
# https://github.com/opendp/deployments-registry-data, at commit 3e9c812 of July 2026.


#: How a text begins that nobody but the user can write.
BLANK = "TO FILL IN: "
# Estimators that publish numbers about a table rather than a model of it.
_STATISTICS = (
    "PrivateBounds",
    "PrivateCenteringTransformer",
    "PrivateScore",
    "PrivateTemperature",
    "PrivateThreshold",
)


def draft(report: Report) -> dict[str, Any]:
    """Return a record of the registry, with blanks; `PrivacyReport.to_registry`."""
    if math.isinf(report.epsilon) or not report.events:
        raise ValueError(
            f"{report.subject} has nothing to register: it released nothing with "
            "differential privacy."
        )
    if (why := void_text(report)) is not None:
        raise ValueError(
            f"{report.subject} cannot be registered with epsilon="
            f"{report.epsilon:.6g}, which does not hold: {why}."
        )
    kind = "Machine learning model"
    if "PrivacyLedger" in report.subject:
        kind = f"{BLANK}Machine learning model, or Summary statistics"
    elif report.subject in _STATISTICS:
        kind = "Summary statistics"
    private = private_text(report)
    events = "; ".join(dict.fromkeys(map(event_text, report.events)))
    releases = ", ".join(f"{event.label} x {event.n_steps}" for event in report.events)
    released = ", ".join(report.released) or "not recorded"
    return {
        "url_slug": f"{BLANK}a short name in lower case, with hyphens",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": f"{BLANK}the name of the data product",
                "data_curators": [f"{BLANK}who publishes it"],
                "intended_use": f"{BLANK}what it is for",
                "data_product_type": kind,
                "data_product_region": f"{BLANK}whose data, and whose laws apply",
                "description": f"{BLANK}what it is ({report.subject}, by skfdp)",
                "publication_date": f"{BLANK}YYYY-MM-DD",
                "data_product_sector": (
                    f"{BLANK}Technology, Healthcare, Education, Government, Energy, or "
                    "Finance"
                ),
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": (
                    f"Tables ({unit_text(report)}) whose private part is {private}, "
                    f"and whose public part is {public_text(report)}."
                ),
                "unprotected_quantities": " ".join(_unprotected(report)),
            },
            "privacy_loss": {
                "privacy_unit": f"{report.unit}-level, of the private columns: "
                f"{private}",
                "privacy_unit_details": (
                    f"{relation_text(report)} The unit is {report.unit}, of which "
                    f"protected: {private}. {limits(report)[1]}"
                ),
                "privacy_parameters": {
                    "epsilon": report.epsilon,
                    "delta": report.delta,
                },
                "privacy_parameters_details": " ".join(numbers(report)),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": f"{BLANK}who holds the rows, trains, and gets the product",
                "release_type": f"{BLANK}One release, or Many releases",
                "release_type_details": f"{BLANK}what else will be released of them",
                "data_source_type": f"{BLANK}Static, or Dynamic",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": (
                    "Whatever is computed from the released parts alone: predictions "
                    f"for new rows, for example. Released: {released}."
                ),
                "composition": (
                    "One adaptive composition of all releases of "
                    f"{report.n_fits} fit(s): {releases}. Accountant: "
                    f"{report.accountant}."
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": " ".join(_before(report)),
                "mechanisms": (
                    f"Gaussian mechanism. {events}. Generator: "
                    f"{GENERATORS[report.seeded]}. {NUMERICS} Versions: "
                    f"{_versions(report)}."
                ),
                "justification": f"{BLANK}why these columns, this unit, this epsilon",
            },
            "administrative": {
                "sources": f"{BLANK}links",
                "notes": (
                    "Drafted from the privacy report of skfdp. Not covered by its "
                    f"numbers: {' '.join(not_covered(report))}"
                ),
                "registry_authors": [f"{BLANK}who fills in this record"],
            },
        },
    }


def _unprotected(report: Report) -> Iterator[str]:
    yield f"Exact and public in each record: {public_text(report)}."
    if Relation.of(report.neighboring_relation).counts_are_public:
        yield "The number of records is public."
    if report.unit == "person":
        yield PARTITION
    if any(event.classes_source == "data" for event in report.events):
        yield "The set of labels was read from the data."
    yield "Column names and all parameters are public."


def _before(report: Report) -> Iterator[str]:
    yield f"{report.n_fits} fit(s) were counted, and no other."
    for lesson in report.learnt:
        yield f"Step {lesson.step} learns {lesson.learns}: {lesson.reason}."
    for assumption in report.assumptions:
        if not assumption.enforced:
            yield f"Taken for granted: {assumption.text}"
    yield f"{BLANK}how parameters were chosen, and what was looked at before."
