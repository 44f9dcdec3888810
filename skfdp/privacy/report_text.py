"""Text of the privacy statement: one page for people who approve a fit, and its annex.

Everything is derived from the report, so that text and numbers agree. Page and annex
are lists of sections. A section has a label and paragraphs. Page and annex are
formatted as text or HTML.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from skfdp.privacy import checks
from skfdp.privacy.accounting import cost, detection_rate, name_text
from skfdp.privacy.events import (
    ADVISED,
    INTEGER_SEED,
    Relation,
    delta_text,
    exceeds_advice,
)
from skfdp.privacy.preprocessing_steps import StepDependence

# A `PrivacyReport`. Its module imports this module, so its class is not imported here.
Report = Any
#: A label and its paragraphs. A paragraph that starts with "- " is a list item, and one
#: that starts with "[ ] " is an item that the reader should check.
Section = tuple[str, Sequence[str]]
ITEM, CHECK = "- ", "[ ] "

_WIDTH, _INDENT = 79, 19
# Largest number of words in a list of column names on the page.
_NAME_WORDS = 30

_PART_OF_UNIT = {
    "record": "the private part of one record",
    "person": "the private parts of all rows of one person",
}
_NEIGHBOURS = {
    "replace_one": (
        "Two tables are neighbours if they agree in all but {part}, which may be "
        "replaced by any other value."
    ),
    "replace_special": (
        "Two tables are neighbours if they agree in all but {part}. In one of the two "
        "tables these values are empty, and contribute nothing to any release. This is "
        "weaker than replacement by another value, which takes two such steps."
    ),
    "add_or_remove_one": (
        "Two tables are neighbours if one of them has one more record. Nothing of a "
        "record is public."
    ),
}
# Words for the privacy unit, in three grammatical forms.
_WHOSE = {
    "record": ("one row", "one person's private values", "one person's row is"),
    "person": (
        "all rows of one person",
        "the private values in all rows of one person",
        "the rows of one person are",
    ),
}
# By relation: what the attacker knows and has to decide, and the two groups of people.
_ATTACKS = {
    "replace_one": (
        "knows everything but {values} and has to choose between two possibilities for "
        "them",
        "with the second values",
        "with the first values",
    ),
    "replace_special": (
        "knows everything, even {values}, and has to decide whether they were used at "
        "all",
        "whose values were used",
        "whose values were not used",
    ),
    "add_or_remove_one": (
        "knows all other rows and has to decide whether {rows} in the table",
        "in the table",
        "outside of the table",
    ),
}
# Tiers of Ponomareva et al. (2023), arXiv:2303.00654: largest epsilon and name of each.
_TIERS = ((1.0, "strong"), (10.0, "reasonable"), (math.inf, "weak to none"))
# What differential privacy does not guarantee.
_UNPROTECTED = (
    "Public columns are not protected at all, and neither is what can be inferred from "
    "them about the private ones."
)
_NOT_PROTECTED = (
    "Facts about the population are not protected: the model may teach that a group "
    "has a property, and a member's property may be guessed from it whether or not "
    "this member's record was used.",
    "Epsilons of several analyses of the same data add up, at worst.",
)
#: Sentence that every report states among its limits if persons are protected.
PARTITION = (
    "Which rows belong to one person, and how many, is not protected: the partition is "
    "the same in neighbours."
)
_UNITS = {
    "record": (
        "The privacy unit is one record. People with several records, or whose data "
        "also appear in other people's records (household, family), are protected "
        "less."
    ),
    "person": (
        "The privacy unit is one person, as defined by groups. People whose data also "
        "appear in other people's rows (household, family) are protected less."
    ),
}
UNCOVERED = (
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
    "Side channels: running time, memory use, and refusals of types and shapes.",
)
#: Description of the source of the noise: with a user's seed (True), and without.
GENERATORS = {
    True: (
        "a user's integer seed: reproducible, for experiments only. Anyone who knows "
        "or guesses the seed can remove the noise, so that epsilon is not a guarantee"
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
NUMERICS_OF_PURE = (
    "Chances are integers, whose ratios are checked exactly, and outcomes are drawn by "
    "comparing integers."
)
#: Facts that the owner of the data may add to a report, and the largest number of
#: characters of each.
CONTEXT, CONTEXT_SIZE = ("data", "date", "by", "purpose"), 120
_DIGEST = "SHA-256 {} of the released weights, not of the file."
_TRUSTED = (
    "The people who run the fit, the computer and the software: they see every row."
)


# Formatting of numbers, columns and targets.


def as_text(value: float, digits: int = 6) -> str:
    """Format a number with `digits` significant digits; infinity as "infinite"."""
    return "infinite" if math.isinf(value) else f"{value:.{digits}g}"


def names_text(names: Sequence[str | int], most: float = _NAME_WORDS) -> str:
    """Format a list of names with at most `most` words, and count the other names.

    Three or more names that differ only in consecutive numbers are listed as a range.
    """

    def run_of(pair: tuple[int, str]) -> tuple[str, int | None]:
        position, name = pair
        found = re.fullmatch(r"(.*?)(0|[1-9][0-9]{0,8})", name, re.DOTALL)
        return (found[1], int(found[2]) - position) if found else (name, None)

    pieces: list[tuple[str, int]] = []
    for _, run in itertools.groupby(enumerate(map(name_text, names)), key=run_of):
        found = [name for _, name in run]
        if len(found) > 2:
            pieces.append((f"{found[0]} to {found[-1]}", len(found)))
        else:
            pieces += [(name, 1) for name in found]
    words = itertools.accumulate(len(text.split()) for text, _ in pieces)
    shown = sum(count <= most for count in words)
    hidden = sum(count for _, count in pieces[shown:])
    listed = ", ".join(text for text, _ in pieces[:shown])
    return f"{listed} and {hidden} more" if hidden else listed


def columns_text(names: Sequence[str | int], most: float = _NAME_WORDS) -> str:
    """Format the number of columns and their names, shortened to `most` words."""
    columns = "column" if len(names) == 1 else "columns"
    return f"{len(names)} {columns} ({names_text(names, most)})"


def public_text(report: Report, most: float = _NAME_WORDS) -> str:
    """Describe the public part of a record."""
    parts = [columns_text(report.public_features, most)] * bool(report.public_features)
    parts += [targets_text(report, public=True)] * report.public_target
    return " and ".join(filter(None, parts)) or "nothing"


def private_text(report: Report, most: float = _NAME_WORDS) -> str:
    """Describe the part of a record that is declared private."""
    if math.isinf(report.epsilon):
        return "nothing"
    # The public target of one fit may be a column of another fit.
    other = "other " * bool(report.public_target or report.public_features)
    parts = [f"all {other}columns"]
    if (names := report.private_features) is not None:
        parts = [columns_text(names, most)] * bool(names)
    parts += [targets_text(report, public=False)] * (not no_private_target(report))
    return " and ".join(parts)


def targets_text(report: Report, *, public: bool) -> str:
    """Describe the public or the private targets of all fits."""
    names = {e.target_name for e in report.events if e.public_target == public}
    others = {e.target_name for e in report.events if e.public_target and not public}
    named = sorted(
        name
        for name in names - others
        if name is not None and name not in report.public_features
    )
    if len(named) > 1:
        return f"the targets ({names_text(named)})"
    if public and names and not named and None not in names:
        return ""  # the target is listed among the columns
    return f"the target ({named[0]})" if named else "the target"


def no_private_target(report: Report) -> bool:
    """Whether no fit had a target, or every target is in the public set."""
    public: set[str | int | None] = set(report.public_features)
    public |= {e.target_name for e in report.events if e.public_target}
    is_public = [
        event.public_target or event.target_name in public
        for event in report.events
        if event.target_name is not None
        or event.public_target
        or "target" in event.unnamed
    ]
    # Events may not mention a private target without a name.
    return all(is_public) if is_public else report.public_target or report.n_fits > 1


# What voids the guarantee, and what the numbers do not count.


def leak_text(leak: StepDependence) -> str:
    """Return a sentence on what a step learnt without privacy."""
    return (
        f"Step {leak.step} learns from the {leak.learns} without privacy: "
        f"{leak.reason}."
    )


def void_text(report: Report) -> str | None:
    """Return why the guarantee is void, None if it holds."""
    leaks = "a step learns without privacy" * bool(report.leaks)
    return " and ".join(filter(None, [INTEGER_SEED * report.seeded, leaks])) or None


def epsilon_text(report: Report) -> str:
    """Return epsilon, or "void" and the reason."""
    why = void_text(report)
    return as_text(report.epsilon) if why is None else f"void ({why})"


# The meaning of epsilon for one person: how well an attacker could detect them.


def attack_power(report: Report, false_alarms: float = 0.01) -> float:
    """Return the largest detection rate of an attack with this false-alarm rate.

    The rate follows from the whole privacy curve.
    """
    private = math.isfinite(report.epsilon)
    return detection_rate(report.events, false_alarms) if private else 1.0


def detections(report: Report) -> int:
    """Return the largest detection rate of an attack, in percent.

    The attack has 1 % false alarms.
    """
    return math.ceil(100 * attack_power(report))


def replacement_epsilon(report: Report) -> float:
    """Return epsilon for the replacement of one record's private values by others.

    Under relations other than "replace_one" a replacement takes two steps: away from
    the old values, and to the new values. So a sum changes by at most twice the clip
    norm.
    """
    if Relation.of(report.neighboring_relation).replaces:
        return report.epsilon
    double = [
        dataclasses.replace(
            event, neighboring_relation="replace_one", sensitivity=2 * event.sensitivity
        )
        for event in report.events
    ]
    return cost(tuple(double), report.delta).epsilon


def strength_text(report: Report) -> str:
    """Describe how strong the guarantee is, in a word and in numbers."""
    epsilon, n = report.epsilon, report.n_records or 0
    judged = delta_text(report.delta, n or 1, report.unit)
    numbers = f"epsilon {as_text(epsilon, 4)} at delta {report.delta:g}"
    if n * report.delta >= 1:
        numbers += f", too large: publishing one of {n} at random would satisfy it"
        epsilon = math.inf
    elif epsilon <= _TIERS[-2][0]:  # a larger epsilon is in the last tier anyway
        epsilon = replacement_epsilon(report)
        if epsilon != report.epsilon:
            numbers += f"; {as_text(epsilon, 4)} for replacing one value by another"
    # Epsilon may exceed a round budget by rounding.
    tier = next(j for j, (most, _) in enumerate(_TIERS) if epsilon <= most * (1 + 1e-6))
    large = exceeds_advice(report.delta, n)
    word = _TIERS[tier][1].capitalize()
    return (
        f"{word} for {_WHOSE[report.unit][0]}: {numbers} (tier {tier + 1}, "
        "Ponomareva et al. 2023, 'How to DP-fy ML')."
        + f" {judged[0].upper()}{judged[1:]}."
        * large
    )


def odds_text(report: Report) -> str:
    """Describe what an attacker could find out about one person, in frequencies."""
    attack, used, unused = _ATTACKS[report.neighboring_relation]
    _, values, rows = _WHOSE[report.unit]
    found = detections(report)
    rightly = f"at most {found} of 100" if found < 100 else "nearly all"
    return (
        f"Suppose an attacker {attack.format(values=values, rows=rows)}. If 1 of 100 "
        f"people {unused} is accused wrongly, {rightly} people {used} are found "
        "rightly. Without the released results it would be 1 of 100. This number does "
        "not limit what the model reveals about similar people."
    )


# The page, in the order of NIST SP 800-226, and its annex.


def title(report: Report) -> str:
    """Return the first line of the statement, which says if the guarantee is void."""
    names, bare = report.unknown_steps, math.isinf(report.epsilon)
    why = void_text(report) or "a fit ran without privacy" * bare
    unknown = f" (NOT CHECKED: step{'s' * (len(names) > 1)} {names_text(names)})"
    state = unknown if names else ""
    state = f" (VOID: {why})" if why else state
    return clean(f"PRIVACY STATEMENT{state}: {report.subject}")


def page(report: Report) -> list[Section]:
    """Return the sections of the one-page statement, with every open condition."""
    warnings, stated = [], "Not stated: data, date, by whom, purpose."
    if report.seeded:
        warnings.append(f"The noise came from {GENERATORS[True]}.")
    if report.leaks:
        warnings += _items(map(leak_text, report.leaks))
        warnings.append(
            "No epsilon holds for the whole, because the fitted object depends on "
            "private values without noise."
        )
    if report.context:
        given = (f"{one}: {report.context.get(one, 'not stated')}" for one in CONTEXT)
        stated = f"Stated by the owner, not checked. {'; '.join(given)}."
    guaranteed = report.guarantee and bool(report.events)
    checked = " `skfdp report FILE.json` recomputes epsilon." * guaranteed
    # What the reader should check, unknown steps first.
    open_ones = [one for one in report.assumptions if not one.enforced]
    open_ones.sort(key=lambda one: one.key != "step_not_checked")
    parts: list[Section] = [
        ("Warning", warnings),
        ("Data and purpose", [stated]),
        ("Protected", [protected_text(report)]),
        ("Open to everybody", [open_text(report)] if report.unit else []),
    ]
    if guaranteed:
        parts += [
            ("Trusted", [_TRUSTED]),
            ("How strong", [strength_text(report), odds_text(report)]),
            ("Ledger", [*_ledger(report)]),
            ("Holds only if", [CHECK + one.text for one in open_ones]),
        ]
    parts.append(("Checked by", [f"Nobody outside the project so far.{checked}"]))
    if guaranteed:
        parts += [
            ("Fingerprint", [_DIGEST.format(report.sha256)] * bool(report.sha256)),
            ("Signed", ["Name, date, signature:"]),
        ]
    return [part for part in parts if part[1]]


def annex(report: Report) -> list[Section]:
    """Return the sections of the annex to the statement."""
    holds = void_text(report) is None
    private = math.isfinite(report.epsilon)  # otherwise there are no assumptions
    marks = {True: "enforced by the code", False: "NOT checked"}
    assumed = (f"{one.text} [{marks[one.enforced]}]" for one in report.assumptions)
    learnt = (
        f"{one.step}: {'from ' * (one.learns != 'nothing')}{one.learns}; {one.reason}"
        for one in report.learnt
    )
    columns = [
        f"Declared private: {private_text(report, math.inf)}.",
        f"Declared public: {public_text(report, math.inf)}.",
    ]
    if sources := report.public_sources:
        text = columns_text(sources, math.inf)
        columns.append(f"Public in the Pipeline's table: {text}.")
    definition, limits = [], []
    if private and holds and report.events:
        factor = math.exp(min(report.epsilon, 700.0))
        neighbours = _NEIGHBOURS[report.neighboring_relation]
        definition.append(
            f"{neighbours.format(part=_PART_OF_UNIT[report.unit])} "
            f'This is neighboring_relation="{report.neighboring_relation}". The '
            f"probability of any outcome is at most e^epsilon = {factor:.4g} times its "
            "probability with a neighbour, plus delta."
        )
    if private:
        limits = [_UNPROTECTED, _UNITS[report.unit or "record"]]
        limits += [PARTITION] * (report.unit == "person") + [*_NOT_PROTECTED]
    parts = [
        ("Numbers", [*on_epsilon(report)]),
        ("Definition", definition),
        ("Columns", columns),
        ("Assumptions", _items(assumed) * private),
        ("Not covered", _items([*map(leak_text, report.leaks), *UNCOVERED]) * private),
        ("Released", _items(report.released or ["not recorded"])),
        ("Other steps", _items(learnt)),
        ("Computation", [*_mechanism(report)]),
        ("Limits", _items(limits)),
    ]
    return [part for part in parts if part[1]]


def _items(texts: Iterable[str]) -> list[str]:
    return [ITEM + text for text in texts]


def protected_text(report: Report) -> str:
    """Describe which values of whom are protected."""
    if math.isinf(report.epsilon):
        return (
            "Nothing. At least one fit ran without privacy (epsilon is infinite): its "
            "results may reveal any row."
        )
    if report.unit is None:
        return "Nothing was released yet, so nothing was disclosed."
    public_count = Relation.of(report.neighboring_relation).counts_are_public
    of = f" of {report.n_records}" if report.n_records and public_count else ""
    where = f"each{of} row{'s' * bool(of)}"
    if report.unit == "person":
        where = f"all rows of each{of} person{'s' * bool(of)} together"
    void, presence = "In ", ", and whether a row is in the table" * (not public_count)
    if void_text(report) is not None:
        void = "Nothing, because the guarantee is void. Declared private: in "
    return f"{void}{where}: {private_text(report)}{presence}."


def open_text(report: Report) -> str:
    """Describe what is not protected."""
    found, sources = public_text(report), report.public_sources
    things = [found] * (found != "nothing")
    if sources and sources != report.public_features and report.private_features != ():
        things = [f"{columns_text(sources)} of the table of the Pipeline"]
        target = report.public_target and targets_text(report, public=True)
        things += [target] * bool(target)
    if Relation.of(report.neighboring_relation).counts_are_public:
        things.append("the number of rows")
    things += ["which rows belong to one person"] * (report.unit == "person")
    text = ", ".join([*things, "column names, all settings such as bounds"])
    return f"{text[0].upper()}{text[1:]}."


def _ledger(report: Report) -> Iterator[str]:
    """Yield what each ledger had spent, and what was left, after the last charge."""
    for one in {one.ledger: one for one in report.receipts}.values():
        text = f"Charge {one.charge}" + f" on {one.date}" * (one.date is not None)
        if one.limit is None:
            yield f"{text}, to a ledger without a limit."
            continue
        left = "ledger.remaining() returns what one more fit may cost"
        if one.left is not None:
            left = f"one more fit may cost epsilon {as_text(one.left, 4)}"
            left += " (epsilons do not add up)"
        yield (
            f"{text}. All charges until then: epsilon {as_text(one.spent, 4)} of "
            f"{as_text(one.limit, 4)} at delta {one.delta:g}; {left}."
        )


def on_epsilon(report: Report) -> Iterator[str]:
    """Yield sentences on epsilon and delta."""
    holds, many = void_text(report) is None, f"{report.unit or 'record'}s"
    yield f"epsilon = {epsilon_text(report)} at delta = {report.delta:g}."
    if report.target_epsilon is not None and holds:
        yield f"Budget: epsilon = {as_text(report.target_epsilon)}."
    if (n := report.n_records) is not None:
        yield f"n = {n} {many}; {delta_text(report.delta, n, report.unit)}."
    else:
        yield (
            f"The number n of {many} is not recorded here; the advice is a delta of at "
            f"most {ADVISED:g}/n."
        )
    yield f"Fits in this report: {report.n_fits}."
    if report.mu is not None and holds:
        yield f"Exact Gaussian-DP parameter of the whole: mu = {as_text(report.mu)}."


def _mechanism(report: Report) -> Iterator[str]:
    if report.events:
        yield "Releases, standard deviations of their Gaussian noise, and sensitivity:"
    for text, count in collections.Counter(map(str, report.events)).items():
        yield f"- {text}" + (f"; {count} times" if count > 1 else "")
    if report.accountant is not None:
        yield f"Accountant: {report.accountant}."
    if report.events:
        yield f"Generator: {GENERATORS[report.seeded]}."
        gaussian = not all(event.pure_epsilon for event in report.events)
        pure = any(event.pure_epsilon for event in report.events)
        yield f"Numbers: {' '.join([NUMERICS] * gaussian + [NUMERICS_OF_PURE] * pure)}"
    versions = ", ".join(f"{name} {one}" for name, one in report.versions.items())
    yield f"Versions: {versions}."


# Layouts: text in two columns, and a repr.


def clean(text: str) -> str:
    """Replace line breaks and control characters, which names from data may contain."""
    return "".join(c if c.isprintable() else " " for c in text)


def marked(paragraph: str) -> tuple[str, str]:
    """Split a paragraph into its mark ("- ", "[ ] " or "") and the clean text."""
    mark = next((one for one in (ITEM, CHECK) if paragraph.startswith(one)), "")
    return mark, clean(paragraph[len(mark) :])


def statement(report: Report, *, full: bool = False) -> str:
    """Return the privacy statement of a report as text; with `full`, also its annex."""
    heading = textwrap.fill(title(report), _WIDTH, subsequent_indent="  ")
    lines = [heading, "=" * min(_WIDTH, len(heading))]
    for name, paragraphs in [*page(report), *annex(report) * full]:
        label = name.ljust(_INDENT)
        for mark, text in map(marked, paragraphs):
            lines += textwrap.wrap(
                text,
                _WIDTH,
                initial_indent=label + mark,
                subsequent_indent=" " * (_INDENT + len(mark)),
                break_on_hyphens=False,
            )
            label = " " * _INDENT
    return "\n".join(lines)


# An entry of OpenDP's Deployments Registry. Its schema is public, in
# github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml.

#: Sections of an entry, and below each its fields.
_REGISTRY = """\
basic: name data_curators intended_use data_product_type data_product_region
    description publication_date data_product_sector
