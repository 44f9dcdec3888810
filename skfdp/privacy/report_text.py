"""Text of the privacy statement: one page for people who approve a fit, and its annex.

Everything is derived from the report, so that text and numbers agree. Page and annex
are lists of sections. A section has a label and paragraphs. Page and annex are
formatted as text or HTML.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from skfdp.privacy.accounting import cost, detection_rate, name_text
from skfdp.privacy.assumptions import INTEGER_SEED, unknown_assumption
from skfdp.privacy.events import ADVISED, Event, Relation, delta_text, exceeds_advice
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
# Largest number of names that a repr lists; JSON lists all names.
_LISTED_IN_REPR = 4

_PARTS = {
    "record": "the private part of one record",
    "person": "the private parts of all rows of one person",
}
_RELATIONS = {
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
_TRUSTED = (
    "The people who run the fit, the computer and the software: they see every row."
)
_CHECKED = "Nobody outside the project so far."


# Formatting of numbers, columns and targets.


def number(value: float, digits: int = 6) -> str:
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
    if report.private_features is None:
        # The public target of one fit may be a column of another fit.
        other = report.public_target or report.public_features
        columns = "all other columns" if other else "all columns"
    else:
        columns = report.private_features and columns_text(
            report.private_features, most
        )
    target = "" if no_private_target(report) else targets_text(report, public=False)
    return " and ".join(filter(None, (columns, target)))


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
    targets = [
        event
        for event in report.events
        if event.target_name is not None
        or event.public_target
        or "target" in event.unnamed
    ]
    if not targets:  # events may not mention a private target without a name
        return report.public_target or report.n_fits > 1
    return all(event.public_target or event.target_name in public for event in targets)


def limits(report: Report) -> tuple[str, ...]:
    """Return sentences on what differential privacy does not guarantee."""
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


# What voids the guarantee, and what the numbers do not count.


def leak_text(leak: StepDependence) -> str:
    """Return a sentence on what a step learnt without privacy."""
    return (
        f"Step {leak.step} learns from the {leak.learns} without privacy: "
        f"{leak.reason}."
    )


def void_text(report: Report) -> str | None:
    """Return why the guarantee is void, None if it holds."""
    why = [INTEGER_SEED] * report.seeded
    why += ["a step learns without privacy"] * bool(report.leaks)
    return " and ".join(why) or None


def epsilon_text(report: Report, digits: int = 6) -> str:
    """Return epsilon, or "void" and the reason."""
    why = void_text(report)
    return number(report.epsilon, digits) if why is None else f"void ({why})"


def unknown_text(report: Report) -> str:
    """Return the names of the unknown steps, or "" if there are none."""
    names = report.unknown_steps
    return f"step{'s' * (len(names) > 1)} {names_text(names)}" if names else ""


# The meaning of epsilon for one person: how well an attacker could detect them.


def attack_power(report: Report, false_alarms: float = 0.01) -> float:
    """Return the largest detection rate of an attack with this false-alarm rate.

    The rate follows from the whole privacy curve.
    """
    if math.isinf(report.epsilon):
        return 1.0
    return detection_rate(report.events, false_alarms)


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
    numbers = f"epsilon {number(epsilon, 4)} at delta {report.delta:g}"
    if n * report.delta >= 1:
        numbers += f", too large: publishing one of {n} at random would satisfy it"
        epsilon = math.inf
    elif epsilon <= _TIERS[-2][0]:  # a larger epsilon is in the last tier anyway
        epsilon = replacement_epsilon(report)
        if epsilon != report.epsilon:
            numbers += f"; {number(epsilon, 4)} for replacing one value by another"
    # Epsilon may exceed a round budget by rounding.
    tier = next(j for j, (most, _) in enumerate(_TIERS) if epsilon <= most * (1 + 1e-6))
    return (
        f"{_TIERS[tier][1].capitalize()} for {_WHOSE[report.unit][0]}: "
        f"{numbers} (tier {tier + 1}, Ponomareva et al. 2023, 'How to DP-fy ML')."
        + f" {judged[0].upper()}{judged[1:]}."
        * exceeds_advice(report.delta, n)
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
    why, state = void_text(report), ""
    if math.isinf(report.epsilon):
        why = why or "a fit ran without privacy"
    if why:
        state = f" (VOID: {why})"
    elif unknown := unknown_text(report):
        state = f" (NOT CHECKED: {unknown})"
    return clean(f"PRIVACY STATEMENT{state}: {report.subject}")


def page(report: Report) -> list[Section]:
    """Return the sections of the one-page statement, with every open condition."""
    guaranteed = report.guarantee and bool(report.events)
    parts: list[Section] = [
        ("Warning", [*_warnings(report)]),
        ("Data and purpose", [_context_text(report)]),
        ("Protected", [protected_text(report)]),
    ]
    if report.unit is not None:
        parts.append(("Open to everybody", [open_text(report)]))
    if not guaranteed:
        return [part for part in (*parts, ("Checked by", [_CHECKED])) if part[1]]
    parts += [
        ("Trusted", [_TRUSTED]),
        ("How strong", [strength_text(report), odds_text(report)]),
        ("Ledger", [*_ledger(report)]),
        ("Holds only if", [*_conditions(report)]),
        ("Checked by", [f"{_CHECKED} `skfdp report FILE.json` recomputes epsilon."]),
        ("Fingerprint", [f"SHA-256 {report.sha256}"] * (report.sha256 is not None)),
        ("Signed", ["Name, date, signature:"]),
    ]
    return [part for part in parts if part[1]]


def annex(report: Report) -> list[Section]:
    """Return the sections of the annex to the statement."""
    is_void = void_text(report) is not None
    private = math.isfinite(report.epsilon)  # otherwise there are no assumptions
    defined = private and not is_void and bool(report.events)
    marks = {True: "enforced by the code", False: "NOT checked"}
    assumed = (f"{one.text} [{marks[one.enforced]}]" for one in report.assumptions)
    learnt = (
        f"{one.step}: {'from ' * (one.learns != 'nothing')}{one.learns}; {one.reason}"
        for one in report.learnt
    )
    leaks = map(leak_text, report.leaks)
    parts = [
        ("Numbers", numbers(report)),
        ("Definition", _definition(report) if defined else []),
        ("Columns", _columns(report)),
        ("Assumptions", _items(assumed) * private),
        ("Not covered", _items([*leaks, *NOT_COVERED]) * private),
        ("Released", _items(report.released or ["not recorded"])),
        ("Composed of", _items(_steps(report, is_void))),
        ("Other steps", _items(learnt)),
        ("Computation", _mechanism(report)),
        ("Limits", _items(limits(report)) * private),
    ]
    return [(name, found) for name, texts in parts if (found := [*texts])]


def _columns(report: Report) -> Iterator[str]:
    yield f"Declared private: {private_text(report, math.inf)}."
    yield f"Declared public: {public_text(report, math.inf)}."
    if sources := report.public_sources:
        yield f"Public in the Pipeline's table: {columns_text(sources, math.inf)}."


def _items(texts: Iterable[str]) -> list[str]:
    return [ITEM + text for text in texts]


def _warnings(report: Report) -> Iterator[str]:
    if report.seeded:
        yield f"The noise came from {GENERATORS[True]}."
    if report.leaks:
        yield from _items(map(leak_text, report.leaks))
        yield (
            "No epsilon holds for the whole, because the fitted object depends on "
            "private values without noise."
        )


def _context_text(report: Report) -> str:
    if not report.context:
        return "Not stated: data, date, by whom, purpose."
    facts = (f"{one}: {report.context.get(one, 'not stated')}" for one in CONTEXT)
    return f"Stated by the owner, not checked. {'; '.join(facts)}."


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
    if report.unit == "person":
        where = f"all rows of each{of} person{'s' * bool(of)} together"
    else:
        where = f"each{of} row{'s' * bool(of)}"
    void = "Nothing, because the guarantee is void. Declared private: in " * (
        void_text(report) is not None
    )
    presence = "" if public_count else ", and whether a row is in the table"
    return f"{void or 'In '}{where}: {private_text(report)}{presence}."


def open_text(report: Report) -> str:
    """Describe what is not protected."""
    found, sources = public_text(report), report.public_sources
    things = [found] * (found != "nothing")
    if sources and sources != report.public_features and report.private_features != ():
        things = [f"{columns_text(sources)} of the table of the Pipeline"]
        things += filter(
            None, [targets_text(report, public=True)] * report.public_target
        )
    if Relation.of(report.neighboring_relation).counts_are_public:
        things.append("the number of rows")
    if report.unit == "person":
        things.append("which rows belong to one person")
    text = ", ".join([*things, "column names, all settings"])
    return f"{text[0].upper()}{text[1:]}."


def _ledger(report: Report) -> Iterator[str]:
    """Yield what each ledger had spent, and what was left, after the last charge."""
    newest = {one.ledger: one for one in report.receipts}
    for one in newest.values():
        text = f"Charge {one.charge}" + f" on {one.date}" * (one.date is not None)
        if one.limit is None:
            yield f"{text}, to a ledger without a limit."
            continue
        left = "ledger.remaining() returns what one more fit may cost"
        if one.left is not None:
            left = f"one more fit may cost epsilon {number(one.left, 4)}"
        yield (
            f"{text}. All charges until then: epsilon {number(one.spent, 4)} of "
            f"{number(one.limit, 4)} at delta {one.delta:g}; {left}."
        )


def _conditions(report: Report) -> Iterator[str]:
    """Yield all assumptions that the reader should check, unknown steps first."""
    open_ones = [one for one in report.assumptions if not one.enforced]
    open_ones.sort(key=lambda one: one.key != unknown_assumption("").key)
    yield from (CHECK + one.text for one in open_ones)


def _definition(report: Report) -> Iterator[str]:
    factor = math.exp(min(report.epsilon, 700.0))
    neighbours = _RELATIONS[report.neighboring_relation]
    yield (
        f"{neighbours.format(part=_PARTS[report.unit])} "
        f'(neighboring_relation="{report.neighboring_relation}") The probability of '
        f"any outcome is at most e^epsilon = {factor:.4g} times its probability with a "
        "neighbour, plus delta."
    )


def numbers(report: Report) -> Iterator[str]:
    """Yield sentences on epsilon and delta."""
    holds = void_text(report) is None
    many = "persons" if report.unit == "person" else "records"
    yield f"epsilon = {epsilon_text(report)} at delta = {report.delta:g}."
    if report.target_epsilon is not None and holds:
        yield f"Budget: epsilon = {number(report.target_epsilon)}."
    n = report.n_records
    if n is None:
        yield (
            f"The number n of {many} is not recorded here; the advice is a delta of at "
            f"most {ADVISED:g}/n."
        )
    else:
        yield f"n = {n} {many}; {delta_text(report.delta, n, report.unit)}."
    yield f"Fits counted: {report.n_fits}."
    if report.mu is not None and holds:
        yield f"Exact Gaussian-DP parameter of the whole: mu = {number(report.mu)}."


def _steps(report: Report, is_void: bool) -> Iterator[str]:
    for name, step in report.steps:
        own = f", epsilon = {number(step.epsilon)} at delta = {step.delta:g} by itself"
        yield f"{name}: {step.subject}" + own * (not is_void)
    if report.steps and not is_void:
        yield "The composition is exact, at the largest of these deltas."


def _mechanism(report: Report) -> Iterator[str]:
    counts = collections.Counter(map(event_text, report.events))
    for text, count in counts.items():
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


def event_text(event: Event) -> str:
    """Format one event on one line."""
    if event.pure_epsilon:
        pure = f"epsilon {number(event.pure_epsilon)}, delta 0"
        return f"{event.label}: {event.n_steps} pure release(s), {pure}"
    # The standard deviations are sorted. The list is repeated, because unpacking into
    # `low` and `high` needs at least two items.
    (low, _), *_, (high, _) = [*event.grouped_stds] * 2
    noise = number(low) if low == high else f"{number(low)} to {number(high)}"
    if event.noise_decay:
        rule = f"max(1 - t/T, 1/(2 T))**{event.noise_decay / 2:g}, T = {event.n_steps}"
        noise += f" (in step t = 0, 1, ...: {number(low)} / {rule})"
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


def summary(report: Report) -> str:
    """Return the short `repr` of a report."""
    names, more = report.public_features[:_LISTED_IN_REPR], ""
    if (hidden := len(report.public_features) - len(names)) > 0:
        more = f" and {hidden} more"
    unknown = unknown_text(report)
    checked = f"  # not checked: {unknown}" if unknown else ""
    return f"""{type(report).__name__}(
    subject={report.subject!r},
    epsilon={epsilon_text(report)}, delta={report.delta:g},{checked}
    seeded={report.seeded!r},
    neighboring_relation={report.neighboring_relation!r}, unit={report.unit!r},
    public_features={names!r}{more}, public_target={report.public_target!r},
    target_name={report.target_name!r},
    n_fits={report.n_fits}, n_releases={sum(e.n_steps for e in report.events)},
)"""
