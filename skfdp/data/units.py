"""Privacy units: the person of each row, and the public weights of rows."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from skfdp.data.arrays import check_names, check_no_path, column_labels
from skfdp.data.cells import exact, numbers
from skfdp.data.target import is_missing
from skfdp.data.validation import unmasked
from skfdp.privacy.checks import computed, shown
from skfdp.privacy.events import Relation

#: Bits of a row's weight, which is an integer, so that weighted sums stay exact.
WEIGHT_BITS = 10
FULL_WEIGHT = 2**WEIGHT_BITS


@dataclasses.dataclass(frozen=True)
class Units:
    """Public weights of the rows, and the person of each row.

    Weights and persons are public: they are equal in neighbouring tables.

    In sums, each row has a weight that is called its share (see `shares`). The total
    share of a person is 1 on average. A sum divided by `n_units` is then a weighted
    average over rows, and the rules for defaults treat a person as a record.
    """

    #: int64, from 0 to `FULL_WEIGHT`. A row of weight 0 adds nothing to any release.
    weights: np.ndarray
    #: Number of the person of each row, from 0 in the order of first appearance, int64;
    #: None: each row is a record.
    persons: np.ndarray | None = None
    #: The weight in the user's units for which the integer weight 1 stands. Penalties
    #: depend on it.
    count: float = 1.0

    #: Number of rows.
    n_rows: int = computed()
    #: The privacy unit: "record" or "person".
    unit: str = computed()
    #: Number of persons; number of records if each row is a record.
    n_units: int = computed()
    #: Sum of the weights in the user's units.
    total: float = computed()
    #: Grid step of `shares`: the share of a row of weight 1.
    step: float = computed()
    #: Weight of each row in a sum, float64, with total `n_units`.
    shares: np.ndarray = computed()

    def __post_init__(self) -> None:
        weights, persons, total = self.weights, self.persons, int(self.weights.sum())
        n_units = len(weights) if persons is None else int(persons.max()) + 1
        vars(self).update(
            n_rows=len(weights),
            unit="record" if persons is None else "person",
            n_units=n_units,
            total=self.count * total,
            step=n_units / total,
            shares=weights * (n_units / total),
        )

    @functools.cached_property
    def joint(self) -> bool:
        """Whether a person has several rows that count, which are clipped together."""
        return self.persons is not None and bool(
            (np.bincount(self.persons[self.weights > 0]) > 1).any()
        )

    @functools.cached_property
    def reach(self) -> float:
        """Sensitivity factor: the largest total share of a person, about 1 or more.

        One person's rows change a weighted sum at most this many times as much as one
        row changes a plain sum.
        """
        totals = self.weights
        if self.persons is not None:  # whole numbers below 2**53
            totals = np.bincount(self.persons, self.weights)
        # 1e-12 outweighs the rounding of `step` and of this product.
        return int(totals.max()) * self.step * (1 + 1e-12)

    @functools.cached_property
    def _by_person(self) -> tuple[np.ndarray, np.ndarray]:
        counts = np.bincount(self.persons, minlength=self.n_units)
        return np.argsort(self.persons, kind="stable"), counts

    def rows_of(self, units: np.ndarray) -> np.ndarray:
        """Return the rows of the persons with numbers `units`, person after person."""
        if self.persons is None:
            return units
        order, counts = self._by_person
        starts, sizes = (np.cumsum(counts) - counts)[units], counts[units]
        before = np.cumsum(sizes) - sizes
        within = np.arange(int(sizes.sum())) - np.repeat(before, sizes)
        return order[np.repeat(starts, sizes) + within]

    def by_person(
        self, batch: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows with positive weight in a batch, sorted by person.

        The second array has the position of each person's first row, and at its end the
        number of rows. None means every row.
        """
        if batch is None:
            return self._all_by_person
        rows = batch[self.weights[batch] > 0]
        # A stable sort is fast if the rows are sorted already.
        rows = rows[np.argsort(self.persons[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(self.persons[rows], prepend=-1))
        return rows, np.append(starts, len(rows))

    @functools.cached_property
    def _all_by_person(self) -> tuple[np.ndarray, np.ndarray]:
        return self.by_person(np.arange(self.n_rows))

    def kept(self, rows: np.ndarray) -> Units:
        """Return the `Units` of some rows, given by number or as a mask."""
        persons = None if self.persons is None else numbered(self.persons[rows])
        return Units(self.weights[rows], persons, self.count)


def numbered(groups: Any) -> np.ndarray:
    """Return the number of each entry's group, in the order of first appearance."""
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[codes.ravel()]


def rounded(weights: np.ndarray, full: int = FULL_WEIGHT) -> np.ndarray:
    """Return integer weights of at most `full`, proportional up to rounding.

    Integers of at most `full` are only divided by their common factor. Other weights
    are rounded to multiples of ``weights.max() / full``, positive ones to at least one.
    """
    whole = weights.max() <= full and bool((weights == np.rint(weights)).all())
    found = weights if whole else np.rint(weights / weights.max() * full)
    found = np.where(weights > 0, np.maximum(found, 1), 0).astype(np.int64)
    return found // np.gcd.reduce(found)


def balanced(weights: np.ndarray, persons: np.ndarray, noise: float) -> np.ndarray:
    """Limit the total weight of each person, so that a noisy sum is most accurate.

    If a person's weights sum to t, they are multiplied by ``min(1, m / t)``. With a
    larger m, a sum has more noise and less sampling variance. The chosen m minimises
    the sum of both variances, as if a weight were a number of independent rows. Without
    noise m is the largest t, and the weights do not change.

    `noise` is the variance of the noise in a sum with one row per person, relative to
    the variance of a row of mean weight.
    """
    unit = weights / weights.max()
    totals = np.bincount(persons, unit / unit.mean())
    found, least = 1.0, math.inf
    for most in np.unique(np.quantile(totals[totals > 0], np.linspace(0, 1, 101))):
        factor = np.minimum(1, most / np.maximum(totals, most))
        total = float((factor * totals).sum())
        variance = (noise * most**2 + float((factor**2 * totals).sum())) / total**2
        if variance < least:
            found, least = most, variance
    factor = np.minimum(1, found / np.maximum(totals, found))
    return weights * factor[persons]


def first_rows(persons: np.ndarray, most: int) -> np.ndarray:
    """Return the mask of the first `most` rows of each person."""
    order, sizes = np.argsort(persons, kind="stable"), np.bincount(persons)
    rank = np.empty(len(persons), dtype=np.int64)
    rank[order] = np.arange(len(persons)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank < most


# Largest integer weight in a fit without noise, where no grid limits weights.
_FINE = 2**32
_NOT_WEIGHTS = (
    "sample_weight must be one finite, non-negative number for each row, not zero in "
    "all, and must not depend on private values: leave it out for equal weights."
)
_MISSING = (
    "groups has missing entries: give each such row the name of its person, or a name "
    "that no other row has."
)


def check_named(public_features: Any, bounds: Any, groups: str) -> None:
    """Refuse positions in `public_features` and `bounds` if `groups` names a column.

    This column is removed from X, so the positions of later columns change by one. A
    misread position would disclose a private column.
    """
    declared = bounds if isinstance(bounds, Mapping) else None
    for name, given in {"public_features": public_features, "bounds": declared}.items():
        single = given is None or isinstance(given, str)
        entries = given if isinstance(given, Iterable) else [given]
        if not (single or all(isinstance(entry, str) for entry in entries)):
            raise ValueError(
                f"{name}={shown(given)} gives positions, which are ambiguous because "
                f"groups={shown(groups)} removes a column from X: name the columns, or "
                "pass that column as an array, groups=X[...]."
            )


def without_group_column(X: Any, groups: Any) -> tuple[Any, Any]:
    """Return X without the column that `groups` names, if it is a name; the column."""
    if not isinstance(groups, str):
        return X, groups
    check_no_path(X)
    check_names(X)
    if groups not in column_labels(X):
        raise ValueError(
            f"groups={shown(groups)} is not the name of a column of X: pass a frame "
            "with that column, or one entry for each row."
        )
    return without_column(X, groups), X[groups]


def without_column(X: Any, name: str | None) -> Any:
    """Return a frame without the column of this name, if it has one."""
    if name is None or name not in column_labels(X):
        return X
    if hasattr(X, "iloc"):
        return X.drop(columns=[name])
    return X.drop([name]) if hasattr(X, "column_names") else X.drop(name)


def kept_rows(
    sample_weight: Any,
    groups: Any,
    n_rows: int,
    relation: Relation,
    most: int | None = None,
    counts: np.ndarray | bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Check weights and groups; return the rows that count, their weights and persons.

    Rows of weight 0, those not in the public mask `counts`, and all but the first
    `most` rows of a person, are left out before anything else reads them. Raise
    ValueError for wrong shapes, invalid weights, missing persons, or a relation under
    which the number of rows is private.
    """
    weights, persons = _taken(sample_weight, groups, n_rows, relation)
    rows = np.flatnonzero((weights > 0) & counts)
    if persons is not None:
        if most is not None:
            rows = rows[first_rows(persons[rows], most)]
        persons = numbered(persons[rows])
    return rows, weights[rows], persons


def units_of(
    weights: np.ndarray, persons: np.ndarray | None, noise: float | None
) -> Units | None:
    """Return the `Units`, or None if each row is a record of weight 1.

    `weights` are positive. `noise` is that of `balanced`. None means a fit without
    noise, in which the weights of persons are not limited.
    """
    if persons is None and (weights == 1).all():
        return None
    if noise is not None and persons is not None:
        weights = balanced(weights, persons, noise)
    whole = rounded(weights, _FINE if noise is None else FULL_WEIGHT)
    return Units(whole, persons, float(weights.sum()) / int(whole.sum()))


def units_as_weighted(
    sample_weight: Any, groups: Any, n_rows: int, relation: Relation
) -> Units | None:
    """Return the `Units` for a statistic with fixed weights, such as a score.

    The weights are `sample_weight`. Without it all persons have equal total weights,
    divided equally among their rows.
    """
    if sample_weight is None and groups is None:
        return None
    weights, persons = _taken(sample_weight, groups, n_rows, relation)
    if sample_weight is None:
        weights = weights / np.bincount(persons)[persons]
    return Units(rounded(weights), persons)


def _taken(
    sample_weight: Any, groups: Any, n_rows: int, relation: Relation
) -> tuple[np.ndarray, np.ndarray | None]:
    if not relation.counts_are_public:
        name = "sample_weight" if groups is None else "groups"
        raise ValueError(
            f"{name} needs a public number of rows, which neighboring_relation="
            f"{relation.name!r} makes private: use 'replace_one' or 'replace_special'."
        )
    weights = checked_weights(sample_weight, n_rows)
    return weights, None if groups is None else _persons(groups, n_rows)


def checked_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return public weights as float64; errors quote none of them."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, str):
        raise ValueError(
            f"sample_weight={shown(sample_weight)} is a name: pass public numbers, one "
            "for each row. A private column cannot weigh rows, because the noise of a "
            "sum depends on the weights and would disclose them."
        )
    if isinstance(sample_weight, Real):  # one weight for all rows, as in scikit-learn
        sample_weight = np.full(n_rows, float(sample_weight))
    weights = numbers(unmasked(sample_weight))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has the shape {weights.shape}, and X has {n_rows} rows: "
            "give one number for each row."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(_NOT_WEIGHTS)
    return weights


def _persons(groups: Any, n_rows: int) -> np.ndarray:
    """Return the number of the person of each row; errors quote no name."""
    groups = [groups] if isinstance(groups, Real) else groups
    found = exact(unmasked(groups, as_objects=True))
    if found.shape != (n_rows,):
        raise ValueError(
            f"groups must have one entry for each of the {n_rows} rows of X, the name "
            f"of the row's person, but has shape {found.shape}."
        )
    if found.dtype.kind != "O":
        if (found != found).any():  # noqa: PLR0124 -- NaN and NaT
            raise ValueError(_MISSING)
        return numbered(found)
    names = found.tolist()
    if any(map(_lacks_name, names)):
        raise ValueError(_MISSING)
    texts = [isinstance(name, str) for name in names]
    try:
        number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    except TypeError:  # a name that is a list, say
        number = None
    # 1 and "1" would count as two persons. If they are the same person, this person's
    # rows would not be protected together.
    if number is None or (any(texts) and not all(texts)):
        raise ValueError(
            "groups holds entries that cannot be compared as names of persons: pass "
            "texts or numbers, not a mixture of both."
        )
    return np.array([number[name] for name in names], dtype=np.int64)


def _lacks_name(name: Any) -> bool:
    """Whether the name of a person is missing; for a tuple, whether any entry is."""
    return any(map(_lacks_name, name)) if isinstance(name, tuple) else is_missing(name)
