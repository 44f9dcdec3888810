"""Declarations of an encoder, checked against a table and resolved into blocks.

Only names and types of columns are looked at, no value.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from skfdp.encoding.blocks import (
    MISSING,
    OTHER,
    Block,
    CategoriesBlock,
    HatsBlock,
    LinearBlock,
    PairBlock,
)
from skfdp.encoding.knots import automatic_knots, spread_knots
from skfdp.encoding.tables import declared_levels, raw_column, type_kind
from skfdp.encoding.values import Column
from skfdp.records.checks import check_choice, check_flag, check_number, shown
from skfdp.records.spelling import Spelling, spelling_of

_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_WEEKDAYS = "Mon Tue Wed Thu Fri Sat Sun".split()


class Bounds(NamedTuple):
    """Declared bounds of a column; those of dates are days since 1970-01-01."""

    low: float
    high: float
    is_date: bool


class Declarations:
    """Declarations by column of one table.

    Parameters
    ----------
    encoder : DeclaredEncoder
    X : frame or ndarray of shape (n_rows, n_features)
        Of `check_table`.
    names : sequence of str or None
        None: columns are declared by position.
    smooth : bool, default=False
        Whether curves will be smoothed, which allows for more knots.
    """

    def __init__(
        self, encoder: Any, X: Any, names: Sequence[str] | None, smooth: bool = False
    ):
        check_flag("sparse_output", encoder.sparse_output)
        self._encoder = encoder
        self._smooth = smooth
        self._X = X
        n_features = X.shape[1]
        self.labels = [f"x{j}" for j in range(n_features)] if names is None else names
        self._keys = list(range(n_features)) if names is None else list(names)
        if len(set(self._keys)) < n_features:
            twice = sorted({key for key in self._keys if self._keys.count(key) > 1})
            raise ValueError(f"X has two columns named {twice[0]!r}: rename one.")
        self._ignored = self._columns("ignore", encoder.ignore)
        self._levels = self._declared_categories()
        self._bounds = self._declared_bounds()
        self._check_each_once()
        self._cyclic = self._numeric("cyclic", encoder.cyclic)

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks in the order of the columns, then the pairs."""
        found: list[Block] = []
        for place in range(len(self.labels)):
            for block in self._of_column(place, self._smooth):
                found.append(_from(block, found))
        for pair in self._pairs():
            # The knots of a pair multiply: as many as without smoothing are plenty.
            sides = (next(self._of_column(place, smooth=False)) for place in pair)
            found.append(_from(_pair(*sides), found))
        _check_names(found)
        return tuple(found)

    def _place(self, parameter: str, key: Any) -> int:
        known = isinstance(key, (str, numbers.Integral)) and not isinstance(key, bool)
        if not (known and key in self._keys):
            by = "position" if self._keys == list(range(len(self._keys))) else "name"
            raise ValueError(
                f"{parameter} names {shown(key)}, which is no column of X: give each "
                f"column by its {by}."
            )
        return self._keys.index(key)

    def _columns(self, parameter: str, given: Any) -> list[int]:
        if isinstance(given, (str, numbers.Integral)):
            given = [given]
        if not isinstance(given, Iterable):
            raise ValueError(f"{parameter}={shown(given)} must be a list of columns.")
        return [self._place(parameter, key) for key in given]

    def _numeric(self, parameter: str, given: Any) -> list[int]:
        found = self._columns(parameter, given)
        for place in found:
            if place not in self._bounds:
                raise ValueError(
                    f"{parameter} names {self._keys[place]!r}, which has no bounds: "
                    "declare them, or leave it out."
                )
        return found

    def _mapping(self, parameter: str, given: Any) -> dict[int, Any]:
        if not isinstance(given, Mapping):
            raise ValueError(
                f"{parameter}={shown(given)} must be a mapping from columns."
            )
        return {self._place(parameter, key): value for key, value in given.items()}

    def _declared_categories(self) -> dict[int, Spelling]:
        given = self._encoder.categories
        found = {} if given is None else self._mapping("categories", given)
        levels = {
            place: _levels(f"categories[{self._keys[place]!r}]", values)
            for place, values in found.items()
        }
        for place in found:
            if type_kind(raw_column(self._X, place)) == "duration":
                raise ValueError(
                    f"categories names {self._keys[place]!r}, and the column holds "
                    f"durations: declare bounds={{{self._keys[place]!r}: (low, high)}} "
                    "in days, or turn it into text."
                )
        bounds = self._encoder.bounds
        bounded = set(bounds) if isinstance(bounds, Mapping) else ()
        for place, key in enumerate(self._keys):
            if place in levels or place in self._ignored or key in bounded:
                continue
            values = declared_levels(raw_column(self._X, place))
            if values is not None:
                levels[place] = _levels(f"the type of {key!r}", values)
        return levels

    def _declared_bounds(self) -> dict[int, Bounds]:
        given = self._encoder.bounds
        if given is None:
            return {}
        if isinstance(given, Mapping):
            sides = self._mapping("bounds", given)
        else:
            rest = (j for j in range(len(self._keys)) if j not in self._levels)
            sides = {place: given for place in rest if place not in self._ignored}
        found = {}
        for place, pair in sides.items():
            name = f"bounds[{self._keys[place]!r}]"
            found[place] = bounds = _bounds(name, pair)
            kind = type_kind(raw_column(self._X, place))
            if kind in ("date", "period") and not bounds.is_date:
                raise ValueError(
                    f"{name}={shown(pair)} must be two dates, such as '2020-01-31': "
                    f"the column holds {kind}s."
                )
            if kind in _UNITS and bounds.is_date:
                raise ValueError(
                    f"{name}={shown(pair)} must be two numbers: the column holds "
                    f"{_UNITS[kind]}; turn them into dates first if they are some."
                )
            if kind == "other":
                raise ValueError(
                    f"{name}={shown(pair)}: the column is of a type that holds neither "
                    "numbers nor dates; turn it into one of them, or put it into "
                    "ignore."
                )
        return found

    def _check_each_once(self) -> None:
        once = {
            "bounds": set(self._bounds),
            "categories": set(self._levels),
            "ignore": set(self._ignored),
        }
        undeclared = []
        for place, key in enumerate(self._keys):
            where = [name for name, places in once.items() if place in places]
            if len(where) > 1:
                raise ValueError(
                    f"column {key!r} is declared in {' and in '.join(where)}: keep one."
                )
            if not where:
                undeclared.append(key)
        if undeclared:
            raise ValueError(_undeclared(undeclared, self._X, self._keys))

    def _setting(self, parameter: str, place: int, default: Any) -> Any:
        given = getattr(self._encoder, parameter)
        if not isinstance(given, Mapping):
            return given
        self._numeric(parameter, given)
        return given.get(self._keys[place], default)

    def _of_column(self, place: int, smooth: bool) -> Iterator[Block]:
        name, parents = self.labels[place], (place,)
        if place in self._levels:
            declared = self._levels[place]
            names = declared.names
            more = tuple(level for level in (OTHER, MISSING) if level not in names)
            yield CategoriesBlock(
                name,
                parents,
                0,
                (*names, *more),
                "category",
                spelling=Spelling((*declared.levels, *more)),
            )
        if place not in self._bounds:
            return
        yield self._of_bounds(place, smooth)
        if self._bounds[place].is_date:
            for part, levels in (("month", _MONTHS), ("weekday", _WEEKDAYS)):
                yield CategoriesBlock(
                    f"{name}.{part}",
                    parents,
                    0,
                    (*levels, MISSING),
                    part,
                    cyclic=True,
                )

    def _of_bounds(self, place: int, smooth: bool) -> Block:
        name, parents, bounds = self.labels[place], (place,), self._bounds[place]
        reads = "date" if bounds.is_date else "number"
        basis = self._setting("basis", place, "hats")
        check_choice("basis", basis, ("hats", "linear"))
        cyclic = place in self._cyclic
        if basis == "linear":
            if cyclic:
                raise ValueError(
                    f"cyclic names {self._keys[place]!r}, whose basis is 'linear': a "
                    "line does not close, use basis='hats' for it."
                )
            sides = np.array([bounds.low, bounds.high])
            return LinearBlock(name, parents, 0, ("linear", MISSING), reads, sides)
        knots, end = self._knots(place, bounds, cyclic, smooth), None
        if cyclic:
            knots, end = knots[:-1], float(knots[-1])
        levels = (*map(str, range(len(knots))), MISSING)
        return HatsBlock(name, parents, 0, levels, reads, knots, end, cyclic)

    def _knots(
        self, place: int, bounds: Bounds, cyclic: bool, smooth: bool
    ) -> np.ndarray:
        """Return knots in ascending order; of a cyclic column with both ends."""
        key = self._keys[place]
        name = f"n_knots[{key!r}]"
        given = self._setting("n_knots", place, "auto")
        if _is_listed(given):
            return _given_knots(name, given, bounds, cyclic)
        check_number(name, given, low=1, integral=True, also=("auto",))
        n_knots = automatic_knots(smooth) if isinstance(given, str) else int(given)
        spacing = self._setting("spacing", place, "auto")
        check_choice("spacing", spacing, ("auto", "even", "geometric"))
        if spacing == "auto":
            amount = bounds.low == 0 and not bounds.is_date and not cyclic
            # Grades, or counts of few: even knots are a knot for each of them.
            short = bounds.high.is_integer() and bounds.high < automatic_knots(True)
            spacing = "geometric" if amount and not short else "even"
        if spacing == "geometric" and (bounds.is_date or bounds.low < 0):
            raise ValueError(
                f"spacing='geometric' needs numbers with a low bound of 0 or more, "
                f"which column {key!r} has not: use 'even' for it."
            )
        return spread_knots(bounds.low, bounds.high, n_knots + cyclic, spacing)

    def _pairs(self) -> list[tuple[int, int]]:
        given, found = self._encoder.interactions, []
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ValueError(f"interactions={shown(given)} must be a list of pairs.")
        for pair in given:
            if isinstance(pair, str) or not isinstance(pair, Sequence):
                pair = (pair,)
            places = [self._place("interactions", key) for key in pair]
            if len(set(places)) != 2 or len(places) != 2:
                raise ValueError(
                    f"interactions holds {shown(pair)}, which must be a pair of two "
                    "columns."
                )
            for place in places:
                if place in self._ignored:
                    raise ValueError(
                        f"interactions names {self._keys[place]!r}, which is ignored: "
                        "declare it, or leave the pair out."
                    )
            if set(places) in map(set, found):
                raise ValueError(f"interactions holds {shown(pair)} twice: keep one.")
            found.append((places[0], places[1]))
        return found


