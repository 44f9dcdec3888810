"""The privacy report: its facts in words, as a figure and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from skfdp.addresses import public
from skfdp.privacy import claims, dp_events, facts, plotting, registry, unit_texts
from skfdp.privacy import statement as wording
from skfdp.privacy.relations import Relation
from skfdp.privacy.report_facts import ReportFacts
from skfdp.privacy.report_html import to_html
from skfdp.privacy.store import dumps

SCHEMA = "skfdp-privacy-report"
SCHEMA_VERSION = 1
#: What `to_dict` writes for people and `from_dict` derives again.
DERIVED = (
    "guarantee",
    "unit",
    "unit_of_privacy",
    "n_is_public",
    "n_persons",
    "delta_times_n",
    "generator",
    "numerics",
    "not_covered",
    "limits",
)


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyReport(ReportFacts):
    """Report of what a fit, a Pipeline or a ledger disclosed; made by `from_events`.

    Fields are public facts: a report can be published with the model. It pickles and
    survives `to_json` and `read_report`.

    Attributes
    ----------
    subject : str
        What was fitted.
    released : tuple of str
        The outputs that the numbers cover.
    epsilon, delta : float
        What was spent; epsilon is infinite if anything ran without privacy.
    target_epsilon : float or None
        The budget asked for, None if unknown.
    neighboring_relation : str or None
        None if nothing is protected.
    public_features : tuple of str or int
        Columns that are not protected, by name, or by position without one.
    public_target : bool
        Whether the target is not protected.
    target_name : str or None
        Name of the target; None if it has none, or if several fits have different ones
        (the events tell).
    private_features : tuple of str or int, or None
        Columns that are protected; None if the names are not known.
    n_records : int or None
        Number of records, public; nominal under "add_or_remove_one". Of persons where
        these are protected (`unit`).
    events : tuple of Event
        The lossless description of all releases.
    parts : tuple of (Part or None)
        The records that each event concerns, None meaning all; empty if all events
        concern all records. The numbers are those of the most exposed record.
    n_fits : int
        Number of fits counted, those of a search included.
    mu : float or None
        Exact :term:`Gaussian-DP parameter` of the composition, None where it is not
        Gaussian.
    accountant : str or None
        How epsilon was computed, with version and discretisation.
    assumptions : tuple of Assumption
        What the guarantee rests on.
    seeded : bool
        True if noise came from a user's seed: no guarantee.
    unseen : tuple of str
        Pipeline steps that the report cannot see into.
    learnt : tuple of Lesson
        What other steps without a report of their own learnt. If one of them learnt
        from private rows or from a private target, nothing is guaranteed.
    public_sources : tuple of str or int, or None
        Columns of the table that a Pipeline was given from which the public ones of its
        last step were computed; None if that is not known.
    steps : tuple of (str, PrivacyReport)
        The reports of a Pipeline's steps, or of the members of a tool.
    receipts : tuple of Receipt
        Of the charges to a ledger, which `PrivacyLedger.check_report` looks for; empty
        without a ledger. Comparisons leave them out.
    findings : tuple of Finding
        What audits saw; `skfdp.audit` makes them, and they change no number here.
    versions : dict
        Package versions at the time of the fit.
    """

    steps: tuple[tuple[str, PrivacyReport], ...] = ()

    @property
    def guarantee(self) -> bool:
        """Whether epsilon is a guarantee: False with a seed, a leak or a refutation."""
        return wording.void_text(self) is None and math.isfinite(self.epsilon)

    @property
    def generator(self) -> str:
        """Where the noise came from."""
        return wording.generator_text(self.seeded)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Accesses to the data that the numbers do not count."""
        return wording.not_covered(self)

    @property
    def limits(self) -> tuple[str, ...]:
        """What differential privacy does not promise."""
        return unit_texts.limits(self)

    def plot_curve(self, ax: Any = None, *, epsilons: Any = None) -> Any:
        """Draw delta against epsilon: every pair on the curve is a true guarantee.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        epsilons : array-like of shape (n_points,), default=None
            None: from 0 to twice the report's epsilon.

        Returns
        -------
        ax : matplotlib Axes
        """
        return plotting.plot_curve(self, ax, epsilons)

    def statement(self) -> str:
        """Return the report in plain language, for whoever must answer for it."""
        return wording.statement(self)

    def to_dp_accounting(self, neighboring_relation: Any = "add_or_remove_one") -> Any:
        """Return all releases as one event of dp_accounting; see `Event`.

        Parameters
        ----------
        neighboring_relation : str or dp_accounting.NeighboringRelation
            Of the accountant that will read it, as in `Event.to_dp_accounting`.

        Returns
        -------
        event : dp_accounting.DpEvent
            The no-op where nothing was released, the non-private event where something
            was released without privacy.

        Raises
        ------
        ValueError
            If an event has no equal one there, if some fits used a part of the records,
            or if the report guarantees nothing.
        """
        if (why := wording.void_text(self)) is not None:
            dp_events.refuse(f"the report of {self.subject}", f"{why}")
        if any(self.parts):
            dp_events.refuse("a report on fits of parts", "none knows who is in a part")
        if math.isinf(self.epsilon):
            return dp_events.without_privacy()
        found = (event.to_dp_accounting(neighboring_relation) for event in self.events)
        return dp_events.joined([*found])

    def to_registry(self) -> dict[str, Any]:
        """Return a draft for the public registry of differential privacy deployments.

        Returns
        -------
        record : dict
            JSON-able, in the fields of the registry's schema (of July 2026). What a
            report cannot know begins with "TO FILL IN: ".

        Raises
        ------
        ValueError
            If nothing was released with privacy, or if the report guarantees nothing:
            nobody should register an epsilon that does not hold.

        References
        ----------
        https://github.com/opendp/deployments-registry-data
        """
        return registry.draft(self)

    def __repr__(self) -> str:
        return wording.summary(self)

    def _repr_html_(self) -> str:
        return to_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return strictly JSON-able values; infinite numbers are the string "inf"."""
        values: dict[str, Any] = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION}
        names = [field.name for field in dataclasses.fields(self)]
        # Beside epsilon, which is no guarantee if they say so.
        for name in ("learnt", "seeded"):
            names.remove(name)
            names.insert(names.index("epsilon") + 1, name)
        for name in names:
            value = getattr(self, name)
            values[name] = "inf" if value == math.inf else value
            if name == "epsilon":
                values["guarantee"] = self.guarantee
        values["findings"] = [finding.to_dict() for finding in self.findings]
        values["steps"] = [
            {"name": name, "report": step.to_dict()} for name, step in self.steps
        ]
        derived = {
            "unit": self.unit,
            "unit_of_privacy": unit_texts.relation_text(self),
            "n_is_public": self.neighboring_relation is None
            or Relation.of(self.neighboring_relation).counts_are_public,
            "n_persons": self.n_records if self.unit == "person" else None,
            "delta_times_n": self.n_records and self.delta * self.n_records,
            "generator": self.generator,
            "numerics": wording.NUMERICS,
            "not_covered": list(self.not_covered),
            "limits": list(self.limits),
        }
        return json.loads(dumps(values | derived))

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as text; `read_report` reads it back from a file."""
        return dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Rebuild a report from `to_dict`.

        Raises
        ------
        ValueError
            If it is not a report, has another schema, or claims what does not follow
            from its events; see `skfdp.privacy.claims`.
        """
        if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
            raise ValueError(
                f'report must hold "schema": "{SCHEMA}": pass what to_json wrote.'
            )
        version = facts.count("schema_version", values.get("schema_version"))
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"report has schema_version={version!r}, this skfdp reads "
                f"{SCHEMA_VERSION}: read it with the version that wrote it."
            )
        names = [field.name for field in dataclasses.fields(cls)]
        unknown = set(values) - {"schema", "schema_version", *names, *DERIVED}
        if unknown:
            raise ValueError(
                f"report has unknown fields {sorted(map(str, unknown))}: it was "
                "written by a newer skfdp; upgrade to read it."
            )
        for name in names:
            if name not in values:
                raise ValueError(
                    f"report lacks the field {name!r}: pass what to_json wrote."
                )
        found = claims.restored({name: values[name] for name in names}, cls.from_dict)
        return claims.checked(cls(**found))
