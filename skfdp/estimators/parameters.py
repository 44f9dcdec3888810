"""The parameters of estimators: their checks, and what they resolve to."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from skfdp.estimators import defaults
from skfdp.privacy.assumptions import VALUES_CLIPPED, Assumption, enforced
from skfdp.privacy.events import PrivacyWarning, check_budget
from skfdp.privacy.relations import Relation
from skfdp.records.checks import (
    check_choice,
    check_clip_norm,
    check_flag,
    check_n_jobs,
    check_number,
    check_size,
    is_auto,
    shown,
)
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.row_map import RowMap, resolve_bounds
from skfdp.releases.noise import check_random_state
from skfdp.releases.steps import AVERAGES

#: What the guarantee takes for granted beyond what the events tell.
ASSUMPTIONS = (
    Assumption(
        "Bounds, clip norm and every other constructor parameter were chosen without "
        "looking at private data.",
        enforced=False,
    ),
    enforced(VALUES_CLIPPED),
)


#: Of estimators that refuse malformed private values.
REFUSES = Assumption(
    "on_invalid='raise': no private value is missing, infinite or an undeclared label, "
    "and that a fit happened at all may tell so.",
    enforced=False,
)


#: Epsilon beyond which a fit warns.
MOST_EPSILON = 10.0

#: Divisor of columns without bounds, which are taken to be scaled: the loop's integers
#: reach twice as far.
UNBOUNDED_REACH = 8.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loop:
    """The parameters of a loop of noisy steps, under the names of the estimators'.

    Attributes
    ----------
    clip_norm : float or "auto"
    max_iter : int or "auto"
    batch_size : int, None or "auto"
        Expected private batch; None: every row. "auto" is for the estimator to resolve.
    learning_rate : float or "auto"
    momentum : float
    average : {"last", "tail", "uniform"}
    noise_decay : float
    radius : float or None
    """

    clip_norm: float | str = "auto"
    max_iter: int | str = "auto"
    batch_size: int | str | None = "auto"
    learning_rate: float | str = "auto"
    momentum: float = 0.9
    average: str = "last"
    noise_decay: float = 0.75
    radius: float | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Loop:
        """Return the loop that the parameters of an estimator ask for."""
        return cls(
            **{field.name: given[field.name] for field in dataclasses.fields(cls)}
        )

    def check(self) -> None:
        """Raise ValueError for a parameter out of range."""
        auto = ("auto",)
        check_clip_norm(self.clip_norm)
        check_number("max_iter", self.max_iter, integral=True, also=auto)
        check_number("batch_size", self.batch_size, integral=True, also=("auto", None))
        check_size("learning_rate", self.learning_rate, also=auto)
        check_number("momentum", self.momentum, high=1, include_low=True)
        check_number("noise_decay", self.noise_decay, high=10, include_low=True)
        check_size("radius", self.radius, also=(None,))
        check_choice("average", self.average, AVERAGES)

    def with_batch(self, automatic: int | None) -> Loop:
        """Return the loop whose batch is no longer "auto"."""
        if self.batch_size != "auto":
            return self
        return dataclasses.replace(self, batch_size=automatic)

    def schedule(
        self, n_records: int, n_steps: int, n_epochs: int
    ) -> tuple[float, int]:
        """Return the sampling rate and the number of steps.

        Parameters
        ----------
        n_records : int
        n_steps : int
            Steps on full batches, where `max_iter` is "auto".
        n_epochs : int
            Passes over the records on smaller ones.
        """
        batch = self.batch_size
        rate = 1.0 if batch is None else min(1.0, batch / n_records)
        if self.max_iter != "auto":
            return rate, int(self.max_iter)
        return rate, n_steps if rate == 1 else math.ceil(n_epochs / rate)


def linear_loop(given: Mapping[str, Any], n_records: int) -> Loop:
    """Return the loop of a linear estimator, its batch resolved."""
    sampled = given.get("solver") == "dp-sgd"
    batch = min(n_records, defaults.BATCH_SIZE) if sampled else None
    return Loop.of(given).with_batch(batch)


def store(estimator: Any, arguments: Mapping[str, Any]) -> None:
    """Store the arguments of a constructor: ``store(self, locals())``.

    The signature stays the one list of the parameters and their defaults.
    """
    vars(estimator).update({k: v for k, v in arguments.items() if k != "self"})


@functools.cache
def shown_parameters(estimator_class: type) -> frozenset[str]:
    """Return the names that `get_params` shows: those of the own constructor."""
    return frozenset(_named(estimator_class.__init__)) - {"self"}


@functools.cache
def parameters_of(estimator_class: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of an estimator by name, those of its bases included.

    A user's subclass may leave some to its base, or pass them on as ``**parameters``.
    """
    found: dict[str, inspect.Parameter] = {}
    for one in reversed(estimator_class.__mro__):
        if "__init__" in vars(one) and one is not object:
            found |= _named(one)
    return found


