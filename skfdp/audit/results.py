"""Results of audits: a claim, and what was seen of it."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

from skfdp._version import __version__
from skfdp.addresses import public
from skfdp.privacy.findings import Finding
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.values import shown


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditResult(abc.ABC):
    """Result of an audit: a claim, and a lower bound of what was spent.

    An audit can refute a claim and never prove one. Numbers in a result come from the
    records that were audited, without noise: audit made-up records, or treat the
    result as you would treat them.

    Attributes
    ----------
    subject : str
        What was audited.
    neighboring_relation : str
        Relation of the claim.
    claimed_epsilon : float
        What the accounting says, at `delta`.
    delta : float
    lower_bound : float
        Epsilon that the outputs show to be spent, at `delta`; 0 where they show
        nothing, infinite where two neighbours are told apart for sure.
    confidence : float
        Probability, in (0, 1], with which a lower bound of this kind holds; 1 where
        nothing is estimated.
    n_trials : int
        Replays, releases, or canaries, that it rests on.
    """

    #: Name of the kind of audit in findings.
    audit: ClassVar[str]

    subject: str
    neighboring_relation: str
    claimed_epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    n_trials: int

    @property
    def passed(self) -> bool:
        """Whether the claim was not refuted."""
        return self.lower_bound <= self.claimed_epsilon

    @property
    def finding(self) -> Finding:
        """What a report keeps of it."""
        return Finding(
            audit=self.audit,
            subject=self.subject,
            claimed_epsilon=self.claimed_epsilon,
            delta=self.delta,
            lower_bound=self.lower_bound,
            confidence=self.confidence,
            n_trials=self.n_trials,
            passed=self.passed,
            version=__version__,
        )

    def attach_to(self, report: PrivacyReport) -> PrivacyReport:
        """Return a report with this finding beside those that it has.

        Raises
        ------
        ValueError
            If the report has another subject or another relation.
        """
        if not isinstance(report, PrivacyReport):
            raise TypeError(
                f"report={shown(report)} must be a PrivacyReport: pass privacy_ of the "
                "fitted estimator."
            )
        about = {
            "subject": (self.subject, report.subject),
            "neighboring_relation": (
                self.neighboring_relation,
                report.neighboring_relation,
            ),
        }
        for name, (audited, reported) in about.items():
            if audited != reported:
                raise ValueError(
                    f"report has {name}={reported!r}, the audit was of {audited!r}: "
                    "attach it to a report of what was audited."
                )
        return dataclasses.replace(report, findings=(*report.findings, self.finding))

    @abc.abstractmethod
    def plot(self, ax: Any = None) -> Any:
        """Draw what was seen beside what was claimed; needs the extra ``plot``.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        ax : matplotlib Axes
        """

    def __str__(self) -> str:
        return str(self.finding)
