"""The relation between two tables that nobody may tell apart, as a value."""

from __future__ import annotations

import dataclasses

from skfdp.addresses import public
from skfdp.privacy import facts

RELATIONS = ("replace_one", "replace_special", "add_or_remove_one")


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class Relation:
    """The relation between neighbouring tables; see :ref:`protected`.

    Parameters
    ----------
    name : {"replace_one", "replace_special", "add_or_remove_one"}

    Raises
    ------
    ValueError
        For any other name.

    Notes
    -----
    **Guarantees.** If every record contributes to a sum a vector whose norm is at most
    C, whatever the record, then neighbours move the sum by at most ``moves(C)``:

    * "replace_one": one contribution v becomes w, and ``|v - w| <= |v| + |w| <= 2 C``;
    * "replace_special": one contribution v becomes zero, and ``|v| <= C``;
    * "add_or_remove_one": one contribution v comes or goes, and ``|v| <= C``.

    Both hold at C = 0 and at infinity; NaN gives NaN.

    Examples
    --------
    >>> from skfdp.privacy import Relation
    >>> Relation("replace_one").moves(0.5), Relation("replace_special").moves(0.5)
    (1.0, 0.5)
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in RELATIONS:
            raise ValueError(
                f"neighboring_relation={facts.shown(self.name)} is unknown; choose one "
                f"of {', '.join(map(repr, RELATIONS))}."
            )

    @classmethod
    def of(cls, name: str) -> Relation:
        """Return the relation of this name, or raise ValueError."""
        return cls(name)

    @property
    def replaces(self) -> bool:
        """Whether the neighbour's record contributes something else, not nothing."""
        return self.name == "replace_one"

    @property
    def counts_are_public(self) -> bool:
        """Whether neighbours have equally many records."""
        return self.name != "add_or_remove_one"

    def moves(self, clip_norm: float, replaced: float | None = None) -> float:
        """Return how far neighbours move a sum of bounded contributions.

        Parameters
        ----------
        clip_norm : float
            L2 bound of one contribution.
        replaced : float, default=None
            A better bound of the distance of two contributions of one record, where a
            lemma gives one. It is used where a record is replaced, and there alone.
            None: ``2 * clip_norm``.
        """
        if not self.replaces:
            return clip_norm
        return 2 * clip_norm if replaced is None else replaced