#: Kinds of types that are read as numbers, and what they hold.
_UNITS = {
    "boolean": "booleans",
    "integer": "integers",
    "number": "numbers",
    "duration": "durations, which are read as days",
    "time": "times of day, which are read as hours",
}


def _from(block: Block, before: list[Block]) -> Block:
    return block.at(before[-1].stop if before else 0)


def _pair(first: Block, second: Block) -> Block:
    sides = [
        [level for level in side.levels if level != MISSING] for side in (first, second)
    ]
    levels = [f"{one}:{other}" for one in sides[0] for other in sides[1]]
    return PairBlock(
        f"{first.name}:{second.name}",
        first.parents + second.parents,
        0,
        (*levels, MISSING),
        "pair",
        sides=(first, second),
    )


def _check_names(blocks: list[Block]) -> None:
    for names in (
        [block.name for block in blocks],
        [name for block in blocks for name in block.feature_names],
    ):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise ValueError(
                    f"two encoded columns or blocks would be called {name!r}: rename "
                    "a column or a category."
                )
            seen.add(name)


def _levels(name: str, values: Any) -> Spelling:
    unordered = isinstance(values, (str, bytes, Mapping, Set))
    if unordered or not isinstance(values, Iterable):
        raise ValueError(f"{name}={shown(values)} must be a list of categories.")
    found = spelling_of(values, name)
    if not found.levels:
        raise ValueError(
            f"{name} is empty: list at least one category, or ignore the column."
        )
    return found