def _named(function: Callable) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that have a name of their own."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    given = inspect.signature(function).parameters
    return {name: p for name, p in given.items() if p.kind in kinds}


def declared_by(model: Any, name: str) -> Any:
    """Return the parameter of any model that `get_params` shows; None: it has none."""
    shown_ones = getattr(model, "get_params", None)
    return shown_ones(deep=False).get(name) if callable(shown_ones) else None


def check_privacy_parameters(given: Mapping[str, Any]) -> None:
    """Check what private estimators share: budget, relation, bounds, seed."""
    check_budget(given["epsilon"], given["delta"], allow_infinite=True)
    relation = Relation.of(given["neighboring_relation"])
    check_size("feature_bound", given["feature_bound"], also=("auto",))
    check_random_state(given["random_state"])
    if "on_invalid" in given:
        check_choice("on_invalid", given["on_invalid"], ("replace", "raise"))
    if "normalize" in given and not is_auto(given["normalize"]):
        check_flag("normalize", given["normalize"])
    if "n_jobs" in given:
        check_n_jobs(given["n_jobs"])
    n_records = given.get("n_records")
    if not relation.counts_are_public:
        if n_records is None:
            raise ValueError(
                f"neighboring_relation={relation.name!r} makes the number of rows "
                "private: give n_records, a public nominal count."
            )
        check_number("n_records", n_records, integral=True)
    elif n_records is not None:
        raise ValueError(
            f"n_records={shown(n_records)} is only for neighboring_relation="
            "'add_or_remove_one': elsewhere the number of rows is public."
        )


def warn_of_large(epsilon: float) -> None:
    """Warn, before anything is charged, of an epsilon that protects little."""
    if MOST_EPSILON < epsilon < math.inf:
        odds = math.exp(min(epsilon, 700.0))
        warn_caller(
            f"epsilon={epsilon!r} is above {MOST_EPSILON:g} and protects little: a "
            f"result may be {odds:.2g} times as likely with one person's values as "
            "with others. Values from 0.1 to 3 are usual.",
            PrivacyWarning,
        )


def check_split(
    mask: np.ndarray, public_target: bool, relation: Relation, public_loss: Any
) -> None:
    """Refuse public parts where whole records come and go, and a table of nothing else.

    Parameters
    ----------
    mask : bool ndarray of shape (n_features,)
        The public columns.
    public_target : bool
    relation : Relation
    public_loss : object
        "auto" or None: there is none.
    """
    if mask.all() and public_target:
        raise ValueError(
            "public_features names every column and public_target=True: there is "
            "nothing to protect; use a scikit-learn estimator."
        )
    if relation.counts_are_public:
        return
    if mask.any() or public_target:
        raise ValueError(
            f"neighboring_relation={relation.name!r} adds whole records, so nothing "
            "of them can be public: use 'replace_one' or 'replace_special'."
        )
    if not (public_loss is None or public_loss == "auto"):
        # An exact average over the rows would tell how many there are.
        raise ValueError(
            f"public_loss={shown(public_loss)} takes exact averages over the rows, "
            f"whose number is private under neighboring_relation={relation.name!r}: "
            "leave it out, or use 'replace_one'."
        )


