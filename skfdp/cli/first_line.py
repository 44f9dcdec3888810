"""Test for a record in place of names in the first line of a CSV file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# A longer cell is cut, and no number or date.
_LONGEST = 200
# Around a cell: quotes of another kind, and ="007" as Excel protects text.
_AROUND = " '\"’`=\ufeff"
# Fields of a file that is read with the wrong separator.
_OTHER_SEPARATORS = re.compile(r"[;|\t]")


def _number(mark: str) -> str:
    """Return the pattern of a number; `mark` names the group of its thousands marks.

    A decimal mark may be a point or a comma here, whatever --decimal says:
    1.234,56  1,234.56  1 234  1'234  1,00,000  .5  5e-3
    """
    return rf"""[+\-−–]?\ ?(?:
        \d{{1,3}}(?P<{mark}>[.,'’٬\ ])\d{{3}}(?:(?P={mark})\d{{3}})*(?:[.,]\d*)?
        | \d{{1,2}}(?:,\d{{2}})*,\d{{3}}(?:\.\d*)?
        | \d+[.,٫]?\d*
        | [.,]\d+
        )(?:e[+\-−]?\d+)?"""


_NUMBERS = re.compile(
    rf"""(?:(?:EUR|USD|GBP|CHF)\ ?)?
    (?:\({_number("inside")}\) | {_number("bare")})
    \ ?(?:%|‰|EUR|USD|GBP|CHF)?
    | nan | [+\-−]inf(?:inity)?""",
    re.IGNORECASE | re.VERBOSE,
)

# English, German, French and Spanish.
_MONTH = r"""(?:
    jan(?:uary?|v|vier)? | jänner | ene(?:ro)? | feb(?:ruary?|rero)? | févr(?:ier)?
    | mar(?:ch|s|zo)? | märz? | mrz | apr(?:il)? | avr(?:il)? | abr(?:il)?
    | ma[iy] | mayo | jun[eio]? | juin | junio | jul[iy]? | juil(?:let)? | julio
    | aug(?:ust)? | août | ago(?:sto)? | sept?(?:ember|embre|iembre)?
    | o[ck]t(?:ober|obre|ubre)? | nov(?:ember|embre|iembre)?
    | de[cz](?:ember)? | déc(?:embre)? | dic(?:iembre)?
    )\.?"""
_WEEKDAY = r"""(?:
    (?:mon|tue(?:s)?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?
    | mo | di | mi | do | fr | sa | so | mittwoch | sonnabend
    | (?:mon|diens|donners|frei|sams|sonn)tag
    )[.,]*\ """
_DAY, _YEAR = r"(?:[0-3]?\d)", r"(?:[12]\d{3})"
_ORDINAL = rf"{_DAY}(?:st|[nr]d|th|er|\.)?"
_TIME = r"""(?:
    (?:\d{1,3}[:h]\d{2}(?::\d{2})?(?:[.,:]\d+)? | \d{1,2}\.\d{2}(?=\ ?uhr))
    (?:\ ?[ap]\.?m\.?|\ ?uhr)?
    | \d{1,2}\ ?(?:[ap]\.?m\.?|uhr)
    )
    (?:\ ?(?:[a-z]{1,4})?(?:[+\-]\d{1,2}(?::?\d{2})?)?(?:\ ?\[[^\]]*\])?)"""


def _days() -> str:
    forms = [
        rf"{_YEAR}-\d{{3}}",
        rf"{_YEAR}-?w\d{{2}}(?:-?\d)?",
        rf"{_YEAR}[-/](?:0?[1-9]|1[0-2])",
        rf"(?:0?[1-9]|1[0-2])[-/]{_YEAR}",
        rf"{_DAY}\.\ ?{_DAY}\.",
        rf"{_YEAR}\d{{4}}t\d{{4,6}}z?",
        r"\d{4}\ ?[年년]\ ?\d{1,2}\ ?[月월](?:\ ?\d{1,2}\ ?[日일])?",
        rf"{_ORDINAL}[-/.\ ]*{_MONTH}[-/.,\ ]*(?:{_YEAR}|['’]?\d{{2}})?",
        rf"{_ORDINAL}\ (?:de\ )?[^\W\d_]{{3,}}\.?(?:\ de)?\ {_YEAR}",
        rf"{_MONTH}[-/.\ ]*{_ORDINAL},?[-/\ ]+{_YEAR}",
        rf"{_MONTH}\ {_DAY}\ {_TIME}\ {_YEAR}",
        rf"{_MONTH}[-/.,'’\ ]*{_YEAR}",
        rf"{_MONTH}[-/.'’\ ]+\d{{2}}",
        rf"{_YEAR}[-/.\ ]?{_MONTH}(?:[-/.\ ]?{_DAY})?",
    ]
    for mark in ("-", "/", r"\.\ ?", r"\ "):
        forms.append(rf"{_YEAR}{mark}{_DAY}{mark}{_DAY}\.?")
        forms.append(rf"{_DAY}{mark}{_DAY}{mark}(?:{_YEAR}|\d{{2}})")
    return "|".join(forms)


_MOMENTS = re.compile(
    rf"""(?:{_WEEKDAY})?(?:{_days()})(?:(?:t|,?\ ){_TIME}|t\d{{2}}z?)?
    | {_TIME}
    | [+\-]?\d+\ days?,?\ \+?{_TIME}""",
    re.IGNORECASE | re.VERBOSE,
)


def is_record(cells: Sequence[str]) -> bool:
    """Whether one cell of a first line reads as a number, a date or a time.

    It decides by the cells alone. A record of text only cannot be told from names.
    """
    if len(cells) == 1:  # fields between spaces, say
        words = cells[0].split()
        return reads_as_value(cells[0]) or sum(map(reads_as_value, words)) > 1
    return any(map(reads_as_value, cells))


def reads_as_value(cell: str) -> bool:
    """Whether a cell of the first line reads as a number, a date or a time.

    It is judged by itself, with either decimal mark and with thousands marks, percent
    signs and currencies, and dates in the usual spellings. Words around a number or a
    date make it a name.

    >>> [reads_as_value(cell) for cell in ("1.234,56", "31.12.2024", "13-Aug-22")]
    [True, True, True]
    >>> [reads_as_value(cell) for cell in ("age", "Q1", "2nd visit", "65+", "May", "")]
    [False, False, False, False, False, False]
    """
    return any(map(_is_value, _OTHER_SEPARATORS.split(cell)))


def is_written_number(text: str) -> bool:
    """Whether people read a text as a number: with any mark, percent sign, currency.

    >>> [is_written_number(text) for text in ("1.234,56", "45 %", "1.2.2024", "B1")]
    [True, True, False, False]
    """
    return _NUMBERS.fullmatch(_plain(text)) is not None


def _is_value(text: str) -> bool:
    return is_written_number(text) or _MOMENTS.fullmatch(_plain(text)) is not None


def _plain(text: str) -> str:
    """Return a text without currency signs and what is around it."""
    text = text[:_LONGEST].removeprefix("ï»¿")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(one for one in text if unicodedata.category(one) != "Sc")
    return " ".join(text.replace("$", "").split()).strip(_AROUND)