def _bounds(name: str, pair: Any) -> Bounds:
    sides = [_side(value) for value in pair] if _is_listed(pair) else []
    if len(sides) == 2 and all(sides) and sides[0][1] == sides[1][1]:
        (low, is_date), (high, _) = sides
        if low < high:
            return Bounds(low, high, is_date)
    raise ValueError(
        f"{name}={shown(pair)} must be two finite numbers, or two dates such as "
        "'2020-01-31', the lower one first."
    )


def _is_listed(given: Any) -> bool:
    """Whether there are several values, in an order."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, Sequence) and not isinstance(given, str)


def _side(value: Any) -> tuple[float, bool] | None:
    """Return a number or the days of a date, and whether it is one; None if neither."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        found, is_date = float(value), False
    else:
        found, is_date = float(Column([value]).read("date")[0]), True
    return (found, is_date) if math.isfinite(found) else None


def _given_knots(name: str, given: Any, bounds: Bounds, cyclic: bool) -> np.ndarray:
    sides = [_side(value) for value in given]
    fit = all(side is not None and side[1] == bounds.is_date for side in sides)
    if fit and len(sides) >= 2 + cyclic:
        knots = np.array([side[0] for side in sides if side])
        ends = (knots[0], knots[-1])
        inside = bounds.low <= ends[0] and ends[1] <= bounds.high
        closed = not cyclic or ends == (bounds.low, bounds.high)
        if (knots[1:] > knots[:-1]).all() and inside and closed:
            return knots
    expected = "from bound to bound, the last one being the first again"
    raise ValueError(
        f"{name}={shown(given)} must be at least {2 + cyclic} knots in ascending order "
        f"{expected if cyclic else 'within the bounds'}."
    )


def _undeclared(keys: list, X: Any, all_keys: list) -> str:
    dated = [
        key for key in keys if type_kind(raw_column(X, all_keys.index(key))) == "date"
    ]
    rest = [key for key in keys if key not in dated]
    advice = []
    if rest:
        advice.append(
            f"of {', '.join(map(repr, rest))} bounds={{{rest[0]!r}: (low, high)}} for "
            f"numbers or dates, or categories={{{rest[0]!r}: [...]}}"
        )
    if dated:
        advice.append(
            f"of {', '.join(map(repr, dated))} bounds={{{dated[0]!r}: (first day, last "
            "day)}"
        )
    return (
        f"{len(keys)} column(s) of X are not declared: give, from what you know and "
        f"not from the rows, {'; '.join(advice)}; or put a column into ignore."
    )