dp_variant: variant_name data_domain unprotected_quantities
privacy_loss: privacy_unit privacy_unit_details privacy_parameters
    privacy_parameters_details
deployment_model: model_name actors release_type release_type_details
    data_source_type access_type
accounting: post_processing composition
implementation: preprocessing_and_hyperparameter_tuning mechanisms justification
administrative: sources notes registry_authors""".split()
_SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
_CHOICES = {
    "data_product_sector": _SECTORS,
    "release_type": ("One release", "Many releases"),
    "data_source_type": ("Static", "Dynamic"),
}


def registry_entry(report: Report, stated: dict[str, str]) -> str:
    """Return an entry of the registry as YAML; missing fields are comments."""
    parts = {name: "\n".join(paragraphs) for name, paragraphs in annex(report)}
    counted = Relation.of(report.neighboring_relation).counts_are_public
    unit, size = report.unit, report.n_records if counted else None
    numbers = {"epsilon": report.epsilon, "delta": report.delta}
    values: dict[str, Any] = {
        "data_product_type": "Machine learning model",
        "variant_name": "Approximate DP" if report.delta else "Pure DP",
        "data_domain": f"{size or 'Any number of'} {unit}s. {parts['Columns']}",
        "unprotected_quantities": open_text(report),
        "privacy_unit": f"One {unit}",
        "privacy_unit_details": f"{parts['Definition']}\n{_UNITS[unit]}",
        "privacy_parameters": {name: one for name, one in numbers.items() if one},
        "privacy_parameters_details": f"{strength_text(report)} {odds_text(report)}",
        "model_name": "Central",
        "actors": f"Trusted: {_TRUSTED} Everybody else may get the released results.",
        "access_type": "Non-interactive",
        "post_processing": "Predictions are computed from the released results alone.",
        "composition": parts["Numbers"],
        "preprocessing_and_hyperparameter_tuning": (
            f"{parts.get('Other steps', 'No other step is known.')}\n{UNCOVERED[0]}"
        ),
        "mechanisms": parts["Computation"],
        "notes": f"Assumptions:\n\n{parts['Assumptions']}",
    }
    free = {name for name in _REGISTRY if name[-1] != ":"} - {*values}
    for key, text in stated.items():
        checks.choice("a key of context", key, sorted(free))
        checks.choice(f"context[{key!r}]", text, _CHOICES.get(key, (text,)))
    date = stated.get("publication_date", "")
    if date and not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", date):
        raise ValueError(
            f"context['publication_date']={checks.shown(date)} must be a date such as "
            "'2026-01-31'."
        )
    values |= {
        "name": report.subject,
        "description": f"Released: {', '.join(report.released) or 'not recorded'}.",
        "intended_use": report.context.get("purpose"),
    } | stated
    for name in {"data_curators", "registry_authors"} & {*values}:
        values[name] = values[name].split("; ")
    # Sources and details may stay empty. Only the justification is of the third tier.
    due = {name for name in free if values.get(name) is None}
    due -= {"sources", "release_type_details"}
    tier = 3 if not due else 2 if due == {"justification"} else 1
    title = [values["name"], *values.get("data_curators", ()), date[:4]]
    slug = re.sub("[^a-z0-9]+", "-", "-".join(title).lower()).strip("-")
    lines = [f"url_slug: {slug}", "status: Draft", f"tier: {tier}", "deployment:"]
    for name in _REGISTRY:
        text = clean(json.dumps(value := values.get(name), ensure_ascii=False))
        if isinstance(value, dict):  # YAML reads 1e-05 as text
            text = re.sub(r"(?<=: )(\d+)(?=e)", r"\1.0", text)
        field = f"    {name}: {text}" if value is not None else f"    # {name}: missing"
        lines.append(f"  {name}" if name[-1] == ":" else field)
    return "\n".join(lines) + "\n"
