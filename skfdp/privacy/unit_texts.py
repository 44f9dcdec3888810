"""The wording of what is protected: of whom, against what, and of whom not."""

from __future__ import annotations

from skfdp.privacy.report_facts import ReportFacts

_TEXTS = {
    "replace_one": (
        "Two tables are neighbours if they differ in the private part of one record, "
        "which may be replaced by any other value while its public part stays."
    ),
    "replace_special": (
        "Two tables are neighbours if the private part of one record is replaced by an "
        "empty value, which contributes nothing to any release. This is weaker than "
        "replacing it by another value, which takes two such steps."
    ),
    "add_or_remove_one": (
        "Two tables are neighbours if one of them has one more record. Nothing of a "
        "record is public."
    ),
}

_TEXTS_OF_PERSONS = {
    "replace_one": (
        "Two tables are neighbours if they differ in the private parts of the rows of "
        "one person, any of which may be replaced by any other value while their "
        "public parts stay."
    ),
    "replace_special": (
        "Two tables are neighbours if the private parts of all rows of one person are "
        "replaced by empty values, which contribute nothing to any release. This is "
        "weaker than replacing them by other values, which takes two such steps."
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
_LIMITS = (
    "Public columns are not protected at all, and neither is what can be inferred from "
    "them about the private ones.",
    "Facts about the population are not protected: the model may teach that a group "
    "has a property, and a member's property may be guessed from it whether or not "
    "this member's record was used.",
    "Epsilons of several analyses of the same data add up, at worst.",
)


def limits(report: ReportFacts) -> tuple[str, ...]:
    """Return what differential privacy does not promise."""
    first, *others = _LIMITS
    of_persons = (PARTITION,) * (report.unit == "person")
    return (first, _UNITS[report.unit or "record"], *of_persons, *others)


def relation_text(report: ReportFacts) -> str:
    """Return what neighbours are."""
    if report.neighboring_relation is None:
        return "nothing is protected"
    texts = _TEXTS_OF_PERSONS if report.unit == "person" else _TEXTS
    return texts[report.neighboring_relation]


def unit_text(report: ReportFacts) -> str:
    """Return whose private part is protected, and of how many there are."""
    if report.unit is None:
        return "none"
    n = report.n_records
    if report.unit == "record":
        return "one record" if n is None else f"one record, of {n}"
    return "all rows of one person" + ("" if n is None else f", of {n} persons")


def counted_text(report: ReportFacts) -> str:
    """Return what `n_records` counts."""
    return "persons" if report.unit == "person" else "records"