def public_count(
    n_rows: int, n_records: int | None, epsilon: float, delta: float
) -> int:
    """Return n where it is public, else the declared `n_records`; warn of delta."""
    n_public = n_rows if n_records is None else int(n_records)
    if math.isfinite(epsilon) and delta >= 1 / n_public:
        warn_caller(
            f"delta={delta!r} is not below 1/n = {1 / n_public:.3g}: such a "
            "delta would allow to publish a record at random.",
            UserWarning,
        )
    return n_public


def resolve_row_map(
    bounds: Any,
    feature_bound: float | str,
    normalize: bool,
    n_features: int,
    names: Sequence[str] | None,
    sparse: bool = False,
    *,
    public: np.ndarray,
    shortens: bool = True,
    longest: float | None = None,
) -> RowMap:
    """Return the row map of the declared bounds.

    Parameters
    ----------
    public : bool ndarray of shape (n_features,)
        Columns of which nobody is told that they have no bounds.
    shortens : bool, default=True
        False: rows keep their length, for linear models. Rows that are to be
        normalised do not.
    longest : float, default=None
        Norm that no row exceeds, where that does not follow from the bounds.
    """
    low, span = resolve_bounds(bounds, n_features, names)
    if bounds is None:
        warn_of_no_bounds(public)
    warn_of_unscaled(span, public, names)
    if longest is None and span is not None and np.isfinite(span).all():
        longest = math.sqrt(n_features)
    shortens = shortens or bool(normalize)
    if not shortens:
        feature_bound = UNBOUNDED_REACH if longest is None else _divisor(longest)
    elif feature_bound == "auto":
        # Columns without bounds are taken as scaled.
        feature_bound = 1.0 if longest is None else longest
    row_map = RowMap(
        low, span, float(feature_bound), bool(normalize), shortens=shortens
    )
    if sparse:
        row_map.check_sparse()
    return row_map


def warn_of_no_bounds(public: np.ndarray) -> None:
    """Warn that no bounds are declared, and say what follows; of public facts."""
    n_private = int((~public).sum())
    declare = "bounds=(low, high) or a mapping by column"
    if not n_private:
        text = (
            "bounds=None: no column bounds are declared, and columns of unequal scale "
            f"train badly; pass {declare}, or False if the columns are scaled already."
        )
    else:
        text = (
            "bounds=None: expect no better than chance, because no column bounds are "
            f"declared for {n_private} private column(s): columns of unequal scale "
            "train badly, and a row with a missing value counts for nothing. Declare "
            f"{declare}, or encoder=DeclaredEncoder(...) where the estimator takes "
            "one, or use the bounds that private_bounds releases; bounds=False is for "
            "columns that are scaled already."
        )
    warn_caller(text, UtilityWarning)


def warn_of_unscaled(
    span: np.ndarray | None, public: np.ndarray, names: Sequence[str] | None
) -> None:
    """Warn if bounds cover other columns than all private ones; of public facts."""
    if span is None or not (left := ~public & np.isinf(span)).any():
        return
    places = np.flatnonzero(left).tolist()
    columns = places if names is None else [str(names[i]) for i in places]
    listed = ", ".join(map(repr, columns[:5])) + ", ..." * (len(columns) > 5)
    warn_caller(
        f"bounds leave {len(columns)} private column(s) as they are: {listed}; columns "
        "of unequal scale train badly, and a row with a missing value there counts for "
        "nothing, so declare theirs too, (0, 1) for columns of zeros and ones.",
        UtilityWarning,
    )


def _divisor(longest: float) -> float:
    """Return a power of two by which no row is longer than 2, if it is not above 16.

    Shorter rows are those that the integers of the fast loop can hold. Of very many
    columns few are large, as a rule, and each keeps the resolution of 1/16.
    """
    return 2.0 ** float(np.clip(math.ceil(math.log2(longest / 2)), 0, 4))


def forget(estimator: Any) -> None:
    """Delete what an earlier fit left, so that a failed fit leaves nothing."""
    for name in [v for v in vars(estimator) if v.endswith("_") and v[0] != "_"]:
        delattr(estimator, name)
